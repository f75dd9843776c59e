import gzip
import json
import resource
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.conftest import RunCli

from sottovoce.cli.corpus import corpus
from sottovoce.corpora import Utterance, read, write

CALLS = [
    Utterance(
        tokens=("call", name),
        slots=("O", "B-who"),
        intent="call" if i % 3 else "video_call",
        user=f"u{i % 40}",
        id=f"id{i}",
    )
    for i, name in enumerate(["mum", "dad", "ann", "bob", "eve"] * 60)
]


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    path = tmp_path / "calls.jsonl"
    write(path, CALLS)
    return path


def command(*args: object) -> list[str]:
    return [sys.executable, "-m", "sottovoce", *map(str, args)]


@pytest.mark.parametrize("name", sorted(corpus.commands))
def test_every_verb_has_help_with_an_example_and_json(run_cli: RunCli, name: str) -> None:
    result = run_cli("corpus", name, "--help")
    assert result.exit_code == 0
    assert f"sottovoce corpus {name} " in result.stdout.split("Example", 1)[1]
    assert "--json" in result.stdout
    for parameter in corpus.commands[name].params:
        assert not isinstance(parameter, click.Option) or parameter.help


@pytest.mark.parametrize("name", ["out.conll", "out.csv", "out.tsv.gz", "out.parquet", "out.jsonl"])
def test_convert_there_and_back(run_cli: RunCli, tmp_path: Path, calls: Path, name: str) -> None:
    result = run_cli("corpus", "convert", calls, "-o", tmp_path / name)
    assert result == (0, f"Wrote 300 utterances to {tmp_path / name}.\n", "")
    run_cli("corpus", "convert", tmp_path / name, "-o", tmp_path / "back.jsonl")
    assert (tmp_path / "back.jsonl").read_bytes() == calls.read_bytes()


def test_convert_from_standard_input_to_standard_output(run_cli: RunCli) -> None:
    result = run_cli("corpus", "convert", "-", "-o", "-", "--from", "text", input="call mum\n\n")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["tokens"] == ["call", "mum"]
    assert result.stderr == "Wrote 1 utterances to -.\n"


def test_compressed_standard_input_is_expanded(run_cli: RunCli) -> None:
    content = gzip.compress(b"call mum\n")
    result = run_cli("corpus", "convert", "-", "-o", "-", "--from", "text", input=content)
    assert json.loads(result.stdout)["tokens"] == ["call", "mum"]


def test_convert_says_as_json_what_it_did(run_cli: RunCli, tmp_path: Path) -> None:
    content = '{"text": "call mum"}\nnonsense\n\n{"tokens": ["a"], "slots": ["I-x"]}\n'
    output = tmp_path / "out.conll"
    result = run_cli("corpus", "convert", "-", "-o", output, "--lenient", "--json", input=content)
    found = json.loads(result.stdout)
    assert found.pop("problems")[0]["place"] == 2
    assert found == {
        "output": str(output),
        "utterances": 2,
        "rejected": 1,
        "repaired": 1,
        "blank": 1,
    }


def test_convert_says_in_words_what_it_rejected(run_cli: RunCli, tmp_path: Path) -> None:
    content = '{"text": "call mum"}\n[]\n{"tokens": ["a"], "slots": ["I-x"]}\n'
    output = tmp_path / "out.jsonl"
    result = run_cli("corpus", "convert", "-", "-o", output, "--lenient", input=content)
    assert result.exit_code == 0
    assert result.stderr == (
        "Repaired the labels of 1 records.\n"
        "Rejected 1 records, such as:\n"
        "  2: Expected a JSON object, got an empty list.\n"
    )


