"""How far the personal model is believed: never more than tuning clients and the user bear out.

The total of a hypothesis is that of the background plus weight * gate * (its gains, by class).
Everything that could make a user worse off is switched off where nothing speaks for it:

- *Sources* (everybody's words, everybody's pairs) are used if they make the references of the
  tuning clients more probable.
- *Classes of words* are used if they reduce the expected errors of the tuning clients. If no choice
  of classes does, the result is the background, exactly.
- *Users* have a gate that opens as the model proves to predict their own utterances: the mean gain
  per word so far over `ENOUGH`, with `PRIOR` words added that had the gain of the tuning clients'
  first utterances (none without sources that are shared).

The weight is `STRENGTH` times that of the background's language model. Another one is taken only
if it reduces the expected errors by `SIGNIFICANT` standard errors over clients: few clients would
choose by chance.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.pairs import SharedPairs
from sottovoce.personalize.lm.mixture import WordModel
from sottovoce.personalize.lm.vocabulary import Vector
from sottovoce.personalize.nbest.lists import NBest, by_client
from sottovoce.personalize.rescoring.outcome import Outcome, measure, rare_words
from sottovoce.personalize.rescoring.personal import (
    CLASSES,
    BiasList,
    CacheSettings,
    Gains,
    PersonalModel,
)
from sottovoce.personalize.rescoring.scores import ScoreTable, Weights
from sottovoce.personalize.rescoring.tuning import tune
from sottovoce.personalize.rescoring.wer import reference_of, word_errors

STRENGTH, SIGNIFICANT = 2.0, 2.0
_WEIGHTS = (0.01, 0.03, 0.1, 0.3, 1.0)
PRIOR, ENOUGH = 20.0, 0.5
_CHOICES = ((True, True, True), (False, True, True), (True, False, False))

Totals = NDArray[np.float64]
LogP = list[Vector]


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What the personal model of a client is built on."""

    everybody: Vector | None = None
    pairs: SharedPairs | None = None
    bias: BiasList = field(default_factory=BiasList)
    own_bias: Mapping[str, BiasList] = field(default_factory=dict)
    cache: CacheSettings = field(default_factory=CacheSettings)

    def model(self, words: WordModel, client: str | None) -> PersonalModel:
        bias = self.own_bias.get(client or "", self.bias)
        return PersonalModel(
            words.vocabulary, self.cache, everybody=self.everybody, pairs=self.pairs, bias=bias
        )


@dataclass(frozen=True, kw_only=True)
class Trust:
    """The weights of the background, and what of the personal model is believed."""

    background: Weights
    classes: tuple[bool, ...] = (True,) * len(CLASSES)
    words_of_all: bool = True
    pairs_of_all: bool = True
    expected: float = 0.0
    weight: float = 0.0
    """Of one nat of gain."""

    def used(self, sources: Sources) -> Sources:
        """The sources that are believed."""
        return replace(
            sources,
            everybody=sources.everybody if self.words_of_all else None,
            pairs=sources.pairs if self.pairs_of_all else None,
        )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "classes": list(self.classes)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Trust":
        try:
            fields = {**data, "background": Weights.from_json(data["background"])}
            fields["classes"] = tuple(map(bool, data["classes"]))
            if len(fields["classes"]) != len(CLASSES):
                raise TypeError(f"there are not {len(CLASSES)} classes")
            return cls(**fields)
        except (KeyError, TypeError) as problem:
            raise InvalidInput(f"Expected tuned weights, but {problem!r}.") from problem


class Gate:
    """How far one user's own history bears the personal model out, from 0 to 1.

    >>> gate = Gate()
    >>> gate.value
    0.0
    >>> gate.add(np.array([12.0, 8.0, 0.0]), words=20)
    >>> gate.value
    1.0
    """

    def __init__(self, expected: float = 0.0) -> None:
        self._gain, self._words = PRIOR * expected, PRIOR

    @property
    def value(self) -> float:
        return min(1.0, max(0.0, self._gain / self._words / ENOUGH))

    def add(self, gains: Vector, words: int) -> None:
        self._gain += float(gains.sum())
        self._words += words


