"""Semantic errors: the published vectors, their variant, and what must hold of any utterance."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import InvalidInput
from sottovoce.nlu.metrics import SemanticErrors, items_of, semantic_errors
from sottovoce.nlu.metrics.ser import Alignment, Item

ALIGNMENTS: tuple[Alignment, Alignment] = ("levenshtein", "names")
VECTORS: list[Any] = [
    # One wrong value.
    (
        [("PlayMusic", [("song", "two steps behind"), ("artist", "def leppard")])],
        [("PlayMusic", [("song", "two steps"), ("artist", "def leppard")])],
        SemanticErrors(correct=2, substitutions=1, insertions=0, deletions=0),
        1 / 3,
    ),
    # Pooled over two utterances, above 1.
    (
        [("Stop", []), ("Call", [("contact", "my parents"), ("number", "0123")])],
        [("Stop", [("device", "tv"), ("room", "kitchen")]), ("Message", [])],
        SemanticErrors(correct=1, substitutions=1, insertions=2, deletions=2),
        1.25,
    ),
]
items = st.lists(
    st.builds(Item, st.sampled_from(["", "a", "b"]), st.sampled_from(["x", "y"])), max_size=6
)


def understood(intent: str, slots: list[tuple[str, str]]) -> list[Item]:
    return [Item("", intent), *(Item(*slot) for slot in slots)]


def pooled(reference: Any, hypothesis: Any, alignment: Alignment) -> SemanticErrors:
    pairs = zip(reference, hypothesis, strict=True)
    counted = (semantic_errors(understood(*a), understood(*b), alignment) for a, b in pairs)
    return sum(counted, SemanticErrors())


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize(("reference", "hypothesis", "errors", "rate"), VECTORS)
def test_vectors(
    reference: Any, hypothesis: Any, errors: SemanticErrors, rate: float, alignment: Alignment
) -> None:
    found = pooled(reference, hypothesis, alignment)
    assert found == errors
    assert found.rate == pytest.approx(rate, rel=1e-12)


def test_all_published_vectors(shared_data: Path) -> None:
    path = shared_data.parent / "vectors" / "privacy.json"
    text = json.loads(path.read_text())
    vectors = text if isinstance(text, list) else text["vectors"]
    chosen = [each for each in vectors if each.get("group") == "semantic_error_rate"]
    assert len(chosen) >= len(VECTORS)
    for each in chosen:
        reference, hypothesis = (
            [(one["intent"], one["slots"]) for one in each["inputs"][side]]
            for side in ("reference", "hypothesis")
        )
        for name, alignment in zip(("levenshtein", "name_matched"), ALIGNMENTS, strict=True):
            wanted = each["outputs"][name]
            found = pooled(reference, hypothesis, alignment)
            assert found.rate == pytest.approx(wanted["SER"], rel=1e-12), each["id"]
            assert found.correct == wanted["correct"]
            assert found.count == sum(
                wanted[kind] for kind in ("substitutions", "insertions", "deletions")
            )


@given(items, items)
def test_counts_fit_together(reference: list[Item], hypothesis: list[Item]) -> None:
    for alignment in ALIGNMENTS:
        found = semantic_errors(reference, hypothesis, alignment)
        assert found.items == len(reference)
        assert found.correct + found.substitutions + found.insertions == len(hypothesis)
        assert semantic_errors(reference, reference, alignment).count == 0
    swapped = semantic_errors(hypothesis, reference)
    assert swapped.count == semantic_errors(reference, hypothesis).count


def edits(a: list[Item], b: list[Item]) -> int:
    """The textbook recursion."""
    if not a or not b:
        return len(a) + len(b)
    return min(edits(a[1:], b[1:]) + (a[0] != b[0]), edits(a[1:], b) + 1, edits(a, b[1:]) + 1)


@given(items.map(lambda x: x[:4]), items.map(lambda x: x[:4]))
def test_the_alignment_is_the_shortest(reference: list[Item], hypothesis: list[Item]) -> None:
    assert semantic_errors(reference, hypothesis).count == edits(reference, hypothesis)


def test_the_order_counts_for_one_alignment_only() -> None:
    one, other = Item("a", "x"), Item("b", "y")
    assert semantic_errors([one, other], [other, one]).count == 2
    assert semantic_errors([one, other], [other, one], "names").count == 0


def test_an_intent_is_no_slot() -> None:
    assert items_of("city", ("rome",), ("B-city",)) == [Item("", "city"), Item("city", "rome")]
    assert SemanticErrors().rate == 0.0


def test_unknown_alignment() -> None:
    with pytest.raises(InvalidInput, match="alignment"):
        semantic_errors([], [], "best")  # type: ignore[arg-type]
