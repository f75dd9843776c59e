"""What of a private value passes through its replacement: its shape is part of the release.

At p = 1 (or epsilon 0) with equal seeds the release of two neighbours must be the same to the last
character, in the text, the tokens and the labels. Where it is not, the statement has to name what
is released.
"""

import re

import numpy as np
import pytest

from sottovoce.corpora import Utterance
from sottovoce.corpora.spans import Span, from_spans
from sottovoce.corpora.wordvectors import WordVectors
from sottovoce.deid import Deidentifier, Fit, LabelMap, Setting
from sottovoce.deid.detect import Gold
from sottovoce.deid.replace import kernel, numbers
from sottovoce.deid.replace.strategies import Resources
from sottovoce.deid.replace.surrogates import uniform
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

LABELS = LabelMap(
    {"who": "PER", "number": "PHONE", "sum": "MONEY", "what": "TEXT", "ill": "MEDICAL"}
)
NAMES = ("rome", "anna", "maria lee", "o'brien")
VECTORS = WordVectors(("rome", "anna", "maria", "lee"), np.eye(4))
SETTINGS = {
    "redact": Setting(strategy="redact"),
    "typed": Setting(strategy="typed"),
    "named": Setting(strategy="named"),
    "word": Setting(strategy="word", p=1.0),
    "entity": Setting(strategy="entity", p=1.0),
    "response": Setting(strategy="response", epsilon=0.0),
    "semantic": Setting(strategy="semantic", epsilon=0.0),
}
REMAINDERS = {
    "blanks": ("anna lee", "anna   lee"),
    "a tab": ("anna lee", "anna\tlee"),
    "a blank that does not break": ("anna lee", "anna\xa0lee"),
    "a hyphen": ("anna lee", "anna-lee"),
    "an apostrophe": ("obrien", "o'brien"),
    "a point": ("dr anna", "dr. anna"),
    "accents": ("anna", "ann\u00e1"),
    "accents behind their letter": ("anna", "anna\u0301"),
    "capitals within": ("anna", "aNNa"),
    "in the list or not": ("anna", "zoltan"),
    "length": ("al", "bartholomew"),
    "punctuation at its end": ("anna", "anna!"),
    "an underscore": ("anna", "anna_b"),
    "wide letters": ("anna", "\uff41nna"),
}


def heard(value: str, label: str = "who") -> Utterance:
    text = f"call {value} now"
    return from_spans(text, [Span(5, 5 + len(value), label)], id="1")


def released(value: str, setting: Setting, label: str = "who") -> tuple[Utterance, list[str]]:
    deid = Deidentifier(
        detector=Gold(LABELS),
        setting=setting,
        resources=Resources(surrogates={"PER": uniform(NAMES)}, vectors=VECTORS),
        source=NoiseSource.seeded(3),
    )
    (told,) = deid.release_all([heard(value, label)])
    return told.utterance, deid.statement().lines()


def shown(utterance: Utterance) -> tuple[object, ...]:
    return utterance.text, utterance.tokens, utterance.slots


@pytest.mark.parametrize("strategy", SETTINGS)
@pytest.mark.parametrize("remainder", REMAINDERS)
def test_nothing_of_a_value_passes_unless_the_statement_says_so(
    strategy: str, remainder: str
) -> None:
    one, other = REMAINDERS[remainder]
    first, said = released(one, SETTINGS[strategy])
    second, _ = released(other, SETTINGS[strategy])
    if shown(first) != shown(second):
        assert strategy == "word", (first, second)
        assert any("with the same number of words: it is released" in line for line in said)


@pytest.mark.parametrize("strategy", ["word", "entity", "response", "semantic"])
def test_kept_letter_case_is_in_the_statement(strategy: str) -> None:
    first, said = released("anna", SETTINGS[strategy])
    second, _ = released("Anna", SETTINGS[strategy])
    assert first.text != second.text
    assert any("lower case, initials, capitals" in line for line in said)


def test_a_kept_value_written_as_it_was_would_tell_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: written in its original case, the value's inner capitals are released."""
    monkeypatch.setattr(
        kernel,
        "match_case",
        lambda out, value: "".join(
            a.upper() if b.isupper() else a
            for a, b in zip(out.ljust(9), value.ljust(9), strict=False)
        ).strip(),
    )
    first, _ = released("anna", SETTINGS["entity"])
    second, _ = released("aNNa", SETTINGS["entity"])
    assert first.text != second.text


@pytest.mark.parametrize(
    ("one", "other"),
    [("555-0123", "555-9876"), ("one two", "nine oh"), ("555 0123", "\u0665\u0665\u0665 0123")],
)
def test_numbers_of_one_format_are_released_with_the_same_distribution(
    one: str, other: str
) -> None:
    first, _ = released(one, Setting(), "number")
    second, _ = released(other, Setting(), "number")
    assert shown(first) == shown(second)


@pytest.mark.parametrize(
    ("one", "other"), [("555-0123", "5550123"), ("5550123", "55501234"), ("ba249", "249")]
)
def test_the_form_of_a_number_passes_and_the_statement_says_so(one: str, other: str) -> None:
    first, said = released(one, Setting(), "number")
    second, _ = released(other, Setting(), "number")
    assert first.text != second.text
    assert any("the format of a number is released" in line for line in said)


def test_a_form_that_one_sum_alone_has_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = released("1 dollar", Setting(), "sum")
    other, _ = released("7 dollars", Setting(), "sum")
    assert one.text == other.text
    # The twin: a singular currency reveals that the amount was one.
    monkeypatch.setattr(numbers, "_SINGULAR", re.compile(r"(?!)()"))
    one, _ = released("1 dollar", Setting(), "sum")
    assert one.text != other.text


@pytest.mark.parametrize(
    ("one", "other", "label"), [("maria", "john", "who"), ("cough", "hives", "ill")]
)
def test_replacement_within_a_class_releases_the_class(one: str, other: str, label: str) -> None:
    def told(value: str) -> tuple[set[str], list[str]]:
        deid = Deidentifier(
            detector=Gold(LABELS), setting=Setting(p=1.0), resources=Resources(fit=Fit.GRAMMAR)
        )
        texts = {each.text for each in deid.release_all([heard(value, label)] * 200)}
        return texts, deid.statement().lines()

    first, said = told(one)
    assert not first & told(other)[0]
    assert any("is released as it is" in line and "class" not in line for line in said)
    assert any("of one class" in line for line in said)


def test_tokens_that_do_not_spell_the_text_are_refused() -> None:
    """Detection only sees the text, so tokens of another text would be released unchanged."""
    deid = Deidentifier(detector="gazetteer", setting=Setting(strategy="redact"))
    forged = Utterance(tokens=("call", "maria"), slots=("O", "O"), text="call her")
    with pytest.raises(InvalidInput):
        list(deid.release_all([forged]))


def test_without_that_check_the_name_is_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.deid.deidentifier._check_tokens", lambda utterance: None)
    deid = Deidentifier(detector="gazetteer", setting=Setting(strategy="redact"))
    forged = Utterance(tokens=("call", "maria"), slots=("O", "O"), text="call her")
    (told,) = deid.release_all([forged])
    assert "maria" in told.utterance.tokens
