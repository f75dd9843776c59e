import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.deid.replace.channels import objections, outputs

from sottovoce.deid.replace import Kernel, Surrogates, channel_epsilon, uniform
from sottovoce.deid.replace.surrogates import by_rank, from_corpus, read_surrogates
from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import ReplacedTokens, SurrogateSource
from sottovoce.privacy.guarantee import Relation, Unit

CITIES = Surrogates(("rome", "oslo", "lima", "bern"), (4.0, 3.0, 2.0, 1.0))


def kernel(p: float) -> Kernel:
    return Kernel(surrogates=CITIES, p=p, keep_case=False)


def stated_epsilon(made: Kernel) -> float:
    cost = made.cost()
    fact = ReplacedTokens(
        unit=Unit.TOKEN,
        replace_probability=cost.replace_probability,
        smallest_probability=cost.smallest_probability,
    )
    [(loss, _)] = fact.losses(Relation.REPLACE_ONE)
    return float(loss.log_ratio)  # type: ignore[union-attr]


@pytest.mark.parametrize("value", ["bern", "rome", "paris"])
def test_it_draws_from_the_channel_it_states(value: str) -> None:
    made = kernel(0.6)
    assert not objections(outputs(made, value), made.channel(value))


@pytest.mark.parametrize("p", [0.6 * 0.7, 0.6 * 1.3])
def test_another_p_is_noticed(p: float) -> None:
    assert objections(outputs(kernel(p), "bern"), kernel(0.6).channel("bern"))


def test_another_list_is_noticed() -> None:
    others = Kernel(surrogates=uniform(CITIES.values), p=0.6, keep_case=False)
    assert objections(outputs(others, "bern"), kernel(0.6).channel("bern"))


@given(p=st.floats(0.01, 1.0), weights=st.lists(st.floats(0.1, 10), min_size=2, max_size=6))
def test_epsilon_is_the_largest_log_ratio_of_the_channel(p: float, weights: list[float]) -> None:
    values = tuple(f"v{place}" for place in range(len(weights)))
    made = Kernel(surrogates=Surrogates(values, tuple(weights)), p=p)
    rows = [made.channel(value) for value in (*values, "elsewhere")]
    assert channel_epsilon(rows) == pytest.approx(stated_epsilon(made), abs=1e-9)


@given(epsilon=st.floats(0.01, 8.0))
def test_for_epsilon_reaches_it(epsilon: float) -> None:
    assert stated_epsilon(Kernel.for_epsilon(epsilon, CITIES)) == pytest.approx(epsilon, rel=1e-9)


def test_a_value_outside_the_list_is_never_kept() -> None:
    assert "paris" not in outputs(kernel(0.01), "paris", 2000)


def test_p_zero_keeps_and_p_one_never_asks() -> None:
    assert set(outputs(kernel(0.0), "oslo", 100)) == {"oslo"}
    assert len(set(outputs(kernel(1.0), "oslo", 1000))) == 4


def test_case_follows_the_original_and_hides_what_is_finer() -> None:
    made = Kernel(surrogates=uniform(["new york", "mcdonald"]), p=0.0)
    assert outputs(made, "McDonald", 1) == ["Mcdonald"]
    assert outputs(made, "NEW YORK", 1) == ["NEW YORK"]
    assert outputs(made, "new  york", 1) == ["new york"]


def test_the_vectors(shared_data: Path) -> None:
    vectors = json.loads((shared_data.parent / "vectors" / "deid.json").read_text())
    for case in vectors["renormalised_per_type"]:
        [(kind, counts)] = case["counts"].items()
        values = tuple(f"{kind}{place}".lower() for place in range(len(counts)))
        made = Kernel(surrogates=Surrogates(values, tuple(map(float, counts))), p=case["p"])
        assert stated_epsilon(made) == pytest.approx(case["epsilon"], abs=1e-6)
    for case in vectors["inverse_p"]:
        made = Kernel.for_epsilon(case["epsilon"], uniform([f"v{n}" for n in range(4)]))
        assert made.p == pytest.approx(case["p"], abs=1e-6)


def test_lists_keep_their_origin() -> None:
    counted = from_corpus(["Rome", "rome", "Oslo"])
    assert counted.origin is SurrogateSource.SAME_CORPUS
    assert counted.words().origin is SurrogateSource.SAME_CORPUS
    assert counted.probabilities["rome"] == pytest.approx(2 / 3)
    assert by_rank(uniform(["a", "b", "c"])).min_probability == pytest.approx(
        (1 / 3) / (1 + 1 / 2 + 1 / 3)
    )


@pytest.mark.parametrize(
    ("values", "weights", "message"),
    [
        (("rome",), (), "at least two"),
        (("rome", "Oslo"), (), "lower case"),
        (("rome", "rome"), (), "twice"),
        (("rome", "oslo"), (1.0,), "weight for each"),
        (("rome", "oslo"), (1.0, 0.0), "> 0"),
    ],
)
def test_bad_lists_are_refused(
    values: tuple[str, ...], weights: tuple[float, ...], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        Surrogates(values, weights)


def test_lists_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "lists.tsv"
    path.write_text("LOC\tRome\t2\nLOC\tOslo\nPER\tAnna\nPER\tBen\n")
    lists = read_surrogates(path)
    assert lists["LOC"].weights == (2.0, 1.0)
    assert lists["PER"].values == ("anna", "ben")
    for bad in ("LOC\n", "LOC\tRome\tmany\n", ""):
        path.write_text(bad)
        with pytest.raises(InvalidInput, match=r"lists\.tsv"):
            read_surrogates(path)


def test_a_bad_p_is_refused() -> None:
    with pytest.raises(InvalidInput, match="probability"):
        kernel(1.5)
    assert math.isinf(stated_epsilon(kernel(0.0)))
