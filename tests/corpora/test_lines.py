import io

import pytest

from sottovoce.corpora.lines import LINE_LIMIT, Problems, text_lines
from sottovoce.errors import InvalidInput


def lines_of(
    content: bytes, limit: int = LINE_LIMIT, *, strict: bool = True
) -> tuple[list[tuple[int, str]], Problems]:
    problems = Problems("calls.txt", strict=strict)
    return list(text_lines(io.BytesIO(content), problems, limit)), problems


def test_byte_order_mark_and_windows_newlines_are_accepted() -> None:
    found, _ = lines_of(b"\xef\xbb\xbfcall mum\r\nstop\r\n")
    assert found == [(1, "call mum"), (2, "stop")]


def test_line_breaks_of_unicode_do_not_end_a_line() -> None:
    found, _ = lines_of("a\u2028b\x85c\rd\n".encode())
    assert found == [(1, "a\u2028b\x85c\rd")]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"caf\xe9", "the byte 0xe9 at position 3"),
        (b"\xff\xfec\x00", "the byte 0xff at position 0"),
        (b"\xed\xa0\x80", "the byte 0xed"),
        (b"a\x00b", "a NUL byte at character 1"),
        (b"x" * 101, "at most 100 bytes"),
    ],
)
def test_bad_line_is_named_and_can_be_skipped(line: bytes, complaint: str) -> None:
    content = b"first\n" + line + b"\nlast\n"
    with pytest.raises(InvalidInput, match=rf"^calls\.txt, line 2: Expected .*{complaint}"):
        lines_of(content, 100)
    found, problems = lines_of(content, 100, strict=False)
    assert found == [(1, "first"), (3, "last")]
    assert problems.rejected == 1
    assert problems.first[0].place == 2


@pytest.mark.parametrize("size", [99, 100, 101, 250, 1000])
@pytest.mark.parametrize("end", [b"\n", b""])
def test_limit_counts_the_bytes_of_a_line(size: int, end: bytes) -> None:
    found, problems = lines_of(b"x" * size + end, 100, strict=False)
    assert (len(found), problems.rejected) == ((1, 0) if size <= 100 else (0, 1))
