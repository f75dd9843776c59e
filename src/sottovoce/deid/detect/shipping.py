"""Makes the tagger that this package ships: `python -m sottovoce.deid.detect.shipping`.

It learns from the built-in corpora, in lower case as they are spoken and in written form (capitals,
a full stop), and is tested on utterances of other users.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sottovoce.corpora import Utterance, from_spans, spans_of
from sottovoce.corpora.synthetic import DOMAINS, generate
from sottovoce.deid.detect.combination import Combination
from sottovoce.deid.detect.evaluation import evaluate
from sottovoce.deid.detect.patterns import Patterns
from sottovoce.deid.detect.tagger import Tagger
from sottovoce.deid.detect.training import TaggerTraining, train
from sottovoce.deid.mappings import mapping

TRAIN_SEED, TEST_SEED = 101, 202
TRAIN_SIZE, TEST_SIZE = 20_000, 3_000
OPTIONS = TaggerTraining(l1=0.15, l2=0.01, iterations=80, least_count=2)


def training_corpus(size: int = TRAIN_SIZE) -> Iterator[Utterance]:
    """The three domains; every fourth utterance is written rather than spoken."""
    for domain in DOMAINS:
        for number, spoken in enumerate(generate(domain, size=size, seed=TRAIN_SEED)):
            yield written(spoken) if number % 4 == 3 else spoken


def held_out_corpus(size: int = TEST_SIZE) -> Iterator[Utterance]:
    """Other users, other utterances, as they are spoken."""
    for domain in DOMAINS:
        yield from generate(domain, size=size, seed=TEST_SEED)


def written(spoken: Utterance) -> Utterance:
    """The utterance with capitals at its start and in its names, and a full stop.

    >>> call = Utterance(tokens=("call", "anna", "lee"), slots=("O", "B-contact", "I-contact"))
    >>> written(call).text
    'Call Anna Lee.'
    """
    spans = spans_of(spoken)
    text = spoken.text
    labels = mapping("built-in")
    for start, end, label in spans:
        if labels.type_of(label) in ("PER", "LOC", "ORG", "ADDRESS", "TITLE"):
            text = text[:start] + text[start:end].title() + text[end:]
    text = text[:1].upper() + text[1:] + "."
    return replace(from_spans(text, spans), intent=spoken.intent)


def main() -> None:
    """Train, test, and write the file beside this module."""
    labels = mapping("built-in")
    tagger = train(training_corpus(), mapping("cautious"), OPTIONS)
    together = Combination([tagger, Patterns()])
    tested = evaluate(together, held_out_corpus(), labels)
    tagger.about["evaluation"] = tested.to_json()
    tagger.about["corpora"] = f"built-in, {TRAIN_SIZE} utterances a domain, seed {TRAIN_SEED}"
    path = Path(__file__).with_name("default.tagger")
    tagger.save(path)
    Tagger.load(path)
    print(json.dumps({"bytes": path.stat().st_size, **tested.to_json()}, indent=1))


if __name__ == "__main__":
    main()
