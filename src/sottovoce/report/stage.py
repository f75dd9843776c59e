"""A stage: one run of one verb, read from its run.json, with its audit.

Missing parts of a run are skipped; invalid parts are errors, because a page must not guess.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sottovoce import _validate
from sottovoce.audit.bounds import LowerBound
from sottovoce.audit.result import AuditResult
from sottovoce.errors import InvalidInput, LedgerDamaged, SottovoceError
from sottovoce.privacy.guarantee import Claim, Guarantee
from sottovoce.privacy.ledger import Ledger
from sottovoce.report.evidence import Doubt, Kind, doubts_of
from sottovoce.report.numbers import Measured, number


@dataclass(frozen=True)
class Stated:
    """The guarantee for one unit, and the claim of the recipe."""

    guarantee: Guarantee
    claim: Claim | None = None
    claim_about: str = ""
    """The type of private value that the claim is about, if claims differ by type."""
    checked: bool | None = None
    """Whether the ledger implies the guarantee (see `derivation`); None if not checked."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One run: its configuration, guarantees and results."""

    name: str
    verb: str
    path: Path
    run: Mapping[str, Any]
    stated: tuple[Stated, ...] = ()
    ledgers: Mapping[str, Ledger]
    audit: AuditResult | None = None
    private: tuple[str, ...] = ()
    """Parts read from the private folder of the run."""
    doubts: tuple[Doubt, ...] = ()
    """What speaks against the evidence (see `evidence` and `derivation`)."""
    attack: Mapping[str, Any] | None = None
    """The result of `deid attack` on what this stage released."""
    reference: bool = False
    """Shown for comparison only: it is not released."""

    @property
    def main(self) -> Stated | None:
        """The main guarantee: the last one, for the largest unit."""
        return self.stated[-1] if self.stated else None

    @property
    def holds(self) -> bool:
        return self.main is not None and all(each.guarantee.holds for each in self.stated)

    @property
    def epsilon(self) -> float | None:
        """The epsilon of the main guarantee: infinite if it does not hold, None if unstated."""
        return None if self.main is None else self.main.guarantee.epsilon

    @property
    def group_size(self) -> int | None:
        """How many examples a user has at most, if the run declares it."""
        size = self.configuration.get("max_examples_per_user")
        if size is None or not self.configuration:
            return None
        return _validate.at_least_one("max_examples_per_user", _validate.whole("it", size))

    @property
    def population(self) -> int | None:
        """The declared number of units or, in the private part, the counted number of users."""
        for value in (self.configuration.get("population"), self.metrics.get("users"),
                      self.metrics.get("clients")):  # fmt: skip
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
        return None

    @property
    def lower_bound(self) -> LowerBound | None:
        return None if self.audit is None else self.audit.lower_bound

    @cached_property
    def defects(self) -> tuple[str, ...]:
        """Bounds of the audit, and attacks on a release, that contradict the guarantee."""
        types = (self.attack or {}).get("types")
        attacked = tuple(
            f"An attack on {kind} succeeded more often than epsilon allows."
            for kind, found in (types.items() if isinstance(types, Mapping) else ())
            if isinstance(found, Mapping) and found.get("exceeds_epsilon")
        )
        if self.audit is None:
            return attacked
        guarantee = self.audit.guarantee if self.main is None else self.main.guarantee
        return (*attacked, *replace(self.audit, guarantee=guarantee).defects())

    @property
    def seeded(self) -> str | None:
        """The warning of a seeded run."""
        seed = self.run.get("seed")
        return seed if isinstance(seed, str) and seed.startswith("seeded") else None

    @property
    def configuration(self) -> Mapping[str, Any]:
        return self._part("configuration")

    @property
    def metrics(self) -> Mapping[str, Any]:
        return self._part("metrics")

    @property
    def timings(self) -> Mapping[str, float]:
        found = {str(name): number(value) for name, value in self._part("timings").items()}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def data(self) -> Mapping[str, Any]:
        return self._part("data")

    @property
    def history(self) -> tuple[Mapping[str, float], ...]:
        """Numbers by step; values that are not finite are skipped."""
        rows = self.run.get("history")
        read = (
            {str(name): number(value) for name, value in row.items()}
            for row in (rows if isinstance(rows, list) else ())
            if isinstance(row, Mapping)
        )
        return tuple(
            {name: value for name, value in row.items() if value is not None and _finite(value)}
            for row in read
            if (step := row.get("step")) is not None and _finite(step)
        )

    def scores(self) -> tuple[str, Mapping[str, Measured]]:
        """The scored part of the data (test, or else validation), and its scores."""
        for part in ("test", "valid"):
            found = self.metrics.get(part)
            if isinstance(found, Mapping):
                read = {str(name): Measured.read(value) for name, value in found.items()}
                return part, {name: value for name, value in read.items() if value is not None}
        return "", {}

    def _part(self, name: str) -> Mapping[str, Any]:
        part = self.run.get(name)
        return part if isinstance(part, Mapping) else {}


