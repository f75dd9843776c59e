"""Registry of strategies, and the mechanism of a strategy for a type.

The first five are those of Adelani et al.; the others keep more of the text at the same epsilon, or
keep it consistent. Where a strategy needs a surrogate list and a type has none, its values are
always replaced by random digits of the same format or by a placeholder, so protection never drops.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sottovoce import _validate
from sottovoce._registry import Registry
from sottovoce.corpora.wordvectors import WordVectors
from sottovoce.deid.replace import (
    Consistent,
    ConsistentNames,
    ConsistentNumbers,
    DateShift,
    FormatPreserving,
    Kernel,
    Mechanism,
    Placeholder,
    SemanticExponential,
    Surrogates,
    TruncatedResponse,
    Vault,
    WithinClass,
    public_surrogates,
)
from sottovoce.deid.replace.digits import Redrawn
from sottovoce.deid.replace.forms import ATTRIBUTES, DIGITS, FORMS, INITIALS, Classes
from sottovoce.deid.replace.lists import LANGUAGES
from sottovoce.deid.replace.operators import Custom, Encrypt, Hash, Keep, Mask
from sottovoce.deid.replace.placeholders import REDACTED, exemplar
from sottovoce.deid.replace.semantic import count_located
from sottovoce.deid.replace.surrogates import by_rank
from sottovoce.deid.replace.third_party import ThirdParty
from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import SurrogateSource
from sottovoce.privacy.recipes import Strategy as Strategy

_NUMBERS = frozenset({"PHONE", "CARD", "MONEY", "ID", "IP"})
_WITH_LETTERS = frozenset({"CARD", "ID"})
_REDRAWN = {
    "PER": {INITIALS: "initials"},
    "ORG": {INITIALS: "initials"},
    "LOC": {INITIALS: "initials"},
    "DATE": {DIGITS: "date"},
    "TIME": {DIGITS: "time"},
}
"""The forms whose values are redrawn, by type."""


class Fit(StrEnum):
    """What surrogates share with the values they replace, besides the letter case.

    `form`: the number of words and the wording, such as a date in digits (see `forms`). `grammar`:
    also the gender of names and the number of nouns. What is shared is released.
    """

    NONE = "none"
    FORM = "form"
    GRAMMAR = "grammar"


_ALWAYS = frozenset(
    {
        Strategy.CONSISTENT,
        Strategy.SHIFT,
        Strategy.MASK,
        Strategy.HASH,
        Strategy.ENCRYPT,
        Strategy.KEEP,
        Strategy.CUSTOM,
    }
)
"""Strategies without p and epsilon."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A strategy with its replacement probability p, or an epsilon per token.

    >>> Setting(strategy="word", p=0.9).chosen
    <Strategy.WORD: 'word'>
    >>> Setting(strategy="entity", p=0.9, epsilon=3)
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected p or epsilon, got both.
    """

    strategy: str = "entity"
    p: float | None = None
    epsilon: float | None = None
    last: int = 0
    """With the strategy mask: the number of last characters to keep."""
    function: Callable[[str], str] | None = None
    """With the strategy custom: from the value to its replacement."""

    def __post_init__(self) -> None:
        STRATEGIES.require(self.strategy)
        if self.last and self.chosen is not Strategy.MASK:
            raise InvalidInput(f"Expected last with the strategy mask, got {self.strategy}.")
        if (self.function is not None) != (self.chosen is Strategy.CUSTOM):
            raise InvalidInput(
                f"Expected a function with the strategy custom and no other, got {self.strategy}."
            )
        if self.p is not None:
            _validate.probability("p", self.p)
        if self.epsilon is not None:
            _validate.not_negative("epsilon", self.epsilon)
        if self.p is not None and self.epsilon is not None:
            raise InvalidInput("Expected p or epsilon, got both.")
        by_epsilon = self.chosen in (Strategy.RESPONSE, Strategy.SEMANTIC)
        if by_epsilon and self.epsilon is None:
            raise InvalidInput(f"Expected epsilon with the strategy {self.strategy}, got none.")
        fixed = self.chosen in _ALWAYS
        if fixed and (self.epsilon is not None or self.p not in (None, 1.0)):
            raise InvalidInput(
                f"Expected neither p nor epsilon with the strategy {self.strategy}, got one: it "
                "always replaces, so leave both out."
            )

    @property
    def chosen(self) -> Strategy | None:
        """The built-in strategy; None for a third-party one."""
        return Strategy(self.strategy) if STRATEGIES.origin(self.strategy) is None else None

    def to_json(self) -> dict[str, Any]:
        found = {"strategy": str(self.strategy), "p": self.p, "epsilon": self.epsilon}
        return found | {"last": self.last} if self.last else found


def parse_setting(text: str) -> tuple[str, Setting]:
    """Parse the setting of one type.

    >>> parse_setting("PER=entity:epsilon=3")
    ('PER', Setting(strategy='entity', p=None, epsilon=3.0, last=0, function=None))
    """
    kind, equals, rest = text.partition("=")
    strategy, _, parameter = rest.partition(":")
    name, _, value = parameter.partition("=")
    try:
        if not (kind and equals) or (parameter and name not in ("p", "epsilon", "last")):
            raise ValueError
        chosen: dict[str, Any] = {name: float(value)} if parameter else {}
        if name == "last":
            chosen = {name: int(value)}
    except ValueError:
        raise InvalidInput(
            "Expected a type and its strategy such as PER=entity:epsilon=3 or CARD=mask:last=4, "
            f"got {text!r}."
        ) from None
    return kind, Setting(strategy=strategy, **chosen)


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Inputs of mechanisms: surrogate lists, word vectors, the vault.

    With the strategies word and entity, surrogates `fit` the values they replace. What they share
    is then released, and epsilon holds within a class. `language` is that of the built-in lists.
    """

    surrogates: Mapping[str, Surrogates] = field(default_factory=dict)
    vectors: WordVectors | None = None
    vault: Vault | None = None
    keep_case: bool = True
    fit: Fit = Fit.FORM
    language: str = "en"

    def __post_init__(self) -> None:
        _validate.parse_choices(self)
        _validate.one_of("language", self.language, LANGUAGES)

    def surrogates_of(self, kind: str, *, fitted: bool = False) -> Surrogates | None:
        """The user's list for a type, or the public one."""
        return self.surrogates.get(kind) or public_surrogates(kind, self.language, fitted=fitted)


