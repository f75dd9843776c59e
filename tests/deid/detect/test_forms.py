import re
from collections.abc import Iterator
from typing import Any

import pytest

from sottovoce.deid.detect import Patterns, combination, merged
from sottovoce.deid.detect.checks import french_number, german_tax_id
from sottovoce.deid.detect.detector import utterance_of
from sottovoce.deid.detect.forms import WITH_DIGITS, WITHOUT, Form
from sottovoce.deid.detect.numeric import NUMERIC

_parser: Any = re._parser  # type: ignore[attr-defined]


def found(text: str) -> list[tuple[str, str]]:
    [spans] = Patterns().find([utterance_of(text)])
    return [(text[start:end], kind) for start, end, kind in merged(text, spans)]


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("ring 01.23.45.67.89 now", "01.23.45.67.89", "PHONE"),
        ("ring +49 (0)30 1234567 now", "+49 (0)30 1234567", "PHONE"),
        ("ring 555-0123 ext. 12", "555-0123 ext. 12", "PHONE"),
        ("seen 00:1B:44:11:3A:B7 here", "00:1B:44:11:3A:B7", "IP"),
        ("seen a4-5e-60-f1-22-0b here", "a4-5e-60-f1-22-0b", "IP"),
        ("seen 001b.4411.3ab7 here", "001b.4411.3ab7", "IP"),
        ("at 192.168.0.1:8080 now", "192.168.0.1:8080", "IP"),
        (
            "row 550e8400-e29b-41d4-a716-446655440000.",
            "550e8400-e29b-41d4-a716-446655440000",
            "ID",
        ),
        ("key sk_live_51H8xYzAbCdEfGhIjKlMnOp", "sk_live_51H8xYzAbCdEfGhIjKlMnOp", "ID"),
        ("use AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE", "ID"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOi.dozjgNryP", None, "ID"),
        ("to 0x52908400098527886E0F7030069857D2E4169EE7", None, "ID"),
        ("BIC: DEUTDEFF500", "DEUTDEFF500", "CARD"),
        ("SWIFT code DEUTDEFF", "DEUTDEFF", "CARD"),
        ("ssn 123-45-6789", "123-45-6789", "ID"),
        ("nino AB 12 34 56 C", "AB 12 34 56 C", "ID"),
        ("nhs number 943 476 5919", "943 476 5919", "ID"),
        ("tax id 86 095 742 719", "86 095 742 719", "ID"),
        ("nie X1234567L", "X1234567L", "ID"),
        ("dni 12345678-Z", "12345678-Z", "ID"),
        ("pan ABCDE1234F", "ABCDE1234F", "ID"),
        ("aadhaar 2341 2341 2346", "2341 2341 2346", "ID"),
        ("tfn 123 456 782", "123 456 782", "ID"),
        ("passport number C0100447", "C0100447", "ID"),
        ("plate AB12 CDE", "AB12 CDE", "ID"),
        ("plate AA-123-BB", "AA-123-BB", "ID"),
        ("plate B-MW 1234", "B-MW 1234", "ID"),
        ("she is 34 years old", "34", "ID"),
        ("she is thirty four years old", "thirty four", "ID"),
        ("a man aged 56", "56", "ID"),
        ("ask @jane_doe about it", "@jane_doe", "ID"),
        ("password: hunter2", "hunter2", "ID"),
        ("username=jdoe", "jdoe", "ID"),
        ("in /home/jdoe/notes", "jdoe", "ID"),
        ("at 40.712776, -74.005974 today", "40.712776, -74.005974", "LOC"),
        ("at 40°26′46″N 79°58′56″W today", "40°26′46″N 79°58′56″W", "LOC"),
        ("at 221B Baker Street, London", "221B Baker Street", "ADDRESS"),
        ("in London NW1 6XE", "NW1 6XE", "LOC"),
        ("in Springfield, IL 62704", "IL 62704", "LOC"),
        ("see https://x.example/u/12345?t=a#z", "https://x.example/u/12345?t=a#z", "URL"),
        ("mail john dot smith at mail dot com", "john dot smith at mail dot com", "EMAIL"),
    ],
)
def test_what_is_found(text: str, value: str | None, kind: str) -> None:
    values = found(text)
    assert (value or text.split(" ", 1)[1], kind) in values


