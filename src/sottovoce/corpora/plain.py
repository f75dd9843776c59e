"""Plain text: one utterance per line, without labels.

Reading splits at white space and labels all tokens "O"; blank lines are skipped and counted.
Writing keeps the text only: labels, intents and users need another format.
"""

from collections.abc import Iterator
from typing import BinaryIO

from sottovoce.corpora.lines import Problems, check_characters, refuse_bom, text_lines
from sottovoce.corpora.records import OUTSIDE, Utterance
from sottovoce.errors import InvalidInput


def read_plain(stream: BinaryIO, problems: Problems, limit: int) -> Iterator[Utterance]:
    """Utterances of a stream, one at a time."""
    for _, line in text_lines(stream, problems, limit):
        tokens = tuple(line.split())
        yield Utterance(tokens=tokens, slots=(OUTSIDE,) * len(tokens), text=line)


def plain_line(utterance: Utterance) -> bytes:
    """The text of one utterance as a line.

    >>> plain_line(Utterance(tokens=("call", "mum"), slots=("O", "B-who")))
    b'call mum\\n'
    """
    text = utterance.text
    if not text.strip() or "\n" in text or text.endswith("\r"):
        raise InvalidInput(
            f"Expected a text on one line that is not blank, got {_problem(text)}: write JSONL "
            "instead."
        )
    check_characters(text)
    refuse_bom(text)
    return f"{text}\n".encode()


def _problem(text: str) -> str:
    return "line breaks" if text.strip() else "a blank text"