def mechanism_for(kind: str, setting: Setting, resources: Resources) -> Mechanism:
    """The mechanism of a type.

    A third-party mechanism is wrapped in `ThirdParty`, which marks its claims.

    >>> mechanism_for("LOC", Setting(strategy="typed"), Resources()).to_json()
    {'mechanism': 'placeholder', 'text': '[LOC]', 'p': 1.0}
    >>> mechanism_for("PHONE", Setting(strategy="word", p=0.5), Resources()).cost().epsilon is None
    True
    """
    made = STRATEGIES.get(setting.strategy)(kind, setting, resources)
    module = STRATEGIES.origin(setting.strategy)
    if module is None:
        return made
    outside = ThirdParty.of(made, str(setting.strategy), module)
    if setting.epsilon is not None and outside.cost().log_ratio > setting.epsilon:
        raise InvalidInput(
            f"Expected a mechanism of epsilon {setting.epsilon:g} from the strategy "
            f"{setting.strategy} of {module}, got {outside.cost().log_ratio:g}."
        )
    return outside


def _built_in(kind: str, setting: Setting, resources: Resources) -> Mechanism:
    strategy = Strategy(setting.strategy)
    if strategy.is_placeholder:
        return Placeholder(text=_placeholder(kind, strategy), p=_replace_probability(setting))
    typed = _placeholder(kind, Strategy.TYPED)
    listed = resources.surrogates_of(kind)
    if strategy is Strategy.SHIFT:
        if kind != "DATE":
            raise InvalidInput(f"Expected the strategy shift only for DATE, got it for {kind}.")
        return DateShift(vault=_vault(resources, strategy), placeholder=typed)
    operator = _operator(kind, setting, resources)
    if operator is not None:
        return operator
    letters = kind in _WITH_LETTERS
    if listed is None and kind in _NUMBERS:
        if strategy is Strategy.CONSISTENT:
            vault = _vault(resources, strategy)
            return ConsistentNumbers(vault=vault, placeholder=typed, letters=letters)
        return FormatPreserving(placeholder=typed, letters=letters)
    if listed is None:
        return Placeholder(text=typed)
    case = resources.keep_case
    by_class = (Strategy.WORD, Strategy.ENTITY, Strategy.CONSISTENT)
    if resources.fit is Fit.GRAMMAR and strategy not in by_class:
        raise InvalidInput(
            "Expected the strategy word or entity for surrogates that fit the grammar, got "
            f"{strategy} for {kind}."
        )
    match strategy:
        case Strategy.CONSISTENT:
            vault = _vault(resources, strategy)
            if kind == "PER" and kind not in resources.surrogates:
                return ConsistentNames(
                    vault=vault,
                    surrogates=listed,
                    language=resources.language,
                    same_gender=resources.fit is Fit.GRAMMAR,
                    keep_case=case,
                )
            return Consistent(vault=vault, surrogates=listed, keep_case=case)
        case Strategy.RESPONSE:
            ranked = listed if kind in resources.surrogates else by_rank(listed)
            return TruncatedResponse.for_epsilon(setting.epsilon or 0.0, ranked, keep_case=case)
        case Strategy.SEMANTIC:
            if resources.vectors is None:
                raise InvalidInput("Expected word vectors with the strategy semantic, got none.")
            if count_located(listed, resources.vectors) >= 2:
                return SemanticExponential.for_epsilon(
                    setting.epsilon or 0.0, listed, resources.vectors, keep_case=case
                )
    # Values without vectors (e-mail addresses) have no neighbours; fall back to the kernel.
    whole = strategy is not Strategy.WORD
    chosen = listed if whole else listed.words()
    fitted = _fitted(kind, setting, resources, whole=whole)
    if fitted is not None:
        return fitted
    if setting.epsilon is not None:
        return Kernel.for_epsilon(setting.epsilon, chosen, whole=whole, keep_case=case)
    return Kernel(surrogates=chosen, p=_replace_probability(setting), whole=whole, keep_case=case)


