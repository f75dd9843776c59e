import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.corpora.strategies import utterances

from sottovoce.corpora import CorpusStatistics, Utterance, count, describe, shared
from sottovoce.errors import InvalidInput

corpora = st.lists(utterances(), max_size=6)


@given(corpora)
def test_counts_agree_with_a_plain_count(found: list[Utterance]) -> None:
    counted = describe(found)
    running = [token for utterance in found for token in utterance.tokens]
    assert counted.utterances == len(found)
    assert counted.tokens == len(running)
    assert counted.words == len({*running})
    assert counted.users == len({u.user for u in found} - {""})
    assert counted.without_user == sum(not u.user for u in found)
    assert sum(counted.intents.values()) == sum(bool(u.intent) for u in found)
    assert sum(counted.slots.values()) == sum(s[:2] == "B-" for u in found for s in u.slots)
    assert sum(length * n for length, n in counted.lengths.items()) == len(running)
    assert counted.repeated == len(found) - len({u.tokens for u in found})
    for tokens, words in counted.growth:
        assert words == len({*running[:tokens]})
    assert not running or counted.growth[-1] == (len(running), counted.words)


@given(corpora)
def test_statistics_survive_json(found: list[Utterance]) -> None:
    counted = describe(found)
    assert CorpusStatistics.from_json(json.loads(json.dumps(counted.to_json()))) == counted


@given(corpora, corpora)
def test_shared_utterances_agree_with_a_plain_count(
    first: list[Utterance], second: list[Utterance]
) -> None:
    elsewhere = {u.tokens for u in second}
    assert shared(count(first), count(second)) == sum(u.tokens in elsewhere for u in first)


def test_other_cuts_of_the_same_letters_are_not_duplicates() -> None:
    first = Utterance(tokens=("ab", "c"), slots=("O", "O"))
    second = Utterance(tokens=("a", "bc"), slots=("O", "O"))
    assert shared(count([first]), count([second])) == 0


def test_curve_is_sampled_at_1_2_5() -> None:
    long = Utterance(tokens=tuple("abcdefghijkl"), slots=("O",) * 12)
    assert describe([long, long]).growth == ((1, 1), (2, 2), (5, 5), (10, 10), (20, 12), (24, 12))


def test_frequent_names_come_first() -> None:
    calls = [Utterance(tokens=("a",), slots=("O",), intent=name) for name in "bacab"]
    assert list(describe(calls).intents.items()) == [("a", 2), ("b", 2), ("c", 1)]


@pytest.mark.parametrize("found", [{}, {"utterances": 1}])
def test_json_of_something_else_is_refused(found: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match="Expected the keys utterances, tokens"):
        CorpusStatistics.from_json(found)
