"""Derives the privacy statement of a release from the facts of a run.

Utterances are disjoint members of a pool, and so are users: replacing the private values of one
changes no other, so the worst one determines the guarantee. Losses of several types within a unit,
and of several releases of it, are composed exactly. Next to the guarantee for found values is one
that accounts for the measured recall of the detector (see `misses`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sottovoce.deid.detect.evaluation import Evaluation
from sottovoce.deid.replace import (
    Consistent,
    ConsistentNumbers,
    Cost,
    Kernel,
    Mechanism,
    WithinClass,
)
from sottovoce.deid.replace.mechanism import SAME_CASE
from sottovoce.deid.replace.operators import Encrypt, Hash
from sottovoce.deid.replace.placeholders import Numbered
from sottovoce.deid.replace.strategies import Setting
from sottovoce.deid.replace.third_party import ThirdParty
from sottovoce.deid.statement.facts import ReplacedValues
from sottovoce.deid.statement.misses import Misses
from sottovoce.deid.statement.release_statement import ReleaseStatement, TypeStatement
from sottovoce.deid.statement.unit_counts import UnitCounts
from sottovoce.privacy.facts import BoundedRelease, ReplacedTokens, SurrogateSource, Unprotected
from sottovoce.privacy.guarantee import Claim, Guarantee, Relation, Unit, rounded_up
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.recipes import DeidRecipe, Strategy

_OUTSIDE = (
    "words outside the private values are released as they are, including what is attached to a "
    "value (punctuation, a possessive ending, a title)"
)
_OTHER_RUNS = "other releases of the same text: each one adds its own epsilon"
_IDENTITY = (
    "an utterance is identified by its id, or without one by its user and words (equal texts of "
    "one release are different utterances), and a user by one name"
)
_MEASURED = "the evaluation itself: the share of private values that are missed is stated"
_KEYED = (Consistent, ConsistentNumbers, Hash, Encrypt, Numbered)
"""Mechanisms that are consistent by a secret key."""
_UNFOUND = "values not found"


def missed_by(detector: str) -> tuple[str, ...]:
    """What a detector leaves uncovered; correct annotations miss nothing."""
    return () if detector == "gold" else (f"private values that {detector} misses",)


@dataclass(frozen=True, kw_only=True)
class Released:
    """The facts of a run that a statement needs."""

    unit_counts: UnitCounts
    mechanisms: Mapping[str, Mechanism]
    settings: Mapping[str, Setting]
    costs: Mapping[str, Cost]
    detector: str
    seeded: bool
    delta: float
    evaluation: Evaluation | None = None
    not_covered: tuple[str, ...] = ()
    same_detector: bool = True
    """Whether everything was released with the evaluated detector."""

    def statement(self) -> ReleaseStatement:
        units = [Unit.TOKEN, Unit.UTTERANCE]
        notes = []
        if self.unit_counts.without_user:
            notes.append("No guarantee to one user can be stated: some utterances name no user.")
        elif self.unit_counts.utterances:
            units.append(Unit.USER)
        releases = self.unit_counts.max_releases
        if releases > 1:
            notes.append(
                f"One utterance was released {releases} times, and each release costs. Utterances "
                "are identified by id, or else by their words: give different ones different ids."
            )
        ledgers = {str(unit): self._ledger(unit) for unit in units}
        misses = self._misses()
        adjusted = {} if misses is None else {
            str(unit): self._with_misses(unit, misses) for unit in units
        }  # fmt: skip
        return ReleaseStatement(
            types={
                kind: self._of_type(kind)
                for kind in self.unit_counts.types
                if kind in self.settings
            },
            guarantees={unit: self._guarantee(ledger) for unit, ledger in ledgers.items()},
            ledgers=ledgers,
            adjusted=adjusted,
            renaming=self._renaming(),
            recall=self._recall_sentence(),
            notes=tuple(notes),
        )

    def _guarantee(self, ledger: Ledger) -> Guarantee:
        # Surrogate histograms have a separate delta; only the largest in a pool counts.
        spent: dict[str, float] = {}
        for place, entry in enumerate(ledger.entries):
            if isinstance(entry.fact, BoundedRelease):
                pool = entry.fact.pool or f"entry {place}"
                spent[pool] = max(spent.get(pool, 0.0), entry.fact.delta * entry.count)
        return ledger.guarantee(self.delta + sum(spent.values()))

    def _with_misses(self, unit: Unit, misses: Misses) -> Guarantee:
        """The guarantee that accounts for misses, or the delta it would need."""
        ledger = self._ledger(unit, misses)
        stated = self._guarantee(ledger)
        facts = [each.fact for each in ledger.entries if isinstance(each.fact, ReplacedValues)]
        missed = max((fact.missed for fact in facts), default=0.0)
        if stated.holds or not missed:
            return stated
        needed = math.ceil(1e4 * (missed + stated.delta)) / 1e4
        enough = ledger.guarantee(needed) if needed < 1 else stated
        then = f", where epsilon is {rounded_up(enough.epsilon)}" if enough.holds else ""
        reasons = [reason for reason in stated.reasons if reason != facts[0].why_infinite()]
        reasons.append(
            f"{facts[0].why_infinite()}: with probability up to {missed:.3g} that happens to "
            f"one of up to {max(sum(fact.counts) for fact in facts)} values, so no epsilon "
            f"can be stated with {f'a delta below {needed:g}{then}' if needed < 1 else 'any delta'}"
        )
        return replace(stated, reasons=tuple(reasons))

    def _ledger(self, unit: Unit, misses: Misses | None = None) -> Ledger:
        """The ledger of one unit; `misses` replaces the assumption that everything was found."""
        ledger = Ledger(unit=unit, relation=Relation.REPLACE_ONE)
        types = self.unit_counts.types
        # Types without cost would only add members to the pool.
        costly = [kind for kind in types if misses or self.costs[kind].log_ratio] or types
        counts: Iterable[Sequence[int]]
        match unit:
            case Unit.TOKEN:
                counts = sorted(self.unit_counts.worst_tokens(costly))
            case Unit.UTTERANCE:
                counts = sorted(self.unit_counts.worst_utterances(costly))
            case _:
                counts = sorted(self.unit_counts.worst_users(costly))
        if misses and self.unit_counts.utterances:
            # A unit without found values may still have missed ones.
            counts = counts or [[0] * len(costly)]
        for each in counts:
            ledger.spend(self._values(unit, costly, each, misses))
        for kind in types:
            self._spend_sources(ledger, kind)
            for sentence in self._cost(kind).assumptions:
                ledger.assume(sentence)
            for sentence in self._cost(kind).reveals:
                ledger.leave_uncovered(f"{kind}: {sentence}")
        for sentence in (_OUTSIDE, *self.not_covered, _OTHER_RUNS):
            ledger.leave_uncovered(sentence)
        if self.detector != "gold":
            ledger.assume(
                f"what else {self.detector} marks does not depend on the private values beside it"
                + self._measured_stability()
            )
        ledger.assume(_IDENTITY)
        for sentence in missed_by(self.detector) if misses is None else ():
            ledger.leave_uncovered(sentence)
        if misses is not None:
            ledger.leave_uncovered(_MEASURED)
            ledger.assume(
                f"with confidence {misses.confidence:g}, on text like the evaluation set, whose "
                "values were drawn independently of each other, at least "
                f"{math.floor(1e4 * misses.recall) / 1e4:g} of the private values are found"
            )
        return ledger

    def _values(
        self, unit: Unit, types: Sequence[str], counts: Sequence[int], misses: Misses | None
    ) -> ReplacedValues:
        costs = [self.costs[kind] for kind in types]
        names, numbers = list(types), list(counts)
        if misses is not None and unit is not Unit.TOKEN and misses.recall:
            units = self.unit_counts.users if unit is Unit.USER else self.unit_counts.utterances
            found = sum(counts)
            # The types of missed values are unknown: assume the costliest.
            worst = max((cost.log_ratio for cost in self.costs.values()), default=0.0)
            names.append(_UNFOUND)
            numbers.append(misses.max_values(found, units) - found)
            costs.append(
                Cost(replace_probability=0.0) if math.isinf(worst) else Cost(epsilon=worst)
            )
        elif misses is not None and not any(counts):
            names, numbers, costs = [_UNFOUND], [1], [Cost()]
        recall = 1.0 if misses is None else misses.recall
        return ReplacedValues(
            unit=unit,
            pool=f"every {unit} by itself",
            seeded=self.seeded,
            types=tuple(names),
            counts=tuple(numbers),
            replace_probabilities=tuple(cost.replace_probability for cost in costs),
            smallest_probabilities=tuple(cost.smallest_probability for cost in costs),
            epsilons=tuple(-1.0 if cost.epsilon is None else cost.epsilon for cost in costs),
            recalls=(recall,) * len(names),
        )

    def _spend_sources(self, ledger: Ledger, kind: str) -> None:
        """Costs outside the kernel: consistency, and surrogates counted in the corpus."""
        cost = self._cost(kind)
        if cost.why_none:
            ledger.spend(Unprotected(unit=ledger.unit, reason=cost.why_none))
        self._spend_list(ledger, kind)

    def _spend_list(self, ledger: Ledger, kind: str) -> None:
        cost = self._cost(kind)
        if cost.surrogates is SurrogateSource.SAME_CORPUS:
            ledger.spend(
                ReplacedTokens(
                    unit=ledger.unit,
                    replace_probability=cost.replace_probability,
                    smallest_probability=cost.smallest_probability,
                    surrogates=cost.surrogates,
                )
            )
        if cost.histogram_epsilon:
            ledger.spend(
                BoundedRelease(
                    unit=ledger.unit,
                    # A token has one type, so at most one histogram per release counted it.
                    pool=self._histograms(kind) if ledger.unit is Unit.TOKEN else None,
                    seeded=self.seeded,
                    mechanism=f"thresholded Laplace histogram of {kind}",
                    epsilon=cost.histogram_epsilon,
                    delta=cost.histogram_delta,
                )
            )

    def _histograms(self, kind: str) -> str:
        return f"histogram of its type{kind.removeprefix(self.unit_counts.original(kind))}"

    def _of_type(self, kind: str) -> TypeStatement:
        alone = Ledger(unit=Unit.TOKEN, relation=Relation.REPLACE_ONE)
        alone.spend(self._values(Unit.TOKEN, [kind], [1], None))
        self._spend_sources(alone, kind)
        if isinstance(self.mechanisms[kind], ThirdParty):
            for sentence in self._cost(kind).assumptions:
                alone.assume(sentence)
        return TypeStatement(
            setting=self.settings[kind],
            mechanism=self.mechanisms[kind],
            tokens=self.unit_counts.tokens[kind],
            guarantee=self._guarantee(alone),
            claimed=self._claimed(kind),
        )

    def _claimed(self, kind: str) -> Claim | None:
        """The paper's claim for its five strategies."""
        setting, mechanism = self.settings[kind], self.mechanisms[kind]
        if isinstance(mechanism, WithinClass):
            mechanism = mechanism.costliest or mechanism.rest
        if isinstance(mechanism, Kernel):
            strategy = Strategy.ENTITY if mechanism.whole else Strategy.WORD
            least = mechanism.surrogates.min_probability
            return DeidRecipe(strategy=strategy, p=mechanism.p, pi_min=least).claim()
        if setting.chosen is not None and setting.chosen.is_placeholder:
            p = 1.0 if setting.p is None else setting.p
            return DeidRecipe(strategy=setting.chosen, p=p).claim()
        return None

    def _renaming(self) -> Guarantee | None:
        """The guarantee of consistent surrogates for renaming a value everywhere in its scope."""
        consistent = [
            kind for kind in self.unit_counts.types if isinstance(self.mechanisms.get(kind), _KEYED)
        ]
        if not consistent or any(kind not in self.mechanisms for kind in self.unit_counts.types):
            return None  # The effect of renaming on other mechanisms is unknown.
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
            self._spend_list(ledger, kind)
            for sentence in self._cost(kind).assumptions:
                ledger.assume(sentence)
        ledger.assume(
            f"a token is all occurrences of one value of {', '.join(consistent)} in its scope, in "
            "every release with this key; values of other types are not renamed"
        )
        ledger.assume("which occurrences are equal may be known")
        ledger.assume(SAME_CASE)
        ledger.assume("HMAC-SHA-256 is pseudorandom to anyone without the key")
        for sentence in (_OUTSIDE, *self.not_covered, *missed_by(self.detector), _OTHER_RUNS):
            ledger.leave_uncovered(sentence)
        return self._guarantee(ledger)

    def _misses(self) -> Misses | None:
        if self.evaluation is None or self.detector == "gold" or not self.same_detector:
            return None
        by_words = [kind for kind, each in self.mechanisms.items() if not each.whole]
        return Misses.of(self.evaluation, self.unit_counts.types, by_words)

    def _measured_stability(self) -> str:
        """How far the assumption was found to hold; nothing where nobody measured it."""
        measured = None if self.evaluation is None else self.evaluation.stability
        return "" if measured is None else f"; measured: {measured}"

    def _recall_sentence(self) -> str:
        if self.detector == "gold":
            return "Private values are those that the annotations of the corpus name."
        misses = self._misses()
        if misses is None:
            return f"How many private values {self.detector} misses was not measured."
        shares = ", ".join(
            f"{kind} {math.ceil(1e4 * (1 - recall)) / 1e4:g}"
            for kind, recall in sorted(misses.recalls.items())
        )
        return (
            "On text like the evaluation set a private value is missed with probability at most: "
            f"{shares} (together with confidence {misses.confidence:g}, Clopper-Pearson)."
        )

    def _cost(self, kind: str) -> Cost:
        return self.costs[kind]
