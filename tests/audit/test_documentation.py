"""The table in docs/reproductions/audit.md is that of the benchmark, to the last digit."""

import json
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_shows_the_figures_of_the_benchmark() -> None:
    benchmark = runpy.run_path(str(ROOT / "benchmarks" / "audit.py"))
    result = json.loads((ROOT / "benchmarks" / "results" / "audit.json").read_text())
    page = (ROOT / "docs" / "reproductions" / "audit.md").read_text(encoding="utf-8")
    assert benchmark["table"](result) in page
    assert f"`{result['command']}`" in page
