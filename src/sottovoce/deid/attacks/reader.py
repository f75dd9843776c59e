"""Attacks on a release by an attacker with public knowledge.

Every attack reports its success rate, that of blind guessing (the prior) and an exact confidence
interval, to be shown next to epsilon: a success rate above what epsilon allows is a defect. Where
the form of a value is released with it, epsilon holds within a form: the attacker knows the form of
every value, and blind guessing takes the most frequent value of that form.

Frequency matching and singleton membership apply where no epsilon holds (consistent surrogates,
surrogates counted in the corpus).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scipy import stats

from sottovoce.corpora import Span, Utterance, spans_of
from sottovoce.deid.detect.crf.training import TaggerTraining, train
from sottovoce.deid.detect.detector import Detector
from sottovoce.deid.detect.labels import LabelMap
from sottovoce.deid.replace.forms import Classes, canonical
from sottovoce.errors import InvalidInput

CONFIDENCE = 0.95
ALARM = 0.999
"""Confidence for calling a statement wrong: a release has many types."""
SUSPECTED = 0.1
"""The share of values which `kept` supposes to be released by mistake."""

Channel = Callable[[str], Mapping[str, float]]


@dataclass(frozen=True, kw_only=True)
class Attack:
    """The result of an attack: `successes` out of `trials`, against blind guessing at `prior`."""

    name: str
    trials: int
    successes: int
    prior: float

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.trials or not self.trials:
            raise InvalidInput(
                f"Expected successes among at least one trial, got {self.successes} of "
                f"{self.trials}."
            )

    @property
    def success(self) -> float:
        return self.successes / self.trials

    @property
    def interval(self) -> tuple[float, float]:
        """Two-sided Clopper-Pearson interval."""
        tail = (1 - CONFIDENCE) / 2
        found, missed = self.successes, self.trials - self.successes
        high = float(stats.beta.ppf(1 - tail, found + 1, missed)) if missed else 1.0
        return self._at_least(tail), high

    def exceeds(self, allowed: float) -> bool:
        """Whether the success rate is above `allowed`, with confidence `ALARM`."""
        return self._at_least(1 - ALARM) > allowed

    def _at_least(self, tail: float) -> float:
        found, missed = self.successes, self.trials - self.successes
        return float(stats.beta.ppf(tail, found, missed + 1)) if found else 0.0

    @property
    def is_above_prior(self) -> bool:
        """Whether the success rate is significantly above blind guessing."""
        return self.interval[0] > self.prior

    def to_json(self) -> dict[str, Any]:
        return {
            "attack": self.name,
            "trials": self.trials,
            "successes": self.successes,
            "success": self.success,
            "interval": list(self.interval),
            "prior": self.prior,
        }

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.name}: {self.success:.3f} ({low:.3f} to {high:.3f}), blind {self.prior:.3f}, "
            f"{self.trials} trials"
        )


def best_success(epsilon: float, prior: float) -> float:
    """Upper bound on the success of any guess when the likeliest value has probability `prior`.

    Epsilon bounds the ratio of any two likelihoods, hence the posterior odds.

    >>> best_success(0.0, 0.25), round(best_success(math.log(3), 0.5), 6)
    (0.25, 0.75)
    """
    if math.isinf(epsilon) or epsilon > 700:
        return 1.0
    return math.exp(epsilon) * prior / (1 + math.expm1(epsilon) * prior)


Share = tuple[float, float]
"""Of a form: the share of values that have it, and that of its most frequent value."""


def shares_of_forms(
    values: Iterable[str], prior: Mapping[str, float], form: Classes
) -> tuple[Share, ...]:
    """The share of each form among the values, and of its likeliest value by the prior.

    >>> prior = {"mon": 0.25, "tue": 0.25, "12:30": 0.5}
    >>> shares_of_forms(["mon", "tue", "12:30", "12:30"], prior, lambda value: str(len(value)))
    ((0.5, 0.25), (0.5, 0.5))
    """
    counts = Counter(form(canonical(value)) for value in values)
    best = dict.fromkeys(counts, 0.0)
    for value, chance in prior.items():
        name = form(value)
        best[name] = max(best.get(name, 0.0), chance)
    return tuple((count / counts.total(), best[name]) for name, count in counts.items())


def best_success_within(epsilon: float, shares: Iterable[Share]) -> float:
    """Upper bound on the success of any guess that knows the form, if epsilon holds within forms.

    >>> best_success_within(0.0, [(0.5, 0.25), (0.5, 0.5)])
    0.75
    """
    return math.fsum(
        share * best_success(epsilon, min(1.0, best / share)) for share, best in shares
    )


def guess(
    pairs: Iterable[tuple[str, str]],
    channel: Channel,
    prior: Mapping[str, float],
    form: Classes | None = None,
) -> Attack:
    """Bayes-optimal guess: the value of highest posterior probability given the output.

    `pairs` are values and their replacements; the attacker knows the channel, the prior, and the
    `form` of every value.

    >>> identity = guess([("a", "a"), ("b", "b")], lambda value: {value: 1.0}, {"a": 0.5, "b": 0.5})
    >>> identity.success, identity.prior
    (1.0, 0.5)
    """
    form = form or one_form
    pairs = [(canonical(value), canonical(output)) for value, output in pairs]
    rows: dict[str, dict[str, Mapping[str, float]]] = defaultdict(dict)
    for value in prior:
        rows[form(value)][value] = channel(value)
    answers: dict[tuple[str, str], str | None] = {}
    successes = 0
    for value, seen in pairs:
        name = form(value)
        if (name, seen) not in answers:
            candidates = rows[name]
            answers[name, seen] = max(
                candidates,
                key=lambda x: (prior[x] * candidates[x].get(seen, 0.0), prior[x], x),
                default=None,
            )
        successes += answers[name, seen] == value
    return Attack(
        name="prior to posterior",
        trials=len(pairs),
        successes=successes,
        prior=math.fsum(best for _, best in shares_of_forms((x for x, _ in pairs), prior, form)),
    )


def find_kept(
    pairs: Iterable[tuple[str, str]],
    channel: Channel,
    prior: Mapping[str, float],
    form: Classes | None = None,
) -> Attack:
    """Guess as if the mechanism kept more values than its channel says.

    A guess that trusts the channel would overlook a mechanism that does not follow it.

    >>> pairs, prior = [("a", "a"), ("b", "b")], {"a": 0.5, "b": 0.5}
    >>> find_kept(pairs, lambda value: {"a": 0.5, "b": 0.5}, prior).success
    1.0
    """

    def leaking(value: str) -> Mapping[str, float]:
        row = {output: (1 - SUSPECTED) * chance for output, chance in channel(value).items()}
        return row | {value: row.get(value, 0.0) + SUSPECTED}

    return replace(guess(pairs, leaking, prior, form), name="kept values")


def one_form(_: str) -> str:
    """The form of values whose form is not released."""
    return ""


def match_frequencies(pairs: Iterable[tuple[str, str]], known: Mapping[str, float]) -> Attack:
    """Match released values to known values by frequency rank.

    >>> pairs = [("anna", "x")] * 5 + [("ben", "y")] * 2
    >>> match_frequencies(pairs, {"anna": 0.7, "ben": 0.3}).success
    1.0
    """
    pairs = [(canonical(value), canonical(output)) for value, output in pairs]
    ranked = [output for output, _ in Counter(output for _, output in pairs).most_common()]
    by_frequency = sorted(known, key=lambda value: (-known[value], value))
    answers = dict(zip(ranked, by_frequency, strict=False))
    return Attack(
        name="frequency matching",
        trials=len(pairs),
        successes=sum(answers.get(output) == value for value, output in pairs),
        prior=max(known.values()),
    )


def find_singletons(pairs: Iterable[tuple[str, str]], public: Iterable[str] = ()) -> Attack:
    """Which values that occur only once in the corpus appear in the release?

    The prior is the share of them that is in the public list anyway.

    >>> find_singletons([("zoe", "zoe"), ("ann", "ben"), ("ann", "ben")]).success
    1.0
    """
    pairs = [(canonical(value), canonical(output)) for value, output in pairs]
    counts = Counter(value for value, _ in pairs)
    once = [value for value, count in counts.items() if count == 1]
    seen, listed = {output for _, output in pairs}, set(public)
    if not once:
        raise InvalidInput("Expected values that occur once in the corpus, got none.")
    return Attack(
        name="singleton membership",
        trials=len(once),
        successes=sum(value in seen for value in once),
        prior=sum(value in listed for value in once) / len(once),
    )


class ContextModel:
    """Guesses a value from its neighbouring words: counts with back-off.

    >>> model = ContextModel()
    >>> model.learn("call", "mum", "now")
    >>> model.learn("in", "rome", "now")
    >>> model.guess("call", "please")
    'mum'
    """

    def __init__(self) -> None:
        self._both: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._left: dict[str, Counter[str]] = defaultdict(Counter)
        self._right: dict[str, Counter[str]] = defaultdict(Counter)
        self._all: Counter[str] = Counter()

    def learn(self, left: str, value: str, right: str) -> None:
        self._both[left, right][value] += 1
        self._left[left][value] += 1
        self._right[right][value] += 1
        self._all[value] += 1

    def guess(self, left: str, right: str) -> str:
        for counts in (
            self._both.get((left, right)),
            self._left.get(left),
            self._right.get(right),
            self._all,
        ):
            if counts:
                return counts.most_common(1)[0][0]
        raise InvalidInput("Expected a trained context model, got an empty one.")

    @property
    def blind(self) -> str:
        """The most frequent value."""
        return self._all.most_common(1)[0][0]


Context = tuple[str, str, str]
"""The word before a value, the value, and the word after it."""


def reconstruct(known: Iterable[Context], hidden: Sequence[Context]) -> Attack:
    """Learn values in context from other text, then guess the hidden ones.

    No epsilon bounds this attack: the context is released unchanged.

    >>> known = [("call", "mum", "now"), ("in", "rome", "now")]
    >>> reconstruct(known, [("in", "rome", "please")]).successes
    1
    """
    model = ContextModel()
    for left, value, right in known:
        model.learn(left, canonical(value), right)
    values = [canonical(value) for _, value, _ in hidden]
    guesses = [model.guess(left, right) for left, _, right in hidden]
    return Attack(
        name="context reconstruction",
        trials=len(hidden),
        successes=sum(guess == value for guess, value in zip(guesses, values, strict=True)),
        prior=values.count(model.blind) / len(values),
    )


def parrot(
    originals: Sequence[Utterance],
    released: Sequence[Utterance],
    detector: Detector,
    labels: LabelMap,
    *,
    options: TaggerTraining | None = None,
) -> Attack:
    """Flag values that the parrot misses; a success is a flagged value that the detector missed.

    The attacker marks everything that looks private in one part of the released text, trains a
    tagger (the parrot) on it, and runs it on the rest. A value that looks private but that the
    tagger misses was probably missed by the original detector too, so it is probably real.

    `labels` define what looks private to the attacker: whatever the annotations call private. The
    prior is the share of missed values among all that look private. On a small release the parrot
    may miss nothing; then there is nothing to flag, and the attack is refused.
    """
    if len(originals) != len(released):
        raise InvalidInput(
            f"Expected {len(originals)} released utterances, one for each original, got "
            f"{len(released)}."
        )
    half = len(released) // 2
    mimic = train(released[:half], labels, options)
    visible = [labels.typed(spans_of(utterance)) for utterance in released[half:]]
    missed = [
        [not _covered(span, found) for span in labels.typed(spans_of(utterance))]
        for utterance, found in zip(originals[half:], detector.find(originals[half:]), strict=True)
    ]
    flagged = [
        [not _covered(span, found) for span in spans]
        for spans, found in zip(visible, mimic.find(released[half:]), strict=True)
    ]
    verdicts = [
        (flag, truth)
        for flags, truths in zip(flagged, missed, strict=True)
        if len(flags) == len(truths)
        for flag, truth in zip(flags, truths, strict=True)
    ]
    hits = [truth for flag, truth in verdicts if flag]
    if not hits:
        raise InvalidInput("Expected values that the parrot misses, got none: release more text.")
    return Attack(
        name="parrot",
        trials=len(hits),
        successes=sum(hits),
        prior=sum(truth for _, truth in verdicts) / len(verdicts),
    )


def _covered(span: Span, found: Iterable[Span]) -> bool:
    return any(other.start < span.end and other.end > span.start for other in found)
