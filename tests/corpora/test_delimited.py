import csv
import io

import pytest

from sottovoce.corpora import Columns, Utterance
from sottovoce.corpora.lines import LINE_LIMIT, Problems
from sottovoce.corpora.tables import delimited_header, delimited_row, read_delimited
from sottovoce.errors import InvalidInput


def read_csv(
    content: str | bytes,
    columns: Columns | None = None,
    *,
    strict: bool = True,
    limit: int = LINE_LIMIT,
) -> tuple[list[Utterance], Problems]:
    problems = Problems("calls.csv", strict=strict)
    stream = io.BytesIO(content.encode() if isinstance(content, str) else content)
    return list(read_delimited(stream, problems, limit, columns or Columns(), ",")), problems


def test_columns_are_named_by_the_user_and_others_are_kept() -> None:
    found, _ = read_csv(
        "utt,label,who,day\ncall mum,call,u1,monday\n",
        Columns(text="utt", intent="label", user="who"),
    )
    assert found == [
        Utterance(
            tokens=("call", "mum"),
            slots=("O", "O"),
            intent="call",
            user="u1",
            extra={"day": "monday"},
        )
    ]


def test_byte_order_mark_quotes_and_blank_rows() -> None:
    found, problems = read_csv(
        b'\xef\xbb\xbftext,id\r\n"call, ""mum""",1\r\n\r\n"two\r\nlines",2\r\n'
    )
    assert [u.text for u in found] == ['call, "mum"', "two\r\nlines"]
    assert problems.blank == 1


def test_labels_are_parted_by_blanks_or_a_json_list() -> None:
    found, _ = read_csv('text,slots\ncall mum,O B-who\ncall mum,"[""O"", ""B-my mum""]"\n')
    assert [u.slots for u in found] == [("O", "B-who"), ("O", "B-my mum")]


def test_other_programs_can_read_what_is_written() -> None:
    columns = Columns(text="utt")
    row = delimited_row(columns, ",")(Utterance(tokens=("a,b", "c"), slots=("O", "B-x"), id="1"))
    content = (delimited_header(columns, ",") + row).decode()
    (written,) = csv.DictReader(io.StringIO(content))
    assert {name: cell for name, cell in written.items() if cell} == {
        "id": "1",
        "utt": "a,b c",
        "slots": "O B-x",
    }


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (b"call,1,O,2", "Expected 5 cells, as in the header, got 4"),
        (b"call,1,O,,,", "Expected 5 cells, as in the header, got 6"),
        (b"caf\xe9,1,O,,", "the byte 0xe9"),
        (b"ca\x00,1,O,,", "NUL"),
        (b",1,,,", "Expected tokens, text or reference"),
        (b" ,1,,,", "at least one token"),
        (b'call,1,"O O",,', "one slot label for each of 1 tokens, got 2"),
        (b'call,1,"[]",,', "one slot label for each of 1 tokens, got 0"),
        (b'call,1,"[O]",,', "Expected slots separated by spaces or as a JSON list"),
        (b'call,1,"[1]",,', "Expected slots to be a list of strings"),
        (b'"call" mum,1,O,,', "Expected CSV, got"),
        (b"call,1,O,7,", "Expected a JSON object"),
        (b'call,1,O,"{""id"": 7}",', "Expected every field once, got 'id' twice"),
        (b'call,1,O,"{""day"": 7}",', "Expected every field once, got 'day' twice"),
        (b"x" * 140_000 + b",1,O,,", "field larger than field limit"),
    ],
)
def test_bad_row_is_refused_with_its_place(row: bytes, complaint: str) -> None:
    content = b'text,id,slots,extra,day\n"first\nfirst",0,,,\n' + row + b"\nlast,2,,,\n"
    with pytest.raises(InvalidInput, match=rf"^calls\.csv, line 4: .*{complaint}"):
        read_csv(content)
    found, problems = read_csv(content, strict=False)
    assert [u.id for u in found] == ["0", "2"]
    assert [problem.place for problem in problems.first] == [4]


def test_iob1_labels_are_repaired_when_lenient() -> None:
    found, problems = read_csv("text,slots\ncall mum,O I-who\n", strict=False)
    assert found[0].slots == ("O", "B-who")
    assert problems.repaired == 1


@pytest.mark.parametrize(
    ("header", "columns", "complaint"),
    [
        ("utt,id", Columns(), "Expected a column 'text', got 'utt', 'id'"),
        ("text,id", Columns(text="utt"), "'text' as well: rename or drop it"),
        ("utt,id", Columns(text="utt", user="who"), "Expected a column 'who'"),
        ("text,text", Columns(), "Expected every column once, got 'text' twice"),
        ('"text', Columns(), "Expected CSV, got unexpected end of data"),
        ("t\udce9xt".encode("utf-8", "surrogateescape").decode("latin-1"), Columns(), "a column"),
    ],
)
def test_bad_header_is_refused_even_when_lenient(
    header: str, columns: Columns, complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=rf"^calls\.csv, line 1: .*{complaint}"):
        read_csv(f"{header}\na,b\n", columns, strict=False)


def test_quote_that_never_closes_is_refused() -> None:
    with pytest.raises(InvalidInput, match="line 3: Expected CSV, got unexpected end of data"):
        read_csv('text\na\n"b\nc\n')


def test_line_over_the_limit_ends_the_reading_even_when_lenient() -> None:
    with pytest.raises(InvalidInput, match=r"^calls\.csv, line 2: Expected at most 10 bytes"):
        read_csv("text\n" + "x" * 20 + "\nlast\n", strict=False, limit=10)


def test_two_fields_may_not_share_a_column() -> None:
    with pytest.raises(InvalidInput, match="a different column per field, got 'user' twice"):
        Columns(id="user")
