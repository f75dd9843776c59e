"""Workers that were started differently are refused, all of them, before anything is released.

One pair of processes goes through all disagreements; each leaves behind what happened to it.
"""

import json
import os
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import json, sys
from pathlib import Path
import torch
from torch import nn
from sottovoce.errors import SottovoceError
from sottovoce.training import LayerScales, Plan, PrivateTraining, Worker
from sottovoce.training import join_workers, leave_workers

torch.set_num_threads(1)
worker = join_workers()
odd = worker.rank == 1
x = torch.randn(40, 4, generator=torch.Generator().manual_seed(7))

def attempt(owners=40, seed=None, dtype=torch.float32, frozen=False, scales=None, rank=None,
            optimizer=torch.optim.SGD, own_randomness=False, work=True, **settings):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1)).to(dtype)
    model[0].requires_grad_(not frozen)
    given = dict(population=40, batch_size=8, epochs=1, delta=1e-5, workers=2)
    try:
        training = PrivateTraining(
            Plan(**(given | settings)), model,
            optimizer([p for p in model.parameters() if p.requires_grad], lr=0.1),
            owners=owners, seed=seed, scales=scales and scales(model),
            own_randomness=own_randomness,
        )
        for step in training.steps():
            for batch in step:
                step.backward(model(x[batch % 40].to(dtype)).squeeze(1))
        return "holds" if training.guarantee().holds else "no guarantee"
    except SottovoceError as problem:
        return str(problem)

names = [f"example {number}" for number in range(40)]
def scaled(alpha):
    return lambda model: LayerScales(("0", "1"), alpha, (0, 0, 1, 1))
edp = dict(method="edp-sgd", alpha_source="public")
cases = {
    "alike": {},
    "alike, seeded": {"seed": 5},
    "plan: noise": {"noise_multiplier": 0.1 if odd else 1.0},
    "plan: clip norm": {"clip_norm": 9.0 if odd else 1.0},
    "plan: divisor": {"batch_size": 4 if odd else 8},
    "plan: method": {"method": "textbook" if odd else "dp-sgd"},
    "owners: fewer": {"owners": 39 if odd else 40},
    "owners: order": {"owners": names[::-1] if odd else names},
    "parameters: dtype": {"dtype": torch.bfloat16 if odd else torch.float32},
    "trainable: frozen": {"frozen": odd},
    "scales: others": {**edp, "scales": scaled((5.0, 1.0) if odd else (1.0, 1.0))},
    "seeded: one of two": {"seed": 5 if odd else None},
    "optimizer: others": {"optimizer": torch.optim.Adam if odd else torch.optim.SGD},
    "own_randomness: one of two": {"own_randomness": odd},
}
found = {name: attempt(**case) for name, case in cases.items()}
# The twin: nobody asks. The same example is then in two shares, or in none, and nobody knows.
Worker.agree = lambda self, **facts: None
found["twin"] = attempt(**cases["owners: order"])
path = Path(sys.argv[1]) / f"found.rank{worker.rank}.json"
path.write_text(json.dumps(found))
leave_workers()
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    folder = tmp_path_factory.mktemp("workers")
    script = folder / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
        str(script), str(folder),
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(path.read_text()) for path in sorted(folder.glob("found.rank*.json"))]


def test_workers_that_disagree_are_refused_on_every_rank(found: list[dict[str, str]]) -> None:
    assert len(found) == 2
    for told in found:
        for case, happened in told.items():
            if case == "twin":
                continue
            if case.startswith("alike"):
                assert happened == "holds", case
            else:
                what = case.partition(":")[0]
                assert f"got different {what}" in happened, (case, happened)


def test_unasked_they_train_with_a_false_statement(found: list[dict[str, str]]) -> None:
    assert [told["twin"] for told in found] == ["holds", "holds"]
