"""Several workers, as processes under torchrun."""

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from sottovoce.privacy.facts import NoisySum
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.ledgers.merging import merge_workers

# Every rank trains the same model; the inserted code can change one of them.
PROGRAM = """
import json, os, sys, time
from pathlib import Path
import torch
from torch import nn
from torch.nn import functional
from sottovoce.errors import SottovoceError
from sottovoce.privacy.recipes import NoiseSplit
from sottovoce.training.plan import Method, Plan
from sottovoce.training.private import PrivateTraining
from sottovoce.training.distributed import join_workers, leave_workers

def left_over():
    tasks = Path("/proc/self/task")
    names = [(task / "comm").read_text() for task in tasks.iterdir()] if tasks.exists() else []
    return [name for name in names if "gloo" in name]

torch.set_num_threads(1)
worker = join_workers()
folder = Path(sys.argv[1])
torch.manual_seed(worker.rank)  # different weights on purpose: rank 0's must win
x = torch.randn(200, 4, generator=torch.Generator().manual_seed(7))
y = (x[:, 0] > 0).long()
model = nn.Sequential(nn.Linear(4, 3000, bias=False), nn.Tanh(), nn.Linear(3000, 2))
settings = dict(population=200, batch_size=50, epochs=1, delta=1e-5, workers=worker.count)
{settings}
plan = Plan(**settings)
seed = None
quiet = 1.0
{before}
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
try:
    training = PrivateTraining(
        plan, model, optimizer, owners=200, ledger=folder / "ledger.jsonl", seed=seed
    )
    {resume}
    start = model[0].weight.detach().clone()
    for step in training.steps():
        for batch in step:
            losses = functional.cross_entropy(model(x[batch]), y[batch], reduction="none")
            step.backward(losses * quiet)
        {during}
    merged = training.ledger()
    private = plan.method is not Method.SGD
    # A separate file: on a shared pipe the lines of two ranks can be interleaved.
    (folder / f"found.rank{{worker.rank}}.json").write_text(json.dumps({{
        "rank": worker.rank,
        "epsilon": merged.guarantee(plan.delta).epsilon,
        "planned": plan.guarantee().epsilon if private else None,
        "weights": float(model[0].weight.double().sum()),
        "moved": float((model[0].weight - start).std()),
        "stds": merged.entries[0].fact.noise_stds if private else None,
        "divisor": plan.divisor,
        "steps": training.step,
    }}))
    leave_workers()
    assert not left_over(), left_over()
except SottovoceError as problem:
    print(f"refused: {{problem}}", flush=True)
    os._exit(3)
"""


def program(
    path: Path, settings: str = "", before: str = "", during: str = "pass", resume: str = "pass"
) -> Path:
    source = textwrap.dedent(PROGRAM).format(
        settings=settings, before=before, during=during, resume=resume
    )
    script = path / "program.py"
    script.write_text(source)
    return script


def torchrun(script: Path, folder: Path, workers: int = 2) -> subprocess.Popen[str]:
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone",
        f"--nproc-per-node={workers}", str(script), str(folder),
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def results(process: subprocess.Popen[str], folder: Path) -> list[dict[str, float]]:
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, out + err
    return [json.loads(path.read_text()) for path in sorted(folder.glob("found.rank*.json"))]


@pytest.mark.parametrize(
    "settings",
    [
        "settings.update(method=Method.EDP_SGD)",
        "settings.update(method=Method.EDP_SGD, noise_split=NoiseSplit.PAPER)",
        "settings.update(method=Method.DP_SGD)",
        "settings.update(method=Method.TEXTBOOK)",
    ],
)
def test_two_processes_agree_and_their_noise_adds_up(tmp_path: Path, settings: str) -> None:
    settings += "; settings.update(batch_size=200)"  # one step, so that the move is the noise
    found = results(torchrun(program(tmp_path, settings, "quiet = 0.0"), tmp_path), tmp_path)
    assert [each["rank"] for each in found] == [0, 1]
    first, second = found
    assert first["weights"] == second["weights"]  # the same model on every rank
    assert first["epsilon"] == pytest.approx(first["planned"])
    # 12,000 weights that moved by nothing but noise: the sum's, as the merged ledger states it.
    stated = first["stds"][0] / first["divisor"]  # type: ignore[index]
    assert first["moved"] == pytest.approx(stated, rel=0.04)
    # The twins: one worker's share alone, or twice the noise, would show.
    assert first["moved"] != pytest.approx(stated / 2**0.5, rel=0.04)
    assert first["moved"] != pytest.approx(stated * 2**0.5, rel=0.04)
    shares = [Ledger.read(tmp_path / f"ledger.rank{rank}.jsonl") for rank in range(2)]
    for rank, ledger in enumerate(shares):
        fact = ledger.entries[0].fact
        assert isinstance(fact, NoisySum)
        assert fact.rank == rank
        assert "merge" in ledger.guarantee(1e-5).reasons[0]
    assert merge_workers(shares).guarantee(1e-5).epsilon == pytest.approx(first["epsilon"])


