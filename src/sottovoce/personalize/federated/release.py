"""Noisy release of counts: the fact is written to the ledger first, then noise of that scale is
drawn.

One object does both, so they cannot disagree.
"""

import itertools
import json
from dataclasses import replace

import numpy as np

from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.plan import DISCRETE, ReleasePlan
from sottovoce.personalize.lm.vocabulary import Vector
from sottovoce.privacy import noise as draws
from sottovoce.privacy.facts import Noise, NoisyVector
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.noise import NoiseSource


class CountRelease:
    """Records a release in the ledger, then adds the plan's noise to summed counts.

    >>> from sottovoce.personalize.federated.counting import Counting
    >>> from sottovoce.privacy.guarantee import Relation, Unit
    >>> ledger = Ledger(unit=Unit.UTTERANCE, relation=Relation.ADD_OR_REMOVE)
    >>> plan = ReleasePlan(counting=Counting(integer=True), noise=Noise.DISCRETE_LAPLACE, scale=3.0)
    >>> noisy = CountRelease(plan, ledger)(np.array([640.0, 0.0]))
    >>> noisy.shape, round(ledger.guarantee(0.0).epsilon, 2)
    ((2,), 67.66)
    """

    def __init__(
        self,
        plan: ReleasePlan,
        ledger: Ledger,
        source: NoiseSource | None = None,
        *,
        resume: str | None = None,
    ) -> None:
        """`resume` is the id of an interrupted run in the ledger's file."""
        if ledger.unit != plan.unit:
            raise InvalidInput(
                f"Expected a ledger that protects one {plan.unit}, got one for {ledger.unit}."
            )
        self._plan, self._ledger = plan, ledger
        self._root = source or NoiseSource()
        for sentence in plan.assumptions():
            ledger.assume(sentence)
        ledger.leave_uncovered("a vocabulary taken from private text: it has to be public")
        if plan.counting.order > 1 and not ledger.entries:
            ledger.leave_uncovered(
                "the release that chose the words of the pairs, if it is not in this ledger"
            )
        if resume is None:
            self.begin_run()
        else:
            ledger.resume_run(resume)
            # Noise after an interruption never repeats the noise before it.
            self._begin(resume, f"resumed at {ledger.head.sha256}")

    # Immutable: the noise, its cost and the ledger belong together.
    @property
    def plan(self) -> ReleasePlan:
        return self._plan

    @property
    def ledger(self) -> Ledger:
        return self._ledger

    @property
    def run(self) -> str:
        """The id of the current run in the ledger."""
        return self._run

    def begin_run(self) -> None:
        """Start a new run: later releases may cover earlier utterances again, so they are charged
        anew.
        """
        seeded = self._root.is_seeded
        self._begin(self._ledger.new_run("federation" if seeded else None))

    def _begin(self, run: str, *also: str) -> None:
        self._run = run
        # Seeded noise differs for every run and plan: equal noise on two releases would cancel in
        # their difference.
        label = " ".join((run, json.dumps(self._plan.to_json()), *also))
        self._source = _child(self._root, label)

    @property
    def rounds_done(self) -> int:
        """Releases of this plan in the ledger, including those of earlier processes."""
        same = _without_growth(self._plan.fact())
        return sum(
            entry.count
            for entry in self._ledger.entries
            if isinstance(entry.fact, NoisyVector) and _without_growth(entry.fact) == same
        )

    def __call__(self, total: Vector) -> Vector:
        """Noisy counts (in counts, not units) of summed contributions (in units)."""
        if total.ndim != 1 or not np.isfinite(total).all():
            raise InvalidInput("Expected a vector of finite summed counts, got other values.")
        if self.plan.noise in DISCRETE and (np.rint(total) != total).any():
            raise InvalidInput(
                "Expected whole numbers of units with discrete noise, got fractions."
            )
        fact = self.plan.fact(self.rounds_done + 1, seeded=self._source.is_seeded, run=self._run)
        self._ledger.spend(fact)
        noisy: Vector = total + self._draw(total.size, fact.scale)
        return noisy / self.plan.counting.unit

    def _draw(self, size: int, scale: float) -> Vector:
        match self.plan.noise:
            case Noise.LAPLACE:
                return draws.laplace(size, scale, self._source)
            case Noise.GAUSSIAN:
                return draws.gaussian(size, scale, self._source)
            case Noise.DISCRETE_LAPLACE:
                return draws.discrete_laplace(size, scale, self._source).astype(np.float64)
            case Noise.DISCRETE_GAUSSIAN:
                return draws.discrete_gaussian(size, scale, self._source).astype(np.float64)


def _without_growth(fact: NoisyVector) -> NoisyVector:
    """The fact without the fields that differ between rounds and runs of one plan."""
    return replace(fact, sensitivity=1.0, pool=None, seeded=False)


def _child(source: NoiseSource, label: str) -> NoiseSource:
    """A separate stream, even if the same source served another ledger before."""
    for times in itertools.count(1):
        try:
            return source.derive(f"{label} {times}")
        except InvalidInput:
            continue
    raise AssertionError("there is always another label")
