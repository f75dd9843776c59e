"""The documentation site: what is made from code is up to date, and everything builds and links."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click
import pytest
from docs.generators import layers, rooms
from docs.generators.command_line import Documented, commands
from docs.generators.pages import MADE

ROOT = Path(__file__).parents[1]
COMMANDS = list(commands())
PAGES = sorted((ROOT / "docs").rglob("*.md"))
LINKED = ("README.md", "CONTRIBUTING.md", "examples/README.md")  # mkdocs checks those between pages


@pytest.mark.parametrize("name", MADE)
def test_made_pages_are_up_to_date(name: str) -> None:
    committed = (ROOT / name).read_text()
    assert committed == MADE[name](), f"{name} is out of date: run `make docs`"


@pytest.mark.parametrize("documented", COMMANDS, ids=lambda each: each.name)
def test_every_command_and_option_says_what_it_does(documented: Documented) -> None:
    name, command = documented
    assert command.help, f"`{name}` has no help"
    options = [each for each in command.params if isinstance(each, click.Option)]
    silent = [each.opts[-1] for each in options if not (each.help or each.hidden)]
    assert not silent, f"`{name}` does not say what these do: {', '.join(silent)}"


def test_every_verb_is_on_the_page() -> None:
    page = (ROOT / "docs/cli.md").read_text()
    for name, _ in COMMANDS:
        assert re.search(rf"^#+ {re.escape(name)}$", page, re.MULTILINE), name


def test_the_page_of_layers_is_the_contract() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    shown: dict[int, set[str]] = {}
    for number, folder in re.findall(r"^\| (\d) \| `(\w+)/` \|", page, re.MULTILINE):
        shown.setdefault(int(number), set()).add(folder)
    assert [shown[number] for number in sorted(shown)] == [set(each) for each in layers.layers()]
    real = {path.parent.name for path in (ROOT / "src/sottovoce").glob("*/__init__.py")}
    assert real <= set().union(*shown.values())


def test_the_walks_name_files_that_exist_and_count_them() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    walks = re.findall(r"<!-- walk: .*? -->(.*?)<!-- /walk: (\d+) files -->", page, re.DOTALL)
    assert len(walks) == 2
    for rows, count in walks:
        files = re.findall(r"^\| `([\w/]+\.py)` \|", rows, re.MULTILINE)
        assert len(files) == int(count)
        missing = [name for name in files if not (ROOT / "src/sottovoce" / name).exists()]
        assert not missing, f"docs/architecture.md names files that are not there: {missing}"


@pytest.mark.parametrize("kind", ["how-to", "concepts", "reproductions"])
def test_every_kind_of_page_has_its_folder(kind: str) -> None:
    assert list((ROOT / "docs" / kind).glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_no_page_mentions_how_the_project_is_run(page: Path) -> None:
    words = r"\b(stretch goal|must-have|issue #?\d+|our targets?|the targets? of \d)"
    assert not re.findall(words, page.read_text(), re.IGNORECASE)


@pytest.mark.parametrize("name", LINKED)
def test_links_outside_of_the_site_lead_to_files(name: str) -> None:
    path = ROOT / name
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text())
    missing = [link for link in links if not (path.parent / link).exists()]
    assert not missing, f"{name} links to files that are not there: {missing}"


def test_every_folder_says_what_is_in_it() -> None:
    silent = [name for name, said in rooms.rooms().items() if not said]
    assert not silent, f"no docstring in the __init__.py of {', '.join(silent)}"


def test_every_part_has_a_page_of_reference() -> None:
    parts = {path.parent.name for path in (ROOT / "src/sottovoce").glob("*/__init__.py")}
    pages = {path.stem for path in (ROOT / "docs/api").glob("*.md")}
    assert parts - {"cli"} <= pages


@pytest.mark.skipif(
    any(find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings")),
    reason="mkdocs, its theme and mkdocstrings are not installed (extra `docs`)",
)
def test_the_site_builds_without_a_warning_and_without_a_network(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Links to other places are fine; what a page *loads* has to be part of the site.
    loads = re.compile(r'<(?:script|img|iframe)[^>]+src="?https?:|<link[^>]+href="?https?:')
    for page in tmp_path.rglob("*.html"):
        found = loads.search(page.read_text())
        assert found is None, f"{page.name}: {found and found[0]}"