def test_plain_training_on_two_processes_has_no_guarantee(tmp_path: Path) -> None:
    settings = "settings.update(method=Method.SGD)"
    found = results(torchrun(program(tmp_path, settings), tmp_path), tmp_path)
    assert found[0]["weights"] == found[1]["weights"]
    assert found[0]["epsilon"] == math.inf
    assert found[0]["moved"] > 0


def test_one_noise_key_on_two_workers_is_refused(tmp_path: Path) -> None:
    same_key = (
        "from sottovoce.privacy.noise import NoiseSource\n"
        "import sottovoce.training.private as private\n"
        "private._randomness = lambda seed, rank: "
        "(NoiseSource.seeded(1), private.SamplingKey.from_seed(1))"
    )
    process = torchrun(program(tmp_path, "", same_key), tmp_path)
    out, _ = process.communicate(timeout=180)
    assert process.returncode != 0
    assert "Expected a different noise key on every worker" in out


def test_a_killed_worker_ends_the_run_and_nothing_is_forgotten(tmp_path: Path) -> None:
    settings = "settings.update(method=Method.EDP_SGD, epochs=150)"
    during = (
        "training.save(folder / f'checkpoint{worker.rank}.pt'); "
        "(folder / f'pid{worker.rank}').write_text(str(os.getpid()))"
    )
    process = torchrun(program(tmp_path, settings, "", during), tmp_path)
    # It is written anew at every step, so it may be empty when it is read.
    path, pid, waited = tmp_path / "pid1", "", 0.0
    while not pid and waited < 120:
        assert process.poll() is None
        time.sleep(0.1)
        waited += 0.1
        pid = path.read_text() if path.exists() else ""
    time.sleep(0.5)
    os.kill(int(pid), signal.SIGKILL)
    out, err = process.communicate(timeout=180)
    assert process.returncode != 0
    assert "refused: Expected all workers to take part" in out or "SIGKILL" in err
    ledgers = [Ledger.read(tmp_path / f"ledger.rank{rank}.jsonl") for rank in range(2)]
    counted = sum(entry.count for entry in merge_workers(ledgers).entries)

    import torch

    for rank in range(2):
        saved = torch.load(tmp_path / f"checkpoint{rank}.pt", weights_only=True)
        assert 0 < saved["step"] <= counted < 600

    # After resuming, all workers continue together, and the whole plan is spent.
    resume = "training.resume(folder / 'checkpoint0.pt')"
    first, second = results(
        torchrun(program(tmp_path, settings, resume=resume), tmp_path), tmp_path
    )
    assert first["weights"] == second["weights"]
    assert first["steps"] == second["steps"] == 600
    assert first["epsilon"] >= first["planned"] * (1 - 1e-9)
    ledgers = [Ledger.read(tmp_path / f"ledger.rank{rank}.jsonl") for rank in range(2)]
    assert sum(entry.count for entry in merge_workers(ledgers).entries) >= 600


def test_a_step_that_one_worker_had_paid_for_is_lost_for_all(tmp_path: Path) -> None:
    """The state after a crash: the ledger of rank 1 is one step ahead of its checkpoint."""
    resume = (
        "path = folder / f'{worker.rank}.pt'; training.save(path); "
        "_ = worker.rank and training._ledger.spend(training._fact()); training.resume(path)"
    )
    first, second = results(torchrun(program(tmp_path, resume=resume), tmp_path), tmp_path)
    assert first["weights"] == second["weights"]
    assert first["steps"] == second["steps"] == 4
    ledgers = [Ledger.read(tmp_path / f"ledger.rank{rank}.jsonl") for rank in range(2)]
    assert [sum(entry.count for entry in each.entries) for each in ledgers] == [3, 4]
    assert first["epsilon"] == pytest.approx(first["planned"])


def test_checkpoints_of_different_steps_are_refused(tmp_path: Path) -> None:
    resume = (
        "path = folder / f'{worker.rank}.pt'; training._step = worker.rank; training.save(path); "
        "training.resume(path)"
    )
    process = torchrun(program(tmp_path, resume=resume), tmp_path)
    out, _ = process.communicate(timeout=180)
    assert process.returncode != 0
    assert "Expected a checkpoint of the same step on every worker, got steps 0, 1" in out
