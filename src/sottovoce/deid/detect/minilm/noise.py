"""Ways of writing the same sentence: another case, hesitation, the noise of short messages."""

import random
import re
from collections.abc import Callable

from sottovoce.corpora import Span, Utterance, from_spans, spans_of

_PUNCTUATION = re.compile(r"[,.;:!?\"]+(?=\s|$)")
_SHORT = {
    "you": "u", "are": "r", "to": "2", "for": "4", "tomorrow": "tmrw", "people": "ppl",
    "because": "bc", "with": "w/", "and": "&", "be": "b", "your": "ur", "please": "pls",
    "thanks": "thx", "really": "rly", "going": "goin", "the": "da", "tonight": "2nite",
    "have": "hv", "that": "dat", "about": "abt", "i'm": "im", "don't": "dont", "can't": "cant",
    "before": "b4", "what": "wat", "okay": "k", "birthday": "bday", "right": "rite", "love": "luv",
}  # fmt: skip
_BEFORE = ("RT @{h}: ", "@{h} ", "@{h} @{h} ", "lol ", "omg ", ".@{h} ", "So ", "ugh ", "#np ", "")
_AFTER = (
    " lol", "!!!", " 😂😂", " ❤️", " :)", " :(", " #tbt", " #blessed", " http://t.co/a1B2c3", " smh",
    " haha", "...", " xx", " #ff @{h}", " 🔥", " #love #happy", " tho", " ???", " <3", "", "", "",
)  # fmt: skip
_FILLERS = ("um", "uh", "you know", "like", "i mean", "er", "so", "yeah", "well", "hmm", "okay")
_STEMS = ("jenny", "mike_", "the_real", "dj", "musiclover", "bigal", "xo_", "its", "newsdaily")


def in_case(utterance: Utterance, draws: random.Random) -> Utterance:
    """As it is, in lower case, in capitals, in capitals at every word, or without full stops.

    >>> call = from_spans("Call Ann.", [Span(5, 8, "PER")])
    >>> sorted({in_case(call, random.Random(seed)).text for seed in range(60)})
    ['CALL ANN.', 'Call Ann', 'Call Ann.', 'call ann', 'call ann.']
    """
    form = draws.random()
    if form < 0.30:
        found = _changed(utterance, str.lower)
    elif form < 0.34:
        found = _changed(utterance, str.upper)
    elif form < 0.37:
        found = _changed(utterance, str.title)
    else:
        found = utterance
    return _without_punctuation(found) if draws.random() < 0.12 else found


def _changed(utterance: Utterance, change: Callable[[str], str]) -> Utterance:
    """The text changed letter by letter; left as it is where that would move places."""
    text = change(utterance.text)
    return from_spans(text, spans_of(utterance)) if len(text) == len(utterance.text) else utterance


def _without_punctuation(utterance: Utterance) -> Utterance:
    return _pieces(utterance, lambda text, private: _PUNCTUATION.sub("", text))


def hesitating(utterance: Utterance, draws: random.Random) -> Utterance:
    """With fillers and words said twice, between private values.

    >>> hesitating(from_spans("call ann", [Span(5, 8, "PER")]), random.Random(2)).slots[-1]
    'B-PER'
    """

    def change(text: str, private: bool) -> str:
        if private:
            return text
        found = []
        for word in re.split(r"(\s+)", text):
            found.append(word)
            if word.strip():
                chance = draws.random()
                if chance < 0.06:
                    found += [" ", draws.choice(_FILLERS)]
                elif chance < 0.09:
                    found += [" ", word]
        return "".join(found)

    return _pieces(utterance, change)


def as_tweet(utterance: Utterance, draws: random.Random) -> Utterance:
    """With short forms, handles, hashtags, emoji, drawn-out words and careless capitals.

    >>> tweet = as_tweet(from_spans("Ann is here", [Span(0, 3, "PER")]), random.Random(3))
    >>> "PER" in {slot[2:] for slot in tweet.slots}
    True
    """

    def change(text: str, private: bool) -> str:
        if private:
            form = draws.random()
            if form < 0.04 and " " in text:
                return text.replace(" ", "")  # as in a hashtag
            return f"{text[0]}{text[1:].lower()}" if form < 0.08 else text
        return re.sub(r"[\w']+", lambda found: _short(found[0], draws), text)

    found = _pieces(utterance, change)
    before, after = (_with_handles(draws.choice(options), draws) for options in (_BEFORE, _AFTER))
    spans = [Span(s + len(before), e + len(before), kind) for s, e, kind in spans_of(found)]
    found = from_spans(before + found.text + after, spans)
    form = draws.random()
    if form < 0.35:
        found = _changed(found, str.lower)
    elif form < 0.42:
        found = _changed(found, str.upper)
    return _without_punctuation(found) if draws.random() < 0.3 else found


def _short(word: str, draws: random.Random) -> str:
    chance = draws.random()
    if word.lower() in _SHORT and chance < 0.4:
        return _SHORT[word.lower()]
    if chance < 0.03 and len(word) > 2 and word[-1].isalpha():
        return word + word[-1] * draws.randrange(2, 5)
    if chance < 0.05 and len(word) > 4:
        place = draws.randrange(1, len(word) - 1)
        return word[:place] + word[place + 1 :]
    if chance < 0.08:
        return word.upper()
    return word


def _with_handles(text: str, draws: random.Random) -> str:
    while "{h}" in text:
        handle = draws.choice(_STEMS) + str(draws.randrange(1000))
        text = text.replace("{h}", handle, 1)
    return text


def _pieces(utterance: Utterance, change: Callable[[str, bool], str]) -> Utterance:
    """Every stretch of the text changed by itself; private ones stay private."""
    text, spans, beyond = "", list[Span](), 0
    for start, end, kind in spans_of(utterance):
        text += change(utterance.text[beyond:start], False)
        value = change(utterance.text[start:end], True)
        spans.append(Span(len(text), len(text) + len(value), kind))
        text += value
        beyond = end
    text += change(utterance.text[beyond:], False)
    return from_spans(text, [span for span in spans if span.end > span.start])
