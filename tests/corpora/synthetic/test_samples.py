"""Sample utterances from a custom grammar."""

from pathlib import Path
from typing import Any

import pytest

from sottovoce.corpora import check_bio
from sottovoce.corpora.synthetic import Samples
from sottovoce.errors import InvalidInput

CALLS: dict[str, Any] = {
    "slots": {"who": "person", "when": "time"},
    "values": {"person": "mum\n[aunt|uncle] {first_names}", "day": "monday\nfriday"},
    "parts": {"dial": "[call|ring]"},
    "intents": {
        "call": {"weight": 3, "lines": "<dial> {who} (please)\n{who}'s number\n(now)"},
        "plan": {"lines": "a appointment on {when}", "slots": {"when": "day"}},
    },
}
EXAMPLES = Path(__file__).parents[3] / "examples" / "samples"


def changed(**tables: Any) -> dict[str, Any]:
    return {**CALLS, **tables}


def test_words_of_values_carry_their_slot() -> None:
    drawn = list(Samples(CALLS).utterances(300))
    by_text = {utterance.text: utterance for utterance in drawn}
    assert by_text["ring mum"].slots == ("O", "B-who")
    assert by_text["mum's number"].slots == ("B-who", "O")
    aunt = next(u for u in drawn if u.text.startswith("call aunt") and len(u.tokens) == 3)
    assert aunt.slots == ("O", "B-who", "I-who")
    for utterance in drawn:
        check_bio(utterance.slots)
        assert len(utterance.tokens) == len(utterance.slots) >= 1


def test_an_intent_may_have_kinds_of_its_own() -> None:
    days = {u.tokens[-1] for u in Samples(CALLS).utterances(300) if u.intent == "plan"}
    assert days == {"monday", "friday"}


def test_templates_may_be_a_list() -> None:
    drawn = Samples({"intents": {"call": {"lines": ["call", "ring"]}}}).utterances(50)
    assert {u.text for u in drawn} == {"call", "ring"}


def test_articles_agree() -> None:
    plan = next(u for u in Samples(CALLS).utterances(300) if u.intent == "plan")
    assert plan.tokens[0] == "an"


def test_intents_come_by_weight() -> None:
    drawn = [u.intent for u in Samples(CALLS).utterances(4000)]
    # A share of 3/4: six standard deviations are 0.041.
    assert drawn.count("call") / 4000 == pytest.approx(0.75, abs=0.041)


def test_the_same_seed_gives_the_same_and_a_prefix() -> None:
    samples = Samples(CALLS)
    longer = [u.text for u in samples.utterances(60, seed=3)]
    assert [u.text for u in samples.utterances(20, seed=3)] == longer[:20]
    assert [u.text for u in samples.utterances(60, seed=4)] != longer


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        ({}, r"Expected at least one table such as \[intents.call\]"),
        (changed(slots=["who"]), "Expected the tables slots, values, parts and intents"),
        (changed(values={"person": 3}), "Expected templates, a string or a list of strings, got 3"),
        (changed(values={"person": "{nobody}"}), "a hole in the values of person"),
        (changed(intents={"call": {"weight": "x", "lines": "a"}}), "Expected a number as weight"),
        (changed(intent={}), "got intent, intents, parts, slots, values"),
        (changed(slots={}), r"Expected \{who\} of intent call in \[slots\]"),
        (changed(slots={"who": "nobody"}), "Expected the kind 'nobody' of slot who"),
        (changed(parts={"dial": 3}), "Expected a string for dial in parts, got 3"),
        (changed(parts={}), "Expected a part named 'dial'"),
        (changed(intents={"call": {"lines": " "}}), "Expected at least one template"),
        (changed(intents={"call": {"weight": 0, "lines": "a"}}), "weight of intent call"),
        (changed(parts={"dial": "<dial>"}), "parts that do not contain themselves"),
    ],
)
def test_slips_of_the_pen_are_named(grammar: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Samples(grammar)


def test_nothing_but_optional_parts_is_refused_in_the_end() -> None:
    silent = Samples({"intents": {"call": {"lines": "[|]"}}})
    with pytest.raises(InvalidInput, match="templates with words"):
        next(silent.utterances(1))


def test_a_file_is_named_in_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "calls.toml"
    with pytest.raises(InvalidInput, match=r"Expected a grammar in .*calls.toml"):
        Samples.load(path)
    path.write_text("[intents.call]\nlines = '''call {who}'''\n")
    with pytest.raises(InvalidInput, match=r"calls.toml: Expected \{who\}"):
        Samples.load(path)
    path.write_text("[intents\n")
    with pytest.raises(InvalidInput, match=r"Expected a grammar in .*calls.toml"):
        Samples.load(path)


@pytest.mark.parametrize(
    ("name", "intents"), [("flights", 21), ("home/first", 7), ("home/second", 7)]
)
def test_the_example_grammars_are_varied(name: str, intents: int) -> None:
    drawn = list(Samples.load(EXAMPLES / f"{name}.toml").utterances(3000))
    assert len({u.text for u in drawn}) > 2800
    assert len({u.intent for u in drawn}) > 0.8 * intents
