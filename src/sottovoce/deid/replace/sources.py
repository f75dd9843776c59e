"""Registry of surrogate sources: where replacement lists come from.

What a third-party source says about its lists becomes an assumption of the guarantee.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sottovoce._registry import Registry
from sottovoce.corpora import Utterance
from sottovoce.deid.detect import Detector
from sottovoce.deid.replace.counted import counted_surrogates, private_surrogates
from sottovoce.deid.replace.surrogates import Surrogates, read_surrogates
from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import SurrogateSource
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
    return _mark_claims(lists, name, module, saw_corpus=request.saw_corpus)


def _mark_claims(
    lists: Mapping[str, Surrogates], name: str, module: str, *, saw_corpus: bool
) -> dict[str, Surrogates]:
    """The lists of a registered source, with claims about their origin marked.

    A source that read the corpus cannot declare its lists public.
    """
    who = f"the surrogate source {name} of {module}"
    found = {}
    for kind, listed in lists.items():
        if not isinstance(listed, Surrogates):
            raise InvalidInput(f"Expected Surrogates of {kind} from {who}, got {listed!r}.")
        if saw_corpus and listed.origin is SurrogateSource.PUBLIC and not _paid(listed):
            listed = replace(listed, origin=SurrogateSource.SAME_CORPUS)
        claim = (
            f"nothing private went into {who}"
            if listed.origin is SurrogateSource.PUBLIC and not _paid(listed)
            else f"{who} costs what it says"
        )
        found[kind] = replace(listed, assumptions=(*listed.assumptions, claim))
    return found


def _paid(listed: Surrogates) -> bool:
    return listed.histogram.get("epsilon", 0.0) > 0
