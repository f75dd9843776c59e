"""The contribution log of a device: what it sent, to which server, under which caps, at what cost.

It trusts no server. An utterance is sent at most once per kind (words, pairs), to any server;
lifetime caps hold over all servers and runs; a round is answered once; and the owner's budget is
checked against the noise of every plan ever answered, without any amplification that a server may
claim. The log cannot verify that a server adds the noise that its plan states.
"""

import hmac
import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from sottovoce.errors import InvalidInput, SottovoceError
from sottovoce.personalize.device.messages import RoundRequest
from sottovoce.personalize.federated.counting import Caps
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.privacy.accounting import Entry, account
from sottovoce.privacy.facts import NoisyVector, fact_from_json
from sottovoce.privacy.guarantee import Budget, Guarantee, Relation, Unit, rounded_up
from sottovoce.privacy.recipes.federate import Cap

SECRET_BYTES = 32
KINDS = {1: "words", 2: "pairs"}


class Declined(SottovoceError):
    """The device sends nothing; the message gives the reason."""


@dataclass(frozen=True)
class SentContribution:
    """One logged contribution."""

    round: str
    kind: str
    utterances: int
    fact: NoisyVector

    def to_json(self) -> list[Any]:
        return [self.round, self.kind, self.utterances, self.fact.to_json()]

    @classmethod
    def from_json(cls, data: Any) -> Self:
        answered, kind, utterances, fact = data
        read = fact_from_json(fact)
        if not isinstance(read, NoisyVector):
            raise TypeError("a contribution is not a noisy vector")
        return cls(answered, kind, utterances, read)


@dataclass
class ContributedMass:
    """Mass contributed of one kind under lifetime caps, in units.

    `floor` is a lower bound on the mass charged to every word: the words of forgotten utterances
    are not kept, so the largest mass among them is charged to all words.
    """

    mass: float = 0.0
    floor: float = 0.0
    words: dict[str, float] = field(default_factory=dict)

    def of(self, word: str) -> float:
        return max(self.floor, self.words.get(word, 0.0))

    def forget(self, kept: Collection[str]) -> None:
        """Drop the names of all words except `kept`."""
        gone = [word for word in self.words if word not in kept]
        for word in gone:
            self.floor = max(self.floor, self.words.pop(word))


