"""`deid restore`: a release comes back exactly, with its vault and key and not otherwise."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sottovoce.cli.main import sottovoce
from sottovoce.corpora import read
from sottovoce.corpora.synthetic import write_jsonl


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(sottovoce, ["deid", *map(str, arguments)])


@pytest.mark.parametrize("strategy", ["consistent", "typed", "entity", "encrypt"])
def test_every_record_comes_back(tmp_path: Path, strategy: str) -> None:
    source, key, vault = (tmp_path / name for name in ("in.jsonl", "key", "vault"))
    write_jsonl(source, "communication", size=150, users=10, seed=3)
    key.write_bytes(bytes(range(32)))
    released, back = tmp_path / "out.jsonl", tmp_path / "back.jsonl"
    gold = ("--detector", "gold", "--labels", "built-in")
    keyed = ("--key", key, "--vault", vault)
    made = _run(source, "-o", released, *gold, "--strategy", strategy, *keyed)
    assert made.exit_code == 0, made.output
    assert [u.text for u in read(released)] != [u.text for u in read(source)]
    found = _run("restore", released, *keyed, "-o", back)
    assert found.exit_code == 0, found.output
    assert list(read(back)) == list(read(source))
    key.write_bytes(bytes(32))
    assert _run("restore", released, "--key", key, "--vault", vault, "-o", back).exit_code != 0


def test_texts_released_alike_come_back_in_order_and_edited_ones_by_search(tmp_path: Path) -> None:
    source, key, vault = (tmp_path / name for name in ("in.txt", "key", "vault"))
    source.write_text("call maria lopez\ncall [PER]\ncall john\n")
    key.write_bytes(bytes(range(32)))
    keyed = ("--key", key, "--vault", vault)
    made = _run(
        source, "-o", tmp_path / "out.txt", "--detector", "gazetteer", "--strategy", "typed", *keyed
    )
    assert made.exit_code == 0, made.output
    assert _run("restore", tmp_path / "out.txt", *keyed).stdout == source.read_text()
    more = tmp_path / "more.txt"
    more.write_text("call Maria Lopez\n")
    told = _run(
        more, "--detector", "gazetteer", "--strategy", "consistent", "--within", "corpus", *keyed
    )
    assert "Expected --within user" in str(told.exception)
    kept = ("--key", key, "--vault", tmp_path / "other")
    told = _run(
        more, "--detector", "gazetteer", "--strategy", "consistent", "--within", "corpus", *kept
    )
    edited = tmp_path / "edited.txt"
    edited.write_text(f"did you {told.stdout.strip()} yet?\n")
    assert _run("restore", edited, *kept).stdout == "did you call Maria Lopez yet?\n"
