"""Refuses text of another language: an English model would destroy it and miss what it holds.

The small words of a language tell it within a sentence or two. Evidence is gathered over all that a
detector reads, so that one foreign line in a long English file is no reason to stop; only text that
is foreign from its start on is.
"""

import re
import threading
from collections import Counter
from collections.abc import Iterable

from sottovoce.errors import InvalidInput

_SMALL = {
    "en": "the and of to is you that it he was for on are with his they at this from have had not "
    "what were when your can said there use each which she do how their if will up about out many "
    "then them these so some her would make like him has look more go see my no could been who now "
    "did get come i we me be as by or an but all one out just don't i'm it's yeah okay um uh "
    "please a in our us any want need call new may its into than only over also back after",
    "de": "der die das und ist nicht ich du sie es ein eine einen dem den mit auf für von zu im "
    "bin hat haben wir ihr wird sich auch als aber wie wenn nach bei noch nur oder was mein meine "
    "kann sind war werden schon sehr dass über habe",
    "es": "el la los las de que y es en un una por con no se su para como más pero le ya o este sí "
    "porque esta son entre está muy sin sobre también me hasta hay donde quien desde todo nos "
    "durante mi tengo usted",
    "fr": "le la les de des et est un une pour dans que qui ne pas sur au avec ce il elle je vous "
    "nous sont par plus mais ou son sa ses cette être avoir du en mon votre à",
    "it": "il la i gli le di che e è un una per con non si su come più ma anche sono della del nel "
    "questo questa mi ho hai ha lo dei alla",
    "pt": "o a os as de que e é um uma para com não se na no por mais como mas foi ao ele das tem "
    "à seu sua ou ser quando muito há nos já está eu também só pelo pela",
    "nl": "de het een en van ik te dat die in is niet zijn op aan met als voor had er maar om hem "
    "dan zou of wat mijn men dit zo door over ze zich bij ook tot je mij uit",
}
_NAMES = {
    "de": "German", "es": "Spanish", "fr": "French", "it": "Italian", "pt": "Portuguese",
    "nl": "Dutch", "en": "English",
}  # fmt: skip
_WORDS = {code: frozenset(words.split()) for code, words in _SMALL.items()}
_LETTERS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_LEAST = 4
"""Small words of another language that make it worth a doubt."""
_LEAST_LETTERS = 40
_LAST_LATIN = "\u024f"
_ENOUGH = 400
"""Small words of the right language after which nothing is doubted any more."""


class LanguageGuard:
    """Reads along, and refuses what is clearly not of the expected language.

    >>> LanguageGuard("en").read(["Ich habe gestern mit der Mutter von Anna in Hamburg gegessen."])
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected English text, got what looks like German: choose the
    language (--language), or a detector that knows it.
    >>> LanguageGuard("en").read(["call maria lopez about der spiegel"])
    """

    def __init__(self, language: str) -> None:
        self.language = language
        self._own = _WORDS.get(language, frozenset())
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, object]:
        return {"language": self.language}

    def __setstate__(self, state: dict[str, str]) -> None:
        self.__init__(state["language"])  # type: ignore[misc]

    def read(self, texts: Iterable[str]) -> None:
        """Refuse if all that was read so far is clearly of another language."""
        if self._counts["own"] > _ENOUGH:
            return
        with self._lock:
            for text in texts:
                self._count(text)
                if self._counts["own"] > _ENOUGH:
                    return
            own, letters = self._counts["own"], self._counts["letters"]
            expected = _NAMES.get(self.language, self.language)
            if (
                letters >= _LEAST_LETTERS
                and self._counts["foreign"] > 0.7 * letters
                and own < _LEAST
            ):
                raise InvalidInput(
                    f"Expected {expected} text, got text in another script: choose a detector "
                    "that knows its language."
                )
            for code, name in _NAMES.items():
                if code != self.language and self._counts[code] >= max(_LEAST, 2 * own + 3):
                    raise InvalidInput(
                        f"Expected {expected} text, got what looks like {name}: choose the "
                        "language (--language), or a detector that knows it."
                    )

    def _count(self, text: str) -> None:
        counts = self._counts
        # Each word once: the refrain of a song is no evidence.
        for word in set(_LETTERS.findall(text.lower())):
            if word in self._own:
                counts["own"] += 1
            else:
                for code, words in _WORDS.items():
                    if word in words:
                        counts[code] += 1
            if not word.isascii():
                counts["foreign"] += sum(character > _LAST_LATIN for character in word)
            counts["letters"] += len(word)
