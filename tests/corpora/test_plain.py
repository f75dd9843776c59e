import io

import pytest

from sottovoce.corpora import Utterance
from sottovoce.corpora.jsonl import plain_line, read_plain
from sottovoce.corpora.lines import LINE_LIMIT, Problems
from sottovoce.errors import InvalidInput


def test_line_comes_back_with_all_its_blanks() -> None:
    problems = Problems("calls.txt", strict=True)
    content = "  call\tmum \n\n \nstop\u2028now\n".encode()
    found = list(read_plain(io.BytesIO(content), problems, LINE_LIMIT))
    assert [u.tokens for u in found] == [("call", "mum"), ("stop", "now")]
    assert problems.blank == 2
    assert b"".join(map(plain_line, found)) == "  call\tmum \nstop\u2028now\n".encode()


@pytest.mark.parametrize("text", ["a\nb", "a\r", "\u3000", "\ufeffa"])
def test_text_that_would_not_come_back_is_not_written(text: str) -> None:
    tokens = tuple(text.split())
    utterance = Utterance(tokens=tokens, slots=("O",) * len(tokens), text=text)
    with pytest.raises(InvalidInput, match="write JSONL instead"):
        plain_line(utterance)
