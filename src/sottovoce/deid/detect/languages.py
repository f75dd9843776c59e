"""Languages by their code: what each can find, and the lists that surrogates may be drawn from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from sottovoce._registry import Registry
from sottovoce.deid.detect import language
from sottovoce.deid.detect.crf.general import words_in
from sottovoce.deid.detect.detector import Detector
from sottovoce.deid.detect.forms import Form
from sottovoce.deid.detect.language import forms
from sottovoce.deid.detect.language.names import NameLists
from sottovoce.deid.detect.patterns import Patterns

Lists = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Language:
    """A language without a model of its own: forms, titles, and lists of names and places."""

    code: str
    name: str
    forms: tuple[Form, ...]
    titles: frozenset[str]
    ordinary: frozenset[str]
    """Words that are names too; alone they are taken for words."""
    words: Lists | None = None
    """The lists `first`, `last` and `place`; by default those in `language/`."""

    @property
    def lists(self) -> Lists:
        """First names, last names and places."""
        return _lists(self.code) if self.words is None else self.words

    def surrogates(self) -> dict[str, tuple[str, ...]]:
        """Values to replace others by: people and places."""
        people = zip(self.lists["first"], self.lists["last"] * 5, strict=False)
        return {"PER": tuple(map(" ".join, people)), "LOC": self.lists["place"]}

    def detectors(self) -> Mapping[str, Callable[[], Sequence[Detector]]]:
        """What is made by the names that English has too."""
        return {
            "fast": lambda: (self._names(), self._patterns()),
            "gazetteer": lambda: (self._names(),),
            "patterns": lambda: (self._patterns(),),
        }

    def _names(self) -> NameLists:
        return NameLists(self.code, self.lists, self.titles, self.ordinary)

    def _patterns(self) -> Patterns:
        return Patterns(language=self.code, forms=self.forms)


@cache
def _lists(code: str) -> Lists:
    path = resources.files(language).joinpath(f"{code}.tsv")
    found: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        kind, _, value = line.partition("\t")
        found.setdefault(kind, []).append(value)
    return {kind: tuple(values) for kind, values in found.items()}


ENGLISH = "en"
LANGUAGES: Registry[Language | None] = Registry(
    "language",
    {
        # English has models of its own (see `detect.registry`).
        ENGLISH: None,
        "de": Language(
            code="de",
            name="German",
            forms=forms.GERMAN,
            titles=words_in("herr herrn frau fräulein dr prof professor"),
            ordinary=words_in(
                "essen halle hagen hof singen lahr kirsten ernst mark will rose christ heide gabel "
                "stern bär wolf lang klein groß jung sommer winter frank august karl weiden wesel"
            ),
        ),
        "es": Language(
            code="es",
            name="Spanish",
            forms=forms.SPANISH,
            titles=words_in("señor señora señorita sr sra srta don doña dr dra doctor doctora"),
            ordinary=words_in(
                "paz luz mar sol cruz rosario pilar consuelo dolores esperanza amparo león granada "
                "flor reyes victoria domingo clemente salud alba concepción cuenca guerra vera"
            ),
        ),
    },
    group="sottovoce.languages",
)
