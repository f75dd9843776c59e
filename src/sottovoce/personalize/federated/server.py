"""The server: validates contributions, sums them, releases them and computes q_bar.

A contribution that no honest client could send is refused before it enters the sum. The checks use
one client's contribution at a time and public bounds only. A round with too few clients is not
released: it would publish only noise, or the counts of one person.

A `word_limit` L bounds what one client can do to the result. It raises a word by at most L per
round (larger counts are cut word by word, which never increases a sensitivity), and after R rounds
q_bar is the noisy counts over at least m L R words, the missing ones filled up with the background,
where m is the minimum of clients. So no client adds more than 1/m of the mass to any word. This is
post-processing with public numbers, and costs nothing.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated import simplex
from sottovoce.personalize.federated.counting import rules_of, same_rules
from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.release import CountRelease
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector, Vocabulary
from sottovoce.privacy.facts import Unprotected
from sottovoce.privacy.guarantee import Unit
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.recipes.federate import Cap, Release

# Bound on one client's counts per round where no cap applies.
PLAUSIBLE_MASS = 10_000.0
# How far one client can raise a word in a round, where a minimum of clients is set.
WORD_LIMIT = 50.0
NO_NOISE = "counts were released without noise"

DENOISERS: dict[str, Callable[[Vector, Vocabulary, float], Vector]] = {
    "project": lambda counts, _words, _std: simplex.project(counts),
    "shrink": lambda counts, words, std: simplex.shrink(counts, words.unigram, std),
    "threshold": lambda counts, words, std: simplex.threshold(counts, words.unigram, std),
    "keep": lambda counts, words, std: simplex.keep(counts, words.index[UNKNOWN], std),
}


class Refused(InvalidInput):
    """A contribution that must not enter the sum; `reason` is a one-word code."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class NobodyJoined(InvalidInput):
    """Too few contributions for a release; nothing was released and nothing was spent."""


