import json
import math
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from tests.conftest import RunCli

from sottovoce.cli import main
from sottovoce.cli.deid.detection import caution_of
from sottovoce.cli.deid.group import deid
from sottovoce.corpora import Utterance, read, write

CALLS = [
    Utterance(
        tokens=("call", name, "in", city),
        slots=("O", "B-contact", "O", "B-city"),
        intent="call",
        user=f"u{n % 7}",
        id=f"id{n}",
    )
    for n, (name, city) in enumerate(zip(["anna", "ben", "maria"] * 20, ["rome"] * 60, strict=True))
]
GOLD = ("--detector", "gold", "--labels", "communication")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "VERBS", {**main.VERBS, "deid": "sottovoce.cli.deid.group:deid"})


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    write(tmp_path / "calls.jsonl", CALLS)
    return tmp_path / "calls.jsonl"


@pytest.mark.parametrize("name", sorted(deid.commands))
def test_every_command_has_help_with_an_example_and_json(run_cli: RunCli, name: str) -> None:
    result = run_cli("deid", name, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert "--json" in result.stdout


def test_a_file_needs_no_command(run_cli: RunCli, calls: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    result = run_cli("deid", calls, "-o", out, *GOLD, "--epsilon", 2)
    assert result.exit_code == 0, result.stderr
    assert "epsilon 2 a token (claimed: 2)" in result.stdout
    assert "Replacing any one user" in result.stdout
    assert len(list(read(out))) == 60
    verified = run_cli("deid", "verify", out, "--input", calls)
    assert verified.exit_code == 0, verified.stderr


def test_json_is_the_manifest(run_cli: RunCli, calls: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.conll"
    result = run_cli("deid", calls, "-o", out, *GOLD, "--strategy", "word", "--p", 0.5, "--json")
    content = json.loads(result.stdout)
    assert content["metrics"]["replaced"] == {"LOC": 60, "PER": 60}
    assert content["rejected"] == 0
    for utterance in read(out):
        assert utterance.slots == ("O", "B-contact", "O", "B-city")


def test_text_from_stdin_to_stdout(run_cli: RunCli) -> None:
    said = "wake me at half past three\ncall 555-0123\n"
    result = run_cli(
        "deid", "-", "--from", "text", "-o", "-", "--detector", "patterns", "--strategy", "typed",
        input=said,
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "wake me at [TIME]\ncall [PHONE]\n"
    assert "Replacing any one token" in result.stderr


@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
def test_tables_with_named_columns(run_cli: RunCli, name: str, tmp_path: Path) -> None:
    from sottovoce.corpora import Columns

    columns = Columns(text="utt")
    write(tmp_path / name, CALLS, columns=columns)
    result = run_cli(
        "deid", tmp_path / name, "-o", tmp_path / f"out-{name}", *GOLD, "--strategy", "redact",
        "--text-column", "utt", "--user", "keep",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    released = list(read(tmp_path / f"out-{name}", columns=columns))
    assert {u.text for u in released} == {"call [REDACTED] in [REDACTED]"}
    assert {u.user for u in released} == {u.user for u in CALLS}


def test_settings_by_type_and_surrogates_from_a_file(
    run_cli: RunCli, calls: Path, tmp_path: Path
) -> None:
    (tmp_path / "lists.tsv").write_text("LOC\toslo\nLOC\tlima\n")
    out = tmp_path / "out.jsonl"
    result = run_cli(
        "deid", calls, "-o", out, *GOLD, "--type", "PER=named", "--type", "LOC=entity:p=1",
        "--surrogates", tmp_path / "lists.tsv",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert {u.text for u in read(out)} == {"call Alex in oslo", "call Alex in lima"}


def test_a_folder_is_released_file_by_file_and_resumed(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        write(tmp_path / "in" / f"part{number}.jsonl", CALLS[number::2])
    args = ("deid", tmp_path / "in", "-o", tmp_path / "out", *GOLD, "--epsilon", 1)
    first = run_cli(*args)
    assert first.exit_code == 0, first.stderr
    assert "60 utterances in 2 files" in first.stdout
    (tmp_path / "out" / "part1.jsonl").unlink()
    assert "1 already finished" in run_cli(*args).stdout


def test_consistent_surrogates_with_a_key_and_a_vault(
    run_cli: RunCli, calls: Path, tmp_path: Path
) -> None:
    (tmp_path / "key").write_bytes(bytes(32))
    common = (calls, *GOLD, "--strategy", "consistent", "--key", tmp_path / "key")
    for name in ("one", "two"):
        result = run_cli(
            "deid", *common, "-o", tmp_path / f"{name}.jsonl", "--vault", tmp_path / f"{name}.vault"
        )
        assert result.exit_code == 0, result.stderr
        assert "renaming a value everywhere" in result.stdout
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()
    assert (tmp_path / "one.vault").exists()


@pytest.mark.parametrize("origin", ["same-corpus", "dp-histogram"])
def test_surrogates_from_the_corpus(
    run_cli: RunCli, calls: Path, tmp_path: Path, origin: str
) -> None:
    result = run_cli("deid", calls, "-o", tmp_path / "o.jsonl", *GOLD, "--surrogates", origin)
    assert result.exit_code == 0, result.stderr
    assert ("No guarantee" in result.stdout) == (origin == "same-corpus")


def test_evaluate_feeds_the_statement(run_cli: RunCli, calls: Path, tmp_path: Path) -> None:
    recall = tmp_path / "recall.json"
    tested = run_cli(
        "deid", "evaluate", calls, "--labels", "communication", "--detector", "gazetteer",
        "-o", recall,
    )  # fmt: skip
    assert tested.exit_code == 0, tested.stderr
    assert "recall" in tested.stdout
    out = tmp_path / "out.jsonl"
    result = run_cli("deid", calls, "-o", out, "--detector", "gazetteer", "--evaluation", recall)
    assert "Allowing for misses" in result.stdout
    assert "Clopper-Pearson" in result.stdout


def test_train_a_tagger_and_use_it(run_cli: RunCli, calls: Path, tmp_path: Path) -> None:
    tagger = tmp_path / "calls.tagger"
    result = run_cli(
        "deid", "train", calls, "-o", tagger, "--labels", "communication", "--test", calls,
        "--iterations", 20, "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    about = json.loads(result.stdout)
    assert about["evaluation"]["recall"] == 1
    out = tmp_path / "out.jsonl"
    used = run_cli("deid", calls, "-o", out, "--detector", tagger, "--strategy", "typed")
    assert used.exit_code == 0, used.stderr
    assert {u.text for u in read(out)} == {"call [PER] in [LOC]"}


def test_the_threshold_of_a_tagger_is_chosen_on_validation_data(
    run_cli: RunCli, calls: Path, tmp_path: Path
) -> None:
    hard = [
        Utterance(tokens=(name, "called", "soon"), slots=("B-contact", "O", "O"))
        for name in ("zebediah", "quentin")
    ]
    write(tmp_path / "valid.jsonl", hard)
    args = ("deid", "train", calls, "-o", tmp_path / "wary.tagger", "--labels", "communication")
    chosen = run_cli(*args, "--valid", tmp_path / "valid.jsonl", "--recall-target", 1)
    assert chosen.exit_code == 0, chosen.stderr
    assert "Its threshold is 1." in chosen.stdout
    found = run_cli(
        "deid", "evaluate", tmp_path / "valid.jsonl", "--labels", "communication",
        "--detector", tmp_path / "wary.tagger", "--json",
    )  # fmt: skip
    assert json.loads(found.stdout)["recall"] == 1
    careless = run_cli(*args, "--valid", tmp_path / "valid.jsonl", "--recall-target", 2)
    assert careless.exit_code == 2


DOUBTFUL = "ring wilma about flint"
"""Text with words that the shipped tagger labels public, but not with certainty."""


@pytest.fixture
def doubtful(tmp_path: Path) -> Path:
    write(
        tmp_path / "doubtful.jsonl", [Utterance(tokens=tuple(DOUBTFUL.split()), slots=("O",) * 4)]
    )
    return tmp_path / "doubtful.jsonl"


def test_a_lower_threshold_finds_more(run_cli: RunCli, doubtful: Path, tmp_path: Path) -> None:
    replaced = []
    for number, threshold in enumerate((1, 0.5, 0.001, 1e-12)):
        args = ("-o", tmp_path / f"{number}.jsonl", "--strategy", "redact", "--json")
        result = run_cli("deid", doubtful, *args, "--threshold", threshold)
        assert result.exit_code == 0, result.stderr
        replaced.append(sum(json.loads(result.stdout)["metrics"]["replaced"].values()))
    assert replaced == sorted(replaced)
    assert replaced[0] < replaced[-1]
    for bad in (0, -1, 1.5):
        assert run_cli("deid", doubtful, "-o", tmp_path / "x", "--threshold", bad).exit_code == 2


@pytest.mark.parametrize("threshold", [1e-20, 0.02, 0.1, 0.25, 0.3, 0.5, 2 / 3, 0.999, 1 - 2**-53])
def test_a_threshold_is_converted_exactly(threshold: float) -> None:
    """A word is marked exactly if P(public) <= 1 - threshold, in exact arithmetic."""
    caution = caution_of(threshold)
    limit = 1 - Fraction(threshold)
    near = [float(limit), math.nextafter(float(limit), 0), math.nextafter(float(limit), 1)]
    for public in (0.0, 1.0, *near):
        assert (public < caution) == (Fraction(public) <= limit)


def test_the_old_name_of_the_threshold_warns_and_does_the_same(
    run_cli: RunCli, doubtful: Path, tmp_path: Path
) -> None:
    args = ("deid", doubtful, "--strategy", "redact")
    new = run_cli(*args, "-o", tmp_path / "new.jsonl", "--threshold", 0.02)
    old = run_cli(*args, "-o", tmp_path / "old.jsonl", "--caution", 0.98)
    assert new.exit_code == old.exit_code == 0
    assert (tmp_path / "new.jsonl").read_text() == (tmp_path / "old.jsonl").read_text()
    assert "deprecated" not in new.stderr
    warnings = [line for line in old.stderr.splitlines() if "deprecated" in line]
    assert len(warnings) == 1
    assert "--caution" in warnings[0]
    assert "use --threshold 0.02 instead" in warnings[0]
    assert "--caution" not in run_cli("deid", "run", "--help").stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--p", "2"), "probability"),
        (("--p", "0.5", "--epsilon", "1"), "both"),
        (("--strategy", "response"), "Expected epsilon"),
        (("--strategy", "semantic", "--epsilon", "1"), "word vectors"),
        (("--type", "PER"), "PER=entity:epsilon=3"),
        (("--type", "PER=entity:q=3"), "PER=entity:epsilon=3"),
        (("--type", "PER=magic"), "strategy"),
        (("--detector", "magic"), "Expected a detector"),
        (("--labels", "nowhere.json"), "nowhere.json"),
        (("--detector", "gold", "--labels", "atis"), "label of the mapping"),
        (("--vault", "v"), "--key"),
        (("--delta", "1"), "delta"),
        (("--evaluation", __file__), "test_group.py"),
        (("--surrogates", "nowhere.tsv"), "nowhere.tsv"),
    ],
)
def test_bad_options_are_one_sentence(
    run_cli: RunCli, calls: Path, tmp_path: Path, args: tuple[str, ...], message: str
) -> None:
    result = run_cli("deid", calls, "-o", tmp_path / "out.jsonl", *args)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calls.jsonl"]


def test_bad_input_is_one_sentence(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("call anna\n")
    (tmp_path / "broken.jsonl").write_text('{"tokens": ["call"]}\nnonsense\n')
    (tmp_path / "empty.jsonl").write_text("")
    for source, options, message in (
        ("plain.txt", ("--detector", "gold"), "annotations"),
        ("broken.jsonl", (), "broken.jsonl"),
        ("empty.jsonl", (), "found none"),
        ("nothing.jsonl", (), "nothing.jsonl"),
    ):
        result = run_cli("deid", tmp_path / source, "-o", tmp_path / "o.jsonl", *options)
        assert result.exit_code == 2
        assert message in result.stderr
    assert not (tmp_path / "o.jsonl").exists()


def test_the_original_is_never_overwritten(run_cli: RunCli, calls: Path, tmp_path: Path) -> None:
    before = calls.read_bytes()
    (tmp_path / "link.jsonl").symlink_to(calls)
    folder = tmp_path / "shards"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(before)
    for source, target in ((calls, calls), (calls, tmp_path / "link.jsonl"), (folder, folder)):
        result = run_cli("deid", source, "-o", target, *GOLD)
        assert result.exit_code == 2
        assert "than the input" in result.stderr
    assert calls.read_bytes() == (folder / "a.jsonl").read_bytes() == before


def test_folders_that_cannot_be_released_are_one_sentence(
    run_cli: RunCli, calls: Path, tmp_path: Path
) -> None:
    empty, full = tmp_path / "empty", tmp_path / "full"
    empty.mkdir()
    full.mkdir()
    (full / "a.jsonl").write_bytes(calls.read_bytes())
    result = run_cli("deid", empty, "-o", tmp_path / "out", *GOLD)
    assert result.stderr == f"Error: Expected files in the folder {empty}, found none.\n"
    assert not (tmp_path / "out").exists()
    result = run_cli("deid", full, "-o", calls, *GOLD)
    assert result.stderr == f"Error: Expected a folder to write to, got the file {calls}.\n"


def test_every_character_outside_the_values_is_kept(run_cli: RunCli, tmp_path: Path) -> None:
    """Only the line endings of plain text are normalised."""
    (tmp_path / "in.txt").write_bytes(b"a  b\tcall Anna\r\n  to Maria  \r\nno end Anna")
    (tmp_path / "in.csv").write_bytes(b'id,text\n1,"call Anna\nat  home, ""now"""\n')
    names = tmp_path / "names.tsv"
    names.write_text("PER\tanna\nPER\tmaria\n")
    for name in ("in.txt", "in.csv"):
        out = tmp_path / name.replace("in", "out")
        typed = ("--detector", names, "--strategy", "typed", "--id", "keep")
        result = run_cli("deid", tmp_path / name, "-o", out, *typed)
        assert result.exit_code == 0, result.stderr
    told = (tmp_path / "out.txt").read_bytes()
    assert told == b"a  b\tcall [PER]\n  to [PER]  \nno end [PER]\n"
    [row] = read(tmp_path / "out.csv")
    assert row.text == 'call [PER]\nat  home, "now"'


def test_lenient_reading_reports_what_it_skipped(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "some.jsonl").write_text('{"tokens": ["call"]}\nnonsense\n')
    result = run_cli("deid", tmp_path / "some.jsonl", "-o", tmp_path / "o.jsonl", "--lenient")
    assert result.exit_code == 0
    assert "Rejected 1 records" in result.stderr


def test_a_killed_run_leaves_no_output(tmp_path: Path) -> None:
    """The process is killed while waiting for input, with half of the text released."""
    program = (
        "import sottovoce.cli.main as m\n"
        "m.VERBS = {**m.VERBS, 'deid': 'sottovoce.cli.deid.group:deid'}\n"
        "m.main()\n"
    )
    args = ["deid", "-", "--from", "text", "-o", "out.txt", "--detector", "patterns"]
    with subprocess.Popen(
        [sys.executable, "-c", program, *args],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"call 555-0123\n" * 5000)
        process.stdin.flush()
        while not list(tmp_path.glob(".*")):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert list(tmp_path.iterdir()) == []


def test_examples_are_kept_in_private_if_asked_for(
    run_cli: RunCli, calls: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    args = ("deid", calls, "-o", out, *GOLD, "--strategy", "typed")
    quiet = run_cli(*args)
    assert "examples" not in json.loads(Path(f"{out}.run.json").read_text())
    assert "guard it" not in quiet.stderr
    again = run_cli(*args, "--examples", 2)
    assert again.exit_code == 2
    assert "the cost of both releases adds up" in again.stderr
    out = tmp_path / "other.jsonl"
    args = ("deid", calls, "-o", out, *GOLD, "--strategy", "typed")
    told = run_cli(*args, "--examples", 2)
    assert told.exit_code == 0, told.stderr
    assert (
        told.stderr
        == "The folder private/ holds examples of the original text: guard it like the original.\n"
    )
    assert "examples" not in json.loads(Path(f"{out}.run.json").read_text())
    first, second = json.loads((tmp_path / "private/other.jsonl.json").read_text())["examples"]
    assert first == {
        "before": "call anna in rome",
        "after": "call [PER] in [LOC]",
        "spans_before": [[5, 9, "PER"], [13, 17, "LOC"]],
        "spans_after": [[5, 10, "PER"], [14, 19, "LOC"]],
    }
    assert second["before"] == "call ben in rome"
    assert run_cli("deid", "verify", out, "--input", calls).exit_code == 0


def test_like_for_like_says_what_it_reveals(run_cli: RunCli, calls: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    result = run_cli("deid", calls, "-o", out, *GOLD, "--epsilon", 2, "--like-for-like")
    assert result.exit_code == 0, result.stderr
    assert "PER: the form of a value and the gender of a name is released as it is" in result.stdout
    assert run_cli("deid", "verify", out).exit_code == 0