@contextmanager
def in_a_sentence(what: str) -> Iterator[None]:
    """Whatever a file holds, it is shown or refused in a sentence."""
    try:
        yield
    except SottovoceError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError,
            RecursionError) as problem:  # fmt: skip
        reason = " ".join(repr(problem).split())[:200]
        raise InvalidInput(f"Expected runs of sottovoce in {what}, got: {reason}.") from problem


def stage_of(
    run: Mapping[str, Any], path: Path, name: str, audit: AuditResult | None = None
) -> Stage:
    """A stage from the content of a run file."""
    verb = str(run["verb"])
    try:
        if verb == "deid":
            # Reading the ledger needs the facts of this module to be registered.
            from sottovoce.deid.statement import facts as _  # noqa: F401
        ledgers, damaged = _ledgers(run)
        return Stage(
            name=name,
            verb=verb,
            path=path,
            run=run,
            stated=_stated(run, audit),
            ledgers=ledgers,
            audit=audit,
            doubts=(*damaged, *doubts_of(run, path, ledgers, audit)),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        reason = str(problem) if isinstance(problem, InvalidInput) else repr(problem)
        raise InvalidInput(f"{path}: Expected the run file of a verb, got: {reason}") from problem


def _stated(run: Mapping[str, Any], audit: AuditResult | None) -> tuple[Stated, ...]:
    claims = _claims(run.get("claimed"))
    by_unit = (run.get("release") or {}).get("guarantees") or run.get("guarantees") or {}
    if by_unit:
        largest = max(claims.items(), key=lambda item: item[1].log10_epsilon, default=("", None))
        return tuple(
            # A claim about a type is about one token of it.
            Stated(Guarantee.from_json(given), largest[1], largest[0])
            if unit == "token"
            else Stated(Guarantee.from_json(given))
            for unit, given in by_unit.items()
        )
    if run.get("guarantee"):
        # The guarantee to users comes first: the audit is compared with the last, to examples.
        users = [run["user_guarantee"]] if run.get("user_guarantee") else []
        return (
            *(Stated(Guarantee.from_json(given)) for given in users),
            Stated(Guarantee.from_json(run["guarantee"]), claims.get("")),
        )
    if audit is not None and audit.guarantee is not None:
        return (Stated(audit.guarantee),)
    return ()


def _claims(claimed: Any) -> dict[str, Claim]:
    """Claims by type; a single claim has the key \"\"."""
    if not claimed:
        return {}
    if "epsilon" in claimed:
        return {"": Claim.from_json(claimed)}
    return {str(kind): Claim.from_json(given) for kind, given in claimed.items()}


def _ledgers(run: Mapping[str, Any]) -> tuple[dict[str, Ledger], list[Doubt]]:
    """The ledgers of a run by unit; a damaged one is named and does not count."""
    by_unit = (run.get("release") or {}).get("ledgers")
    if not by_unit:
        by_unit = {"": run["ledger"]} if run.get("ledger") else {}
    found, damaged = {}, []
    for data in by_unit.values():
        try:
            ledger = Ledger.from_json(data)
        except LedgerDamaged as problem:
            damaged.append(Doubt(Kind.LEDGER, f"A ledger in the run file is damaged: {problem}"))
            continue
        found[str(ledger.unit)] = ledger
    return found, damaged


def _finite(value: float) -> bool:
    return math.isfinite(value)
