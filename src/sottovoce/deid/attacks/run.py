"""All attacks on one release, type by type, next to the epsilon that its manifest states.

The attacker is well informed: they know the frequency of every value, the mechanism if it can be
rebuilt from the manifest (otherwise they take the released value as the guess), the form of every
value where the release shows it, and other text of the same kind, namely the first half of the
original. Context attacks target the second half.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sottovoce._registry import Registry
from sottovoce.deid.attacks.masked_lm import MaskedModel, fill_in
from sottovoce.deid.attacks.pairing import ReplacedValue
from sottovoce.deid.attacks.reader import (
    Attack,
    Channel,
    best_success_within,
    find_kept,
    find_singletons,
    guess,
    match_frequencies,
    one_form,
    reconstruct,
    shares_of_forms,
)
from sottovoce.deid.replace import WithinClass, public_surrogates
from sottovoce.deid.replace.forms import Classes, canonical
from sottovoce.deid.replace.strategies import (
    STRATEGIES,
    Fit,
    Resources,
    Setting,
    Strategy,
    mechanism_for,
)
from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import Guarantee

MAX_VALUES = 1_000
"""Candidates of the attacker: the most frequent values."""
MAX_MASKED = 500
"""Values per type that the masked language model guesses."""
BOUNDED = ("guess", "kept")
"""The attacks that epsilon bounds: they see one released value and nothing else."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Input of an attack on one type: the ground truth and the attacker's knowledge.

    `pairs` are values and their replacements; `prior` is the frequency of each value; `channel` is
    M(.|value) of the mechanism, or None if the attacker does not know it; `form` is what the
    release shows of every value, or None if nothing; `stated` is the manifest's entry for the type.
    The first half of `replaced` is available for training.
    """

    type: str
    replaced: Sequence[ReplacedValue]
    pairs: Sequence[tuple[str, str]]
    prior: Mapping[str, float]
    channel: Channel | None
    stated: Mapping[str, Any]
    masked: MaskedModel | None = None
    form: Classes | None = None

    @property
    def known(self) -> Sequence[ReplacedValue]:
        return self.replaced[: len(self.replaced) // 2]

    @property
    def hidden(self) -> Sequence[ReplacedValue]:
        return self.replaced[len(self.replaced) // 2 :]


def _guess(evidence: Evidence) -> Attack:
    return guess(evidence.pairs, evidence.channel or _identity, evidence.prior, evidence.form)


def _kept(evidence: Evidence) -> Attack | None:
    if evidence.channel is None:
        return None  # `guess` takes the released value as the guess already.
    return find_kept(evidence.pairs, evidence.channel, evidence.prior, evidence.form)


def _singletons(evidence: Evidence) -> Attack | None:
    if 1 not in Counter(canonical(value) for value, _ in evidence.pairs).values():
        return None
    public = public_surrogates(evidence.type)
    return find_singletons(evidence.pairs, () if public is None else public.values)


def _reconstruct(evidence: Evidence) -> Attack | None:
    if not evidence.known:
        return None
    return reconstruct(map(_context, evidence.known), list(map(_context, evidence.hidden)))


def _fill_in(evidence: Evidence) -> Attack | None:
    known = evidence.known
    if not known or evidence.masked is None:
        return None
    counts = Counter(canonical(each.value) for each in known)
    shares = {value: count / len(known) for value, count in counts.items()}
    return fill_in(evidence.hidden[:MAX_MASKED], evidence.masked, shares, known)


ATTACKS: Registry[Callable[[Evidence], Attack | None]] = Registry(
    "attack",
    {
        "guess": _guess,
        "kept": _kept,
        "frequencies": lambda evidence: match_frequencies(evidence.pairs, evidence.prior),
        "singletons": _singletons,
        "context": _reconstruct,
        "masked-lm": _fill_in,
    },
    group="sottovoce.deid_attacks",
)
"""Attacks on one type of a release. An attack that lacks data returns None."""


def run_attacks(
    replaced: Iterable[ReplacedValue],
    manifest: Mapping[str, Any],
    masked: MaskedModel | None = None,
    attacks: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Success, interval and prior of every attack, and the success epsilon allows, per type.

    `attacks` are names in `ATTACKS`, None for all of them; those that epsilon bounds always run.
    """
    names = ATTACKS.names(installed=False) if attacks is None else tuple(attacks)
    if attacks is not None and "masked-lm" in names and masked is None:
        raise InvalidInput("Expected a masked language model for the attack masked-lm, got none.")
    chosen = [*dict.fromkeys((*BOUNDED, *map(ATTACKS.require, names)))]
    by_type: dict[str, list[ReplacedValue]] = {}
    for each in replaced:
        by_type.setdefault(each.type, []).append(each)
    if not by_type:
        raise InvalidInput("Expected private values to attack, got none.")
    stated = manifest["release"]["types"]
    for kind in by_type:
        if kind not in stated:
            raise InvalidInput(f"Expected {kind} among the types of the manifest, not found.")
    return {
        kind: _of_type(kind, values, stated[kind], masked, chosen)
        for kind, values in sorted(by_type.items())
    }


