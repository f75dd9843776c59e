"""Data about a release of text: types, examples with spans, and attacks."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import Claim, Guarantee, Verdict
from sottovoce.privacy.ledger import Ledger
from sottovoce.report.numbers import Measured, number
from sottovoce.report.stage import Stage

# The attacks that see a single released value, as epsilon assumes.
_BOUNDED = ("prior to posterior", "kept values")
_MAX_EXAMPLES = 20


@dataclass(frozen=True)
class TypeRow:
    """One type of private value."""

    kind: str
    tokens: int
    strategy: str
    p: float | None
    guarantee: Guarantee
    claim: Claim | None


@dataclass(frozen=True)
class Piece:
    """A piece of text; private if it has a type, which determines its colour."""

    text: str
    kind: str | None = None
    colour: int = 0


@dataclass(frozen=True)
class Example:
    """An utterance before and after; present only if the run stored examples."""

    before: tuple[Piece, ...]
    after: tuple[Piece, ...]


@dataclass(frozen=True)
class AttackRow:
    """An attack, with the success of blind guessing and the maximum that epsilon allows."""

    name: str
    trials: int
    success: Measured
    prior: float | None
    allowed: float | None


def types(stage: Stage) -> list[TypeRow]:
    """The types of a release."""
    found = (stage.run.get("release") or {}).get("types") or {}
    replaced = (stage.run.get("metrics") or {}).get("replaced") or {}
    if not isinstance(found, Mapping) or not isinstance(replaced, Mapping):
        raise InvalidInput(f"{stage.path}: Expected the types of a release by name.")
    if not all(isinstance(each, Mapping) for each in found.values()):
        raise InvalidInput(f"{stage.path}: Expected a description of every type of a release.")
    return [
        TypeRow(
            kind=str(kind),
            tokens=int(number(each.get("tokens", replaced.get(kind))) or 0),
            strategy=str(each.get("strategy", "")),
            p=number(each.get("p")),
            guarantee=_by_ledger(stage, str(kind), Guarantee.from_json(each["guarantee"])),
            claim=Claim.from_json(each["claimed"]) if each.get("claimed") else None,
        )
        for kind, each in found.items()
    ]


def _by_ledger(stage: Stage, kind: str, stated: Guarantee) -> Guarantee:
    """The stated guarantee of one type, or that of the token ledger if it is worse."""
    ledger = stage.ledgers.get("token")
    if ledger is None:
        reason = "the ledger of the guarantee is missing"
        return replace(stated, epsilon=math.inf, verdict=Verdict.NO_GUARANTEE, reasons=(reason,))
    for entry in ledger.entries:
        types = getattr(entry.fact, "types", ())
        if kind not in types:
            continue
        # As in the statement: a single value of this type.
        single: Any = entry.fact
        alone = Ledger(unit=ledger.unit, relation=ledger.relation)
        alone.spend(replace(single, counts=tuple(int(each == kind) for each in types)))
        found = alone.guarantee(stated.delta)
        if stated.holds and (not found.holds or found.epsilon > stated.epsilon * (1 + 1e-6) + 1e-6):
            return found
    return stated


def examples(stage: Stage) -> list[Example]:
    """Examples with spans coloured by type, consistently across the page."""
    given = stage.run.get("examples")
    rows = [each for each in given if isinstance(each, Mapping)] if isinstance(given, list) else []
    rows = rows[:_MAX_EXAMPLES]
    kinds = sorted(
        {kind for row in rows for key in ("before", "after") for _, _, kind in _spans(row, key)}
    )
    colours = {kind: place for place, kind in enumerate(kinds)}
    return [
        Example(_pieces(row, "before", colours), _pieces(row, "after", colours)) for row in rows
    ]


def attacks(stage: Stage) -> list[AttackRow]:
    """Attacks on the release, if there were any."""
    token = next((each.guarantee for each in stage.stated if each.guarantee.unit == "token"), None)
    rows = [_row("", each, token, None) for each in _listed(stage.run.get("attacks"))]
    attacked = (stage.attack or {}).get("types")
    by_type = {row.kind: row.guarantee for row in types(stage)} if attacked else {}
    for kind, found in attacked.items() if isinstance(attacked, Mapping) else ():
        for each in _listed(found.get("attacks")) if isinstance(found, Mapping) else ():
            rows.append(_row(f"{kind}: ", each, by_type.get(kind), found.get("forms")))
    return [row for row in rows if row is not None]


def _listed(given: Any) -> list[Mapping[str, Any]]:
    return [each for each in given if isinstance(each, Mapping)] if isinstance(given, list) else []


def _row(
    prefix: str, given: Mapping[str, Any], guarantee: Guarantee | None, forms: Any
) -> AttackRow | None:
    """An attack; `forms` are the shares of the forms that the attacker knows, if any."""
    measured = Measured.read({"value": given.get("success"), "interval": given.get("interval")})
    if measured is None:
        return None
    name, prior = str(given.get("attack", "")), number(given.get("prior"))
    bounded = name in _BOUNDED and prior is not None and guarantee is not None
    most = _best_success(guarantee, prior, forms) if bounded else None
    return AttackRow(prefix + name, int(number(given.get("trials")) or 0), measured, prior, most)


def _best_success(guarantee: Guarantee | None, prior: float | None, forms: Any) -> float | None:
    from sottovoce.deid.attacks.reader import best_success_within

    if guarantee is None or prior is None:
        return None
    shares = [(1.0, prior)]
    if isinstance(forms, list) and forms:
        if not all(_is_share(each) for each in forms):
            raise InvalidInput("Expected the share of every form and of its best guess.")
        shares = [(float(share), float(best)) for share, best in forms]
    return best_success_within(guarantee.epsilon if guarantee.holds else math.inf, shares)


def _is_share(given: Any) -> bool:
    if not isinstance(given, list) or len(given) != 2:
        return False
    share, best = map(number, given)
    return share is not None and best is not None and 0 < share <= 1 and 0 <= best <= 1


def _spans(row: Mapping[str, Any], key: str) -> Iterator[tuple[int, int, str]]:
    """The valid spans of a text: overlapping and out-of-range spans are skipped."""
    text, given = row.get(key), row.get(f"spans_{key}")
    if not isinstance(text, str) or not isinstance(given, list):
        return
    end = 0
    for span in sorted((span for span in given if _is_span(span)), key=lambda span: span[0]):
        if end <= span[0] < span[1] <= len(text):
            end = span[1]
            yield span[0], span[1], str(span[2])


def _is_span(span: Any) -> bool:
    return isinstance(span, Sequence) and len(span) == 3 and all(type(n) is int for n in span[:2])


def _pieces(row: Mapping[str, Any], key: str, colours: Mapping[str, int]) -> tuple[Piece, ...]:
    text, pieces, done = str(row.get(key, "")), [], 0
    for start, end, kind in _spans(row, key):
        pieces += [Piece(text[done:start]), Piece(text[start:end], kind, colours[kind])]
        done = end
    return tuple(piece for piece in (*pieces, Piece(text[done:])) if piece.text)
