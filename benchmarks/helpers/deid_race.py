"""The race of de-identification: tokens a second of ours, of Presidio and of a spaCy tagger.

All run on utterances of the same corpus in the same process, in turns, so that other work on the
machine hits all alike; the best of several rounds counts, by processor time. Ours replace what they
find. Presidio has a blank spaCy engine (patterns only) and batch mode; a tagger of spaCy's own kind
is trained here and only finds.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sottovoce.corpora import Utterance
from sottovoce.corpora.synthetic import DOMAINS, generate
from sottovoce.deid import Deidentifier, Setting, mapping
from sottovoce.deid.detect import Combination, Gazetteer, Gold, Patterns, detector

GAZETTEER_SIZE = 50_000
REPEATS = 15
TARGETS = {"gazetteer and patterns": 400_000, "tagger and patterns": 100_000}
PRESIDIO_UTTERANCES = 500
SPACY_UTTERANCES, SPACY_TRAINING, SPACY_PASSES, SPACY_BATCH = 500, 6_000, 3, 64
TRAIN_SEED, CORPUS_SEED = 8, 9

Figures = dict[str, Any]


def corpus(size: int) -> list[Utterance]:
    """Utterances of all built-in domains, about `size` of them."""
    return _drawn(size, CORPUS_SEED)


def large_gazetteer() -> Gazetteer:
    """Fifty thousand people: first and last names of the public lists, paired."""
    from sottovoce.corpora.synthetic import lexicon

    first, last = lexicon("first_names"), lexicon("last_names")
    people = [f"{a} {b}" for a in first for b in last][: GAZETTEER_SIZE - len(first)]
    return Gazetteer({"PER": [*first, *people], "LOC": lexicon("cities")})


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Work on some utterances, and what else there is to say about it."""

    work: Callable[[], object]
    utterances: list[Utterance]
    about: Figures = field(default_factory=dict)


def race(utterances: list[Utterance], repeats: int = REPEATS) -> Figures:
    """Tokens a second of all that are installed."""
    peers = {"presidio": presidio(utterances), "spacy": spacy_tagger(utterances)}
    runners = ours(utterances) | {name: peer for name, peer in peers.items() if peer is not None}
    best = dict.fromkeys(runners, float("inf"))
    for _ in range(repeats):
        for name, runner in runners.items():
            began = time.process_time()
            runner.work()
            best[name] = min(best[name], time.process_time() - began)
    found = {}
    for name, runner in runners.items():
        tokens = sum(len(utterance.tokens) for utterance in runner.utterances)
        found[name] = {
            "utterances": len(runner.utterances),
            "tokens": tokens,
            "tokens_per_second": round(tokens / best[name]),
            **runner.about,
        }
    return {
        "speed": {name: found[name] for name in TARGETS},
        **{name: found.get(name) for name in peers},
    }


def ours(utterances: list[Utterance]) -> dict[str, Runner]:
    texts = [utterance.text for utterance in utterances]
    detectors = {
        "gazetteer and patterns": Combination([large_gazetteer(), Patterns()]),
        "tagger and patterns": detector("tagger"),
    }
    runners = {}
    for name, chosen in detectors.items():
        deid = Deidentifier(detector=chosen, setting=Setting(strategy="entity", epsilon=3.0))

        def work(deid: Deidentifier = deid) -> int:
            return sum(1 for _ in deid.release_texts(texts))

        about = {"target": TARGETS[name]}
        runners[name] = Runner(work=work, utterances=utterances, about=about)
    return runners


def presidio(utterances: list[Utterance]) -> Runner | None:
    """Presidio's batch mode with a blank engine; None where it is not installed."""
    try:
        import spacy
        from presidio_analyzer import (
            AnalyzerEngine,
            BatchAnalyzerEngine,
        )
        from presidio_analyzer.nlp_engine import NlpEngineProvider
        from presidio_anonymizer import BatchAnonymizerEngine
    except ImportError:
        return None
    some = utterances[:: max(1, len(utterances) // PRESIDIO_UTTERANCES)]
    texts: list[Any] = [utterance.text for utterance in some]
    with tempfile.TemporaryDirectory() as folder:
        spacy.blank("en").to_disk(folder)
        provider = NlpEngineProvider(
            nlp_configuration={
                "nlp_engine_name": "spacy",
                "models": [{"lang_code": "en", "model_name": folder}],
            }
        )
        engine = AnalyzerEngine(nlp_engine=provider.create_engine(), supported_languages=["en"])
    batch, anonymizer = BatchAnalyzerEngine(analyzer_engine=engine), BatchAnonymizerEngine()

    def work() -> object:
        found: Any = batch.analyze_iterator(texts=texts, language="en", batch_size=128)
        return anonymizer.anonymize_list(texts=texts, recognizer_results_list=found)

    return Runner(work=work, utterances=some)


def spacy_tagger(utterances: list[Utterance]) -> Runner | None:
    """spaCy's default tagger, trained on other utterances; None where it is not installed.

    It is trained for its speed, not for its labels: those are not compared.
    """
    try:
        import spacy
        from spacy.training import Example
        from thinc.api import fix_random_seed
    except ImportError:
        return None
    gold = Gold(mapping("built-in"))
    some = utterances[:: max(1, len(utterances) // SPACY_UTTERANCES)]
    texts = [utterance.text for utterance in some]
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    examples = []
    learnt = _drawn(SPACY_TRAINING, TRAIN_SEED)
    for utterance, spans in zip(learnt, gold.find(learnt), strict=True):
        doc = nlp.make_doc(utterance.text)
        # Its tokens may be cut otherwise than ours.
        spans = [span for span in spans if doc.char_span(span.start, span.end)]
        examples.append(Example.from_dict(doc, {"entities": [tuple(span) for span in spans]}))
    fix_random_seed(0)
    nlp.initialize(lambda: examples)
    for _ in range(SPACY_PASSES):
        for start in range(0, len(examples), SPACY_BATCH):
            nlp.update(examples[start : start + SPACY_BATCH])
    about = {"trained_on": SPACY_TRAINING}
    return Runner(work=lambda: list(nlp.pipe(texts)), utterances=some, about=about)


def _drawn(size: int, seed: int) -> list[Utterance]:
    return [u for domain in DOMAINS for u in generate(domain, size=size // 3, seed=seed)]
