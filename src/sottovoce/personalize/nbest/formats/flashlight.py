"""flashlight and wav2letter: `id | total | am | lm | wer | text`, one hypothesis per line."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

from sottovoce.corpora.lines import LINE_LIMIT, Problems, open_bytes, text_lines
from sottovoce.errors import InvalidInput
from sottovoce.personalize.nbest.formats._tables import known, number
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.personalize.rescoring.wer import word_errors


def read_flashlight(path: Path | str, problems: Problems) -> Iterator[NBest]:
    """Lists in file order; the lines of one utterance are contiguous."""
    with open_bytes(path) as stream:
        rows = _rows(text_lines(stream, problems, LINE_LIMIT), problems)
        for utterance, lines in groupby(rows, key=lambda row: row[0]):
            yield NBest(utterance, tuple(hypothesis for _, hypothesis in lines))


def write_flashlight(stream: BinaryIO, lists: Iterable[NBest]) -> None:
    """Write all scores; the error rate is computed if there is a reference, else 0."""
    for each in lists:
        if "|" in each.id or not each.id.strip():
            raise InvalidInput(f"Expected an id without a bar, got {each.id!r}.")
        for h in each.hypotheses:
            scores = [known(getattr(h, n), n, each.id) for n in ("score", "am", "lm")]
            wer = 0.0
            if each.reference:
                errors = word_errors(each.reference, h.text)
                wer = 100 * errors.count / errors.words
            columns = [each.id, *map(repr, scores), f"{wer:g}", h.text]
            stream.write((" | ".join(columns)).encode() + b"\n")


def _rows(lines: Iterable[tuple[int, str]], problems: Problems) -> Iterator[tuple[str, Hypothesis]]:
    for place, line in lines:
        try:
            # The text is the last column, so it may contain bars.
            columns = [column.strip() for column in line.split("|", 5)]
            if len(columns) != 6 or not columns[0]:
                raise InvalidInput(f"Expected six columns separated by bars, got {line!r:.60}.")
            total, am, lm = (number(column) for column in columns[1:4])
            yield columns[0], Hypothesis(columns[5], am=am, lm=lm, score=total)
        except InvalidInput as problem:
            problems.reject(place, problem)