def test_columns_named_are_those_of_the_input_table(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("utt,who,label\ncall mum,u1,call\n")
    options = ("--text-column", "utt", "--user-column", "who", "--intent-column", "label")
    result = run_cli("corpus", "convert", tmp_path / "in.csv", "-o", "-", *options)
    assert json.loads(result.stdout) == {
        "tokens": ["call", "mum"],
        "slots": ["O", "O"],
        "intent": "call",
        "user": "u1",
    }


def test_columns_named_are_else_those_of_the_output_table(run_cli: RunCli, tmp_path: Path) -> None:
    arguments = ("corpus", "convert", "-", "-o", "-", "--from", "text", "--to", "csv")
    result = run_cli(*arguments, "--text-column", "utt", input="call mum")
    assert result.stdout.splitlines() == [
        "id,user,intent,utt,tokens,slots,extra",
        ",,,call mum,,O O,",
    ]


def test_split_by_user(run_cli: RunCli, tmp_path: Path, calls: Path) -> None:
    folder = tmp_path / "parts"
    result = run_cli("corpus", "split", calls, "-o", folder, "--by", "user", "--json")
    parts = json.loads(result.stdout)["parts"]
    users = {part: {u.user for u in read(found["output"])} for part, found in parts.items()}
    assert sum(found["utterances"] for found in parts.values()) == 300
    assert not users["train"] & users["test"]
    assert not users["valid"] & (users["train"] | users["test"])


def test_split_says_the_shares(run_cli: RunCli, tmp_path: Path, calls: Path) -> None:
    result = run_cli("corpus", "split", calls, "-o", tmp_path, "--ratios", "80:10:10")
    assert result.exit_code == 0
    assert result.stdout.startswith("Wrote train 2")
    again = run_cli("corpus", "split", calls, "-o", tmp_path, "--ratios", "80:10:10")
    assert again.exit_code == 2
    assert "name another folder, or add --force" in again.stderr
    forced = run_cli("corpus", "split", calls, "-o", tmp_path, "--ratios", "80:10:10", "--force")
    assert forced == result


def test_split_warns_of_an_empty_part(run_cli: RunCli, tmp_path: Path) -> None:
    result = run_cli("corpus", "split", "-", "-o", tmp_path / "parts", input='{"text": "a"}')
    assert result.exit_code == 0
    assert "Warning: valid is empty" in result.stderr


def test_failed_split_leaves_nothing(run_cli: RunCli, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    content = '{"text": "a", "user": "u"}\n{"text": "b"}\n'
    result = run_cli("corpus", "split", "-", "-o", folder, "--by", "user", input=content)
    assert result.exit_code == 2
    assert not folder.exists()
    folder.mkdir()
    (folder / "train.jsonl").write_text("precious")
    run_cli("corpus", "split", "-", "-o", folder, "--by", "user", input=content)
    assert [path.name for path in folder.iterdir()] == ["train.jsonl"]
    assert (folder / "train.jsonl").read_text() == "precious"


def test_show_prints_what_a_person_wants_to_see(
    run_cli: RunCli, tmp_path: Path, calls: Path
) -> None:
    run_cli("corpus", "split", calls, "-o", tmp_path / "parts")
    result = run_cli("corpus", "show", tmp_path / "parts")
    assert result.exit_code == 0
    for expected in (
        "utterances",
        "users",
        "video_call",
        "who",
        "Tokens in an utterance",
        "Distinct words by number of tokens",
        "of test",
    ):
        assert expected in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "\x1b" not in result.stdout


def test_show_as_json(run_cli: RunCli, tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", CALLS[:10])
    write(tmp_path / "dev.conll", CALLS[3:5])
    result = run_cli("corpus", "show", tmp_path, "--json")
    found = json.loads(result.stdout)
    assert list(found["parts"]) == ["train", "dev"]
    assert found["parts"]["train"]["utterances"] == 10
    assert found["duplicates"] == {"train": {"dev": 4}, "dev": {"train": 2}}


def test_show_many_parts(run_cli: RunCli, tmp_path: Path) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        for part in ("train", "valid", "test"):
            write(tmp_path / folder / f"{part}.jsonl", CALLS[:10])
    result = run_cli("corpus", "show", tmp_path / "first", tmp_path / "second")
    assert "second/test" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "Intents\n" in result.stdout


def test_show_does_not_obey_control_characters(run_cli: RunCli) -> None:
    line = json.dumps({"text": "a", "intent": "\x1b[2J[bold]x"})
    result = run_cli("corpus", "show", "-", input=line)
    assert "\x1b" not in result.stdout
    assert "\ufffd[2J[bold]x" in result.stdout


def test_make_writes_a_built_in_corpus(run_cli: RunCli, tmp_path: Path) -> None:
    output = tmp_path / "made.jsonl"
    arguments = ("corpus", "make", "communication", "-o", output, "--size", 50, "--users", 5)
    result = run_cli(*arguments, "--seed", 3, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["utterances"] == 50
    made = list(read(output))
    assert len(made) == 50
    assert len({utterance.user for utterance in made}) <= 5
    run_cli(*arguments[:3], "-o", tmp_path / "again.jsonl", *arguments[5:], "--seed", 3)
    assert (tmp_path / "again.jsonl").read_bytes() == output.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("convert none.jsonl -o out.jsonl", "found nothing there"),
        ("convert . -o out.jsonl --from jsonl", "got the folder"),
        ("convert calls.doc -o out.jsonl", "Expected a name that ends in"),
        ("convert calls.jsonl -o out.doc", "Expected a name that ends in"),
        ("convert calls.jsonl -o .", "Expected a name that ends in"),
        ("convert calls.jsonl -o . --to jsonl", "got the folder"),
        ("convert calls.jsonl -o none/out.jsonl", "Expected an existing folder"),
        ("convert calls.jsonl -o out.jsonl --from yaml", "Invalid value for '--from'"),
        ("convert calls.jsonl -o out.jsonl --to yaml", "Invalid value for '--to'"),
        ("convert calls.jsonl -o out.jsonl --line-limit 0", "Invalid value for '--line-limit'"),
        ("convert calls.jsonl -o out.jsonl --line-limit 9", "line 1: Expected at most 9 bytes"),
        ("convert calls.jsonl -o out.jsonl --text-column utt", "column names only for"),
        ("convert calls.jsonl -o out.csv --id-column user", "different column per field, got"),
        ("convert calls.jsonl -o out.conll --from conll", "calls.jsonl, line 1: Expected"),
        ("convert calls.jsonl -o out.conll --from csv", "calls.jsonl, line 1: Expected"),
        ("convert calls.jsonl -o out.conll --from parquet", "Expected a Parquet file"),
        ("convert calls.jsonl", "Missing option '-o'"),
        ("convert -o out.jsonl", "Missing argument"),
        ("split none.jsonl -o parts", "found nothing there"),
        ("split calls.jsonl -o parts --ratios 80:20", "Expected ratios train:valid:test"),
        ("split calls.jsonl -o parts --ratios 80:0:20", "Expected the ratio of valid > 0"),
        ("split calls.jsonl -o parts --by day", "Invalid value for '--by'"),
        ("split calls.jsonl -o -", "Expected a folder to write"),
        ("split calls.jsonl -o calls.jsonl", "File exists"),
        ("split calls.jsonl -o none/parts", "No such file"),
        ("show none.jsonl", "found nothing there"),
        ("show empty", "Expected train, valid or test files"),
        ("show twice", "Expected one file for train in twice, got train.jsonl and train.txt"),
        ("show", "Missing argument"),
        ("make poetry -o out.jsonl", "poetry"),
        ("make health -o out.jsonl --size 0", "Invalid value for '--size'"),
        ("make health -o out.jsonl --users 0", "Invalid value for '--users'"),
        ("make health -o out.jsonl --seed x", "Invalid value for '--seed'"),
        ("make health -o out.jsonl --seed -1", "Expected seed >= 0"),
        ("make health", "Missing option '-o'"),
    ],
)
def test_bad_input_is_one_clear_sentence_and_exit_code_2(
    run_cli: RunCli,
    tmp_path: Path,
    calls: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("empty", "twice"):
        Path(folder).mkdir()
    Path("twice/train.jsonl").touch()
    Path("twice/train.txt").touch()
    before = sorted(tmp_path.rglob("*"))
    result = run_cli("corpus", *arguments.split())
    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert sorted(tmp_path.rglob("*")) == before
    assert len(list(read(calls))) == 300


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.parquet"])
def test_full_disk_keeps_the_old_file(tmp_path: Path, calls: Path, name: str) -> None:
    (tmp_path / name).write_text("precious")
    ended = subprocess.run(
        command("corpus", "convert", calls, "-o", tmp_path / name),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("Error: File too large")
    assert (tmp_path / name).read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([calls.name, name])


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_interrupt_keeps_the_old_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("precious")
    with subprocess.Popen(
        command("corpus", "convert", "-", "-o", tmp_path / name, "--from", "text"),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"call mum\n" * 10)
        process.stdin.flush()
        while not hidden_files(tmp_path):
            assert process.poll() is None
        interrupt(process)
        assert process.returncode == 130
        assert process.stderr.read().strip() == b"Interrupted."
    assert not hidden_files(tmp_path)
    assert (tmp_path / name).read_text() == "precious"


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C, repeated if needed: a signal just before a blocking read is delayed."""
    for _ in range(10):
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            continue
        return


def hidden_files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_reader_of_the_output_may_leave(calls: Path) -> None:
    pipe = f'"{sys.executable}" -m sottovoce corpus convert "{calls}" -o - --to conll | head -n 1'
    ended = subprocess.run(pipe, shell=True, capture_output=True, text=True, check=False)
    assert ended.stdout == "# id = id0\n"
    assert "Traceback" not in ended.stderr


def test_nothing_heavy_is_loaded_to_read_jsonl(calls: Path) -> None:
    code = (
        "import sys; from sottovoce.cli.main import sottovoce\n"
        f"sottovoce(['corpus', 'show', {str(calls)!r}, '--json'], standalone_mode=False)\n"
        "print([m for m in ('numpy', 'pyarrow', 'torch') if m in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr == "[]\n"


def test_make_from_a_grammar(run_cli: RunCli, tmp_path: Path) -> None:
    grammar, out = tmp_path / "calls.toml", tmp_path / "calls.conll"
    grammar.write_text('[slots]\nwho = "person"\n[intents.call]\nlines = "call {who}"\n')
    made = run_cli("corpus", "make", grammar, "-o", out, "--size", 30, "--json")
    assert made.exit_code == 0, made.stderr
    assert json.loads(made.stdout)["utterances"] == 30
    drawn = list(read(out))
    assert len(drawn) == 30
    assert all(u.tokens[0] == "call" and u.slots[1] == "B-who" for u in drawn)


def test_a_grammar_has_no_users(run_cli: RunCli, tmp_path: Path) -> None:
    grammar = tmp_path / "calls.toml"
    grammar.write_text('[intents.call]\nlines = "call"\n')
    refused = run_cli("corpus", "make", grammar, "-o", tmp_path / "calls.jsonl", "--users", 3)
    assert refused.exit_code != 0
    assert "got them with a grammar" in refused.stderr
    missing = run_cli("corpus", "make", tmp_path / "none.toml", "-o", tmp_path / "calls.jsonl")
    assert missing.exit_code != 0
    assert "Expected a grammar in" in missing.stderr
    assert not (tmp_path / "calls.jsonl").exists()
