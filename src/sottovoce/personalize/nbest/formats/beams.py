"""N-best lists of beam searches and decoders: NeMo, flashlight, pyctcdecode and pocketsphinx."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any, BinaryIO

from sottovoce import _validate
from sottovoce.corpora.jsonl import parse_object
from sottovoce.corpora.lines import LINE_LIMIT, Problems, open_bytes, text_lines
from sottovoce.errors import InvalidInput
from sottovoce.personalize.nbest.formats._tables import known, number
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.personalize.rescoring.wer import word_errors


def read_nemo(
    path: Path | str, problems: Problems, *, beam_size: int, manifest: Path | str | None = None
) -> Iterator[NBest]:
    """Lists named `utterance-1`, `utterance-2` and so on, as the file has no ids.

    NeMo writes `text <tab> score` lines, a fixed number per utterance. The file has no utterance
    boundaries, so a missing line cannot be skipped: it would shift everything after it. References
    are in a JSONL manifest, in the same order.
    """
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


def read_flashlight(path: Path | str, problems: Problems) -> Iterator[NBest]:
    """Lists in file order; the lines of one utterance are contiguous.

    flashlight and wav2letter write `id | total | am | lm | wer | text`, one hypothesis per line.
    """
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


def from_beams(utterance: str, beams: Iterable[Sequence[Any]]) -> NBest:
    """The N-best list of one utterance decoded by pyctcdecode.

    pyctcdecode has no file format. A beam of its `decode_beams` is (text, language model state,
    frames, logit_score, lm_score). `lm_score` is the fused total, so the language model's share is
    the total minus the logits.

    >>> from_beams("u1", [("call mum", None, [], -3.0, -4.5)]).best
    Hypothesis(text='call mum', am=-3.0, lm=-1.5, score=-4.5)
    """
    hypotheses = []
    for beam in beams:
        match beam:
            case [str(text), _, _, (int() | float()) as logits, (int() | float()) as total]:
                am, score = float(logits), float(total)
                hypotheses.append(Hypothesis(text, am=am, lm=score - am, score=score))
            case _:
                raise InvalidInput(
                    "Expected beams of (text, state, frames, logit_score, lm_score), got "
                    f"{beam!r:.60}."
                )
    return NBest(utterance, tuple(hypotheses))


def to_beams(nbest: NBest) -> list[tuple[str, None, list[Any], float, float]]:
    """The beams of a list, without decoder state and frames.

    >>> to_beams(from_beams("u1", [("call mum", None, [], -3.0, -4.5)]))
    [('call mum', None, [], -3.0, -4.5)]
    """
    return [
        (h.text, None, [], known(h.am, "am", nbest.id), known(h.score, "score", nbest.id))
        for h in nbest.hypotheses
    ]


# Paths to search per string; a lattice may repeat a few strings endlessly.
_PATHS_PER_STRING = 20


def from_decoder(utterance: str, decoder: Any, size: int = 100) -> NBest:
    """The `size` best distinct strings of a pocketsphinx decoder.

    Its `nbest()` walks the lattice, so the same words recur with different pauses; each string is
    kept once, at its first and best position. It has one combined score, a probability.

    >>> from types import SimpleNamespace as Fake
    >>> paths = [Fake(hypstr="call mum", score=0.5), None, Fake(hypstr="call mum", score=0.4)]
    >>> from_decoder("u1", Fake(nbest=lambda: iter(paths))).hypotheses
    (Hypothesis(text='call mum', am=None, lm=None, score=-0.693...),)
    """
    _validate.at_least_one("size", size)
    found: dict[str, float] = {}
    for looked_at, path in enumerate(decoder.nbest()):
        if len(found) == size or looked_at == size * _PATHS_PER_STRING:
            break
        # The decoder yields None for a path without words.
        if path is not None and path.hypstr is not None:
            found.setdefault(path.hypstr, math.log(max(path.score, 1e-300)))
    return NBest(utterance, tuple(Hypothesis(text, score=score) for text, score in found.items()))