class Server:
    """Sums validated contributions, releases them and keeps q_bar.

    Without a `release` the counts are published without noise, and the ledger says so. A server is
    thread-safe.

    >>> words = Vocabulary(("call", "mum", "<unk>"), [0.4, 0.4, 0.2])
    >>> server = Server(words)
    >>> server.receive(np.array([3.0, 1.0, 0.0]))
    >>> server.receive(np.array([1.0, float("nan"), 0.0]))
    Traceback (most recent call last):
    sottovoce.personalize.federated.server.Refused: Expected finite counts from a client.
    >>> server.finish_round().tolist()
    [0.75, 0.25, 0.0]
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        release: CountRelease | None = None,
        *,
        ledger: Ledger | None = None,
        denoise: str = "project",
        plausible_mass: float = PLAUSIBLE_MASS,
        minimum_clients: int = 1,
        word_limit: float | None = None,
    ) -> None:
        _validate.one_of("denoise", denoise, DENOISERS)
        if word_limit is not None:
            _validate.positive("word_limit", word_limit)
        _validate.positive("plausible_mass", plausible_mass)
        _validate.at_least_one("minimum_clients", minimum_clients)
        self.vocabulary, self.release, self.denoise = vocabulary, release, denoise
        self.ledger = release.ledger if release else ledger
        self.plausible_mass, self.minimum_clients = plausible_mass, minimum_clients
        self.word_limit = word_limit
        if release:
            release.ledger.assume(
                f"whether a round had fewer than {minimum_clients} contributions, and so was not "
                "released, is not secret, or never depends on one person"
            )
        if release and release.plan.unit is Unit.UTTERANCE:
            # Refusing a client drops all of its utterances, so the bound must not depend on any
            # single one.
            release.ledger.assume(
                f"no honest client contributes more than {plausible_mass:g} words per round"
            )
        self.counts: Vector = np.zeros(len(vocabulary))
        self.rounds = 0
        self.q_bar: Vector = vocabulary.unigram
        self._sum: Vector = np.zeros(len(vocabulary))
        self._joined = 0
        self._names: set[str] = set()
        self._lifetime = _LifetimeTotals()
        self._run_released = False
        self._lock = threading.Lock()

    @property
    def plan(self) -> ReleasePlan | None:
        return self.release.plan if self.release else None

    @property
    def marginals(self) -> Marginals:
        """The marginals released so far."""
        mass = max(float(self.counts.sum()), self._least_mass)
        return Marginals(self.vocabulary.words, self.q_bar, mass=mass)

    @property
    def _least_mass(self) -> float:
        """The mass that q_bar is at least divided by, so that one client is 1/minimum of it."""
        if self.word_limit is None:
            return 0.0
        return self.minimum_clients * self._raise_limit() * max(self.rounds, 1)

    def _raise_limit(self) -> float:
        """The most that one client adds to a word in a round, in counts."""
        unit = 1 if self.plan is None else self.plan.counting.unit
        capped = self._bounds()[1] / unit
        return capped if self.word_limit is None else min(self.word_limit, capped)

    @property
    def cumulative(self) -> bool:
        return self.plan is not None and self.plan.release is Release.CUMULATIVE

    @property
    def rules(self) -> str:
        """The digest of the counting rules, sent with requests and answers."""
        return rules_of(self.vocabulary, self.plan)

    def begin_run(self) -> None:
        """Start a new run in the ledger, unless the current one has released nothing."""
        if self.release is not None and self._run_released:
            self.release.begin_run()
            self._run_released = False

    def receive(
        self, contribution: Vector, *, client: str | None = None, rules: str | None = None
    ) -> None:
        """Add one client's counts (in units) to the sum of this round, or refuse them.

        With a `client` name the server ensures that each client contributes once per round, and
        within a lifetime cap over all rounds; `rules` are those the client counted by.
        """
        if rules is not None and not same_rules(rules, self.rules):
            raise Refused("other-rules", "Expected counts by the rules of the plan, got others.")
        counts = self._checked(contribution)
        if self.word_limit is not None and not self.cumulative:
            unit = 1 if self.plan is None else self.plan.counting.unit
            counts = np.minimum(counts, np.floor(self._raise_limit() * unit))
        with self._lock:
            if client is not None:
                if client in self._names:
                    raise Refused(
                        "twice", f"Expected one contribution per round from {client}, got two."
                    )
                if self._has_lifetime_caps:
                    mass, per_word = self._bounds()
                    self._lifetime.add(client, counts, mass=mass, per_word=per_word)
                self._names.add(client)
            self._sum += counts
            self._joined += 1

    def receive_sum(self, total: Vector, *, clients: int, most: float) -> None:
        """Add the sum of `clients` clients, each with at most `most` units of a word.

        Single contributions are invisible in a secure sum, so only the sum can be checked.
        """
        if total.shape != (len(self.vocabulary),) or not np.isfinite(total).all():
            raise Refused("not-finite", f"Expected {len(self.vocabulary)} finite counts.")
        if (np.rint(total) != total).any():
            raise Refused("not-whole", "Expected whole numbers of units in a secure sum.")
        capped = self._bounds()[0]
        if (total < 0).any() or (total > clients * most).any() or total.sum() > clients * capped:
            raise Refused("too-large", f"Expected counts within the caps of {clients} clients.")
        with self._lock:
            self._sum += total
            self._joined += clients

    def check(self, contribution: Vector) -> None:
        """Raise `Refused` for anything that an honest client cannot send."""
        self._checked(contribution)

    def finish_round(self) -> Vector:
        """Record and release the noisy sum, and return the new q_bar.

        Raises `NobodyJoined` if fewer than `minimum_clients` contributed; their counts are dropped,
        and q_bar stays the same.
        """
        with self._lock:
            total, self._sum = self._sum, np.zeros(len(self.vocabulary))
            joined, self._joined = self._joined, 0
            self._names.clear()
            if joined < self.minimum_clients:
                raise NobodyJoined(
                    f"Expected contributions of at least {self.minimum_clients} clients in a "
                    f"round, got {joined}: nothing was released."
                )
            if self.release is None:
                if self.ledger is not None:
                    self.ledger.spend(Unprotected(unit=self.ledger.unit, reason=NO_NOISE))
                fresh: Vector = total
            else:
                fresh = self.release(total)
                self._run_released = True
            self.rounds += 1
            self.counts = fresh if self.cumulative else self.counts + fresh
            self.q_bar = self._filled_up(self._distribution())
            return self.q_bar

    def state(self) -> dict[str, Any]:
        """What a resumed server needs of the rounds so far; for the operator only."""
        return {
            "counts": self.counts.tolist(),
            "rounds": self.rounds,
            "lifetime": self._lifetime.to_json(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`, as if the rounds had been run here."""
        counts: Vector = np.array(state["counts"], dtype=np.float64)
        if counts.shape != self.counts.shape:
            raise InvalidInput(f"Expected {self.counts.size} saved counts, got {counts.size}.")
        self.counts, self.rounds = counts, int(state["rounds"])
        self._lifetime = _LifetimeTotals.from_json(state["lifetime"])
        if self.rounds:
            self.q_bar = self._filled_up(self._distribution())

    def _filled_up(self, q_bar: Vector) -> Vector:
        """q_bar with the background in the place of words that are missing to the least mass."""
        total = max(float(self.counts.sum()), 0.0)
        least = self._least_mass
        if total >= least:
            return q_bar
        share = total / least
        filled: Vector = share * q_bar
        if self.denoise == "keep":
            # Pairs that were not kept are unknown.
            filled[self.vocabulary.index[UNKNOWN]] += 1 - share
        else:
            filled += (1 - share) * self.vocabulary.unigram
        return filled

    def _checked(self, contribution: Vector) -> Vector:
        """The validated counts in double precision.

        The checks run after the conversion: in a client-chosen integer type a sum may overflow.
        """
        size = len(self.vocabulary)
        if not isinstance(contribution, np.ndarray) or contribution.shape != (size,):
            raise Refused("wrong-length", f"Expected {size} counts from a client.")
        kinds = (np.integer, np.floating)
        if not any(np.issubdtype(contribution.dtype, kind) for kind in kinds):
            raise Refused("not-numbers", f"Expected numbers, got {contribution.dtype}.")
        counts: Vector = np.array(contribution, dtype=np.float64, subok=False)
        if not np.isfinite(counts).all():
            raise Refused("not-finite", "Expected finite counts from a client.")
        if (counts < 0).any():
            raise Refused("negative", "Expected counts >= 0 from a client.")
        plan = self.plan
        if plan is not None and plan.counting.integer and (np.rint(counts) != counts).any():
            raise Refused("not-whole", "Expected whole numbers of units from a client.")
        mass, per_word = self._bounds()
        if not _within(float(counts.sum()), mass) or not _within(float(counts.max()), per_word):
            raise Refused("too-large", "Expected counts within the caps of one client.")
        return counts

    @property
    def _has_lifetime_caps(self) -> bool:
        plan = self.plan
        return (
            plan is not None
            and plan.unit is Unit.USER
            and plan.caps.span is Cap.LIFETIME
            and not self.cumulative
        )

    def _distribution(self) -> Vector:
        if self.denoise != "keep":
            if self.counts.sum() <= 0:
                return self.vocabulary.unigram
            if self.plan is None:
                share: Vector = self.counts / self.counts.sum()
                return share
        # Increments are summed, and so is their noise.
        rounds = 1 if self.cumulative else self.rounds
        std = self.plan.noise_std * float(np.sqrt(rounds)) if self.plan is not None else 0.0
        return DENOISERS[self.denoise](self.counts, self.vocabulary, std)

    def _bounds(self) -> tuple[float, float]:
        if self.plan is None:
            return self.plausible_mass, self.plausible_mass
        unit = self.plan.counting.unit
        if self.plan.unit is Unit.UTTERANCE:
            return self.plausible_mass * unit, self.plausible_mass * unit
        mass, per_word = self.plan.caps.in_units(unit)
        if self.cumulative and self.plan.caps.span is Cap.PER_ROUND:
            mass, per_word = mass * (self.rounds + 1), per_word * (self.rounds + 1)
        return mass, per_word


