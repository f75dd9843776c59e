"""Texts at any depth of JSON records, conversations, and records without text."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sottovoce.cli.main import sottovoce

TYPED = ("--detector", "gazetteer+patterns", "--strategy", "typed")


def _run(*arguments: object, given: str | None = None) -> Result:
    return CliRunner().invoke(sottovoce, ["deid", *map(str, arguments)], input=given)


def _records(given: list[Any], *options: object, strategy: tuple[str, ...] = TYPED) -> list[Any]:
    lines = "".join(f"{json.dumps(each)}\n" for each in given)
    found = _run("-", *strategy, *options, given=lines)
    assert found.exit_code == 0, found.exception
    return [json.loads(line) for line in found.stdout.splitlines()]


def test_texts_are_found_by_path_and_nothing_else_changes() -> None:
    record = {"a": {"b": [{"text": "call maria"}, {"text": None}, {"text": ""}, {}]}, "n": 3}
    told = _records([record, {"a": {}}, record], "--field", "a.b[].text", "--keep", "n")
    hidden = {"a": {"b": [{"text": "call [PER]"}, {"text": None}, {"text": ""}, {}]}, "n": 3}
    assert told == [hidden, {"a": {}}, hidden]


def test_what_nobody_named_is_refused_or_dropped() -> None:
    record = {"a": {"text": "hi", "note": "maria"}, "list": [1, "john"]}
    refused = _run("-", *TYPED, "--field", "a.text", given=json.dumps(record) + "\n")
    assert "'a.note'" in str(refused.exception)
    assert "maria" not in refused.stdout
    assert _records([record], "--field", "a.text", "--drop-rest") == [
        {"a": {"text": "hi"}, "list": []}
    ]


@pytest.mark.parametrize("path", ["", "a..b", "a[0]", ".a", "a.", "[]"])
def test_bad_paths_are_refused(path: str) -> None:
    assert "path" in str(_run("-", "--field", path, given='{"a": "b"}\n').exception)


def test_a_number_in_place_of_a_text_is_refused() -> None:
    found = _run("-", *TYPED, "--field", "a", given='{"a": 5550123}\n')
    assert "Expected text at a" in str(found.exception)


def test_conversations_are_recognised() -> None:
    chat = {
        "messages": [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": [{"type": "text", "text": "i am maria"}]},
            {"role": "assistant", "content": "hello maria, it is noon"},
        ]
    }
    (told,) = _records([chat])
    assert [each["role"] for each in told["messages"]] == ["system", "user", "assistant"]
    assert told["messages"][1]["content"] == [{"type": "text", "text": "i am [PER]"}]
    assert told["messages"][2]["content"] == "hello [PER], it is [TIME]"
    shared = {"id": "c1", "conversations": [{"from": "human", "value": "i am maria"}]}
    (told,) = _records([shared])
    assert told["conversations"] == [{"from": "human", "value": "i am [PER]"}]
    assert told["id"] not in ("", "c1")


def test_the_statement_says_that_roles_are_released() -> None:
    given = json.dumps({"messages": [{"role": "user", "content": "at noon"}]}) + "\n"
    assert "messages[].role" in _run("-", *TYPED, given=given).stderr


def test_surrogates_are_consistent_within_a_conversation(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(bytes(32))
    turns = [{"role": "user", "content": f"{name} speaking"} for name in ("Maria Lopez", "Maria")]
    options = ("--detector", "gazetteer", "--strategy", "consistent", "--within", "document")
    one, other = _records(
        [{"messages": turns}, {"messages": turns}], "--key", key, strategy=options
    )
    names = [
        [each["content"].split(" speaking")[0] for each in c["messages"]] for c in (one, other)
    ]
    assert names[0][0].split()[0] == names[0][1]
    assert names[0] != names[1]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "txt", "parquet"])
def test_rows_without_text_pass(tmp_path: Path, suffix: str) -> None:
    source, target = tmp_path / f"in.{suffix}", tmp_path / f"out.{suffix}"
    texts: list[str | None] = ["at noon", "", None, "call maria"]
    match suffix:
        case "csv" | "tsv":
            mark = "," if suffix == "csv" else "\t"
            rows = [f"{n}{mark}{text or ''}" for n, text in enumerate(texts)]
            source.write_text("\n".join([f"id{mark}text", *rows]) + "\n")
        case "jsonl":
            source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        case "txt":
            source.write_text("".join(f"{text or ''}\n" for text in texts))
        case _:
            import pyarrow as pa
            from pyarrow import parquet

            parquet.write_table(pa.table({"text": pa.array(texts, pa.string())}), source)
    found = _run(source, "-o", target, *TYPED)
    assert found.exit_code == 0, found.exception
    expected = ["at [TIME]", "", "", "call [PER]"]
    match suffix:
        case "csv" | "tsv":
            import csv

            with target.open(newline="") as stream:
                rows_out = list(csv.DictReader(stream, delimiter="," if suffix == "csv" else "\t"))
            assert [row["text"] for row in rows_out] == expected
        case "jsonl":
            assert [json.loads(x)["text"] for x in target.read_text().splitlines()] == expected
        case "txt":
            assert target.read_text().splitlines() == expected
        case _:
            from pyarrow import parquet

            out = parquet.read_table(target).column("text").to_pylist()
            assert [text or "" for text in out] == expected


def test_text_stays_text_and_tokens_stay_tokens() -> None:
    (told,) = _records([{"text": "call maria now", "intent": "call"}])
    assert told == {"text": "call [PER] now", "intent": "call"}
    labelled = {"text": "call maria", "entities": [{"start": 5, "end": 10, "type": "who"}]}
    (told,) = _records([labelled])
    assert told == {"text": "call [PER]", "entities": [{"start": 5, "end": 10, "type": "who"}]}
    (told,) = _records([{"tokens": ["call", "maria"], "slots": ["O", "B-who"]}])
    assert told["tokens"] == ["call", "[PER]"]
