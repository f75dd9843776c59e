"""What a release leaves behind: permissions, links, killed and concurrent processes, fields."""

import json
import os
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.conftest import RunCli

from sottovoce.corpora import Utterance, read, write
from sottovoce.deid import Deidentifier, Fields, Setting
from sottovoce.deid.detect import Gazetteer
from sottovoce.deid.files import corpus_file as files
from sottovoce.deid.files.corpus_file import release_file
from sottovoce.deid.files.manifest import describe_file
from sottovoce.deid.files.tables import TextColumns, release_arrow
from sottovoce.deid.replace import PrivateHistogram
from sottovoce.errors import InvalidInput
from sottovoce.io.run import Run

CALL = Utterance(tokens=("call", "maria"), slots=("O", "O"), user="ann", id="1")


@pytest.fixture
def open_to_all() -> Iterator[None]:
    """Files are world-readable by default."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    write(tmp_path / "calls.jsonl", [CALL] * 3)
    return tmp_path / "calls.jsonl"


def made(**options: Any) -> Deidentifier:
    return Deidentifier(
        detector=Gazetteer({"PER": ["maria"]}), setting=Setting(epsilon=1.0), **options
    )


def readable(folder: Path) -> set[str]:
    """What others may read, by the permissions of the file and its folders."""
    found = set()
    for path in folder.rglob("*"):
        above = [each for each in path.parents if each.is_relative_to(folder) and each != folder]
        rights = [stat.S_IMODE(each.stat().st_mode) for each in (path, *above)]
        if path.is_file() and all(each & 0o004 for each in rights):
            found.add(path.name)
    return found


def test_nobody_else_may_read_what_is_private(
    calls: Path, tmp_path: Path, open_to_all: None
) -> None:
    release_file(made(), read(calls), tmp_path / "out.jsonl", examples=2)
    assert readable(tmp_path) == {"calls.jsonl", "out.jsonl", "out.jsonl.run.json"}
    assert all(
        stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
        for path in (tmp_path / "private", *(tmp_path / "private").rglob("*"))
    )


def killed(calls: Path, output: Path) -> None:
    """A release whose process is killed half-way, with everything written so far on disk."""
    child = os.fork()
    if not child:

        def track(utterances: Any) -> Iterator[Utterance]:
            yield from utterances
            os.kill(os.getpid(), signal.SIGKILL)

        release_file(made(), read(calls), output, track=track)
        os._exit(0)
    os.waitpid(child, 0)


def test_what_a_killed_release_leaves_is_for_its_owner_alone(
    calls: Path, tmp_path: Path, open_to_all: None
) -> None:
    killed(calls, tmp_path / "out.jsonl")
    assert len(list(tmp_path.glob(".*.part*"))) > 0
    assert readable(tmp_path) == {"calls.jsonl"}


def test_with_default_permissions_the_leftover_could_be_read(
    calls: Path, tmp_path: Path, open_to_all: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_FOLDER_MODE", 0o755)
    killed(calls, tmp_path / "out.jsonl")
    assert len(readable(tmp_path)) > 1


def test_of_two_processes_that_release_to_one_output_one_is_refused(
    calls: Path, tmp_path: Path
) -> None:
    """The second would overwrite the record of the first: 1 stated, 2 true."""

    def meanwhile(utterances: Any) -> Iterator[Utterance]:
        yield from utterances
        release_file(made(), read(calls), tmp_path / "out.jsonl")

    with pytest.raises(InvalidInput, match="another process has released"):
        release_file(made(), read(calls), tmp_path / "out.jsonl", track=meanwhile)
    kept = json.loads((tmp_path / "out.jsonl.run.json").read_text())
    assert kept["output"]["sha256"] == describe_file(tmp_path / "out.jsonl")["sha256"]


def test_without_a_look_at_the_end_the_first_would_be_lost(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_state", lambda output: None)
    first: list[bytes] = []

    def meanwhile(utterances: Any) -> Iterator[Utterance]:
        yield from utterances
        release_file(made(), read(calls), tmp_path / "out.jsonl")
        first.append((tmp_path / "out.jsonl.run.json").read_bytes())

    content = release_file(made(), read(calls), tmp_path / "out.jsonl", track=meanwhile)
    assert (tmp_path / "out.jsonl.run.json").read_bytes() != first[0]
    assert content["guarantee"]["epsilon"] == pytest.approx(3)  # and six were drawn


@pytest.mark.parametrize("name", ["out.jsonl.json", "out.jsonl.record.json", "key"])
def test_a_link_in_the_private_folder_is_not_followed(
    calls: Path, tmp_path: Path, name: str
) -> None:
    """Planted by an attacker, it would redirect private files to its target."""
    folder = Run(tmp_path).private_folder
    (tmp_path / "public.json").write_text("")
    (folder / name).symlink_to(tmp_path / "public.json")
    with pytest.raises(InvalidInput, match="got a link"):
        release_file(made(), read(calls), tmp_path / "out.jsonl")
    assert (tmp_path / "public.json").read_text() == ""
    assert not (tmp_path / "out.jsonl").exists()


def test_a_hard_link_in_the_private_folder_is_replaced(calls: Path, tmp_path: Path) -> None:
    folder = Run(tmp_path).private_folder
    (tmp_path / "public.json").write_text("")
    (folder / "out.jsonl.json").hardlink_to(tmp_path / "public.json")
    release_file(made(), read(calls), tmp_path / "out.jsonl")
    assert (tmp_path / "public.json").read_text() == ""


def as_jsonl(path: Path, record: dict[str, Any]) -> Path:
    path.with_suffix(".jsonl").write_text(json.dumps(record) + "\n")
    return path.with_suffix(".jsonl")


def as_csv(path: Path, record: dict[str, Any]) -> Path:
    flat = {"tokens": " ".join(record["tokens"]), "slots": " ".join(record["slots"])}
    flat |= {name: str(value) for name, value in record.items() if name not in flat}
    lines = [",".join(flat), ",".join(f'"{value}"' for value in flat.values())]
    path.with_suffix(".csv").write_text("\n".join(lines) + "\n")
    return path.with_suffix(".csv")


SIDE: dict[str, dict[str, Any]] = {
    "another field": {"contact": "maria"},
    "a nested field": {"meta": {"said": ["call maria"]}},
    "values of slots": {"values": {"who": "maria"}},
    "the text as it was": {"raw_text": "call maria"},
    "a name in the id": {"id": "maria-0007"},
    "a name as the user": {"user": "maria"},
}


@pytest.mark.parametrize("form", [as_jsonl, as_csv])
@pytest.mark.parametrize("side", SIDE)
@pytest.mark.parametrize("drop", [False, True])
def test_no_name_gets_out_beside_the_text(
    tmp_path: Path, form: Callable[..., Path], side: str, drop: bool
) -> None:
    record: dict[str, Any] = {"tokens": ["call", "maria"], "slots": ["O", "O"], **SIDE[side]}
    source = form(tmp_path / "calls", record)
    deid = Deidentifier(
        detector=Gazetteer({"PER": ["maria"]}),
        setting=Setting(strategy="redact"),
        fields=Fields(drop_rest=drop),
    )
    out = tmp_path / f"out{source.suffix}"
    try:
        release_file(deid, read(source), out)
    except InvalidInput:
        assert not drop
        assert not out.exists()
        return
    shared = out.read_text() + Path(f"{out}.run.json").read_text()
    assert "maria" not in shared
    assert drop or side in ("a name in the id", "a name as the user")


def test_a_field_that_is_kept_gets_out_and_the_statement_says_so(tmp_path: Path) -> None:
    """The twin: if the field is kept, the name is released, and listed as not covered."""
    record = {"tokens": ["call", "maria"], "slots": ["O", "O"], "contact": "maria"}
    deid = made(fields=Fields(keep=frozenset({"contact"})))
    release_file(deid, read(as_jsonl(tmp_path / "calls", record)), tmp_path / "out.jsonl")
    assert '"contact": "maria"' in (tmp_path / "out.jsonl").read_text()
    said = deid.statement().guarantees["token"].not_covered
    assert "fields released as they are: contact" in said


@pytest.mark.parametrize(
    "record",
    [
        {"tokens": ["call", "her"], "slots": ["O", "O"], "text": "call maria"},
        {"tokens": ["call", "maria"], "slots": ["O", "O"], "text": "call her"},
    ],
)
def test_a_text_beside_other_tokens_is_refused(tmp_path: Path, record: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        release_file(made(), read(as_jsonl(tmp_path / "calls", record)), tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_columns_that_are_kept_are_listed_as_not_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"text": ["call maria"], "contact": ["maria"]})
    columns = TextColumns(keep=("contact",))
    deid = made()
    assert release_arrow(deid, table, columns).to_pylist()[0]["contact"] == "maria"
    said = deid.statement().guarantees["token"].not_covered
    assert "columns released as they are: contact" in said
    assert "columns released as they are: contact" in deid.record()["not_covered"]
    # The twin: without the sentence, the statement reads as if the name were protected.
    monkeypatch.setattr(TextColumns, "not_covered", lambda columns: ())
    silent = made()
    release_arrow(silent, table, columns)
    assert not any("contact" in each for each in silent.statement().lines())


def test_one_person_under_names_with_blanks_is_one_person() -> None:
    deid = made()
    for user in ("ann", " ann", "ann ", "\u0061nn", "ann\u00a0"):
        deid.release("call maria", user=user, id=user + "1")
    assert deid.statement().guarantees["user"].epsilon == pytest.approx(5)
    counted = PrivateHistogram(epsilon=1.0, delta=1e-6)
    for user in ("ann", " ann", "ann "):
        counted.add(user, "maria")
    assert counted._counts["maria"] == 1


def test_a_blank_user_is_none() -> None:
    deid = made()
    deid.release("call maria", user=" ")
    assert "user" not in deid.statement().guarantees


def test_the_corpus_itself_is_no_public_list(run_cli: RunCli, tmp_path: Path) -> None:
    corpus = tmp_path / "calls.txt"
    corpus.write_text("PER\tmaria\nPER\tanna\n")
    result = run_cli("deid", corpus, "-o", tmp_path / "out.txt", "--surrogates", corpus)
    assert result.exit_code == 2
    assert "the corpus itself" in result.stderr
