import re
from collections import Counter
from functools import cache

import numpy as np
import pytest

from sottovoce.corpora.synthetic import LEXICONS, lexicon
from sottovoce.corpora.synthetic.draws import GOLDEN, mix
from sottovoce.corpora.synthetic.kinds import KINDS, PARTS
from sottovoce.corpora.synthetic.lexicon import FILES, Values
from sottovoce.errors import InvalidInput

NUMBERS = mix(np.arange(1, 2001, dtype=np.uint64) * GOLDEN).tolist()
DIGITS = dict(zip(lexicon("digit_word"), "00123456789", strict=True))


@cache
def drawn(kind: str) -> list[str]:
    values = Values(KINDS[kind].grammar, PARTS)
    return [values.draw(number) for number in NUMBERS]


@pytest.mark.parametrize("name", LEXICONS)
def test_lists_are_plain_and_have_no_doubles(name: str) -> None:
    words = lexicon(name)
    assert len(set(words)) == len(words)
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9'.: -]*[a-z0-9])?", word) for word in words)
    assert not any("  " in word for word in words)


def test_lists_are_large() -> None:
    sizes = {name: len(lexicon(name)) for name in FILES}
    assert sizes["first_names"] > 500
    assert sizes["last_names"] > 450
    assert sizes["cities"] > 150
    assert sizes["medicines"] > 200


def test_lists_overlap_so_that_words_alone_do_not_tell() -> None:
    firsts = set(lexicon("first_names"))
    assert {"paris", "austin", "florence"} <= firsts & set(lexicon("cities"))
    assert {"april", "may", "august"} <= firsts & set(lexicon("month"))
    assert len(set(lexicon("last_names")) & set(lexicon("nouns"))) > 3


def test_an_unknown_list_is_named() -> None:
    with pytest.raises(InvalidInput, match="Expected lexicon to be one of first_names"):
        lexicon("passwords")


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_functions_of_their_number(kind: str) -> None:
    again = Values(KINDS[kind].grammar, PARTS)
    assert [again.draw(number) for number in NUMBERS[:500]] == drawn(kind)[:500]


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_lower_case_words_without_outer_punctuation(kind: str) -> None:
    for value in drawn(kind):
        assert re.fullmatch(r"[a-z0-9][a-z0-9'@.:/ -]*[a-z0-9]|[a-z0-9]", value), value
        assert all(re.match(r"[a-z0-9]", w) and re.search(r"[a-z0-9]$", w) for w in value.split())


@pytest.mark.parametrize("kind", ["person", "address", "title", "message", "phone", "email"])
def test_compositional_values_have_a_long_tail(kind: str) -> None:
    values = drawn(kind)
    assert len(set(values)) > len(values) / 3
    assert Counter(values).most_common(1)[0][1] > 2


def test_phone_numbers_are_fictional() -> None:
    fictional = re.compile(r"(\d{3})?55501\d{2}|01\d{2}|02079460\d{3}|07700900\d{3}")
    for value in drawn("phone"):
        words = re.sub(r"double (\w+)", r"\1 \1", value.replace("-", " ")).split()
        digits = "".join(DIGITS.get(word, word) for word in words)
        assert fictional.fullmatch(digits), value


def test_email_addresses_are_under_example() -> None:
    assert all(re.search(r"(\.| dot )example$", value) for value in drawn("email"))


def test_too_many_holes_for_64_bits_are_refused() -> None:
    with pytest.raises(InvalidInput, match="got too many holes"):
        Values("{nouns} {nouns} {nouns} {nouns} {nouns} {nouns}")
