"""From what a run did to what may be said of it.

Every utterance is a disjoint member of a pool, and so is every user: replacing the private values
of one changes no other, and the worst one counts. Losses of several types within a unit are
composed exactly. Beside the guarantee for what was found stands the one that takes the measured
recall of the detector into account.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sottovoce.deid.detect.evaluation import Evaluation
from sottovoce.deid.facts import ReplacedValues
from sottovoce.deid.replace import Consistent, Cost, Kernel, Mechanism
from sottovoce.deid.statement import ReleaseStatement, TypeStatement
from sottovoce.deid.strategies import Setting
from sottovoce.deid.tally import Tally
from sottovoce.privacy.facts import BoundedRelease, ReplacedTokens, SurrogateSource, Unprotected
from sottovoce.privacy.guarantee import Claim, Guarantee, Relation, Unit
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.recipes import DeidRecipe
from sottovoce.privacy.recipes import Strategy as PaperStrategy

_OUTSIDE = "words outside the private values are released as they are"


@dataclass(frozen=True, kw_only=True)
class Released:
    """What a run did, as far as a statement needs it."""

    tally: Tally
    mechanisms: Mapping[str, Mechanism]
    settings: Mapping[str, Setting]
    detector: str
    seeded: bool
    delta: float
    evaluation: Evaluation | None = None
    not_covered: tuple[str, ...] = ()

    def statement(self) -> ReleaseStatement:
        units = [Unit.TOKEN, Unit.UTTERANCE]
        notes = []
        if self.tally.without_user:
            notes.append(
                "Nothing can be said to one user: "
                f"{self.tally.without_user} of {self.tally.utterances} utterances name no user."
            )
        elif self.tally.utterances:
            units.append(Unit.USER)
        ledgers = {str(unit): self._ledger(unit) for unit in units}
        recalls = self._recalls()
        adjusted = {} if recalls is None else {
            str(unit): self._guarantee(self._ledger(unit, recalls)) for unit in units
        }  # fmt: skip
        return ReleaseStatement(
            types={kind: self._of_type(kind) for kind in self.tally.types},
            guarantees={unit: self._guarantee(ledger) for unit, ledger in ledgers.items()},
            ledgers=ledgers,
            adjusted=adjusted,
            renaming=self._renaming(),
            recall=self._recall_sentence(),
            notes=tuple(notes),
        )

    def _guarantee(self, ledger: Ledger) -> Guarantee:
        histograms = [
            entry.fact.delta for entry in ledger.entries if isinstance(entry.fact, BoundedRelease)
        ]
        # Histograms of surrogates come with a delta of their own; one token is in one at most.
        spent = max(histograms, default=0.0) if ledger.unit is Unit.TOKEN else sum(histograms)
        return ledger.guarantee(self.delta + spent)

    def _ledger(self, unit: Unit, recalls: Mapping[str, float] | None = None) -> Ledger:
        """One ledger a unit; `recalls` replaces the assumption that everything was found."""
        ledger = Ledger(unit=unit, relation=Relation.REPLACE_ONE)
        types = self.tally.types
        # Types that cost nothing would only multiply the members of the pool.
        costly = [kind for kind in types if self._costs(kind, recalls)] or types
        counts: Iterable[Sequence[int]]
        match unit:
            case Unit.TOKEN:
                counts = [[int(kind == other) for other in costly] for kind in costly]
            case Unit.UTTERANCE:
                counts = sorted(self.tally.worst_utterances(costly))
            case _:
                counts = sorted(self.tally.worst_users(costly))
        for each in counts:
            ledger.spend(self._values(unit, costly, each, recalls))
        for kind in types:
            self._spend_sources(ledger, kind)
            for sentence in self._cost(kind).assumptions:
                ledger.assume(sentence)
            for sentence in self._cost(kind).reveals:
                ledger.leave_uncovered(f"{kind}: {sentence}")
        for sentence in (_OUTSIDE, *self.not_covered):
            ledger.leave_uncovered(sentence)
        if self.detector != "gold":
            ledger.assume(
                f"what else {self.detector} marks does not depend on the private values beside it"
            )
        if recalls is None and self.detector != "gold":
            ledger.leave_uncovered(f"private values that {self.detector} misses")
        return ledger

    def _costs(self, kind: str, recalls: Mapping[str, float] | None) -> bool:
        cost = self._cost(kind)
        found = 1.0 if recalls is None else recalls.get(kind, 0.0)
        return cost.replace_probability * found < 1 or bool(cost.epsilon)

    def _values(
        self,
        unit: Unit,
        types: Sequence[str],
        counts: Sequence[int],
        recalls: Mapping[str, float] | None,
    ) -> ReplacedValues:
        costs = [self._cost(kind) for kind in types]
        found = [1.0 if recalls is None else recalls.get(kind, 0.0) for kind in types]
        return ReplacedValues(
            unit=unit,
            pool=f"every {unit} by itself",
            seeded=self.seeded,
            types=tuple(types),
            counts=tuple(counts),
            replace_probabilities=tuple(cost.replace_probability for cost in costs),
            smallest_probabilities=tuple(cost.smallest_probability for cost in costs),
            epsilons=tuple(map(_epsilon, costs, found)),
            recalls=tuple(found),
        )

    def _spend_sources(self, ledger: Ledger, kind: str) -> None:
        """What no kernel pays for: consistency, and surrogates counted in the corpus."""
        mechanism, cost = self.mechanisms[kind], self._cost(kind)
        if cost.why_none:
            ledger.spend(Unprotected(unit=ledger.unit, reason=cost.why_none))
        if not isinstance(mechanism, Kernel):
            return
        listed = mechanism.surrogates
        if listed.origin is SurrogateSource.SAME_CORPUS:
            ledger.spend(
                ReplacedTokens(
                    unit=ledger.unit,
                    replace_probability=mechanism.p,
                    smallest_probability=listed.least,
                    surrogates=listed.origin,
                )
            )
        if listed.histogram:
            ledger.spend(
                BoundedRelease(
                    unit=ledger.unit,
                    # One token has one type, so one of the histograms at most counted it.
                    pool="histogram of its type" if ledger.unit is Unit.TOKEN else None,
                    seeded=self.seeded,
                    mechanism=f"thresholded Laplace histogram of {kind}",
                    epsilon=listed.histogram["epsilon"],
                    delta=listed.histogram["delta"],
                )
            )

    def _of_type(self, kind: str) -> TypeStatement:
        alone = Ledger(unit=Unit.TOKEN, relation=Relation.REPLACE_ONE)
        alone.spend(self._values(Unit.TOKEN, [kind], [1], None))
        self._spend_sources(alone, kind)
        return TypeStatement(
            setting=self.settings[kind],
            mechanism=self.mechanisms[kind],
            tokens=self.tally.tokens[kind],
            guarantee=self._guarantee(alone),
            claimed=self._claimed(kind),
        )

    def _claimed(self, kind: str) -> Claim | None:
        """What the paper says of its own five strategies."""
        setting, mechanism = self.settings[kind], self.mechanisms[kind]
        if isinstance(mechanism, Kernel):
            strategy = PaperStrategy.ENTITY if mechanism.whole else PaperStrategy.WORD
            least = mechanism.surrogates.least
            return DeidRecipe(strategy=strategy, p=mechanism.p, pi_min=least).claim()
        if setting.chosen.is_placeholder:
            p = 1.0 if setting.p is None else setting.p
            return DeidRecipe(strategy=PaperStrategy(str(setting.strategy)), p=p).claim()
        return None

    def _renaming(self) -> Guarantee | None:
        """Consistent surrogates: what holds if a value is renamed everywhere in its scope."""
        consistent = [
            kind for kind in self.tally.types if isinstance(self.mechanisms[kind], Consistent)
        ]
        if not consistent:
            return None
        ledger = Ledger(unit=Unit.TOKEN, relation=Relation.REPLACE_ONE)
        for kind in consistent:
            ledger.spend(
                BoundedRelease(
                    unit=Unit.TOKEN,
                    pool="every value by itself",
                    seeded=self.seeded,
                    mechanism=f"keyed surrogates of {kind}",
                    epsilon=0.0,
                )
            )
        ledger.assume("a token is all occurrences of one value in its scope")
        ledger.assume("which occurrences are equal may be known")
        ledger.assume("HMAC-SHA-256 looks random to whoever does not have the key")
        ledger.leave_uncovered(_OUTSIDE)
        return ledger.guarantee(0.0)

    def _recalls(self) -> Mapping[str, float] | None:
        if self.evaluation is None or self.detector == "gold":
            return None
        return {
            kind: found.lower_of_values if self.mechanisms[kind].whole else found.lower
            for kind, found in self.evaluation.types.items()
            if kind in self.mechanisms
        }

    def _recall_sentence(self) -> str:
        if self.detector == "gold":
            return "Private values are those that the annotations of the corpus name."
        recalls = self._recalls()
        if recalls is None or self.evaluation is None:
            return f"How many private values {self.detector} misses was not measured."
        misses = ", ".join(
            f"{kind} {math.ceil(1e4 * (1 - recalls.get(kind, 0.0))) / 1e4:g}"
            for kind in sorted(self.tally.types)
        )
        return (
            "On text like the evaluation set a private value is missed with probability at most: "
            f"{misses} (each with confidence {self.evaluation.confidence:g}, Clopper-Pearson)."
        )

    def _cost(self, kind: str) -> Cost:
        return self.mechanisms[kind].cost()


def _epsilon(cost: Cost, recall: float) -> float:
    """The pure epsilon of a mechanism that misses a share of the values; -1 for a kernel."""
    if cost.epsilon is None:
        return -1.0
    if recall == 1:
        return cost.epsilon
    if recall == 0 or cost.smallest_probability == 0:
        return -1.0  # The kernel with nothing replaced: no bound at all.
    ratio = math.exp(cost.epsilon) + (1 - recall) / (recall * cost.smallest_probability)
    return math.log(ratio)
