"""Lists of names that would be silently ignored."""

from pathlib import Path

import pytest

from sottovoce.deid import Deidentifier, Setting, detector
from sottovoce.deid.detect import registry as names
from sottovoce.errors import InvalidInput


def lists(folder: Path) -> str:
    for part, name in (("a", "anna"), ("b", "zoltan")):
        (folder / part).mkdir()
        (folder / part / "list.txt").write_text(f"PER\t{name}\n")
    return f"{folder}/a/list.txt+{folder}/b/list.txt"


def released(given: str) -> str:
    deid = Deidentifier(detector=detector(given), setting=Setting(strategy="redact"))
    return deid.release("anna calls zoltan").text


def test_two_lists_of_one_file_name_are_both_used(tmp_path: Path) -> None:
    told = released(lists(tmp_path))
    assert "anna" not in told
    assert "zoltan" not in told


def test_if_lists_were_identified_by_name_one_would_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "fingerprint", lambda part: part.name)
    told = released(lists(tmp_path))
    assert "anna" in told or "zoltan" in told


@pytest.mark.parametrize("content", ["", "NAME\tanna\n", "anna\n"])
def test_a_list_that_says_nothing_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "list.txt").write_text(content)
    with pytest.raises(InvalidInput):
        detector(str(tmp_path / "list.txt"))
