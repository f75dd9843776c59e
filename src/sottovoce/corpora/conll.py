"""CoNLL: one token and its BIO label per line, a blank line after each utterance.

Columns are separated by tabs, or by spaces in lines without a tab. The first is the token, the last
its label; others are ignored. Comments before the first token hold the other fields:
`# intent = ...`, `# user = ...`, `# id = ...`, `# text = ...`, any other `# key = ...` (kept in
`extra`), and `# json = {...}` for values that do not fit on one line. `-DOCSTART-` is skipped.
"""

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from sottovoce.corpora.jsonl import dump_object, parse_object
from sottovoce.corpora.lines import (
    Problem,
    Problems,
    byte_lines,
    check_characters,
    decoded,
    refuse_bom,
)
from sottovoce.corpora.objects import accept, to_object
from sottovoce.corpora.records import Utterance
from sottovoce.errors import InvalidInput

DOCUMENT_START = "-DOCSTART-"

_COMMENT = re.compile(r"# ?([A-Za-z_][\w.-]*) = (.*)")
_LABEL = re.compile(r"O|[BI]-.+")
_PLAIN_COMMENTS = ("id", "user", "intent", "text")


def read_conll(stream: BinaryIO, problems: Problems, limit: int) -> Iterator[Utterance]:
    """Utterances of a stream, one at a time; a bad line rejects the whole utterance."""
    block = _Block()
    for number, raw in byte_lines(stream, problems.name, limit):
        if raw is None or raw.strip():
            block.add(number, raw, limit)
        else:
            yield from block.utterances(problems)
            block = _Block()
    yield from block.utterances(problems)


def conll_block(utterance: Utterance) -> bytes:
    r"""One utterance with its comments and the blank line that ends it.

    >>> print(conll_block(Utterance(tokens=("call", "mum"), slots=("O", "B-who"), id="7"))
    ...       .decode().expandtabs())
    # id = 7
    call    O
    mum     B-who
    <BLANKLINE>
    """
    if utterance.tokens == (DOCUMENT_START,):
        raise InvalidInput(f"Expected an utterance, got {DOCUMENT_START}, a document separator.")
    record = to_object(utterance)
    tokens, slots = record.pop("tokens"), record.pop("slots")
    lines = [
        f"# {key} = {record.pop(key)}"
        for key in _PLAIN_COMMENTS
        if record.get(key) and _fits(record[key])
    ]
    if not record.get("intent"):
        record.pop("intent", None)
    if record:
        lines.append(f"# json = {dump_object(record)}")
    for position, (token, label) in enumerate(zip(tokens, slots, strict=True)):
        if any(mark in token + label for mark in "\t\n\r"):
            raise InvalidInput(
                "Expected tokens and labels without tabs and line breaks, "
                f"got one at token {position}: write JSONL instead."
            )
        lines.append(f"{token}\t{label}")
    text = "\n".join(lines)
    check_characters(text)
    refuse_bom(text)
    return f"{text}\n\n".encode()


class _Block:
    """The lines of one utterance. After a bad line, the others are skipped."""

    def __init__(self) -> None:
        self.record: dict[str, Any] = {}
        self.tokens: list[str] = []
        self.slots: list[str] = []
        self.size = 0
        self.first_line = 0
        self.bad: Problem | None = None

    def add(self, number: int, raw: bytes | None, limit: int) -> None:
        self.first_line = self.first_line or number
        if self.bad is None:
            try:
                self.size += limit + 1 if raw is None else len(raw)
                if raw is None or self.size > limit:
                    raise InvalidInput(f"Expected at most {limit} bytes per utterance, got more.")
                self._take(decoded(raw))
            except InvalidInput as problem:
                self.bad = Problem(number, str(problem))

    def utterances(self, problems: Problems) -> Iterator[Utterance]:
        """The utterance, unless the block is empty, rejected or a document separator."""
        if self.bad is not None:
            problems.reject(*self.bad)
        elif self.first_line and self.tokens != [DOCUMENT_START]:
            try:
                record = {"tokens": self.tokens, "slots": self.slots, **self.record}
                utterance = accept(record, problems)
            except InvalidInput as problem:
                problems.reject(self.first_line, problem)
            else:
                yield utterance

    def _take(self, line: str) -> None:
        comment = None if self.tokens or "\t" in line else _COMMENT.fullmatch(line)
        if comment:
            key, value = comment.groups()
            found = parse_object(value) if key == "json" else {key: value}
            for key in found:
                if key in self.record or key in ("tokens", "slots"):
                    raise InvalidInput(f"Expected every field once, got {key!r} twice.")
            self.record |= found
            return
        columns = line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))
        is_token = len(columns) > 1
        if line.startswith("#") and not self.tokens:
            # A comment, unless a valid label shows that "#" is the token.
            is_token = is_token and _LABEL.fullmatch(columns[-1]) is not None
            if not is_token:
                return
        if not is_token:
            raise InvalidInput("Expected a token and a label, got a single column.")
        self.tokens.append(columns[0])
        self.slots.append(columns[-1])


def _fits(value: str) -> bool:
    return value == value.strip() and "\t" not in value and len(value.splitlines()) == 1