def word_scores(lists: Sequence[NBest], model: WordModel) -> dict[str, LogP]:
    """ln p of every word and end of every hypothesis under the background."""
    return {each.id: log_scores(model, [h.words for h in each.hypotheses]) for each in lists}


def personal_gains(
    lists: Sequence[NBest],
    model: WordModel,
    log_p: Mapping[str, LogP],
    totals: Mapping[str, Totals],
    sources: Sources,
    expected: float = 0.0,
    on_model: Callable[[NBest, PersonalModel], None] = lambda *_: None,
) -> dict[str, Gains]:
    """The gated gains of every list, each from the utterances before it.

    What a client said is what the background chose: a chosen text that depended on the personal
    model could confirm its own mistakes.
    """
    found: dict[str, Gains] = {}
    for client, mine in by_client(lists).items():
        personal, gate = sources.model(model, client), Gate(expected)
        for each in mine:
            if not each.hypotheses:
                found[each.id] = np.zeros((0, len(CLASSES)))
                continue
            on_model(each, personal)
            gains = personal.gains([h.words for h in each.hypotheses], log_p[each.id])
            # A bias list is the user's own word for it: it needs no proof.
            opened = 1.0 if personal.bias else gate.value
            found[each.id] = opened * gains
            best = int(np.argmax(totals[each.id]))
            words = each.hypotheses[best].words
            gate.add(gains[best], len(words) + 1)
            personal.add(words)
    return found


def background_totals(
    lists: Sequence[NBest], model: WordModel, log_p: Mapping[str, LogP], weights: Weights
) -> dict[str, Totals]:
    return {
        each.id: np.array(
            weights.totals(each, [float(p.sum()) for p in log_p[each.id]], model.vocabulary)
        )
        for each in lists
    }


def tune_trust(lists: Sequence[NBest], model: WordModel, sources: Sources) -> Trust:
    """What the tuning clients bear out."""
    log_p = word_scores(lists, model)
    second = {name: [float(p.sum()) for p in rows] for name, rows in log_p.items()}
    table = ScoreTable(lists, second, model.vocabulary)
    _, background, _ = tune({0.0: table})
    trust = Trust(background=background)
    totals = background_totals(lists, model, log_p, background)
    words, pairs = _useful_sources(lists, model, log_p, totals, sources)
    trust = replace(trust, words_of_all=words, pairs_of_all=pairs)
    expected = _first_gain(lists, model, log_p, totals, trust.used(sources))
    trust = replace(trust, expected=expected)
    gains = personal_gains(lists, model, log_p, totals, trust.used(sources), expected)
    errors = {
        each.id: np.array([word_errors(reference_of(each), h.text).count for h in each.hypotheses])
        for each in lists
    }
    sharp = _sharpness(totals, errors)

    clients = np.unique([each.client or each.id for each in lists], return_inverse=True)[1]

    def risk(weight: float, classes: Sequence[bool] = _CHOICES[0]) -> Vector:
        """The expected errors of every client."""
        used = weight * np.array(classes, dtype=np.float64)
        rows = [
            _expected(sharp * (totals[each.id] + gains[each.id] @ used), errors[each.id])
            for each in lists
        ]
        return np.bincount(clients, np.array(rows)).astype(np.float64)

    least, weight = risk(0.0), STRENGTH * background.scale * background.mix
    usual = risk(weight)
    for other in _WEIGHTS:
        if _significant(risk(other) - usual):
            weight, usual = other, risk(other)
    # All classes if that helps at all: choosing among few clients costs more than it gains.
    helpful = (each for each in _CHOICES if risk(weight, each).sum() < least.sum())
    classes = next(helpful, (False,) * len(CLASSES))
    return replace(trust, classes=classes, weight=weight)


def _significant(change: Vector) -> bool:
    """Whether the changes of clients are a reduction beyond chance."""
    return bool(change.sum() < -SIGNIFICANT * np.sqrt((change**2).sum()) - 1e-9)