@pytest.mark.parametrize(
    "text",
    [
        "can you open the window",
        "the street is a 2 hour drive away",
        "it is 5 minutes down the road",
        "we may use the token later",
        "an old friend of many years",
        "at the end of the page",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    "run",
    [
        "01.23.45.67.89",
        "00:1B:44:11:3A:B7",
        "00:1B:44:11:3A:B7:zz",
        "2024-03-05T10:30:00+01:00",
        "INV/2024/03/05/ab",
        "10:30-11:45",
        "x/12:30/b",
        "1.2.3.4.5.6.7.2020",
        "ref#2024=x@y",
    ],
)
def test_of_a_run_nothing_is_left_once_a_part_is_found(run: str) -> None:
    assert [value for value, _ in found(f"so {run} it is")] == [run]


def test_a_full_stop_ends_a_run() -> None:
    assert found("It was 2010. Then we left.") == [("2010", "DATE")]
    assert found("It was in 2010.Then we left.") == [("2010", "DATE")]


def test_without_the_rule_of_runs_a_part_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: the rule is what keeps parts from leaking."""
    monkeypatch.setattr(combination, "_run", lambda text, start, end: (start, end))
    assert found("so a_12:30_b:x it is") != [("a_12:30_b:x", "TIME")]


def test_check_digits() -> None:
    assert not german_tax_id("86 095 742 710")
    assert not french_number("2 55 08 14 168 025 39")
    assert found("tfn 123 456 783") != [("123 456 783", "ID")]


def _nested(tree: Any, inside: bool = False) -> Iterator[str]:
    """Repetitions without a bound inside of repetitions."""
    for operation, arguments in tree:
        name = str(operation)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            _, most, body = arguments
            unbounded = most == _parser.MAXREPEAT
            if unbounded and inside:
                yield name
            yield from _nested(body, inside=True)
        elif name == "SUBPATTERN":
            yield from _nested(arguments[-1], inside)
        elif name == "BRANCH":
            for branch in arguments[1]:
                yield from _nested(branch, inside)
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from _nested(arguments[1], inside)
        elif name == "ATOMIC_GROUP":
            yield from _nested(arguments, inside)


@pytest.mark.parametrize("form", [*WITHOUT, *WITH_DIGITS], ids=lambda form: form.rule.pattern[:40])
def test_no_expression_of_a_form_repeats_without_a_bound(form: Form) -> None:
    tree = _parser.parse(form.rule.pattern)
    # All in one repetition: then the search of one would be enough to count.
    assert list(_nested(tree, inside=True)) == []


def test_no_number_rule_nests_repetitions_without_a_bound() -> None:
    for _, _, rule, _ in NUMERIC:
        assert list(_nested(_parser.parse(rule.pattern))) == []


@pytest.mark.parametrize("piece", ["1:", "a-1-", "1.", "12:30/", "x_1="])
def test_the_steps_of_merging_double_with_the_text(
    piece: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    original = combination._joins

    def counted(character: str) -> bool:
        nonlocal steps
        steps += 1
        return original(character)

    monkeypatch.setattr(combination, "_joins", counted)

    def count(size: int) -> int:
        nonlocal steps
        steps = 0
        found(piece * size)
        return steps

    assert count(800) <= 2.2 * count(400) + 100


@pytest.mark.parametrize(
    "piece",
    ["a1-", "1 a ", "@a", "1° ", "aged ", "1 Oak ", "ab:", "eyj1", "sk_1.", "bic ", "A-A 1"],
)
def test_hostile_texts_end(piece: str) -> None:
    """A backtracking expression would not come back from these in the lifetime of a test."""
    Patterns().find([utterance_of(piece * 4000), utterance_of(piece * 4000 + "!")])
