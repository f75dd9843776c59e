import pytest

from sottovoce.corpora.synthetic import grammar
from sottovoce.corpora.synthetic.grammar import ABSENT, Phrase, expand
from sottovoce.errors import InvalidInput


def test_choices_are_weighted_by_their_order() -> None:
    shares = expand("[a|b|c]")
    assert shares["a"] == pytest.approx(2 * shares["b"]) == pytest.approx(3 * shares["c"])


def test_optional_parts_are_mostly_absent() -> None:
    assert expand("a (b)") == pytest.approx({"a": ABSENT, "a b": 1 - ABSENT})


def test_parts_nest_and_shares_sum_to_one() -> None:
    shares = expand("<verb> ([the|a] (old) {noun})\nagain", {"verb": "[see|<other>]", "other": "x"})
    assert sum(shares.values()) == pytest.approx(1)
    assert {"see", "x the old {noun}", "see a {noun}", "again"} <= set(shares)


def test_the_same_phrase_by_two_ways_is_one_phrase() -> None:
    assert expand("[a|a] b") == pytest.approx({"a b": 1.0})


def test_empty_alternatives_leave_no_double_space() -> None:
    assert set(expand("a [b|] c")) == {"a b c", "a c"}


def test_holes_may_be_glued() -> None:
    assert Phrase.of("{a}-{b}'s {date:past}") == Phrase("%s-%s's %s", ("a", "b", "date:past"))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("[a|b", "Expected ] in template"),
        ("(a]", r"Expected \) in template"),
        ("a]", "Expected no ] in template"),
        ("<nowhere>", "Expected a part named 'nowhere'"),
        ("Hello", "Expected a plain lower-case word, got 'Hello'"),
        ('say "x"', "Expected a plain lower-case word"),
        ("a[b|c]", "Expected a space inside"),
        ("[a|b]{c}", "Expected a space inside"),
        ("[a|b|c|d|e|f|g|h|i|j] " * 4, "Expected at most 5000 phrases"),
    ],
)
def test_slips_of_the_pen_are_named(template: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        expand(template)


def test_a_part_is_parsed_once_however_often_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    reading = grammar._Reader.read

    def counted(self: grammar._Reader) -> grammar.Choice:
        parsed.append(self.template)
        return reading(self)

    monkeypatch.setattr(grammar._Reader, "read", counted)
    # Each part has the one before it twice: 2**40 uses of the first.
    parts = {"p0": "call"} | {f"p{n}": f"<p{n - 1}> (<p{n - 1}>)" for n in range(1, 41)}
    choice = grammar.read("<p40> {who}", parts)
    assert len(parsed) == 42
    assert choice.holes() == {"who"}
