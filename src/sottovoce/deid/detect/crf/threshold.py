"""Choosing the caution of a tagger, on annotated text that it was neither trained nor tested on.

Recall grows with caution and precision falls, so the least caution that finds enough is the one to
take. Chosen on the test set it would flatter the figure that is then measured there.
"""

from collections.abc import Iterable, Sequence

from sottovoce import _validate
from sottovoce.corpora import Utterance
from sottovoce.deid.detect.combination import Combination
from sottovoce.deid.detect.crf.tagger import Tagger
from sottovoce.deid.detect.detector import Detector
from sottovoce.deid.detect.evaluation import evaluate
from sottovoce.deid.detect.labels import LabelMap
from sottovoce.errors import InvalidInput

CAUTIONS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)


def choose_caution(
    tagger: Tagger,
    utterances: Iterable[Utterance],
    labels: LabelMap,
    *,
    recall: float,
    beside: Sequence[Detector] = (),
) -> float:
    """The least of `CAUTIONS` at which this share of the private words is found.

    `beside` are detectors that will run beside the tagger. If no caution is enough, that is
    refused: then the tagger needs more to learn from.

    >>> from sottovoce.deid.detect.mappings import mapping
    >>> from sottovoce.corpora.synthetic import generate
    >>> calls = list(generate("communication", size=50, seed=5))
    >>> choose_caution(Tagger.shipped(), calls, mapping("communication"), recall=0.9)
    0.0
    """
    _validate.probability("recall", recall)
    corpus = list(utterances)
    found = 0.0
    for caution in CAUTIONS:
        wary = tagger.with_caution(caution)
        found = evaluate(Combination([wary, *beside]), corpus, labels).recall
        if found >= recall:
            return caution
    raise InvalidInput(
        f"Expected a recall of {recall:g} at some caution up to {CAUTIONS[-1]:g}, got {found:.4f}; "
        "train on more text, or ask for less."
    )
