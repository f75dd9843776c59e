"""How much detectors find of public text, and how much they mark needlessly, in the same run.

Words are counted: precision, recall, F1 and F2 of people, places and organisations (of all types
for Presidio's sentences), and the share of all words that would be replaced. Only valid parts and
text that nothing was trained on; EWT and wikigold by the last fifth, which `accurate` has not seen
(`fast` has: its rows for these two are left out). Peers run where they are installed.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from sottovoce.corpora import Utterance, read, spans_of
from sottovoce.deid.detect import Combination, Detector, detector
from sottovoce.deid.detect.adapters import PresidioDetector
from sottovoce.deid.detect.crf.general_corpus import public
from sottovoce.deid.detect.detector import utterance_of
from sottovoce.deid.detect.evaluation import marks_of
from sottovoce.deid.detect.labels import LabelMap, mapping

Figures = dict[str, Any]
_NEWS = ("PER", "LOC", "ORG")
_BATCH = 256


@dataclass(frozen=True)
class Text:
    """Utterances, their labels (None: nothing is annotated), and the types that count."""

    utterances: list[Utterance]
    labels: LabelMap | None = None
    kinds: tuple[str, ...] | None = _NEWS


def texts(data: Path, every: int) -> dict[str, Text]:
    """The sets by name; of each, one in `every` utterances."""
    news = LabelMap({kind: kind for kind in _NEWS}, frozenset({"MISC", "DATE", "TIME"}))
    conll = list(read(data / "ner/conll2003/valid.jsonl"))[::every]
    lower = [
        Utterance(tokens=tuple(token.lower() for token in each.tokens), slots=each.slots)
        for each in conll
    ]
    films = list(read(data / "ner/mit-movie/valid.jsonl"))[::every]
    names = {slot[2:] for each in films for slot in each.slots if slot != "O"}
    people = {name: "PER" for name in names if name.lower() in ("actor", "director")}
    standard = mapping("standard")
    untitled = LabelMap(
        {label: kind for label, kind in standard.private.items() if label != "TITLE"},
        frozenset({"TITLE"}),
    )
    return {
        "web text (ewt), held out": Text(list(public(data, "ewt", held_out=True)), news),
        "wikigold, held out": Text(list(public(data, "wikigold", held_out=True)), news),
        "CoNLL-2003, valid": Text(conll, news),
        "CoNLL-2003, valid, lower case": Text(lower, news),
        "film questions, valid": Text(films, LabelMap(people, frozenset(names - people.keys()))),
        "presidio-synth-v2, all types": Text(
            list(read(data / "deid/presidio-synth-v2.jsonl", "spans"))[::every], untitled, None
        ),
        "ICSI meetings, valid": Text(
            list(islice(_plain(data / "text/icsi-mrda.valid.txt.gz"), 0, None, 4 * every))
        ),
    }


def _plain(path: Path) -> Iterator[Utterance]:
    for utterance in read(path, "text"):
        yield utterance_of(utterance.text)


def detectors() -> Mapping[str, Detector]:
    """Ours, and those of others that are installed."""
    found: dict[str, Detector] = {
        name: Combination(detector(name).detectors) for name in ("fast", "accurate")
    }
    try:
        from presidio_analyzer import AnalyzerEngine
        from presidio_analyzer.nlp_engine import NlpEngineProvider
    except ModuleNotFoundError:
        return found
    engine = NlpEngineProvider(
        nlp_configuration={
            "nlp_engine_name": "spacy",
            "models": [{"lang_code": "en", "model_name": "en_core_web_sm"}],
        }
    ).create_engine()
    found["presidio"] = PresidioDetector(AnalyzerEngine(nlp_engine=engine))
    return found


def measured(data: Path, every: int) -> Figures:
    """A row a set and detector."""
    found: Figures = {}
    for name, chosen in detectors().items():
        for title, text in texts(data, every).items():
            if name == "fast" and "held out" in title:
                continue
            found[f"{title}: {name}"] = _row(chosen, text)
    return found


def _row(chosen: Detector, text: Text) -> Figures:
    hits = needless = missed = words = replaced = 0
    began = time.process_time()
    answers = []
    for first in range(0, len(text.utterances), _BATCH):
        answers += chosen.find(text.utterances[first : first + _BATCH])
    seconds = time.process_time() - began
    for utterance, spans in zip(text.utterances, answers, strict=True):
        marks = marks_of(utterance.text, spans)
        words += len(marks)
        replaced += sum(map(bool, marks))
        if text.labels is None:
            continue
        gold = marks_of(utterance.text, text.labels.typed(spans_of(utterance)))
        for mark, kind in zip(marks, gold, strict=True):
            hits += bool(mark and kind)
            missed += bool(kind and not mark)
            needless += bool(mark and not kind and (text.kinds is None or mark in text.kinds))
    row: Figures = {
        "replaced": round(replaced / words, 4),
        "words_per_second": round(words / seconds),
    }
    if text.labels is None:
        return row
    precision, recall = hits / max(1, hits + needless), hits / max(1, hits + missed)
    scores = {
        f"f{beta}": (1 + beta**2) * precision * recall / max(1e-9, beta**2 * precision + recall)
        for beta in (1, 2)
    }
    share = (hits + missed) / words
    told = {"precision": precision, "recall": recall, **scores, "private": share}
    return {name: round(value, 4) for name, value in told.items()} | row
