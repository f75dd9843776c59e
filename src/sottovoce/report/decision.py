"""The decision: release, do not release, or a person must decide.

Every rule of the policy that a stage breaks becomes a finding with its reason. One red finding is
enough not to release, one amber finding is enough to ask a person.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sottovoce.privacy.composition import (
    Part,
    Total,
    total_for_a_person,
    tradeoff_for_a_person,
)
from sottovoce.privacy.guarantee import Guarantee, Unit, rounded_up
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.ledgers.merging import without_copies
from sottovoce.privacy.policy import VACUOUS, Policy
from sottovoce.privacy.risk import Tradeoff, certainty, percent_up
from sottovoce.report import detection
from sottovoce.report.finding import Finding, Level, Weight
from sottovoce.report.stage import Stage

_REASONS = 3
GUESSES = {"attribute": 0.1, "singling out": 1e-3, "reconstruction": 1e-6}
"""How often a blind guess of each attack is right."""


class Decision(StrEnum):
    RELEASE = "release"
    STOP = "do not release"
    ASK = "a person must decide"

    @property
    def exit_code(self) -> int:
        return {Decision.RELEASE: 0, Decision.STOP: 1, Decision.ASK: 3}[self]

    @property
    def level(self) -> Level:
        return {
            Decision.RELEASE: Level.GREEN, Decision.STOP: Level.RED, Decision.ASK: Level.AMBER,
        }[self]  # fmt: skip


@dataclass(frozen=True)
class Judgement:
    """The decision under a policy, what led to it, and the total for one person."""

    policy: Policy
    findings: tuple[Finding, ...]
    total: Total | None
    curve: Tradeoff | None = None
    """For one person over all stages; None where it would be vacuous or is not known."""

    @property
    def decision(self) -> Decision:
        levels = {finding.level for finding in self.findings}
        if Level.RED in levels:
            return Decision.STOP
        return Decision.ASK if Level.AMBER in levels else Decision.RELEASE

    @property
    def reasons(self) -> tuple[Finding, ...]:
        """The reasons that matter most; for a release, what was checked."""
        return self.findings[:_REASONS]

    def to_json(self) -> dict[str, Any]:
        return {
            "decision": str(self.decision),
            "level": str(self.decision.level),
            "reasons": [finding.sentence for finding in self.reasons],
            "findings": [finding.to_json() for finding in self.findings],
            "person": None if self.total is None else self.total.to_json(),
            "bounds": None if self.curve is None else bounds_of(self.curve),
            "policy": {"name": self.policy.name, "sha256": self.policy.sha256},
        }


def judge(stages: Sequence[Stage], policy: Policy) -> Judgement:
    """Hold the stages that are to be released against a policy."""
    released = [stage for stage in stages if not stage.reference]
    parts = _parts(released)
    total = total_for_a_person(parts) if parts else None
    useful = total is not None and total.holds and total.epsilon <= VACUOUS
    findings: list[Finding] = []
    for stage in released:
        findings += _evidence(stage)
        findings += _guarantees(stage, policy)
        findings += _audits(stage, policy)
        findings += _population(stage, policy)
        if stage.verb == "deid":
            findings += detection.findings(stage, policy)
    findings += _person(total, policy, len(released))
    if not released:
        findings.append(
            Finding(Level.AMBER, Weight.EVIDENCE, "", "evidence", "Nothing is to be released.")
        )
    if all(finding.level is Level.GREEN for finding in findings):
        findings.append(_all_well(policy))
    # Equal sentences of several stages are one finding; the order is by what matters most.
    once = dict.fromkeys(sorted(findings, key=lambda each: each.order))
    return Judgement(policy, tuple(once), total, tradeoff_for_a_person(parts) if useful else None)


def bounds_of(curve: Tradeoff) -> dict[str, Any]:
    """What the curve allows at most, by attack; `mu` where the noise is Gaussian."""
    return {
        "membership": curve.membership,
        "attribute": curve.success(GUESSES["attribute"]),
        "singling out": curve.success(GUESSES["singling out"]),
        "reconstruction": curve.success(GUESSES["reconstruction"]),
        "mu": curve.mu,
    }


def _evidence(stage: Stage) -> Iterator[Finding]:
    for doubt in stage.doubts:
        level = Level.RED if doubt.fatal else Level.AMBER
        weight = Weight.FORGERY if doubt.fatal else Weight.EVIDENCE
        sentence = f"{stage.name}: {doubt.kind.capitalize()}. {doubt.sentence}"
        yield Finding(level, weight, stage.name, "evidence", sentence)
    for defect in stage.defects:
        yield Finding(Level.RED, Weight.FORGERY, stage.name, "evidence", f"{stage.name}: {defect}")
    if stage.seeded:
        yield Finding(
            Level.RED, Weight.GUARANTEE, stage.name, "evidence",
            f"{stage.name}: Its random numbers come from a seed; whoever knows it can undo them.",
        )  # fmt: skip


def _guarantees(stage: Stage, policy: Policy) -> Iterator[Finding]:
    if not policy.epsilon and policy.identifiers:
        return  # a list of identifiers says nothing about epsilon
    if not stage.stated:
        yield Finding(
            Level.AMBER, Weight.GUARANTEE, stage.name, "epsilon",
            f"{stage.name}: It states no guarantee, so nobody knows what it tells about a person.",
        )  # fmt: skip
    for stated in stage.stated:
        yield from _guarantee(stage, stated.guarantee, policy)


def _guarantee(stage: Stage, given: Guarantee, policy: Policy) -> Iterator[Finding]:
    if not given.holds:
        yield Finding(
            Level.RED, Weight.GUARANTEE, stage.name, f"epsilon.{given.unit}",
            f"{stage.name}: There is no guarantee to one {given.unit}: {given.reasons[0]}.",
        )  # fmt: skip
        return
    yield from _epsilon(stage.name, given, policy)
    if policy.delta is not None and given.delta > policy.delta:
        yield Finding(
            Level.RED, Weight.EPSILON, stage.name, "delta",
            f"{stage.name}: Delta is {given.delta:g}, and the policy allows {policy.delta:g}.",
        )  # fmt: skip
    for sentence in given.assumptions:
        if any(words in sentence for words in policy.forbidden):
            yield Finding(
                Level.RED, Weight.ASSUMPTION, stage.name, "assumptions",
                f"{stage.name}: The guarantee relies on what the policy does not accept: "
                f"{sentence}.",
            )  # fmt: skip


def _epsilon(name: str, given: Guarantee, policy: Policy) -> Iterator[Finding]:
    limit = policy.epsilon.get(given.unit)
    most = VACUOUS if limit is None else limit.release
    if given.epsilon <= most:
        return
    refused = limit is not None and given.epsilon > limit.most
    words = (
        f"about one {given.unit} a guess of 50 % can become "
        f"{percent_up(certainty(given.epsilon))} certain"
    )
    bound = limit.most if refused and limit is not None else most
    allowed = f"the policy allows {bound:g}"
    vacuous = given.epsilon > VACUOUS
    says = "It protects nobody: " if vacuous else ""
    number = "" if vacuous else f" (epsilon {rounded_up(given.epsilon)})"
    yield Finding(
        Level.RED if refused else Level.AMBER,
        Weight.EPSILON,
        name,
        f"epsilon.{given.unit}",
        f"{name}: {says}{words}{number}, and {allowed}"
        f"{f' ({percent_up(certainty(bound))})' if vacuous else ''}.",
    )


def _audits(stage: Stage, policy: Policy) -> Iterator[Finding]:
    for name in policy.audits.get(stage.verb, ()):
        if name not in _tried(stage):
            yield Finding(
                Level.AMBER, Weight.UNMEASURED, stage.name, "audits",
                f"{stage.name}: Nobody has tried the attack “{name}” on it.",
            )  # fmt: skip


def _tried(stage: Stage) -> set[str]:
    """The attacks that were tried on what this stage releases."""
    found = set() if stage.attack is None else {"deid attack"}
    if stage.audit is not None and not any(
        doubt.kind == doubt.kind.AUDIT for doubt in stage.doubts
    ):
        found |= {attack.attack for attack in stage.audit.attacks}
        found |= {bound.method.partition(" bound")[0] for bound in stage.audit.bounds}
    return found


def _population(stage: Stage, policy: Policy) -> Iterator[Finding]:
    least = policy.least_population
    if least is None or not stage.stated:
        return
    size = stage.population
    if size is None:
        yield Finding(
            Level.AMBER, Weight.UNMEASURED, stage.name, "population",
            f"{stage.name}: Nobody has declared of how many the data is; the policy asks for "
            f"{least:,}.",
        )  # fmt: skip
    elif size < least:
        yield Finding(
            Level.RED, Weight.EPSILON, stage.name, "population",
            f"{stage.name}: The data is of only {size:,}; the policy asks for {least:,}.",
        )  # fmt: skip


def _person(total: Total | None, policy: Policy, stages: int) -> Iterator[Finding]:
    if total is None or (not policy.epsilon and policy.identifiers):
        return
    if total.guarantee is None or not total.holds:
        if policy.person_total:
            why = total.reasons[0] if total.reasons else "a release has no guarantee"
            yield Finding(
                Level.AMBER, Weight.PERSON, "", "person",
                f"There is no total for one person: {why}.",
            )  # fmt: skip
        return
    if stages > 1:
        yield from _epsilon("All stages together", total.guarantee, policy)


def _parts(stages: Sequence[Stage]) -> list[Part]:
    """What all stages have spent; copies of one ledger count once."""
    named: list[tuple[str, Ledger]] = []
    about: dict[str, tuple[float, int | None]] = {}
    for stage in stages:
        chosen = stage.ledgers.get(str(Unit.USER)) or next(iter(stage.ledgers.values()), None)
        if chosen is None:
            continue
        delta = max((each.guarantee.delta for each in stage.stated), default=0.0)
        named.append((stage.name, chosen))
        about[stage.name] = (delta, stage.group_size)
    kept = without_copies(named, [])
    parts = []
    for name, ledger in kept:
        delta, size = about.get(name, (max(each for each, _ in about.values()), None))
        parts.append(Part.of(name, ledger, delta, size))
    return parts


def _all_well(policy: Policy) -> Finding:
    return Finding(
        Level.GREEN, Weight.PERSON, "", "all",
        f"Everything that the policy {policy.name} asks for was measured and is within its limits.",
    )  # fmt: skip