def _operator(kind: str, setting: Setting, resources: Resources) -> Mechanism | None:
    match setting.chosen:
        case Strategy.MASK:
            return Mask(last=setting.last)
        case Strategy.HASH:
            return Hash(vault=_vault(resources, Strategy.HASH))
        case Strategy.ENCRYPT:
            return Encrypt(vault=_vault(resources, Strategy.ENCRYPT))
        case Strategy.KEEP:
            return Keep(kind=kind)
        case Strategy.CUSTOM:
            assert setting.function is not None
            return Custom(function=setting.function)
        case _:
            return None


def _fitted(
    kind: str, setting: Setting, resources: Resources, *, whole: bool
) -> WithinClass | None:
    """Kernels within the classes that surrogates have to fit; None if there is one class only."""
    attributes: list[tuple[str, Classes]] = []
    if whole and resources.fit is not Fit.NONE and kind in FORMS:
        attributes.append(("form of a value", FORMS[kind]))
    if resources.fit is Fit.GRAMMAR and kind in ATTRIBUTES:
        attributes.append(ATTRIBUTES[kind])
    listed = resources.surrogates_of(kind, fitted=whole)
    if not attributes or listed is None:
        return None
    is_public = listed.origin is SurrogateSource.PUBLIC and not listed.histogram
    if not is_public and resources.fit is not Fit.GRAMMAR:
        return None  # Which classes a list counted in the corpus has is not public.
    redrawn: dict[str, Redrawn] = {}
    if whole and kind not in resources.surrogates:
        redrawn = {
            name: Redrawn(rule=rule, placeholder=_placeholder(kind, Strategy.TYPED))
            for name, rule in _REDRAWN.get(kind, {}).items()
        }

    def classes(value: str) -> str:
        found = [each(value) for _, each in attributes]
        return found[0] if found[0] in redrawn else ", ".join(found)

    made = WithinClass.of(
        listed if whole else listed.words(),
        " and the ".join(name for name, _ in attributes),
        classes,
        p=_replace_probability(setting),
        epsilon=setting.epsilon,
        redrawn=redrawn,
        whole=whole,
        keep_case=resources.keep_case,
    )
    return made if redrawn or len(made.kernels) > 1 else None


def _replace_probability(setting: Setting) -> float:
    # With a placeholder, any finite epsilon needs p = 1.
    return 1.0 if setting.p is None else setting.p


def _placeholder(kind: str, strategy: Strategy) -> str:
    match strategy:
        case Strategy.REDACT:
            return REDACTED
        case Strategy.NAMED:
            return exemplar(kind)
        case _:
            return f"[{kind}]"


def _vault(resources: Resources, strategy: Strategy) -> Vault:
    if resources.vault is None:
        raise InvalidInput(
            f"Expected a vault (a secret key) with the strategy {strategy}, got none."
        )
    return resources.vault


MechanismFactory = Callable[[str, Setting, Resources], Mechanism]
"""Builds the mechanism of a type."""

STRATEGIES: Registry[MechanismFactory] = Registry(
    "strategy", {str(each): _built_in for each in Strategy}, group="sottovoce.strategies"
)
