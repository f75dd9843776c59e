"""Commands in the documentation are run, in order, and must print what the page shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# ```console ... ``` with lines "$ sottovoce ..." and the output below each of them.
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if BLOCK.search(path.read_text())
]


def examples(page: str) -> list[tuple[str, str]]:
    text = (ROOT / page).read_text()
    return [found for block in BLOCK.findall(text) for found in COMMAND.findall(block)]


def pattern(shown: str) -> re.Pattern[str]:
    """What was shown, with any white space, and `...` for whatever was left out."""
    words = [re.escape(word) if word != "..." else ".*?" for word in shown.split()]
    return re.compile(r"\s*".join(words) + r"\s*", re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_commands_print_what_the_page_shows(page: str, tmp_path: Path) -> None:
    assert examples(page)
    for command, shown in examples(page):
        program, *arguments = command.split()
        assert program == "sottovoce", f"{page} runs {program}"
        done = subprocess.run(
            [sys.executable, "-m", "sottovoce", *arguments],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "100"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        # Rules are drawn as wide as the terminal: compare the words.
        printed = done.stdout.replace("─", "")
        assert pattern(shown.replace("─", "")).fullmatch(printed.strip()), printed


def test_the_two_commands_are_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text
