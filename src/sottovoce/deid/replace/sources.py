"""Registry of surrogate sources: where replacement lists come from."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sottovoce._registry import Registry
from sottovoce.corpora import Utterance
from sottovoce.deid.detect import Detector
from sottovoce.deid.replace.corpus_surrogates import counted_surrogates, private_surrogates
from sottovoce.deid.replace.surrogates import Surrogates, read_surrogates
from sottovoce.deid.replace.third_party import mark_claims
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource


@dataclass(kw_only=True)
class SourceRequest:
    """What a source may use. A source that calls `corpus` has read private text."""

    utterances: Iterable[Utterance] | None = None
    detector: Detector | None = None
    noise: NoiseSource = field(default_factory=NoiseSource)
    epsilon: float = 1.0
    delta: float = 1e-6
    saw_corpus: bool = field(default=False, init=False)

    def corpus(self) -> tuple[Iterable[Utterance], Detector]:
        """The text to be released, and the detector of its private values."""
        self.saw_corpus = True
        if self.utterances is None or self.detector is None:
            raise InvalidInput(
                "Expected one file that can be read twice for surrogates from the corpus, got "
                "other input."
            )
        return self.utterances, self.detector


Source = Callable[[SourceRequest], Mapping[str, Surrogates]]


def _same_corpus(request: SourceRequest) -> Mapping[str, Surrogates]:
    return counted_surrogates(*request.corpus())


def _dp_histogram(request: SourceRequest) -> Mapping[str, Surrogates]:
    return private_surrogates(
        *request.corpus(), epsilon=request.epsilon, delta=request.delta, source=request.noise
    )


SOURCES: Registry[Source] = Registry(
    "surrogate source",
    {"same-corpus": _same_corpus, "dp-histogram": _dp_histogram},
    group="sottovoce.surrogates",
    reserved=("public",),
)


def surrogates_from(name: str, request: SourceRequest | None = None) -> dict[str, Surrogates]:
    """The lists of a source in `SOURCES`, or of a file of type, value and weight."""
    if name not in SOURCES:
        if not Path(name).exists():
            raise InvalidInput(f"{SOURCES.unknown(name)} A file of surrogates works too.")
        return read_surrogates(name)
    request = request or SourceRequest()
    lists = SOURCES.get(name)(request)
    module = SOURCES.origin(name)
    if module is None:
        return dict(lists)
    return mark_claims(lists, name, module, saw_corpus=request.saw_corpus)