class _LifetimeTotals:
    """The contributions of every client over all rounds, for lifetime caps."""

    def __init__(self) -> None:
        self._mass: dict[str, float] = {}
        self._words: dict[str, dict[int, float]] = {}

    def add(self, client: str, counts: Vector, *, mass: float, per_word: float) -> None:
        """Record a contribution, or refuse one that exceeds the caps."""
        total = self._mass.get(client, 0.0) + float(counts.sum())
        fits = _within(total, mass)
        words = dict(self._words.get(client, {}))
        if np.isfinite(per_word):
            for place in np.flatnonzero(counts).tolist():
                words[place] = words.get(place, 0.0) + float(counts[place])
                fits = fits and _within(words[place], per_word)
        if not fits:
            raise Refused("over-lifetime-cap", f"Expected {client} to keep to its lifetime caps.")
        self._mass[client] = total
        if words:
            self._words[client] = words

    def to_json(self) -> dict[str, Any]:
        return {"mass": self._mass, "words": self._words}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        totals = cls()
        totals._mass = dict(data["mass"])
        totals._words = {
            client: {int(place): mass for place, mass in words.items()}
            for client, words in data["words"].items()
        }
        return totals


def _within(value: float, bound: float) -> bool:
    # Tolerance for floating-point sums in a different order.
    return value <= bound * (1 + 1e-9)
