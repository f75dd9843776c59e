import io

import pytest

from sottovoce.corpora import Utterance
from sottovoce.corpora.conll import conll_block, read_conll
from sottovoce.corpora.lines import LINE_LIMIT, Problems
from sottovoce.errors import InvalidInput


def read_text(
    text: str | bytes, *, strict: bool = True, limit: int = LINE_LIMIT
) -> tuple[list[Utterance], Problems]:
    problems = Problems("calls.conll", strict=strict)
    content = text.encode() if isinstance(text, str) else text
    return list(read_conll(io.BytesIO(content), problems, limit)), problems


def test_tabs_and_blanks_part_the_first_and_the_last_column() -> None:
    found, _ = read_text("call VB  B-VP O\nmum NN B-NP B-who\n\n\nstop\tO\n")
    assert [u.tokens for u in found] == [("call", "mum"), ("stop",)]
    assert found[0].slots == ("O", "B-who")


def test_comments_carry_the_other_fields() -> None:
    found, _ = read_text(
        "# free comment\n#\n# id = 7\n# user = a b\n# intent = call\n# text = call mum!\n"
        '# day = monday\n# json = {"score": 1}\ncall O\nmum B-who\n! O\n'
    )
    assert found == [
        Utterance(
            tokens=("call", "mum", "!"),
            slots=("O", "B-who", "O"),
            id="7",
            user="a b",
            intent="call",
            text="call mum!",
            extra={"day": "monday", "score": 1},
        )
    ]


@pytest.mark.parametrize("line", ["#\tO", "# O", "#tag\tB-x", "#tag B-x"])
def test_hash_can_be_a_token(line: str) -> None:
    found, _ = read_text(f"{line}\nnext O\n")
    assert found[0].tokens == (line.split()[0], "next")


def test_hash_after_the_first_token_is_a_token() -> None:
    found, _ = read_text("a O\n# O\n# intent = O\n")
    assert found[0].tokens == ("a", "#", "#")


def test_document_starts_are_skipped() -> None:
    found, problems = read_text("-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\n")
    assert [u.tokens for u in found] == [("EU",)]
    assert problems.rejected == 0


def test_windows_newlines_and_byte_order_mark_are_accepted() -> None:
    found, _ = read_text("\ufeffcall\tO\r\nmum\tB-who\r\n\r\nstop\tO\r\n")
    assert [u.tokens for u in found] == [("call", "mum"), ("stop",)]


def test_iob1_is_refused_when_strict_and_repaired_when_lenient() -> None:
    text = "U.N. I-ORG\nEkeus I-PER\n\nBaghdad I-LOC\nIraq B-LOC\n"
    with pytest.raises(InvalidInput, match="line 1: Expected B-ORG or I-ORG before I-ORG"):
        read_text(text)
    found, problems = read_text(text, strict=False)
    assert [u.slots for u in found] == [("B-ORG", "B-PER"), ("B-LOC", "B-LOC")]
    assert (problems.repaired, problems.rejected) == (2, 0)


@pytest.mark.parametrize(
    ("block", "place", "complaint"),
    [
        (b"call O\nmum\n", 4, "Expected a token and a label, got a single column"),
        (b"call O\nmum X-who\n", 3, "Expected O, B-type or I-type"),
        (b"call O\ncaf\xe9 O\n", 4, "the byte 0xe9"),
        (b"a\x00 O\n", 3, "NUL"),
        (b"# id = 7\n", 3, "at least one token"),
        (b"# id = 7\n# id = 8\na O\n", 4, "Expected every field once, got 'id' twice"),
        (b'# id = 7\n# json = {"id": 8}\na O\n', 4, "got 'id' twice"),
        (b"# tokens = 7\na O\n", 3, "got 'tokens' twice"),
        (b"# json = {\na O\n", 3, "Expected a JSON object"),
        (b"# text = b\na O\n", 3, "Expected token 0"),
        (b"\tO\n", 3, "got an empty string as token 0"),
        (b"long O\n" * 20, 17, "at most 100 bytes per utterance"),
        (b"x" * 101 + b" O\n", 3, "at most 100 bytes per utterance"),
    ],
)
def test_bad_block_is_refused_with_its_place(block: bytes, place: int, complaint: str) -> None:
    content = b"first O\n\n" + block + b"\nlast O\n"
    with pytest.raises(InvalidInput, match=rf"^calls\.conll, line {place}: .*{complaint}"):
        read_text(content, limit=100)
    found, problems = read_text(content, strict=False, limit=100)
    assert [u.tokens for u in found] == [("first",), ("last",)]
    assert [problem.place for problem in problems.first] == [place]


@pytest.mark.parametrize(
    "utterance",
    [
        Utterance(tokens=("a\tb",), slots=("O",)),
        Utterance(tokens=("a\nb",), slots=("O",)),
        Utterance(tokens=("a",), slots=("B-x\ty",)),
    ],
)
def test_tabs_inside_a_column_are_not_written(utterance: Utterance) -> None:
    with pytest.raises(InvalidInput, match="without tabs and line breaks"):
        conll_block(utterance)


@pytest.mark.parametrize("token", ["-DOCSTART-", "\ufeffcall"])
def test_what_a_reader_would_skip_is_not_written(token: str) -> None:
    with pytest.raises(InvalidInput, match="Expected"):
        conll_block(Utterance(tokens=(token,), slots=("O",)))


def test_tokens_with_blanks_inside_come_back() -> None:
    utterance = Utterance(tokens=("New York", "#"), slots=("B-city", "O"))
    assert read_text(conll_block(utterance))[0] == [utterance]
