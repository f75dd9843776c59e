"""Privacy statements: the guarantee that holds, and the claim of the paper behind a recipe.

A `Guarantee` is derived from executed facts (see `accounting`); a `Claim` follows the arithmetic of
the paper that proposed the recipe. They are shown side by side and never mixed.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self

from sottovoce import _validate
from sottovoce.errors import InvalidInput

# Delta may be at most this fraction of 1/n for a population of n. At delta = 1/n, publishing the
# record of one randomly chosen person would count as private.
DELTA_SHARE = 0.1

# Larger integers are not exact as floating-point numbers.
LARGEST_POPULATION = 2**53

# Printed wherever noise or sampling comes from a fixed seed.
SEEDED_STAMP = "seeded: for tests, no guarantee against anyone who knows the seed"


class Unit(StrEnum):
    """The privacy unit: whose presence or value is protected."""

    TOKEN = "token"
    UTTERANCE = "utterance"
    USER = "user"
    EXAMPLE = "example"


class Relation(StrEnum):
    """The neighbouring relation between two inputs."""

    ADD_OR_REMOVE = "add-or-remove"
    REPLACE_ONE = "replace-one"


class Notion(StrEnum):
    """Plain differential privacy, or differential privacy scaled by a distance."""

    DP = "dp"
    METRIC_DP = "metric-dp"


class Verdict(StrEnum):
    HOLDS = "holds"
    NO_GUARANTEE = "no-guarantee"


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """The guarantee that all releases together give to one privacy unit.

    >>> g = Guarantee(epsilon=3.9331, delta=5e-4, unit=Unit.EXAMPLE,
    ...               relation=Relation.ADD_OR_REMOVE, accountant="PLD")
    >>> print(g)
    Adding or removing any one example changes the probability of any outcome by a factor of at
    most e^3.94, except with probability at most 0.0005 (differential privacy with epsilon = 3.94,
    delta = 0.0005; accountant: PLD).
    >>> Guarantee.from_json(g.to_json()) == g
    True
    """

    epsilon: float
    delta: float
    unit: Unit
    relation: Relation
    accountant: str
    notion: Notion = Notion.DP
    verdict: Verdict = Verdict.HOLDS
    reasons: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _validate.parse_choices(self)
        object.__setattr__(self, "epsilon", _validate.number("epsilon", self.epsilon))
        object.__setattr__(self, "delta", _validate.number("delta", self.delta))
        if not self.epsilon >= 0:
            raise InvalidInput(f"Expected epsilon >= 0, got {self.epsilon:g}.")
        _validate.delta(self.delta)
        for name in ("reasons", "assumptions", "not_covered"):
            object.__setattr__(self, name, _sentences(name, getattr(self, name)))
        if self.verdict is Verdict.HOLDS and math.isinf(self.epsilon):
            raise InvalidInput("Expected a finite epsilon for a guarantee that holds, got inf.")
        if self.verdict is Verdict.NO_GUARANTEE and not self.reasons:
            raise InvalidInput("Expected at least one reason for the verdict no-guarantee.")

    @property
    def holds(self) -> bool:
        return self.verdict is Verdict.HOLDS

    def __str__(self) -> str:
        """One sentence for non-experts, including assumptions and gaps."""
        if not self.holds:
            return f"No guarantee can be given to any one {self.unit}: {'; '.join(self.reasons)}."
        epsilon, neighbours = rounded_up(self.epsilon), _NEIGHBOURS[self.relation]
        delta = rounded_up(self.delta, 6)
        exception = f", except with probability at most {delta}" if self.delta else ""
        distance = " for every unit of distance" if self.notion is Notion.METRIC_DP else ""
        kind = "differential privacy" if self.notion is Notion.DP else "metric differential privacy"
        sentence = (
            f"{neighbours} any one {self.unit} changes the probability of any outcome by a factor "
            f"of at most e^{epsilon}{distance}{exception} ({kind} with epsilon = {epsilon}, "
            f"delta = {delta}; accountant: {self.accountant})"
        )
        if self.assumptions:
            sentence += f", provided that {'; '.join(self.assumptions)}"
        if self.not_covered:
            sentence += f"; not covered: {'; '.join(self.not_covered)}"
        return sentence + "."

    def qualified(
        self, *, assumptions: tuple[str, ...] = (), not_covered: tuple[str, ...] = ()
    ) -> Self:
        """The same guarantee with further assumptions or gaps, each listed once."""
        return replace(
            self,
            assumptions=tuple(dict.fromkeys(self.assumptions + assumptions)),
            not_covered=tuple(dict.fromkeys(self.not_covered + not_covered)),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "epsilon": number_to_json(self.epsilon),
            "delta": self.delta,
            "unit": str(self.unit),
            "relation": str(self.relation),
            "notion": str(self.notion),
            "accountant": self.accountant,
            "verdict": str(self.verdict),
            "reasons": list(self.reasons),
            "assumptions": list(self.assumptions),
            "not_covered": list(self.not_covered),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        try:
            return cls(
                epsilon=number_from_json(data["epsilon"]),
                delta=data["delta"],
                unit=data["unit"],
                relation=data["relation"],
                notion=data.get("notion", Notion.DP),
                accountant=str(data["accountant"]),
                verdict=data["verdict"],
                reasons=data["reasons"],
                assumptions=data["assumptions"],
                not_covered=data.get("not_covered", ()),
            )
        except (KeyError, TypeError, AttributeError) as problem:
            raise InvalidInput(f"Expected a guarantee in JSON, but {problem!r}.") from problem


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The epsilon that a paper claims; `log10_epsilon` is finite where epsilon overflows."""

    epsilon: float
    log10_epsilon: float
    delta: float
    how: str

    def __post_init__(self) -> None:
        for name in ("epsilon", "log10_epsilon", "delta"):
            object.__setattr__(self, name, _validate.number(name, getattr(self, name)))
        if not self.epsilon >= 0:
            raise InvalidInput(f"Expected a claimed epsilon >= 0, got {self.epsilon:g}.")
        _validate.delta(self.delta)

    @classmethod
    def of(cls, epsilon: float, *, delta: float, how: str) -> Self:
        log10 = math.log10(epsilon) if epsilon > 0 else -math.inf
        return cls(epsilon=epsilon, log10_epsilon=log10, delta=delta, how=how)

    def to_json(self) -> dict[str, Any]:
        return {
            "epsilon": number_to_json(self.epsilon),
            # log10(0) is -inf, which JSON writes as null.
            "log10_epsilon": None if self.epsilon == 0 else number_to_json(self.log10_epsilon),
            "delta": self.delta,
            "how": self.how,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read a claim back.

        >>> claim = Claim.of(3.0, delta=1e-5, how="zCDP")
        >>> Claim.from_json(claim.to_json()) == claim
        True
        """
        try:
            log10 = data["log10_epsilon"]
            return cls(
                epsilon=number_from_json(data["epsilon"]),
                log10_epsilon=-math.inf if log10 is None else number_from_json(log10),
                delta=float(data["delta"]),
                how=str(data["how"]),
            )
        except (KeyError, TypeError, ValueError) as problem:
            raise InvalidInput(f"Expected a claim in JSON, but {problem!r}.") from problem


@dataclass(frozen=True, kw_only=True)
class Statement:
    """The claim and the guarantee of one recipe or run, side by side."""

    claimed: Claim
    guarantee: Guarantee
    effective_noise_multiplier: float | None = None


def largest_delta(population: int) -> float:
    """The largest delta allowed for this many units: 0.1 / population.

    >>> largest_delta(2_000)
    5e-05
    """
    _validate.at_least_one("population", population)
    return DELTA_SHARE / _validate.between("population", population, 1, LARGEST_POPULATION)


def default_delta(population: int) -> float:
    """The default delta for this many units: the largest allowed, rounded down to two digits.

    Fewer than 100 units get the delta of 100.

    >>> default_delta(2_400), default_delta(1)
    (4.1e-05, 0.001)
    """
    exact = largest_delta(max(_validate.at_least_one("population", population), 100))
    exponent = math.floor(math.log10(exact)) - 1
    # The small slack keeps 0.1 / 100 from being rounded down to 0.00099.
    return float(f"{math.floor(exact / 10.0**exponent * (1 + 1e-12))}e{exponent}")


def rounded_up(value: float, digits: int = 3) -> str:
    """Format an upper bound with `digits` significant digits, rounded up.

    >>> rounded_up(3.9331), rounded_up(2.0), rounded_up(41177.4), rounded_up(float("inf"))
    ('3.94', '2', '41200', 'inf')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exponent = math.floor(math.log10(value)) - digits + 1
    # The small slack keeps 2.0000000000000004 from being printed as 2.01.
    steps = math.ceil(value / 10.0**exponent * (1 - 1e-12))
    return (
        f"{steps * 10.0**exponent:.{digits}g}"
        if value >= 1e6
        else f"{float(f'{steps}e{exponent}'):g}"
    )


def true_epsilon(guarantee: "Guarantee") -> str:
    """The epsilon of a guarantee, or "none"."""
    return rounded_up(guarantee.epsilon) if guarantee.holds else "none"


def claimed_epsilon(claim: "Claim | None") -> str:
    """The epsilon that a recipe claims, rounded like a true one; a power of ten if it is large.

    >>> claimed_epsilon(Claim.of(4.2, delta=0.0, how="")), claimed_epsilon(None)
    ('4.2', '–')
    >>> claimed_epsilon(Claim(epsilon=float("inf"), log10_epsilon=812.4, delta=0.0, how=""))
    '10^812.4'
    """
    if claim is None:
        return "–"
    if claim.epsilon < 1e6:
        return rounded_up(claim.epsilon)
    return f"10^{claim.log10_epsilon:.1f}" if math.isfinite(claim.log10_epsilon) else "inf"


def _sentences(name: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, tuple | list) or not all(isinstance(each, str) for each in given):
        raise InvalidInput(f"Expected {name} to be a list of sentences, got {given!r}.")
    return tuple(given)


def number_to_json(value: float) -> float | str:
    """Write infinity as the string "inf", since JSON has none."""
    return value if math.isfinite(value) else str(value)


def number_from_json(value: float | str) -> float:
    """Read a number that may be the string "inf".

    >>> number_from_json("inf")
    inf
    """
    try:
        # A bool is not a number: NaN makes the caller's checks reject it.
        return math.nan if isinstance(value, bool) else float(value)
    except ValueError as problem:
        raise InvalidInput(f'Expected a number or "inf", got {value!r}.') from problem


_NEIGHBOURS = {
    Relation.ADD_OR_REMOVE: "Adding or removing",
    Relation.REPLACE_ONE: "Replacing",
}


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The largest epsilon and delta that may be spent."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidInput(f"Expected a number as the budget's {name}, got {value!r}.")
        _validate.positive("the budget's epsilon", self.epsilon)
        _validate.delta(self.delta, "the budget's delta")


def rounded_down(value: float, digits: int = 3) -> str:
    """Format a lower bound with `digits` significant digits, rounded down.

    >>> rounded_down(2.468), rounded_down(33.99), rounded_down(0.0145487), rounded_down(2.0)
    ('2.46', '33.9', '0.0145', '2')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exponent = math.floor(math.log10(value)) - digits + 1
    # The small slack keeps 1.9999999999999998 from being printed as 1.99.
    steps = math.floor(value / 10.0**exponent * (1 + 1e-12))
    return f"{float(f'{steps}e{exponent}'):g}"
