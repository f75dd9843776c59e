"""Consistent surrogates: equal values get equal surrogates, chosen by a secret key.

The surrogate is chosen by HMAC-SHA-256 of the scope (a document, a user or the whole corpus), the
type and the value, so no state is needed and all processes agree. Names are replaced word by word:
Maria Lopez, Maria, and Ms. Lopez share surrogates. Numbers keep their format, and 555-0199 and
"five five five oh one nine nine" get the same digits.

Consistency reveals which values (of names: which words) are equal, so a change to a single
occurrence is always visible. What does hold is a guarantee for renaming a value everywhere in its
scope, against anyone without the key.
"""

import re
from collections.abc import Sequence
from typing import Any

from sottovoce.deid.replace.forms import canonical, gender, match_case
from sottovoce.deid.replace.lists import LANGUAGES, listed
from sottovoce.deid.replace.mechanism import Cost, Scope, source_cost
from sottovoce.deid.replace.numbers import canonical_symbols, rewritten, symbols
from sottovoce.deid.replace.placeholders import EQUALITY
from sottovoce.deid.replace.surrogates import Surrogates
from sottovoce.deid.replace.vault import Vault
from sottovoce.privacy.noise import NoiseSource

_MEN, _WOMEN = "mr mister sir herr señor don", "mrs ms miss madam frau señora doña"
_TITLES = frozenset(f"{_MEN} {_WOMEN} dr doctor prof professor".split())
_ROMANCE = "de la del las los di da do dos du le el y e"
_PARTICLES = frozenset(f"{_ROMANCE} van von der den al bin".split())
_ATTEMPTS = 100
_FIRST = frozenset(
    name
    for language in LANGUAGES
    for each in ("feminine", "masculine")
    for name in listed(each, language)
)
_PART = re.compile(r"[^\s]+")
_ATTACHED = re.compile(r"(.*?)((?:['’]s)?[.,;:!?]*)", re.DOTALL)


class Consistent:
    """Replaces every value by the surrogate that the vault chooses for it.

    >>> from sottovoce.deid.replace.surrogates import uniform
    >>> vault = Vault(bytes(32), within="user")
    >>> cities = Consistent(vault=vault, surrogates=uniform(["rome", "oslo", "lima"]))
    >>> scope = Scope(type="LOC", user="u1")
    >>> once, again = cities.replace(["Paris", "paris"], [scope] * 2, NoiseSource())
    >>> once.lower() == again
    True
    """

    whole = True
    scoped = True
    form: tuple[str, ...] = ()
    """What may be known about a value, since it is released."""

    def __init__(self, *, vault: Vault, surrogates: Surrogates, keep_case: bool = True) -> None:
        self.vault, self.surrogates, self.keep_case = vault, surrogates, keep_case

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        return [self._replaced(value, scope) for value, scope in zip(values, scopes, strict=True)]

    def _replaced(self, value: str, scope: Scope) -> str:
        surrogate = self._chosen(self.surrogates.values, canonical(value), scope)
        return match_case(surrogate, value) if self.keep_case else surrogate

    def _chosen(self, among: Sequence[str], value: str, scope: Scope) -> str:
        """The surrogate of a value; in a reversible vault, one that no other value has."""
        # The modulo bias of 2^64 over a few thousand values is negligible.
        place = self.vault.prf("surrogate", self.vault.scope_name(scope), value) % len(among)
        if not self.vault.reversible:
            return among[place]
        known = self.vault.surrogate_map(scope)
        for step in range(len(among)):
            surrogate = among[(place + step) % len(among)]
            if known.setdefault(surrogate, value) == value:
                return surrogate
        surrogate = f"{scope.type.lower()}-{self.vault.pseudonym(value, scope.type)}"
        known[surrogate] = value
        return surrogate

    def cost(self) -> Cost:
        return Cost(
            why_none=EQUALITY,
            assumptions=self.form,
            reveals=tuple(f"{each} is released as it is" for each in self.form),
            **source_cost(self.surrogates),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "mechanism": "consistent surrogates (HMAC)",
            "within": self.vault.within,
            "reversible": self.vault.reversible,
            "surrogates": self.surrogates.to_json(),
        }


