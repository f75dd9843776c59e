"""Every architecture of the page: exact gradients in one pass, and training with the check on."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "architectures.json"
MEASURED = json.loads(RESULTS.read_text())["architectures"]


@pytest.mark.filterwarnings("ignore")  # of other packages, about small configurations
@pytest.mark.parametrize("name", [row["name"] for row in MEASURED])
def test_an_architecture(name: str, benchmark: Callable[[str], ModuleType]) -> None:
    pytest.importorskip("transformers", reason="needs the extra `bert`")
    pytest.importorskip("peft", reason="needs the extra `lm`")
    measure, models = benchmark("architectures"), benchmark("helpers.architectures")
    torch.manual_seed(0)
    assert measure.outcome(models.ARCHITECTURES[name], measure.by_sottovoce) == "exact"


def test_the_page_has_all_of_them(benchmark: Callable[[str], ModuleType]) -> None:
    names = list(benchmark("helpers.architectures").ARCHITECTURES)
    assert [row["name"] for row in MEASURED] == names
    assert {row["sottovoce"] for row in MEASURED} == {"exact"}