def _first_gain(
    lists: Sequence[NBest],
    model: WordModel,
    log_p: Mapping[str, LogP],
    totals: Mapping[str, Totals],
    sources: Sources,
) -> float:
    """The mean gain per word in the first utterance of a client, from shared sources alone."""
    gained, words = 0.0, PRIOR
    bare = replace(sources, bias=BiasList(), own_bias={})
    for client, mine in by_client(lists).items():
        if mine[0].hypotheses:
            best = int(np.argmax(totals[mine[0].id]))
            text = mine[0].hypotheses[best].words
            gain = bare.model(model, client).gains([text], [log_p[mine[0].id][best]])
            gained, words = gained + float(gain.sum()), words + len(text) + 1
    return max(gained / words, 0.0)


def choose_personal(
    lists: Sequence[NBest], model: WordModel, trust: Trust, sources: Sources
) -> tuple[dict[str, str], dict[str, str]]:
    """The texts that the background and the personal model choose; references are not needed."""
    log_p = word_scores(lists, model)
    totals = background_totals(lists, model, log_p, trust.background)
    gains = personal_gains(lists, model, log_p, totals, trust.used(sources), trust.expected)
    used = trust.weight * np.array(trust.classes, dtype=np.float64)
    before, after = {}, {}
    for each in lists:
        before[each.id] = _best(each, totals[each.id])
        after[each.id] = _best(each, totals[each.id] + gains[each.id] @ used)
    return before, after


def rescore_personal(
    lists: Sequence[NBest],
    model: WordModel,
    trust: Trust,
    sources: Sources,
    rare: Collection[str] = (),
) -> Outcome:
    """Choose a hypothesis for every utterance and count the errors.

    Words of bias lists and those in `rare` count as rare words.
    """
    before, after = choose_personal(lists, model, trust, sources)
    own = (bias.words for bias in sources.own_bias.values())
    listed = sources.bias.words.union(rare, *own)
    return measure(lists, before, after, rare_words(model.vocabulary, listed))


def _best(each: NBest, totals: Totals) -> str:
    return each.hypotheses[int(np.argmax(totals))].text if each.hypotheses else ""


def _useful_sources(
    lists: Sequence[NBest],
    model: WordModel,
    log_p: Mapping[str, LogP],
    totals: Mapping[str, Totals],
    sources: Sources,
) -> tuple[bool, bool]:
    """Whether everybody's words and pairs make the references more probable."""

    def likelihood(given: Sources) -> float:
        gained = 0.0

        def score(each: NBest, personal: PersonalModel) -> None:
            nonlocal gained
            spoken = reference_of(each).split()
            gained += float(personal.gains([spoken], log_scores(model, [spoken])).sum())

        personal_gains(lists, model, log_p, totals, given, on_model=score)
        return gained

    bare = replace(sources, bias=BiasList(), own_bias={})
    alone = likelihood(replace(bare, everybody=None, pairs=None))
    words = pairs = False
    if bare.everybody is not None:
        words = likelihood(replace(bare, pairs=None)) > alone
    if bare.pairs is not None:
        pairs = likelihood(replace(bare, everybody=None)) > alone
    return words, pairs


def log_scores(model: WordModel, sentences: Sequence[Sequence[str]]) -> LogP:
    """ln p of the words and the end of every sentence."""
    distinct = list(dict.fromkeys(tuple(sentence) for sentence in sentences))
    if not distinct:
        return []
    values, owners = model.score_words(distinct)
    rows = {sentence: values[owners == place] for place, sentence in enumerate(distinct)}
    return [rows[tuple(sentence)] for sentence in sentences]


def _sharpness(totals: Mapping[str, Totals], errors: Mapping[str, Any]) -> float:
    """The scale of totals at which a softmax has the fewest expected errors."""

    def risk(sharp: float) -> float:
        return sum(_expected(sharp * totals[name], errors[name]) for name in totals)

    return min((2.0**power for power in range(9)), key=risk)


def _expected(totals: Totals, errors: Vector) -> float:
    if not totals.size:
        return 0.0
    chances = np.exp(totals - totals.max())
    return float(chances @ errors / chances.sum())
