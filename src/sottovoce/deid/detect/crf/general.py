"""What the general tagger knows of a word: letters, shape, public lists, and classes of words.

Classes (clusters of word vectors) and lists stand in the file of the tagger, as its lexicon: words
that the training text never had are then like words that it had. A text without any capitals, or
of capitals alone, says nothing by its letters' case, and neither does the first word of a sentence;
such words carry a mark, and their shape is another feature than that of all others.
"""

import re
from collections.abc import Mapping, Sequence

from sottovoce.corpora import Span
from sottovoce.deid.detect.crf.features import Lists
from sottovoce.errors import InvalidInput


def words_in(text: str) -> frozenset[str]:
    """The words of a text between blanks."""
    return frozenset(text.split())


CASELESS, FIRST = "\1", "\2"
"""Marks before a word; a control character in a text is a word of its own."""
TITLES = words_in(
    "mr mrs ms miss dr prof professor sir madam president minister prime senator secretary general "
    "king queen pope judge captain colonel officer chairman mayor governor rep sen gov lt sgt "
    "doctor nurse mister aunt uncle"
)
_STOPS = frozenset(".!?")
_DIGIT = re.compile(r"\d")
_LAST_LATIN = "\u024f"
_LEAST_TITLED = 5  # words; a name alone on its line is not a headline

Lexicon = Mapping[str, tuple[str, ...]]
"""The classes of words in lower case; first those of the lists, which begin with a letter."""


class General:
    """Features by a lexicon.

    >>> General({"anna": ("F", "3", "3.1")}).lists_of("Anna")[0][:4]
    ['w=anna', 'p=ann', 'e=nna', 'k=na']
    >>> General({}).marked("Can Anna go", ["Can", "Anna", "go"]) == [FIRST + "Can", "Anna", "go"]
    True
    >>> General({}).marked("anna", ["anna"]) == [CASELESS + "anna"]
    True
    """

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon

    def marked(self, text: str, words: Sequence[str]) -> Sequence[str]:
        """The words with their marks."""
        if text.islower():
            # No word holds a blank. To join and to part is quicker than to go word by word.
            return (CASELESS + f" {CASELESS}".join(words)).split(" ") if words else words
        if text.isupper() or is_headline(words):
            return [CASELESS + word.lower() for word in words]
        found: list[str] = []
        begins = True
        for word in words:
            found.append(FIRST + word if begins and word[0].isupper() else word)
            # A quotation mark or a bracket leaves the question open.
            begins = word in _STOPS or (begins and not word[0].isalnum())
        return found

    def lists_of(self, marked: str) -> Lists:
        """The features of a word, as those of `features.features_of`."""
        # Alone, a control character is a word of the text.
        mark = marked[0] if marked[0] in (CASELESS, FIRST) and len(marked) > 1 else ""
        word = marked[len(mark) :]
        lower = word.lower().replace("’", "'")
        stem = lower.removesuffix("'s")
        normal = _DIGIT.sub("0", lower)
        shape = "u" if mark == CASELESS and lower[0].isalpha() else mark + _shape(word)
        classes = self._classes(stem)
        here = [
            f"w={stem}",
            f"p={stem[:3]}",
            f"e={stem[-3:]}",
            f"k={stem[-2:]}",
            f"s={shape}",
            *([f"n={normal}"] if normal != lower else []),
            *(["'s"] if stem != lower else []),
            *([f"script|{shape}"] if any(map(_is_foreign, lower)) else []),
            *(f"c={name}" for name in classes),
            *(f"c={name}|{shape}" for name in classes),
        ]
        if not any(name[0].isalpha() for name in classes):
            here.append(f"unlisted|{shape}")
        near = [f"={normal}", f"s={shape}", *(f"c={name}" for name in classes)]
        far = [f"={normal}", f"s={shape}", *(f"c={name}" for name in classes[:-1])]
        return (
            here,
            [f"-1{name}" for name in near],
            [f"+1{name}" for name in near],
            [f"-2{name}" for name in far],
            [f"+2{name}" for name in far],
        )

    def _classes(self, stem: str) -> tuple[str, ...]:
        found = self._lexicon.get(stem, ())
        if not found and "'" in stem:
            found = self._lexicon.get(stem.replace("'", ""), ())
        return ("T", *found) if stem in TITLES else found


def is_headline(words: Sequence[str]) -> bool:
    """Whether nearly all words begin with a capital, which then tells nothing."""
    capital = sum(word[0].isupper() for word in words)
    return capital >= _LEAST_TITLED and 10 * capital >= 8 * sum(word[0].isalpha() for word in words)


def _is_foreign(character: str) -> bool:
    """Whether it is a letter, but not a Latin one."""
    return character > _LAST_LATIN and character.isalpha()


def _shape(word: str) -> str:
    """Letters as x or X, as S in scripts without case; runs of one kind as one."""
    found = ""
    for character in word:
        if character.isalpha():
            kind = "x" if character.islower() else "X" if character.isupper() else "S"
        else:
            kind = "0" if character.isdigit() else character
        if kind == "0" or not found.endswith(kind):
            found += kind
    return found[:5]


def lexicon_from(text: str) -> Lexicon:
    """Read lines of a word, a tab and its classes."""
    found: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        word, tab, classes = line.partition("\t")
        if not (word and tab and classes):
            raise InvalidInput(
                f"Expected a word, a tab and its classes in a lexicon, got {line[:40]!r} at line "
                f"{number}: make the tagger again."
            )
        found[word] = tuple(classes.split())
    return found


def lexicon_text(lexicon: Lexicon) -> str:
    """The lines of a lexicon, in the order of the alphabet."""
    return "".join(f"{word}\t{' '.join(lexicon[word])}\n" for word in sorted(lexicon))


_SMALL = words_in(
    "a about am an and are as at be been but by did do for from had has have he her him his i if "
    "in into is it its me my no not of off on or our over she so than that the their them then "
    "there these they this those to too up was we were what when where who why with would you your"
)
_WORD_AT_START, _WORD_AT_END = re.compile(r"\w+\s+"), re.compile(r"\s+\w+$")


def without_small(text: str, span: Span) -> Span | None:
    """Without small words at its edges, which caution may add; nothing if it is one.

    Of texts without capitals too; elsewhere a capital may make a name of any word.

    >>> without_small("call Anna in", Span(5, 12, "PER")), without_small("of", Span(0, 2, "LOC"))
    (Span(start=5, end=9, type='PER'), None)
    """
    start, end, kind = span
    while (head := _WORD_AT_START.match(text, start, end)) and head[0].rstrip() in _SMALL:
        start = head.end()
    while (tail := _WORD_AT_END.search(text, max(start, end - 9), end)) and (
        tail[0].lstrip() in _SMALL
    ):
        end = tail.start()
    return None if text[start:end] in _SMALL else Span(start, end, kind)


_TITLE_AT_START = re.compile(r"(\w+)\.?(?:\s+|$)")


def without_title(text: str, span: Span) -> Span | None:
    """A person without the titles before the name; nothing if there is no name.

    >>> without_title("Dr. Lee", Span(0, 7, "PER")), without_title("Mrs", Span(0, 3, "PER"))
    (Span(start=4, end=7, type='PER'), None)
    """
    start, end, kind = span
    while kind == "PER" and (head := _TITLE_AT_START.match(text[start:end])):
        if head[1].lower() not in TITLES:
            break
        start += head.end()
    return Span(start, end, kind) if start < end else None
