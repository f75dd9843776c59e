"""The parrot attack (Carrell et al. 2019) on text in which surrogates hide what was missed.

An attacker marks whatever looks private in a part of the released text, trains a tagger on it, and
runs it on the rest. What looks private but is not found by the parrot was probably not found by the
original detector either: it is probably true.
"""

from collections.abc import Iterable, Sequence

from sottovoce.corpora import Span, Utterance, spans_of
from sottovoce.deid.attacks.reader import Attack
from sottovoce.deid.detect.crf.training import TaggerTraining, train
from sottovoce.deid.detect.detector import Detector
from sottovoce.deid.detect.labels import LabelMap
from sottovoce.errors import InvalidInput


def parrot(
    originals: Sequence[Utterance],
    released: Sequence[Utterance],
    detector: Detector,
    labels: LabelMap,
    *,
    options: TaggerTraining | None = None,
) -> Attack:
    """Accuse what the parrot misses; a success is an accused value that had really been missed.

    `labels` are the attacker's eyes: what the annotations call private looks private. The prior is
    the share of missed values among all that look private. A small release may hide all its misses
    from the parrot; then there is nothing to accuse, and that is refused as too little to judge.
    """
    if len(originals) != len(released):
        raise InvalidInput(
            f"Expected a released utterance for each of {len(originals)}, got {len(released)}."
        )
    half = len(released) // 2
    mimic = train(released[:half], labels, options)
    looks = [labels.typed(spans_of(utterance)) for utterance in released[half:]]
    missed = [
        [not _covered(span, found) for span in labels.typed(spans_of(utterance))]
        for utterance, found in zip(originals[half:], detector.find(originals[half:]), strict=True)
    ]
    accused = [
        [not _covered(span, found) for span in spans]
        for spans, found in zip(looks, mimic.find(released[half:]), strict=True)
    ]
    verdicts = [
        (suspicion, truth)
        for suspicions, truths in zip(accused, missed, strict=True)
        if len(suspicions) == len(truths)
        for suspicion, truth in zip(suspicions, truths, strict=True)
    ]
    hits = [truth for suspicion, truth in verdicts if suspicion]
    if not hits:
        raise InvalidInput("Expected values that the parrot misses, got none; release more text.")
    return Attack(
        name="parrot",
        trials=len(hits),
        successes=sum(hits),
        prior=sum(truth for _, truth in verdicts) / len(verdicts),
    )


def _covered(span: Span, found: Iterable[Span]) -> bool:
    return any(other.start < span.end and other.end > span.start for other in found)
