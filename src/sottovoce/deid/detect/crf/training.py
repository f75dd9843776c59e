"""Training a tagger on labelled utterances.

Nothing of the corpus stays in the tagger but weights and words: a tagger trained on private text
holds private words and must be kept like the text itself.

Recall grows with caution and precision falls, so the least caution that finds enough is the one to
take. Chosen on the test set it would flatter the figure that is then measured there.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sottovoce import _validate
from sottovoce.corpora import Utterance, spans_of
from sottovoce.deid.detect.combination import Combination
from sottovoce.deid.detect.crf.features import Basic, Features, Reading
from sottovoce.deid.detect.crf.general import General, lexicon_from
from sottovoce.deid.detect.crf.tagger import Tagger, labels_for
from sottovoce.deid.detect.detector import Detector
from sottovoce.deid.detect.evaluation import evaluate
from sottovoce.deid.detect.labels import LabelMap
from sottovoce.deid.detect.words import words_of
from sottovoce.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class TaggerTraining:
    """How a tagger is trained: penalties, iterations, and the rarest feature that is kept.

    With `both_cases` it sees text with capitals in lower case too, as speech would be written.
    """

    l1: float = 0.1
    l2: float = 0.01
    iterations: int = 80
    least_count: int = 2
    both_cases: bool = True

    def __post_init__(self) -> None:
        _validate.not_negative("l1", self.l1)
        _validate.not_negative("l2", self.l2)
        _validate.at_least_one("iterations", self.iterations)
        _validate.at_least_one("least_count", self.least_count)


def train(
    utterances: Iterable[Utterance],
    labels: LabelMap,
    options: TaggerTraining | None = None,
    *,
    progress: Callable[[int], None] | None = None,
    lexicon: bytes = b"",
) -> Tagger:
    """Train a tagger to find what the mapping calls private.

    With a lexicon (lines of a word, a tab and its classes) it reads words as `General` does.

    >>> calls = [Utterance(tokens=("call", name), slots=("O", "B-contact"))
    ...          for name in ("anna", "ben", "eve")] * 3
    >>> tagger = train(calls, LabelMap({"contact": "PER"}))
    >>> tagger.find(calls[:1])
    [[Span(start=5, end=9, type='PER')]]
    """
    import pycrfsuite  # type: ignore[import-untyped]

    options = options or TaggerTraining()
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(
        {
            "c1": options.l1,
            "c2": options.l2,
            "max_iterations": options.iterations,
            "feature.minfreq": options.least_count,
            # A private value begins or goes on only after what can come before it.
            "feature.possible_transitions": True,
        }
    )
    reading: Reading = General(lexicon_from(lexicon.decode())) if lexicon else Basic()
    features, types = Features(reading.lists_of), Counter[str]()
    count = 0
    for count, utterance in enumerate(utterances, 1):
        words = words_of(utterance.text)
        if not words:
            continue
        spans = labels.typed(spans_of(utterance))
        types.update(span.type for span in spans)
        text, marks = utterance.text, labels_for(words, spans)
        originals = [text[word.start : word.end] for word in words]
        trainer.append(features.of(reading.marked(text, originals)), marks)
        if options.both_cases and not text.islower():
            # Without this a tagger of written text relies on capitals and fails on transcripts.
            lower = reading.marked(text.lower(), [word.lower for word in words])
            trainer.append(features.of(lower), marks)
        if progress is not None:
            progress(count)
    if not types:
        raise InvalidInput(
            f"Expected private labels to learn from, got none in {count} utterances."
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        trainer.train(str(path))
        model = path.read_bytes()
    about = {
        "types": sorted(types),
        "utterances": count,
        "examples": dict(sorted(types.items())),
        "training": asdict(options),
    }
    return Tagger(model, about, lexicon=lexicon)


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

    >>> from sottovoce.deid.detect.labels import mapping
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
