"""All attacks on one release, type by type, beside the epsilon that its manifest states.

The attacker is well informed: he knows how usual every value is, the mechanism where it can be made
again from the manifest (else he takes the release at its word), and other text of the same kind:
the first half of the original. The second half is attacked by context.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sottovoce.deid.attacks.masked_lm import MaskedModel, fill_in
from sottovoce.deid.attacks.pairing import Told
from sottovoce.deid.attacks.reader import (
    Attack,
    Channel,
    best_success,
    find_singletons,
    guess,
    match_frequencies,
    reconstruct,
)
from sottovoce.deid.replace import public_surrogates
from sottovoce.deid.replace.letters import canonical
from sottovoce.deid.replace.strategies import Materials, Setting, Strategy, mechanism_for
from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import Guarantee

MOST_VALUES = 1_000
"""Values that the attacker reckons with: the most usual ones."""
MOST_MASKED = 500
"""Values that a masked language model is asked for, a type."""


def assault(
    told: Iterable[Told], manifest: Mapping[str, Any], masked: MaskedModel | None = None
) -> dict[str, Any]:
    """Success, interval and prior of every attack, and what epsilon allows, for every type."""
    by_type: dict[str, list[Told]] = {}
    for each in told:
        by_type.setdefault(each.type, []).append(each)
    if not by_type:
        raise InvalidInput("Expected private values to attack, got none.")
    stated = manifest["release"]["types"]
    for kind in by_type:
        if kind not in stated:
            raise InvalidInput(f"Expected {kind} among the types of the manifest, got none.")
    return {
        kind: _of_type(kind, values, stated[kind], masked)
        for kind, values in sorted(by_type.items())
    }


def _of_type(
    kind: str, told: Sequence[Told], stated: Mapping[str, Any], masked: MaskedModel | None
) -> dict[str, Any]:
    guarantee = Guarantee.from_json(stated["guarantee"])
    pairs = _pairs(told, stated)
    counts = Counter(canonical(value) for value, _ in pairs)
    prior = {value: count / len(pairs) for value, count in counts.most_common(MOST_VALUES)}
    channel = _channel(kind, stated)
    told_first = guess(pairs, channel or _at_its_word, prior)
    attacks = [told_first, match_frequencies(pairs, prior)]
    if 1 in counts.values():
        public = public_surrogates(kind)
        attacks.append(find_singletons(pairs, () if public is None else public.values))
    half = len(told) // 2
    if half:
        attacks.append(reconstruct(map(_context, told[:half]), list(map(_context, told[half:]))))
        if masked is not None:
            known = Counter(canonical(each.value) for each in told[:half])
            shares = {value: count / half for value, count in known.items()}
            attacks.append(fill_in(told[half : half + MOST_MASKED], masked, shares, told[:half]))
    allowed = best_success(guarantee.epsilon, told_first.prior) if guarantee.holds else None
    return {
        "values": len(pairs),
        "epsilon": stated["guarantee"]["epsilon"],
        "knows_the_mechanism": channel is not None,
        "allowed": allowed,
        "exceeds_epsilon": allowed is not None and told_first.interval[0] > allowed,
        "attacks": [_described(attack) for attack in attacks],
    }


def _described(attack: Attack) -> dict[str, Any]:
    return {
        **attack.to_json(),
        "above_prior": attack.success - attack.prior,
        "is_above_prior": attack.is_above_prior,
    }


def _pairs(told: Sequence[Told], stated: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Values and outputs; word by word where words were replaced, since epsilon is that of one."""
    if stated["strategy"] != Strategy.WORD:
        return [(each.value, each.output) for each in told]
    pairs: list[tuple[str, str]] = []
    for each in told:
        values, outputs = each.value.split(), each.output.split()
        if len(values) == len(outputs):
            pairs += zip(values, outputs, strict=True)
        else:
            pairs.append((each.value, each.output))
    return pairs


def _channel(kind: str, stated: Mapping[str, Any]) -> Channel | None:
    """The channel of the mechanism, if the manifest describes one of a public list."""
    setting = Setting(strategy=stated["strategy"], p=stated["p"], epsilon=stated["epsilon"])
    for materials in (Materials(), Materials(like_for_like=True)):
        try:
            made = mechanism_for(kind, setting, materials)
        except InvalidInput:
            continue
        if made.to_json() == stated["mechanism"]:
            found: Channel | None = getattr(made, "channel", None)
            return found
    return None


def _at_its_word(value: str) -> Mapping[str, float]:
    return {value: 1.0}


def _context(each: Told) -> tuple[str, str, str]:
    before, after = each.before.split(), each.after.split()
    return (before[-1] if before else "", each.value, after[0] if after else "")
