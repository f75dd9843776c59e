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
    counts = UnitCounts()
    for types, user in utterances:
        counts.add(types, user)
    kinds = counts.types
    each = {tuple(types.count(kind) for kind in kinds) for types, _ in utterances if types}
    users: dict[str, Counter[str]] = {}
    for types, user in utterances:
        users.setdefault(user, Counter()).update(types)
    totals = {tuple(total[kind] for kind in kinds) for total in users.values() if total}
    for real, worst in ((each, counts.worst_utterances()), (totals, counts.worst_users())):
        assert all(dominated(counts, worst) for counts in real)
        assert worst <= real
    assert counts.tokens == Counter(kind for types, _ in utterances for kind in types)


def test_many_unlike_utterances_stay_bounded() -> None:
    counts = UnitCounts()
    for place in range(5000):
        counts.add(["PER"] * (place % 101) + ["LOC"] * (100 - place % 101), "")
    [worst] = counts.worst_utterances()
    assert worst == (100, 100)
    assert counts.without_user == counts.utterances == 5000


def test_types_can_be_chosen() -> None:
    counts = UnitCounts()
    counts.add(["PER", "LOC"], "a")
    counts.add(["LOC", "LOC"], "a")
    assert counts.worst_utterances(["LOC"]) == {(2,)}
    assert counts.worst_users(["PER"]) == {(1,)}