class ContributionLog:
    """Everything one device has ever sent."""

    def __init__(self, caps: Caps, budget: Budget | None, secret: bytes) -> None:
        if len(secret) != SECRET_BYTES:
            raise InvalidInput(f"Expected a secret of {SECRET_BYTES} bytes, got {len(secret)}.")
        self.caps, self.budget, self._secret = caps, budget, secret
        self.sendings: list[SentContribution] = []
        self.given: dict[str, ContributedMass] = {}
        self._sent: dict[str, set[str]] = {}
        # The reason why nothing is sent any more, if so.
        self.closed: str | None = None

    @property
    def unit(self) -> Unit:
        """The unit that the budget protects: the user if there are caps, else one utterance."""
        return Unit.UTTERANCE if self.caps.mass is None else Unit.USER

    def pseudonym(self, server: str) -> str:
        """The name of this device to one server."""
        return self._mark("server", server)

    def was_sent(self, kind: str, utterance: str) -> bool:
        return self._mark("utterance", utterance) in self._sent.get(kind, ())

    def was_ever_sent(self, utterance: str) -> bool:
        return any(self.was_sent(kind, utterance) for kind in KINDS.values())

    def check_open(self, request: RoundRequest) -> None:
        """Decline a request that no contribution could answer."""
        if self.closed is not None:
            raise Declined(self.closed)
        if self.budget is None:
            raise Declined(
                "Expected a privacy budget set by the owner, got none: set one before contributing."
            )
        if any(sending.round == request.id for sending in self.sendings):
            raise Declined("Expected a new round, got one that was answered before.")

    def room(self, kind: str) -> ContributedMass:
        """A copy of the mass that counts against the caps of the next contribution."""
        if self.caps.span is Cap.PER_ROUND:
            return ContributedMass()
        given = self.given.get(kind, ContributedMass())
        return ContributedMass(given.mass, given.floor, dict(given.words))

    def check_cost(self, plan: ReleasePlan) -> None:
        """Decline a plan that would exceed the owner's budget."""
        assert self.budget is not None
        try:
            after = self.spent(plan)
        except SottovoceError as problem:
            raise Declined(f"The cost of this round cannot be accounted: {problem}") from problem
        if not after.holds:
            raise Declined(f"This round comes with no guarantee: {after.reasons[0]}.")
        if after.epsilon > self.budget.epsilon:
            raise Declined(
                f"This round would bring epsilon to {rounded_up(after.epsilon)}, above the budget "
                f"of {self.budget.epsilon:g} at delta {self.budget.delta:g}."
            )

    def spent(self, plan: ReleasePlan | None = None) -> Guarantee:
        """The guarantee for one unit over everything sent, plus one round of `plan` if given."""
        facts = [sending.fact for sending in self.sendings]
        if plan is not None:
            facts.append(self._fact(plan))
        counts: dict[NoisyVector, int] = {}
        for fact in facts:
            counts[fact] = counts.get(fact, 0) + 1
        return account(
            [Entry(fact, count) for fact, count in counts.items()],
            unit=self.unit,
            relation=Relation.ADD_OR_REMOVE,
            delta=0.0 if self.budget is None else self.budget.delta,
            assumptions=[
                "every server adds the noise that its plan states",
                "the party that adds the noise is trusted with the counts",
                "the user has only this device log, and no older copy of it was used",
            ],
        )

    def write(
        self, request: RoundRequest, kind: str, utterances: Collection[str], given: ContributedMass
    ) -> None:
        """Log a contribution before it is sent."""
        fact = self._fact(request.plan)
        self.sendings.append(SentContribution(request.id, kind, len(utterances), fact))
        marks = self._sent.setdefault(kind, set())
        marks.update(self._mark("utterance", utterance) for utterance in utterances)
        if self.caps.span is Cap.LIFETIME and self.caps.mass is not None:
            if self.caps.per_word is None:
                given.words.clear()
            self.given[kind] = given

    def forget_words(self, kept: Mapping[str, Collection[str]]) -> None:
        """Drop all words except `kept`, by kind; their contributed mass still counts."""
        for kind, given in self.given.items():
            given.forget(kept.get(kind, ()))

    def to_json(self) -> dict[str, Any]:
        budget = self.budget
        return {
            "secret": self._secret.hex(),
            "budget": None if budget is None else [budget.epsilon, budget.delta],
            "closed": self.closed,
            "sendings": [sending.to_json() for sending in self.sendings],
            "sent": {kind: sorted(marks) for kind, marks in sorted(self._sent.items())},
            "given": {
                kind: [given.mass, given.floor, dict(sorted(given.words.items()))]
                for kind, given in sorted(self.given.items())
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], caps: Caps) -> Self:
        budget = data["budget"]
        log = cls(
            caps,
            None if budget is None else Budget(epsilon=budget[0], delta=budget[1]),
            bytes.fromhex(data["secret"]),
        )
        log.closed = data["closed"]
        log.sendings = [SentContribution.from_json(each) for each in data["sendings"]]
        log._sent = {kind: set(marks) for kind, marks in data["sent"].items()}
        log.given = {
            kind: ContributedMass(float(mass), float(floor), dict(words))
            for kind, (mass, floor, words) in data["given"].items()
        }
        return log

    def _fact(self, plan: ReleasePlan) -> NoisyVector:
        """One round of a plan, as charged to the owner.

        An utterance is in one contribution per kind, over all servers, so only the costliest is
        charged. A lifetime cap bounds the sum of a user's contributions, which costs at most as
        much as all of it under the least noise, provided the noise is of one family.
        """
        kind = KINDS[plan.counting.order]
        if self.unit is Unit.UTTERANCE:
            pool: str | None = kind
        elif self.caps.span is Cap.LIFETIME:
            pool = f"{kind}, {plan.noise}"
        else:
            pool = None
        # The device cannot verify the server's sampling, so it claims no amplification.
        return replace(plan.fact(), sampling_rate=None, pool=pool)

    def _mark(self, purpose: str, name: str) -> str:
        message = json.dumps([purpose, name]).encode()
        return hmac.digest(self._secret, message, "sha256").hex()[:32]


def capped(
    counted: Iterable[tuple[str, float]], given: ContributedMass, caps: tuple[float, float]
) -> dict[str, float]:
    """The part of one utterance that fits under the mass and word caps; adds it to `given`.

    >>> capped([("call", 2.0), ("mum", 2.0)], ContributedMass(), (3.0, 2.0))
    {'call': 2.0, 'mum': 1.0}
    """
    mass_cap, word_cap = caps
    fits: dict[str, float] = {}
    for word, mass in counted:
        before = given.of(word)
        allowed = min(mass, word_cap - before, mass_cap - given.mass)
        if allowed > 0:
            fits[word] = allowed
            given.mass += allowed
            if math.isfinite(word_cap):
                given.words[word] = before + allowed
    return fits
