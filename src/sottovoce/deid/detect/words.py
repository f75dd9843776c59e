"""Words of a text with their places: the units that taggers label and word replacement replaces.

A word is a run of letters and digits, inner apostrophes included; any other visible character is a
word of its own. Nothing visible is ever left out, so nothing can hide between two words.
"""

import re
from typing import NamedTuple

WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


class Word(NamedTuple):
    """`text[start:end]`, and the same in lower case for lookups."""

    start: int
    end: int
    lower: str


def lowered(text: str) -> str:
    """Lower case, character by character, so that places stay what they are.

    `str.lower` makes two characters of the Turkish capital I with a dot, which would shift
    everything behind it.

    >>> lowered("Call ANNA"), len(lowered("İ"))
    ('call anna', 1)
    """
    lower = text.lower()
    if text.isascii() or len(lower) == len(text):
        return lower
    return "".join(low if len(low := character.lower()) == 1 else character for character in text)


def words_of(text: str) -> list[Word]:
    """The words of a text.

    >>> [word.lower for word in words_of("Call Anna's mum, now!")]
    ['call', "anna's", 'mum', ',', 'now', '!']
    """
    return [Word(*found.span(), found[0]) for found in WORD.finditer(lowered(text))]


def plain_words(text: str) -> list[str] | None:
    """The words of a text of nothing but words and single blanks; None for any other text.

    Most speech transcripts are like that, and cutting them at blanks is several times faster than
    looking for words.

    >>> plain_words("what's anna's number"), plain_words("anna, call!")
    (["what's", "anna's", 'number'], None)
    """
    words = text.split(" ")
    bare = "".join(words)
    if "'" not in bare:
        return words if bare.isalnum() and "" not in words else None
    if not bare.replace("'", "").isalnum():
        return None
    for word in words:
        if not word or ("'" in word and (word[0] == "'" or word[-1] == "'" or "''" in word)):
            return None
    return words
