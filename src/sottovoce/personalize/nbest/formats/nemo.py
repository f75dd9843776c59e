"""NeMo's beam search output: `text <tab> score` lines, a fixed number per utterance, no ids.

References are in a JSONL manifest, in the same order. The file has no utterance boundaries, so a
missing line cannot be skipped: it would shift everything after it.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from sottovoce import _validate
from sottovoce.corpora.jsonl import parse_object
from sottovoce.corpora.lines import LINE_LIMIT, Problems, open_bytes, text_lines
from sottovoce.errors import InvalidInput
from sottovoce.personalize.nbest.formats._tables import known, number
from sottovoce.personalize.nbest.lists import Hypothesis, NBest


def read_nemo(
    path: Path | str, problems: Problems, *, beam_size: int, manifest: Path | str | None = None
) -> Iterator[NBest]:
    """Lists named `utterance-1`, `utterance-2` and so on, as the file has no ids."""
    _validate.at_least_one("beam_size", beam_size)
    references = iter(_references(manifest)) if manifest is not None else None
    with open_bytes(path) as stream:
        # A bad line must stop even lenient mode, so this reader is always strict.
        lines = text_lines(stream, Problems(problems.name, strict=True), LINE_LIMIT)
        place = 0
        while rows := list(islice(lines, beam_size)):
            place += 1
            if len(rows) < beam_size:
                raise InvalidInput(
                    f"{problems.name}: Expected {beam_size} lines for every utterance, got "
                    f"{len(rows)} for the last one."
                )
            reference = next(references, None) if references is not None else None
            if references is not None and reference is None:
                raise InvalidInput(
                    f"{problems.name}: Expected as many utterances as the manifest has "
                    f"({place - 1}), got more: check beam_size {beam_size}."
                )
            hypotheses = tuple(_hypothesis(line, number_, problems) for number_, line in rows)
            yield NBest(f"utterance-{place}", hypotheses, reference, order=place)
    if references is not None and next(references, None) is not None:
        raise InvalidInput(
            f"{problems.name}: Expected as many utterances as the manifest has, got {place}."
        )


def write_nemo(stream: BinaryIO, lists: Iterable[NBest]) -> None:
    beam_size = None
    for each in lists:
        beam_size = beam_size or len(each.hypotheses)
        if not beam_size or len(each.hypotheses) != beam_size:
            raise InvalidInput(
                f"Expected the same number of hypotheses for every utterance (the format has no "
                f"other separator), got {len(each.hypotheses)} for {each.id!r}."
            )
        for hypothesis in each.hypotheses:
            score = known(hypothesis.score, "score", each.id)
            stream.write(f"{hypothesis.text}\t{score!r}\n".encode())


def _hypothesis(line: str, place: int, problems: Problems) -> Hypothesis:
    text, tab, score = line.rpartition("\t")
    if not tab:
        raise InvalidInput(
            f"{problems.name}, line {place}: Expected text, a tab and a score, got {line!r:.60}."
        )
    try:
        # "nan" and "null" are words here: only the last column is a number.
        return Hypothesis(text, score=number(score))
    except InvalidInput as problem:
        raise InvalidInput(f"{problems.name}, line {place}: {problem}") from problem


def _references(manifest: Path | str) -> Iterator[str]:
    with open_bytes(manifest) as stream:
        for _, line in text_lines(stream, Problems(str(manifest), strict=True), LINE_LIMIT):
            reference = parse_object(line).get("text")
            if not isinstance(reference, str):
                raise InvalidInput(f"{manifest}: Expected a text in every line, got {line!r:.60}.")
            yield reference
