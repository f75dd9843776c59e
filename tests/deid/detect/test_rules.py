import json
from pathlib import Path
from typing import Any

import pytest

from sottovoce.deid.detect import Patterns, detector, merged
from sottovoce.deid.detect.combination import Combination
from sottovoce.deid.detect.detector import Detector, fingerprint, utterance_of
from sottovoce.deid.detect.findings import explain
from sottovoce.deid.detect.rules import Rules
from sottovoce.errors import InvalidInput

TOML = """
[[recognizers]]
name = "badges"
supported_entity = "ID"
context = ["badge"]
deny_list = ["Project Nightjar"]
[[recognizers.patterns]]
name = "three digits"
regex = "[0-9]{3}"
score = 0.2
"""
YAML = """
recognizers:
  - name: badges
    supported_language: en
    supported_entity: PERSON
    patterns:
      - {name: nick, regex: "nick_[a-z]+", score: 0.6}
"""


def found(chosen: Detector, text: str) -> list[str]:
    [spans] = chosen.find([utterance_of(text)])
    return [text[span.start : span.end] for span in spans]


def made(**changes: Any) -> dict[str, Any]:
    given = {"name": "n", "supported_entity": "ID", "patterns": [{"regex": "x+"}]} | changes
    return {"recognizers": [{key: value for key, value in given.items() if value is not None}]}


def test_rules_of_a_toml_file_join_other_detectors(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(TOML)
    both = detector(f"patterns+{path}")
    assert found(both, "my badge is 123") == ["123"]
    assert found(both, "it has 123 pages") == []
    assert found(both, "we met for project  nightjar") == ["project  nightjar"]


def test_presidio_files_of_recognisers_are_read(tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="pyyaml reads YAML")
    path = tmp_path / "own.yaml"
    path.write_text(YAML)
    [spans] = detector(str(path)).find([utterance_of("ask nick_bob")])
    assert [span.type for span in spans] == ["PER"]


def test_a_threshold_is_the_least_score() -> None:
    rules = Rules("r", made(patterns=[{"regex": "x+", "score": 0.5}]))
    assert found(rules, "a xx b") == ["xx"]
    assert found(rules.with_thresholds({"ID": 0.6}), "a xx b") == []
    assert fingerprint(rules) != fingerprint(rules.with_thresholds({"ID": 0.6}))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({}, "recognizers"),
        ({"recognizers": ["x"]}, "recogniser"),
        (made(supported_entity="PIZZA"), "supported_entity"),
        (made(patterns=[{"regex": "("}]), "regular expression"),
        (made(patterns=[{}]), "regex"),
        (made(patterns=None), "deny_list"),
        (made(colour="red"), "colour"),
        (made(patterns=[{"regex": "x", "score": 2}]), "score"),
    ],
)
def test_bad_rules_are_refused(data: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        Rules("r", data)


def test_broken_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("[[")
    with pytest.raises(InvalidInput, match="TOML"):
        detector(str(path))


def test_allowed_values_stay_where_they_stand_alone() -> None:
    allowed = Combination([Patterns()], allow=["Info@Shop.example", ""])
    text = "mail info@shop.example or x.info@shop.example"
    assert found(allowed, text) == ["x.info@shop.example"]
    assert fingerprint(allowed) != fingerprint(Combination([Patterns()]))
    assert [decision.kept for decision in explain(allowed, text)] == [True, False]


def test_thresholds_by_type_mark_more_and_less() -> None:
    text = "we met Ms. Okonkwo of Brindle Foods in Leeds"
    marked = {kind for _, _, kind in detector("fast").find([utterance_of(text)])[0]}
    assert marked
    doubtful = "was the hart on green street"
    usual = detector("fast", thresholds={"PER": 0.0, "ORG": 0.0, "LOC": 0.0})
    none = detector("fast", thresholds={"PER": 1.0, "ORG": 1.0, "LOC": 1.0})
    assert len(" ".join(found(none, doubtful))) < len(" ".join(found(usual, doubtful)))
    with pytest.raises(InvalidInput, match="EMAIL"):
        detector("fast", thresholds={"EMAIL": 0.5})
    with pytest.raises(InvalidInput, match="tagger"):
        detector("patterns", thresholds={"PER": 0.5})


def test_countries_are_chosen() -> None:
    text = "tfn 123 456 782 and dni 12345678-Z"
    assert "123 456 782" in found(detector("patterns", countries=["au"]), text)
    only = detector("patterns", countries=["ES"])
    assert only.name == "patterns ES"
    kinds = {(text[s.start : s.end], s.type) for s in only.find([utterance_of(text)])[0]}
    assert ("123 456 782", "ID") not in kinds
    with pytest.raises(InvalidInput, match="country"):
        detector("patterns", countries=["XX"])


def test_every_mark_is_explained() -> None:
    text = "Anna Lee (anna@b.example) rang 555-0123 on 5 May from Leeds."
    both = detector("fast")
    decisions = explain(both, text)
    assert [decision.span for decision in decisions] == both.find([utterance_of(text)])[0]
    assert all(decision.findings for decision in decisions)
    for decision in decisions:
        assert 0 < min(found.score for found in decision.findings) <= 1
        json.dumps(decision.to_json())


def test_explanations_and_marks_come_from_the_same_rules() -> None:
    text = "ring +49 (0)30 1234567 or 00:1B:44:11:3A:B7, mail a dot b at c dot com"
    findings = Patterns().explain(text)
    [spans] = Patterns().find([utterance_of(text)])
    assert [found[:3] for found in findings] == [tuple(span) for span in spans]
    assert len(merged(text, spans)) == 3
