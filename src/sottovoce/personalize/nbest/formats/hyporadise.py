"""HyPoradise's JSON: one list of `{"input": [hypothesis, ...], "output": reference}`."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from sottovoce.corpora.lines import Problems, open_bytes
from sottovoce.errors import InvalidInput
from sottovoce.personalize.nbest.lists import Hypothesis, NBest


def read_hyporadise(path: Path | str, problems: Problems) -> Iterator[NBest]:
    """Lists named `utterance-1` and so on, without scores."""
    problems.unit = "entry"
    with open_bytes(path) as stream:
        try:
            entries = json.loads(stream.read())
        except (ValueError, RecursionError) as problem:
            raise InvalidInput(f"Expected JSON in {problems.name}, got {problem}.") from problem
    if not isinstance(entries, list):
        raise InvalidInput(f"Expected a list in {problems.name}, got {type(entries).__name__}.")
    for place, entry in enumerate(entries, 1):
        match entry:
            case {"input": list(texts), "output": str(reference)} if all(
                isinstance(text, str) for text in texts
            ):
                hypotheses = tuple(Hypothesis(text) for text in texts)
                yield NBest(f"utterance-{place}", hypotheses, reference, order=place)
            case _:
                problems.reject(
                    place, f"Expected an input (a list of texts) and an output, got {entry!r:.60}."
                )


def write_hyporadise(stream: BinaryIO, lists: Iterable[NBest]) -> None:
    """Write texts and references; the format has no scores."""
    entries = [
        {"input": [h.text for h in each.hypotheses], "output": each.reference or ""}
        for each in lists
    ]
    stream.write(json.dumps(entries, ensure_ascii=False, indent=1).encode() + b"\n")
