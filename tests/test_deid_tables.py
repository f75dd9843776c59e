"""The tables of de-identification, on a dozen utterances and with a tiny encoder."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from tests.nlu.tiny import tiny_bert

from sottovoce.corpora import Utterance
from sottovoce.corpora.splits import Parts
from sottovoce.deid import Setting
from sottovoce.errors import InvalidInput
from sottovoce.nlu.fit.settings import Settings

ROOT = Path(__file__).parents[1]
CITIES = ("rome", "oslo", "lima", "cairo", "quito", "delhi")


@pytest.fixture
def tables(benchmark: Callable[[str], ModuleType]) -> Any:
    return benchmark("deid_tables")


@pytest.fixture
def cells(benchmark: Callable[[str], ModuleType]) -> Any:
    return benchmark("helpers.deid_cells")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two made-up corpora in the places and with the labels of the public ones."""
    asked = [("call", "jazz", city) for city in CITIES] + [("play", "stop", c) for c in CITIES]
    snips = [
        {"tokens": words, "slots": ["O", "O", "B-city"], "intent": words[0]} for words in asked
    ]
    slots = [["O", "B-COLOUR", "B-LOCATION"], ["O", "B-MONEY", "O"]]
    meetings = [{"tokens": words, "slots": slots[n % 2]} for n, words in enumerate(asked)]
    for place, records in ("nlu/snips", snips), ("ner/ami-ne", meetings):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        lines = "".join(json.dumps(record) + "\n" for record in records)
        for part in ("train", "test"):
            (folder / f"{part}.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


def small(tables: Any, cells: Any, runs: int, train: int = 10) -> Any:
    sizes = cells.Sizes(train=train, test=8)
    return tables.Scope(runs=runs, sizes=sizes, tuned=sizes)


def test_every_cell_is_filled_once_and_a_second_call_goes_on(
    tables: Any, cells: Any, data: Path, tmp_path: Path
) -> None:
    path, said, kept = tmp_path / "out.json", list[str](), cells.Kept(tiny_bert())
    for runs in (1, 1, 2):
        said.clear()
        scope = small(tables, cells, runs)
        found = tables.run(data, scope, path, ["snips", "ami-ne"], said.append, kept)
        if runs == 2:
            assert all(line.startswith("run 2, ") for line in said)
        assert json.loads(path.read_text()) == found
    snips, meetings = tables.TABLE, (*tables.TABLE, *tables.CURVE)
    assert list(found["cells"]) == [
        *(f"snips/frozen/{row.name}" for row in snips),
        *(f"ami-ne/frozen/{row.name}" for row in meetings),
    ]
    assert len(said) == len(found["cells"])
    assert all(len(cell["runs"]) == 2 for cell in found["cells"].values())
    (header, first, *_), _, curve = tables.pages(found)
    assert header == ["strategy", "snips, frozen", "ami-ne, frozen"]
    assert first[0] == "none"
    assert "±" in first[1]
    assert len(curve) == 1 + len(meetings)
    with pytest.raises(InvalidInput, match="the same sizes"):
        tables.run(data, small(tables, cells, 2, train=9), path, ["snips"], kept=kept)


def test_the_page_says_how_many_runs_there_are(tables: Any) -> None:
    cells = {"snips/frozen/none": {"runs": [1, 2, 3]}}
    assert tables.runs_told({"cells": cells}) == "Every cell is the mean of 3 runs."
    told = tables.runs_told({"cells": cells | {"snips/clc/none": {"runs": [1]}}})
    assert "of fewer, so far: snips/clc/none (1). Where there is one run" in told


def test_a_finished_file_is_not_touched(
    tables: Any, cells: Any, data: Path, tmp_path: Path
) -> None:
    path, said, kept = tmp_path / "out.json", list[str](), cells.Kept(tiny_bert())
    scope = small(tables, cells, 1)
    before = tables.run(data, scope, path, ["snips"], kept=kept)
    assert tables.run(data, scope, path, ["snips"], said.append, kept) == before
    assert said == []


def test_only_the_train_part_is_transformed_and_its_cost_is_told(
    tables: Any, cells: Any, data: Path
) -> None:
    drawn = cells.sample(cells.corpus(data, "snips"), cells.Sizes(train=10, test=8), 0)
    assert (len(drawn.train), len(drawn.test)) == (10, 8)
    same, cost = cells.transformed(tables.NONE, drawn)
    assert (same, cost["epsilon"]) == (list(drawn.train), None)
    told, cost = cells.transformed(tables.TYPED, drawn)
    assert {each.tokens[-1] for each in told} == {"[LOC]"}
    assert cost == {"epsilon": 0.0, "claimed": 0.0}
    told, cost = cells.transformed(tables.OWN_ENTITY, drawn)
    assert {each.tokens[-1] for each in told} <= set(CITIES)
    assert cost["epsilon"] is None
    _, cost = cells.transformed(
        cells.Row(name="", setting=Setting(strategy="entity", p=0.9)), drawn
    )
    assert 1 < cost["epsilon"] == cost["claimed"] < 10
    assert {each.tokens[-1] for each in drawn.test} <= set(CITIES)


def test_runs_differ_in_what_they_learn_from_and_not_in_what_they_are_measured_on(
    cells: Any, data: Path
) -> None:
    parts, sizes = cells.corpus(data, "snips"), cells.Sizes(train=6, test=6)
    one, other = (cells.sample(parts, sizes, run) for run in (0, 1))
    assert set(one.train) != set(other.train)
    assert one.test == other.test


def test_meetings_are_sampled_half_with_private_entities_and_tagged_by_class(
    cells: Any, data: Path
) -> None:
    drawn = cells.sample(cells.corpus(data, "ami-ne"), cells.Sizes(train=8, test=4), 0)
    told = cells.by_class(drawn.train, drawn.labels)
    slots = [each.slots for each in told]
    assert slots.count(("O", "O", "B-LOC")) == slots.count(("O", "O", "O")) == 4


def test_every_slot_of_snips_is_private_as_in_the_paper(cells: Any) -> None:
    some, every = cells.labels_of("snips"), cells.labels_of("snips-all")
    assert not every.public
    assert every.private.keys() == some.private.keys() | some.public


def test_an_utterance_is_encoded_once(cells: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny_bert()
    kept = cells.Kept(encoder)
    asked = [Utterance(tokens=(word, "stop"), slots=("O", "O")) for word in ("call", "play")]
    first = kept.utterances(asked)
    monkeypatch.setattr(encoder, "prepare", lambda _: pytest.fail("it was encoded again"))
    assert torch.equal(kept.utterances(asked[::-1]), first.flip(0))
    assert kept.words(asked).shape == (4, 12)


def test_the_linear_layer_learns_what_can_be_learnt(cells: Any) -> None:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(200, 5, generator=generator)
    right = inputs[:, :3].argmax(-1)
    found = cells.linear(inputs[:150], right[:150], inputs[150:])
    assert (found == right[150:]).float().mean() > 0.8


def test_a_whole_model_learns_the_intents_or_the_entities_and_not_both(
    cells: Any, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = list[Parts]()

    def train(_: Settings, parts: Parts) -> SimpleNamespace:
        given.append(parts)
        names = {"intent_accuracy": 0.9, "slot_f1": 0.5}
        scores = {n: {"value": v, "low": v - 0.1, "high": v + 0.1} for n, v in names.items()}
        return SimpleNamespace(run={"metrics": {"test": scores}})

    monkeypatch.setattr(cells, "train", train)
    for name, value in ("snips", 0.9), ("ami-ne", 0.5):
        drawn = cells.sample(cells.corpus(data, name), cells.Sizes(train=12, test=6), 0)
        found = cells.trained(Settings(), drawn.train, drawn)
        assert found == {"value": value, "error": pytest.approx(0.1 / 1.96)}
    intents, entities = ({slot for u in each.train for slot in u.slots} for each in given)
    assert (intents, entities) == ({"O"}, {"O", "B-LOC"})
    assert [each.sizes() for each in given] == [{"train": 12, "valid": 0, "test": 6}] * 2


def test_scores_are_averaged_with_both_kinds_of_chance(tables: Any, cells: Any) -> None:
    assert cells.accuracy(["a", "b", "a", "b"], ["a", "b", "a", "a"])["value"] == 0.75
    runs = [{"value": 0.8, "error": 0.03}, {"value": 0.9, "error": 0.03}]
    mean, half = tables.summary({"runs": runs})
    assert mean == pytest.approx(0.85)
    assert half == pytest.approx(1.96 * math.sqrt(0.03**2 + 0.005 / 2))
    assert tables.summary({"runs": runs[:1]})[1] == pytest.approx(1.96 * 0.03)
    assert tables.markdown([["a", "b"], ["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"


def test_without_data_it_says_so(tables: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="name the folder with --data"):
        tables.main(["--data", str(tmp_path)])


def test_the_page_shows_the_figures_of_the_benchmark(tables: Any) -> None:
    found = json.loads((ROOT / "benchmarks/results/deid_tables.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "reproductions" / "deid-tables.md").read_text(encoding="utf-8")
    assert all(tables.markdown(lines) in page for lines in tables.pages(found))
    assert tables.on_page(page, found) == page
    with pytest.raises(InvalidInput, match="three tables"):
        tables.on_page("| strategy |\n|---|", found)
