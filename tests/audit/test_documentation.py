"""The table in docs/reproductions/audit.md is that of the benchmark, to the last digit."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def test_the_page_shows_the_figures_of_the_benchmark(
    benchmark: Callable[[str], ModuleType],
) -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "audit.json").read_text())
    page = (ROOT / "docs" / "reproductions" / "audit.md").read_text(encoding="utf-8")
    assert benchmark("audit").table(result) in page
    assert f"`{result['command']}`" in page