def _of_type(
    kind: str,
    replaced: Sequence[ReplacedValue],
    stated: Mapping[str, Any],
    masked: MaskedModel | None,
    names: Sequence[str],
) -> dict[str, Any]:
    guarantee = Guarantee.from_json(stated["guarantee"])
    pairs = _pairs(replaced, stated)
    counts = Counter(canonical(value) for value, _ in pairs)
    prior = {value: count / len(pairs) for value, count in counts.most_common(MAX_VALUES)}
    channel, form = _known(kind, stated)
    evidence = Evidence(
        type=kind,
        replaced=replaced,
        pairs=pairs,
        prior=prior,
        channel=channel,
        stated=stated,
        masked=masked,
        form=form,
    )
    ran = {name: ATTACKS.get(name)(evidence) for name in names}
    attacks = {name: attack for name, attack in ran.items() if attack is not None}
    shares = shares_of_forms((value for value, _ in pairs), prior, form or one_form)
    allowed = best_success_within(guarantee.epsilon, shares) if guarantee.holds else None
    return {
        "values": len(pairs),
        "epsilon": stated["guarantee"]["epsilon"],
        "knows_the_mechanism": channel is not None,
        "knows_the_form": form is not None,
        "forms": shares,
        "allowed": allowed,
        "exceeds_epsilon": allowed is not None
        and any(attacks[name].exceeds(allowed) for name in BOUNDED if name in attacks),
        "attacks": [_described(attack) for attack in attacks.values()],
    }


def _described(attack: Attack) -> dict[str, Any]:
    return {
        **attack.to_json(),
        "above_prior": attack.success - attack.prior,
        "is_above_prior": attack.is_above_prior,
    }


def _pairs(replaced: Sequence[ReplacedValue], stated: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Values and outputs; word by word where words were replaced, since epsilon is per word."""
    if stated["strategy"] != Strategy.WORD:
        return [(each.value, each.output) for each in replaced]
    pairs: list[tuple[str, str]] = []
    for each in replaced:
        values, outputs = each.value.split(), each.output.split()
        if len(values) == len(outputs):
            pairs += zip(values, outputs, strict=True)
        else:
            pairs.append((each.value, each.output))
    return pairs


def _known(kind: str, stated: Mapping[str, Any]) -> tuple[Channel | None, Classes | None]:
    """The channel of the mechanism, if it has a public list, and the form that it releases.

    The form is known for any list: the manifest names the attribute that surrogates share.
    """
    if stated["strategy"] not in STRATEGIES.names(installed=False):
        return None, None  # Third-party: a manifest must not decide what gets imported.
    setting = Setting(strategy=stated["strategy"], p=stated["p"], epsilon=stated["epsilon"])
    form: Classes | None = None
    for resources in (Resources(fit=fit) for fit in Fit):
        try:
            made = mechanism_for(kind, setting, resources)
        except InvalidInput:
            continue
        if made.to_json() == stated["mechanism"]:
            return getattr(made, "channel", None), getattr(made, "form", None)
        if isinstance(made, WithinClass) and made.attribute == stated["mechanism"].get("attribute"):
            classes = stated["mechanism"]["classes"]
            redrawn = {
                name: rule
                for name, rule in made.redrawn.items()
                if classes.get(name) == rule.to_json()
            }
            form = replace(made, redrawn=redrawn).form
    return None, form


def _identity(value: str) -> Mapping[str, float]:
    return {value: 1.0}


def _context(each: ReplacedValue) -> tuple[str, str, str]:
    before, after = each.before.split(), each.after.split()
    return (before[-1] if before else "", each.value, after[0] if after else "")
