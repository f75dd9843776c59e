import gzip
import json
from pathlib import Path

import pytest

from sottovoce.corpora import Span
from sottovoce.corpora.synthetic import DOMAINS, schema
from sottovoce.deid import MAPPINGS, TYPES, LabelMap, mapping, read_labels
from sottovoce.errors import InvalidInput

SETS = {
    "atis": "nlu/atis",
    "snips": "nlu/snips",
    "en-tod": "nlu/en-tod",
    "ms-restaurant": "nlu/ms-restaurant",
    "ms-taxi": "nlu/ms-taxi",
    "ami-ne": "ner/ami-ne",
}


@pytest.mark.parametrize("name", MAPPINGS)
def test_every_mapping_knows_only_known_types(name: str) -> None:
    assert TYPES.keys() >= {*mapping(name).private.values()}


@pytest.mark.parametrize("domain", DOMAINS)
def test_private_slots_of_the_built_in_corpora_are_private(domain: str) -> None:
    for slot in schema(domain).slots:
        for name in (domain, "built-in", "cautious"):
            assert mapping(name).type_of(slot.name) is not None or not slot.private


@pytest.mark.parametrize("name", SETS)
def test_no_label_of_a_public_corpus_is_unknown(name: str, shared_data: Path) -> None:
    for path in sorted((shared_data / SETS[name]).iterdir()):
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
            labels = {label[2:] for line in lines for label in json.loads(line)["slots"]} - {""}
        for label in labels:
            mapping(name).type_of(label)


def test_labels_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "labels.json"
    path.write_text('{"private": {"who": "PER"}, "public": ["what"]}')
    labels = read_labels(path)
    assert labels.typed([Span(0, 1, "who"), Span(1, 2, "what")]) == [Span(0, 1, "PER")]
    assert LabelMap.from_json(labels.to_json()) == labels


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"private": {"who": 3}}', '{"private": {}, "secret": 1}', '{"who": "PER"}'],
)
def test_bad_files_are_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=r"labels\.json"):
        read_labels(path)


def test_contradictions_are_refused() -> None:
    with pytest.raises(InvalidInput, match="both"):
        LabelMap({"who": "PER"}, frozenset({"who"}))
    with pytest.raises(InvalidInput, match="type for the label"):
        LabelMap({"who": ""})
    with pytest.raises(InvalidInput, match="mapping"):
        mapping("klingon")
