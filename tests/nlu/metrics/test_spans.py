"""Spans against seqeval, on labels that are BIO and on labels that are not."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.corpora import repair_bio
from sottovoce.nlu.metrics import SpanCounts, slot_spans, spans_by_type

labels = st.sampled_from(["O", "B-a", "I-a", "B-b", "I-b", "B-a-b", "I-a-b"])
utterances = st.lists(st.tuples(labels, labels), max_size=9)
corpora = st.lists(utterances, min_size=1, max_size=8)


@given(corpora, st.booleans())
def test_as_seqeval(pairs: list[list[tuple[str, str]]], mended: bool) -> None:
    seqeval = pytest.importorskip("seqeval.metrics", reason="seqeval is the oracle here")
    sides = [[tuple(pair[side] for pair in each) for each in pairs] for side in (0, 1)]
    if mended:
        sides = [[repair_bio(each) for each in side] for side in sides]
    reference, hypothesis = sides
    by_type = spans_by_type(reference, hypothesis)
    total = SpanCounts(
        sum(each.reference for each in by_type.values()),
        sum(each.hypothesis for each in by_type.values()),
        sum(each.both for each in by_type.values()),
    )
    as_lists = [[list(each) for each in side] for side in sides]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of divisions by zero
        assert total.f1 == pytest.approx(seqeval.f1_score(*as_lists), abs=1e-12)
        assert total.precision == pytest.approx(seqeval.precision_score(*as_lists), abs=1e-12)
        assert total.recall == pytest.approx(seqeval.recall_score(*as_lists), abs=1e-12)
        if by_type:
            report = seqeval.classification_report(*as_lists, output_dict=True)
            for name, counts in by_type.items():
                assert counts.f1 == pytest.approx(report[name]["f1-score"], abs=1e-12)
                assert counts.reference == report[name]["support"]


@given(st.lists(labels, max_size=9))
def test_spans_do_not_overlap_and_miss_nothing(slots: list[str]) -> None:
    spans = slot_spans(slots)
    covered = [position for start, end, _ in spans for position in range(start, end)]
    assert covered == [i for i, label in enumerate(slots) if label != "O"]
    assert slot_spans(repair_bio(tuple(slots))) == spans


def test_nothing_at_all() -> None:
    assert slot_spans(()) == []
    assert (SpanCounts().f1, SpanCounts().precision, SpanCounts().recall) == (0.0, 0.0, 0.0)