class ConsistentNames(Consistent):
    """Names of people, word by word: parts of a name get the parts of its surrogate.

    Titles (Ms., Dr.) and particles (de, van) stay. Whether a word is a listed first name decides
    which list its surrogate is from; with `same_gender`, also the gender of a first name.

    >>> from sottovoce.deid.replace.public import public_surrogates
    >>> names = ConsistentNames(vault=Vault(bytes(32)), surrogates=public_surrogates("PER"))
    >>> scope = Scope(type="PER", user="u1")
    >>> told = names.replace(["Maria Lopez", "Ms. Lopez", "Maria's"], [scope] * 3, NoiseSource())
    >>> first, last = told[0].split()
    >>> told[1:] == [f"Ms. {last}", f"{first}'s"]
    True
    """

    form = (
        "which words of a name are equal, how many there are, which are listed first names, titles "
        "(Ms., Dr.) and particles (de, van)",
    )

    def __init__(
        self,
        *,
        vault: Vault,
        surrogates: Surrogates,
        language: str = "en",
        same_gender: bool = False,
        keep_case: bool = True,
    ) -> None:
        super().__init__(vault=vault, surrogates=surrogates, keep_case=keep_case)
        self.same_gender = same_gender
        if same_gender:
            self.form = (f"the gender of a first name, and {self.form[0]}",)
        women, men = listed("feminine", language), listed("masculine", language)
        self._lists = {"feminine": women, "masculine": men, "last": listed("last", language)}
        self._lists["first"] = (*women, *men)

    def _replaced(self, value: str, scope: Scope) -> str:
        output = _PART.sub(lambda found: self._word(found[0], scope), value)
        if self.vault.reversible:
            self.vault.surrogate_map(scope).setdefault(canonical(output), canonical(value))
        return output

    def _word(self, word: str, scope: Scope) -> str:
        found = _ATTACHED.fullmatch(word)
        assert found is not None
        name, rest = found[1], found[2]
        plain = canonical(name)
        if not plain or plain in _TITLES or plain in _PARTICLES:
            return word
        part = Scope(type=f"{scope.type} word", user=scope.user, document=scope.document)
        if len(plain) == 1 and plain.isalpha():
            letter = self._chosen("abcdefghijklmnopqrstuvwxyz", plain, part)
            return (letter.upper() if name.isupper() else letter) + rest
        kind = "first" if plain in _FIRST else "last"
        if kind == "first" and self.same_gender and gender(plain) in self._lists:
            kind = gender(plain)
        return match_case(self._chosen(self._lists[kind], plain, part), name) + rest


class ConsistentNumbers:
    """Numbers in their format, with digits that the vault chooses for the number."""

    whole = True
    scoped = True

    def __init__(self, *, vault: Vault, placeholder: str, letters: bool = False) -> None:
        self.vault, self.placeholder, self.letters = vault, placeholder, letters

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        return [self._replaced(value, scope) for value, scope in zip(values, scopes, strict=True)]

    def _replaced(self, value: str, scope: Scope) -> str:
        places = symbols(value, letters=self.letters)
        if not places:
            return self.placeholder
        number = canonical_symbols(places)
        for attempt in range(_ATTEMPTS):
            drawn = self._drawn(number, scope, attempt)
            output = rewritten(value, places, drawn)
            if not self.vault.reversible:
                return output
            told = canonical_symbols(symbols(output, letters=self.letters))
            if self.vault.surrogate_map(scope).setdefault(told, number) == number:
                return output
        return self.placeholder  # More numbers than there are of this format.

    def _drawn(self, number: str, scope: Scope, attempt: int) -> list[int]:
        name = self.vault.scope_name(scope)
        return [
            self.vault.prf("digit", name, number, str(attempt), str(place))
            for place in range(len(number))
        ]

    def cost(self) -> Cost:
        return Cost(
            why_none=EQUALITY,
            assumptions=("the format of a number may be known: its length and its separators",),
            reveals=("the format of a number is released as it is, and with it its magnitude",),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "mechanism": "consistent digits of the same form (HMAC)",
            "within": self.vault.within,
            "reversible": self.vault.reversible,
            "placeholder": self.placeholder,
        }
