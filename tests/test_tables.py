"""The script of the paper's tables runs, goes on where it stopped, and agrees with its page."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tables(benchmark: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark("edpsgd_tables")


@pytest.fixture
def tiny(benchmark: Callable[[str], ModuleType]) -> Any:
    return benchmark("helpers.edpsgd_models").QUICK


def test_every_cell_has_its_figures(tables: ModuleType, tiny: Any, tmp_path: Path) -> None:
    path = tmp_path / "tables.json"
    report = tables.run(tiny, tmp_path, None, path, ["clc"])
    assert json.loads(path.read_text()) == report
    assert set(report["table_1"]["clc"]) == {"communication", "health", "video"}
    for row in report["table_1"]["clc"].values():
        assert tuple(row) == tables.METHODS
        for cell in row.values():
            assert 0 <= cell["auc"] <= 100
            assert cell["ser"] > 0
        assert "log10_claimed" not in row["sgd"]
        printed = [row[method] for method in row if method.startswith("edp-sgd")]
        assert [cell["log10_true"] for cell in printed] == ["inf"] * 3
        claims = [cell["log10_claimed"] for cell in printed]
        # Less noise later costs more: no decay, linear, exponential.
        assert claims[0] < claims[1] < claims[2]
        assert all(c["log10_public_scales"] > c["log10_claimed"] for c in printed)
        assert row["dp-sgd, epsilon 8"]["log10_true"] <= 0.91


def test_an_interrupted_run_resumes(
    tables: ModuleType, tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, str]] = []

    def counted(group: Any, name: str) -> Any:
        if len(made) == 7:
            raise KeyboardInterrupt
        made.append((group.method, name))
        return {"ser": 20.0, "auc": 60.0, "auc_interval": [50.0, 70.0]}

    monkeypatch.setattr(tables.Group, "figures", counted)
    path = tmp_path / "tables.json"
    with pytest.raises(KeyboardInterrupt):
        tables.run(tiny, tmp_path, None, path, ["clc"])
    first, made[:] = list(made), []
    with pytest.raises(KeyboardInterrupt):
        tables.run(tiny, tmp_path, None, path, ["clc"])
    names = ("communication", "health", "video")
    assert first + made == [(method, name) for name in names for method in tables.METHODS][:14]


def test_another_setting_starts_afresh(tables: ModuleType) -> None:
    report: dict[str, Any] = {"settings": {"clc": {"train": 1}}, "table_1": {"clc": {"atis": {}}}}
    tables.keep(report, "clc", {"train": 1})
    assert report["table_1"] == {"clc": {"atis": {}}}
    tables.keep(report, "clc", {"train": 2})
    assert report["table_1"] == {}


def test_without_data_it_says_so(tables: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="name the folder with --data"):
        tables.main(["--data", str(tmp_path)])


def test_the_page_shows_the_results(tables: ModuleType) -> None:
    report = json.loads((ROOT / "benchmarks" / "results" / "edpsgd_tables.json").read_text())
    page = (ROOT / "docs" / "reproductions" / "edpsgd-tables.md").read_text(encoding="utf-8")
    assert tables.markdown(report) in page
