"""SRILM's N-best files: a folder with one file per utterance, optionally compressed.

A plain line is `acoustic language count word ...` with base-10 logarithms. After the header
`NBestList1.0`, lines are `(bytelog) word ...`, where log10 = bytelog * 1024 / 10000.5 / ln 10.
"""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from sottovoce.corpora.lines import LINE_LIMIT, Problems, open_bytes, text_lines
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.personalize.nbest.formats._tables import known, number
from sottovoce.personalize.nbest.lists import Hypothesis, NBest

_HEADER = "NBestList1.0"
_BYTELOG = 1024 / 10000.5
_SUFFIXES = (".gz", ".nbest", ".score")


def read_srilm(path: Path | str, problems: Problems) -> Iterator[NBest]:
    """The lists of a folder, sorted by name, or the single list of a file."""
    path = Path(path)
    files = sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
    if not files:
        raise InvalidInput(f"Expected N-best files in {path}, got none.")
    for order, file in enumerate(files):
        problems.name = str(file)
        yield NBest(_id(file), tuple(_hypotheses(file, problems)), order=order)


def write_srilm(folder: Path | str, lists: Iterable[NBest]) -> None:
    """One plain file per utterance; acoustic and language scores are required."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for each in lists:
        if Path(each.id).name != each.id:
            raise InvalidInput(f"Expected an id that is a valid file name, got {each.id!r}.")
        with text_output(folder / f"{each.id}.nbest") as stream:
            for h in each.hypotheses:
                am = known(h.am, "am", each.id) / math.log(10)
                lm = known(h.lm, "lm", each.id) / math.log(10)
                stream.write(" ".join([f"{am!r} {lm!r} {len(h.words)}", *h.words]) + "\n")


def _hypotheses(file: Path, problems: Problems) -> Iterator[Hypothesis]:
    bytelogs = False
    with open_bytes(file) as stream:
        for place, line in text_lines(stream, problems, LINE_LIMIT):
            if line.strip() == _HEADER:
                bytelogs = True
                continue
            try:
                yield _with_bytelog(line) if bytelogs else _plain(line)
            except InvalidInput as problem:
                problems.reject(place, problem)


def _plain(line: str) -> Hypothesis:
    fields = line.split()
    if len(fields) < 3:
        raise InvalidInput(f"Expected two scores and a word count, got {line!r:.60}.")
    am, lm = (number(field) * math.log(10) for field in fields[:2])
    return Hypothesis(" ".join(fields[3:]), am=am, lm=lm)


def _with_bytelog(line: str) -> Hypothesis:
    score, closed, words = line.strip().removeprefix("(").partition(")")
    if not closed:
        raise InvalidInput(f"Expected a score in brackets, got {line!r:.60}.")
    # Byte logarithms are scaled natural logarithms, so ln 10 cancels.
    return Hypothesis(words, score=number(score) * _BYTELOG)


def _id(file: Path) -> str:
    name = file.name
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name
