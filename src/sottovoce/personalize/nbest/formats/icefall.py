"""icefall's `recogs-*.txt`: lines `id: ref=[...]` and `id: hyp=[...]`, with words as a Python list.

Several `hyp` lines of one id, in one file or in several files of a folder, are its hypotheses in
order. A number after the list, if there is one, is the score.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from sottovoce.corpora.lines import LINE_LIMIT, Problems, open_bytes, text_lines
from sottovoce.errors import InvalidInput
from sottovoce.personalize.nbest.formats._tables import number
from sottovoce.personalize.nbest.lists import Hypothesis, NBest

_LINE = re.compile(
    r"(?P<id>\S+?):?\s+(?P<kind>ref|hyp)=(?P<words>\[.*\]|\S.*?)(?:\t(?P<score>\S+))?"
)


def read_icefall(path: Path | str, problems: Problems) -> Iterator[NBest]:
    """Lists in the order of the first file; ids of cuts lose nothing but the colon."""
    files = sorted(Path(path).glob("recogs-*.txt")) if Path(path).is_dir() else [Path(path)]
    if not files:
        raise InvalidInput(f"Expected files named recogs-*.txt in {path}, got none.")
    references: dict[str, str] = {}
    heard: dict[str, list[Hypothesis]] = {}
    for file in files:
        with open_bytes(file) as stream:
            for place, line in text_lines(stream, problems, LINE_LIMIT):
                try:
                    found = _LINE.fullmatch(line.strip())
                    if found is None:
                        raise InvalidInput(f"Expected id: hyp=[...], got {line!r:.60}.")
                    text = _words(found["words"])
                    if found["kind"] == "ref":
                        references[found["id"]] = text
                        continue
                    score = None if found["score"] is None else number(found["score"])
                    heard.setdefault(found["id"], []).append(Hypothesis(text, score=score))
                except InvalidInput as problem:
                    problems.reject(place, problem)
    for name, hypotheses in heard.items():
        yield NBest(name, tuple(hypotheses), references.get(name))


def _words(text: str) -> str:
    """The words of a printed list; older versions print the text itself."""
    if not text.startswith("["):
        return text
    try:
        words = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as problem:
        raise InvalidInput(f"Expected a list of words, got {text!r:.60}.") from problem
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InvalidInput(f"Expected a list of words, got {text!r:.60}.")
    return " ".join(words)
