"""Makes the tagger that this package ships: `python -m sottovoce.deid.detect.crf.shipping [PATH]`.

It learns from the built-in corpora, in lower case as they are spoken and in written form (capitals,
a full stop). Its caution is the least that finds `RECALL` of every domain in utterances of other
users, and it is tested on those of yet others. Takes ten minutes.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sottovoce.corpora import Utterance, from_spans, spans_of
from sottovoce.corpora.synthetic import DOMAINS, generate
from sottovoce.deid.detect.combination import Combination
from sottovoce.deid.detect.crf.tagger import Tagger
from sottovoce.deid.detect.crf.training import TaggerTraining, choose_caution, train
from sottovoce.deid.detect.evaluation import Evaluation, evaluate
from sottovoce.deid.detect.labels import mapping
from sottovoce.deid.detect.patterns import Patterns

TRAIN_SEED, TEST_SEED, VALID_SEED = 101, 202, 303
# Little of what is said to a television is private, so it takes more of it to learn from.
TRAIN_SIZES = {"communication": 40_000, "health": 40_000, "video": 100_000}
TEST_SIZE, VALID_SIZE = 3_000, 10_000
RECALL = 0.994
OPTIONS = TaggerTraining(l1=0.15, l2=0.01, iterations=120, least_count=2)


def training_corpus() -> Iterator[Utterance]:
    """The three domains; every fourth utterance is written rather than spoken."""
    for domain in DOMAINS:
        corpus = generate(domain, size=TRAIN_SIZES[domain], seed=TRAIN_SEED)
        for number, spoken in enumerate(corpus):
            yield written(spoken) if number % 4 == 3 else spoken


def held_out_corpus(size: int = TEST_SIZE) -> Iterator[Utterance]:
    """Other users, other utterances, as they are spoken."""
    for domain in DOMAINS:
        yield from generate(domain, size=size, seed=TEST_SEED)


def caution_for(tagger: Tagger, recall: float = RECALL) -> float:
    """The least caution with which this share of the private words of every domain is found."""
    labels = mapping("built-in")
    return max(
        choose_caution(
            tagger,
            generate(domain, size=VALID_SIZE, seed=VALID_SEED),
            labels,
            recall=recall,
            beside=[Patterns()],
        )
        for domain in DOMAINS
    )


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


def ship(tagger: Tagger, path: Path) -> Evaluation:
    """Choose the caution, test, and write the file."""
    tagger.about["caution"] = caution_for(tagger)
    tagger = tagger.with_caution(tagger.own_caution)
    tested = evaluate(Combination([tagger, Patterns()]), held_out_corpus(), mapping("built-in"))
    tagger.about["evaluation"] = tested.to_json()
    sizes = ", ".join(f"{size} of {domain}" for domain, size in TRAIN_SIZES.items())
    tagger.about["corpora"] = f"built-in, {sizes}, seed {TRAIN_SEED}"
    tagger.save(path)
    Tagger.load(path)
    return tested


def main() -> None:
    """Train, and write the file to the path that was given, else beside this module."""
    path = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_name("default.tagger")
    tested = ship(train(training_corpus(), mapping("cautious"), OPTIONS), path)
    print(json.dumps({"bytes": path.stat().st_size, **tested.to_json()}, indent=1))


if __name__ == "__main__":
    main()
