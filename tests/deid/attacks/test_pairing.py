import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.corpora import Span, Utterance
from sottovoce.deid import Deidentifier, Fields, Setting
from sottovoce.deid.attacks.pairing import outputs_of, replaced_values
from sottovoce.deid.detect import Gazetteer
from sottovoce.deid.detect.detector import utterance_of
from sottovoce.errors import InvalidInput

NAMES = ("anna", "ben", "maria")


def calls(count: int) -> list[Utterance]:
    return [utterance_of(f"call {NAMES[n % 3]} and {NAMES[n % 2]} now") for n in range(count)]


@given(st.lists(st.tuples(st.text("ab ", max_size=4), st.text("ab ", min_size=1, max_size=3))))
def test_a_release_is_always_explained(parts: list[tuple[str, str]]) -> None:
    """For any text between the values, even if it resembles them."""
    original, released, spans = "", "", []
    for between, output in parts:
        original, released = original + between, released + between
        spans.append(Span(len(original), len(original) + 1, "X"))
        original, released = original + "?", released + output
    found = outputs_of(original, released, spans)
    assert found is not None
    place, again = 0, ""
    for span, each in zip(spans, found, strict=True):
        again += original[place : span.start] + each.output
        assert each.before + each.output + each.after == released
        place = span.end
    assert again + original[place:] == released


def test_values_and_outputs_of_a_whole_release() -> None:
    detector = Gazetteer({"PER": NAMES})
    deid = Deidentifier(detector=detector, setting=Setting(p=0.5), fields=Fields(user="drop"))
    originals = calls(600)
    releases = list(deid.release_all(originals))
    told = replaced_values(originals, (each.utterance for each in releases), detector)
    plain = [
        (original.text[piece.start : piece.end], each.text[piece.new_start : piece.new_end])
        for original, each in zip(originals, releases, strict=True)
        for piece in each.offsets.replacements
    ]
    assert [(each.value, each.output) for each in told] == plain


def test_what_does_not_fit_is_refused() -> None:
    detector = Gazetteer({"PER": NAMES})
    with pytest.raises(InvalidInput, match="utterance 1 to differ"):
        replaced_values(calls(1), [utterance_of("ring x and y now")], detector)
    with pytest.raises(InvalidInput, match="got only 1"):
        replaced_values(calls(2), calls(1), detector)
    with pytest.raises(InvalidInput, match="got more"):
        replaced_values(calls(1), calls(2), detector)
