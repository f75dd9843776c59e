"""What a device answers to a request for counts: the checks, and the increment within its caps.

Contributions are counted by first-pass ranks, never by rescored results and never by the user's
corrections, which stay on the device.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from sottovoce.errors import InvalidInput
from sottovoce.personalize.device.contribution_log import (
    KINDS,
    ContributedMass,
    ContributionLog,
    Declined,
    capped,
)
from sottovoce.personalize.device.messages import Contribution, RoundRequest
from sottovoce.personalize.federated.counting import Caps, Counting, rules
from sottovoce.personalize.lm.ngram.model import END, START
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector, Vocabulary
from sottovoce.personalize.nbest.lists import NBest
from sottovoce.privacy.recipes.federate import Release


@dataclass(frozen=True)
class Agreement:
    """The words, the kernel and the caps that a device agrees to; it declines others."""

    vocabulary: Vocabulary
    counting: Counting
    caps: Caps

    @property
    def rules(self) -> str:
        return rules(self.vocabulary, self.counting, self.caps)

    def words(self, request: RoundRequest) -> Vocabulary:
        """The vocabulary to count, if the request matches what was agreed to."""
        plan = request.plan
        if plan.release is not Release.INCREMENTS:
            raise Declined(
                "Expected a plan of increments, got cumulative counts, which are sent repeatedly."
            )
        if plan.sampling_rate is not None:
            raise Declined(
                "Expected a plan without amplification by sampling, got one with it: this device "
                "keeps unsent counts, so an utterance may be sent in any later round."
            )
        if plan.caps != self.caps:
            raise Declined("Expected the caps of this device, got others.")
        if plan.counting != replace(self.counting, order=plan.counting.order):
            raise Declined("Expected the kernel and the counting of this device, got others.")
        words = self.vocabulary if plan.counting.order == 1 else self._pairs(request)
        if request.rules != rules(words, plan.counting, plan.caps):
            raise Declined("Expected the vocabulary of this device, got another one.")
        return words

    def _pairs(self, request: RoundRequest) -> Vocabulary:
        """The pair vocabulary of a request, made only of words in the device's vocabulary."""
        names = request.pairs or ()
        known = {*self.vocabulary.words, START, END} - {UNKNOWN}
        for name in names:
            before, _, word = name.partition(" ")
            if name != UNKNOWN and not (before in known and word in known):
                raise Declined("Expected pairs of words in the vocabulary, got others.")
        try:
            return Vocabulary(names, np.full(len(names), 1 / max(len(names), 1)))
        except InvalidInput as problem:
            raise Declined(str(problem)) from problem


@dataclass(frozen=True)
class Increment:
    """Counts that were not sent before, and what the log has to record when they are sent."""

    request: RoundRequest
    units: Vector
    sent: list[str]
    given: ContributedMass

    @classmethod
    def of(
        cls,
        request: RoundRequest,
        agreement: Agreement,
        log: ContributionLog,
        utterances: Iterable[NBest],
    ) -> "Increment":
        """The increment of a request, or `Declined`; nothing is logged."""
        log.check_open(request)
        words, counting = agreement.words(request), request.plan.counting
        kind = KINDS[counting.order]
        given = log.room(kind)
        caps = agreement.caps.in_units(counting.unit)
        units = np.zeros(len(words))
        sent = []
        for each in utterances:
            if log.was_sent(kind, each.id):
                continue
            places, added = counting.count(each, words)
            named = ((words.words[place], mass) for place, mass in zip(places, added, strict=True))
            fits = capped(named, given, caps)
            for word, mass in fits.items():
                units[words.index[word]] += mass
            if fits:
                sent.append(each.id)
        if not sent:
            raise Declined("There is nothing new to send, or the caps are exhausted.")
        log.check_cost(request.plan)
        return cls(request, units, sent, given)

    def logged(self, log: ContributionLog) -> bytes:
        """The message to the server, after it was logged."""
        log.write(self.request, KINDS[self.request.plan.counting.order], self.sent, self.given)
        places = np.flatnonzero(self.units)
        return Contribution(
            round=self.request.id,
            rules=self.request.rules,
            device=log.pseudonym(self.request.server),
            places=tuple(places.tolist()),
            units=tuple(self.units[places].tolist()),
        ).to_bytes()
