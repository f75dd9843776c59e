"""What a policy says about the detector of a release: what it missed, and what nobody looked for.

The recall of a detector is measured on the released text wherever that has annotations. What was
not measured is never green.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from sottovoce.deid.detect.evaluation import Evaluation
from sottovoce.errors import InvalidInput
from sottovoce.privacy.policy import Policy
from sottovoce.report.finding import Finding, Level, Weight
from sottovoce.report.numbers import Measured, number, percent
from sottovoce.report.stage import Stage


def evaluation_of(stage: Stage) -> Evaluation | None:
    """The measured recall of a release, its bounds computed anew; None if nobody measured it."""
    given = stage.run.get("evaluation")
    if not isinstance(given, Mapping) or not isinstance(given.get("types"), Mapping):
        return None
    try:
        found = Evaluation.from_json(given)
        if not found.types or not all(
            0 <= each.missed_values <= each.values and 0 <= each.missed_words <= each.words > 0
            for each in found.types.values()
        ):
            raise InvalidInput("Expected counts of what was missed.")
    except ValueError as problem:
        raise InvalidInput(
            f"{stage.path}: Expected an evaluation of the detector, got: {problem}"
        ) from problem
    return found


def findings(stage: Stage, policy: Policy) -> Iterator[Finding]:
    """Everything that the policy says about the detector of a release."""
    found = evaluation_of(stage)
    used: Any = stage.configuration.get("detector")
    name = str(used.get("detector") or "") if isinstance(used, Mapping) else ""
    name = name or "the detector"
    if "gold" in name.split("+"):
        yield _unmeasured(stage, "The annotations were the detector; nobody knows what they miss.")
    elif found is None:
        yield _unmeasured(stage, f"Nobody has measured how much {name} misses in such text.")
    else:
        yield from _leaks(stage, found, policy)
        yield from _recall(stage, found, policy)
    if policy.stability is not None:
        yield from _stability(stage, policy.stability)
    yield from _identifiers(stage, policy)


def leaked(found: Evaluation) -> tuple[int, int]:
    """How many private values are still in the text, and of how many."""
    return (
        sum(each.missed_values for each in found.types.values()),
        sum(each.values for each in found.types.values()),
    )


def on_released_text(stage: Stage) -> bool:
    """Whether the recall was measured on the very text that is released."""
    given = stage.run.get("evaluation")
    return isinstance(given, Mapping) and given.get("on") == "the released text"


def _leaks(stage: Stage, found: Evaluation, policy: Policy) -> Iterator[Finding]:
    left, values = leaked(found)
    if not left or not on_released_text(stage):
        return
    allowed = policy.most_leaked or 0.0
    refused = policy.most_leaked is not None and left > allowed * values
    most = sorted(found.types.items(), key=lambda item: -item[1].missed_values)[:3]
    kinds = ", ".join(
        f"{each.missed_values:,} of {each.values:,} {kind}" for kind, each in most
        if each.missed_values
    )  # fmt: skip
    yield Finding(
        Level.RED if refused else Level.AMBER,
        Weight.LEAK,
        stage.name,
        "recall",
        f"{stage.name}: {left:,} of {values:,} annotated private values are still in the released "
        f"text ({kinds}).",
    )


def _recall(stage: Stage, found: Evaluation, policy: Policy) -> Iterator[Finding]:
    low: list[tuple[float, str]] = []
    for kind, each in sorted(found.types.items()):
        least = policy.least_recall(kind)
        if least is not None and each.lower < least:
            low.append((each.lower - least, f"{percent(each.lower)} of {kind}"))
    if low:
        worst = ", ".join(words for _, words in sorted(low)[:3])
        more = f" and too little of {len(low) - 3} other types" if len(low) > 3 else ""
        yield Finding(
            Level.RED, Weight.LEAK, stage.name, "recall",
            f"{stage.name}: The detector is sure to find only {worst}{more}, and the policy asks "
            f"for {percent(policy.least_recall('') or 0, 0)} and more.",
        )  # fmt: skip
    types = (stage.run.get("release") or {}).get("types")
    unseen = sorted({*types} - {*found.types}) if isinstance(types, Mapping) else []
    if unseen and policy.recall is not None:
        yield _unmeasured(stage, f"No annotation measures the recall of {', '.join(unseen)}.")


def _stability(stage: Stage, least: float) -> Iterator[Finding]:
    given: Any = stage.run.get("evaluation")
    shown = given.get("stability") if isinstance(given, Mapping) else None
    low = number(shown.get("lower", shown.get("low"))) if isinstance(shown, Mapping) else None
    measured = Measured.read(shown)
    bound = low if low is not None else None if measured is None else measured.value
    if bound is None:
        yield _unmeasured(
            stage, "Nobody has measured whether swapping a value changes other marks.", "stability"
        )
    elif bound < least:
        yield Finding(
            Level.RED, Weight.ASSUMPTION, stage.name, "stability",
            f"{stage.name}: Swapping a value leaves the other marks alone in only "
            f"{percent(bound)} of cases; the policy asks for {percent(least, 0)}.",
        )  # fmt: skip


def _identifiers(stage: Stage, policy: Policy) -> Iterator[Finding]:
    """The list of identifiers, how they are replaced, and the fields beside the text."""
    types: Any = (stage.run.get("release") or {}).get("types")
    found: Mapping[str, Any] = types if isinstance(types, Mapping) else {}
    known: Any = stage.configuration.get("types")
    looked_for = {*found, *(map(str, known) if isinstance(known, list) else ())}
    open_ = [
        each for each, kinds in policy.identifiers.items() if not looked_for.intersection(kinds)
    ]
    if open_:
        yield Finding(
            Level.AMBER, Weight.UNMEASURED, stage.name, "identifiers",
            f"{stage.name}: A person must say that the text has none of these, for which nobody "
            f"looked: {', '.join(open_)}.",
        )  # fmt: skip
    wanted = {kind for kinds in policy.identifiers.values() for kind in kinds}
    kept = sorted(
        kind for kind, each in found.items()
        if kind in wanted and isinstance(each, Mapping) and not _is_removed(each)
    )  # fmt: skip
    if kept:
        yield Finding(
            Level.RED, Weight.LEAK, stage.name, "identifiers",
            f"{stage.name}: Some values of {', '.join(kept)} stay as they are: they are replaced "
            "only with a probability.",
        )  # fmt: skip
    fields: Any = stage.configuration.get("fields")
    for name, allowed in policy.fields.items():
        how = fields.get(name) if isinstance(fields, Mapping) else None
        if how not in allowed:
            yield Finding(
                Level.RED, Weight.LEAK, stage.name, "fields",
                f"{stage.name}: The field {name} is released as {how or 'it is'}; the policy asks "
                f"for {' or '.join(allowed)}.",
            )  # fmt: skip


def _is_removed(stated: Mapping[str, Any]) -> bool:
    """Whether a type never shows its true value: then it costs nothing."""
    given: Any = stated.get("guarantee")
    return isinstance(given, Mapping) and number(given.get("epsilon")) == 0.0


def _unmeasured(stage: Stage, sentence: str, rule: str = "recall") -> Finding:
    return Finding(Level.AMBER, Weight.UNMEASURED, stage.name, rule, f"{stage.name}: {sentence}")
