from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sottovoce.deid.statement.unit_counts import UnitCounts

UTTERANCES = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["PER", "LOC", "DATE"]), max_size=5), st.sampled_from("abc")
    ),
    max_size=25,
)


def dominated(counts: tuple[int, ...], worst: set[tuple[int, ...]]) -> bool:
    return any(all(a <= b for a, b in zip(counts, other, strict=True)) for other in worst)


@given(UTTERANCES)
def test_the_worst_dominate_all_and_exist(utterances: list[tuple[list[str], str]]) -> None:
    tally = UnitCounts()
    for types, user in utterances:
        tally.add(types, user)
    kinds = tally.types
    each = {tuple(types.count(kind) for kind in kinds) for types, _ in utterances if types}
    users: dict[str, Counter[str]] = {}
    for types, user in utterances:
        users.setdefault(user, Counter()).update(types)
    totals = {tuple(total[kind] for kind in kinds) for total in users.values() if total}
    for real, worst in ((each, tally.worst_utterances()), (totals, tally.worst_users())):
        assert all(dominated(counts, worst) for counts in real)
        assert worst <= real
    assert tally.tokens == Counter(kind for types, _ in utterances for kind in types)


def test_many_unlike_utterances_stay_bounded() -> None:
    tally = UnitCounts()
    for place in range(5000):
        tally.add(["PER"] * (place % 101) + ["LOC"] * (100 - place % 101), "")
    [worst] = tally.worst_utterances()
    assert worst == (100, 100)
    assert tally.without_user == tally.utterances == 5000


def test_types_can_be_chosen() -> None:
    tally = UnitCounts()
    tally.add(["PER", "LOC"], "a")
    tally.add(["LOC", "LOC"], "a")
    assert tally.worst_utterances(["LOC"]) == {(2,)}
    assert tally.worst_users(["PER"]) == {(1,)}
