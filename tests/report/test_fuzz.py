"""Mutated run files: shown, or refused in one sentence; never a traceback."""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.report.runs import audit_of, rescore_result, train_run, write_run
from tests.report.test_decision import released

from sottovoce.errors import SottovoceError
from sottovoce.report import Report, collect

JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 3.5, 1e308, 10**18, "", "x", "inf", "nan", "é" * 50, [], {}, [1], {"a": 1},
    [[]], [None], {"": {}}, ["a", "b"], [{"x": 1}], float("inf"),
)  # fmt: skip
TIMES = 60


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value[:6]):
            yield from places(inner, (*path, place))


def mutated(value: Any, random_numbers: random.Random) -> Any:
    """A copy in which a few parts are gone or replaced."""
    value = copy.deepcopy(value)
    for _ in range(random_numbers.choice((1, 1, 2, 3))):
        path = random_numbers.choice(list(places(value)))
        inner = value
        for key in path[:-1]:
            inner = inner[key]
        if random_numbers.random() < 0.25:
            del inner[path[-1]]
        else:
            inner[path[-1]] = copy.deepcopy(random_numbers.choice(JUNK))
    return value


def federation() -> dict[str, Any]:
    run = train_run()
    rounds = [{"accepted": 3, "refused": {"a": 1}, "wer": {"wer": 4.0, "interval": [3, 5]}}] * 2
    return run | {"verb": "federate", "metrics": run["metrics"] | {"rounds": rounds}}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("release")
    manifest = released(folder, found=20, of=30)
    content: dict[str, Any] = json.loads(manifest.read_text())
    content |= json.loads((folder / "private" / "out.jsonl.json").read_text())
    return content


@pytest.mark.parametrize("kind", ["train", "federate", "deid", "rescore", "audit"])
def test_no_input_gives_a_traceback(kind: str, release: dict[str, Any], tmp_path: Path) -> None:
    random_numbers = random.Random(kind)
    run = train_run()
    base = {
        "train": run,
        "federate": federation(),
        "deid": release,
        "rescore": rescore_result(),
        "audit": audit_of(run).to_json(),
    }[kind]
    shown, refused = 0, []
    for number in range(TIMES):
        folder, content = tmp_path / str(number), mutated(base, random_numbers)
        name = {"audit": "audit.json", "deid": "out.jsonl.run.json"}.get(kind, "run.json")
        write_run(folder, run if kind == "audit" else content)
        (folder / name).write_text(json.dumps(content))
        try:
            stages = collect([folder / name if kind in ("deid", "rescore") else folder])
            page = Report(tuple(stages), compared=(stages[0], stages[0]))
            assert page.html()
            json.dumps(page.to_json(), allow_nan=False)
            shown += 1
        except SottovoceError as problem:
            refused.append(str(problem).strip())
    assert not any("\n" in sentence for sentence in refused)
    assert 0 < shown < TIMES  # some are shown, some are refused
