import zipfile
from itertools import islice
from pathlib import Path

import pytest

from sottovoce.corpora import Span, Utterance, read
from sottovoce.corpora.synthetic import DOMAINS, generate
from sottovoce.deid.detect import Tagger, detector, evaluate
from sottovoce.deid.detect.crf.features import Features
from sottovoce.deid.detect.crf.shipping import written
from sottovoce.deid.detect.crf.training import CAUTIONS, TaggerTraining, choose_caution, train
from sottovoce.deid.detect.detector import utterance_of
from sottovoce.deid.detect.labels import LabelMap, mapping
from sottovoce.errors import InvalidInput

NAMES = ("anna", "ben", "eve", "joe", "sue", "tom")
CALLS = [
    Utterance(tokens=(verb, name, "now"), slots=("O", "B-contact", "O"))
    for name in NAMES
    for verb in ("call", "ring", "text")
]
LABELS = LabelMap({"contact": "PER"})


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return train(CALLS, LABELS)


def test_it_learns_a_name_from_its_place(tagger: Tagger) -> None:
    assert tagger.find([utterance_of("call zebediah now")]) == [[Span(5, 13, "PER")]]
    assert tagger.types == ("PER",)


@pytest.mark.parametrize(
    "text", ["call  anna now", "call  anna  now", "Call ANNA now", "call anna"]
)
def test_both_ways_to_cut_words_see_the_same(tagger: Tagger, text: str) -> None:
    [[span]] = tagger.find([utterance_of(text)])
    assert text[span.start : span.end].lower() == "anna"


def test_caution_finds_more(tagger: Tagger) -> None:
    doubtful = [utterance_of(f"{word} zebediah soon") for word in ("find", "ask", "get", "the")]
    before = sum(map(len, tagger.find(doubtful)))
    wary = Tagger(tagger._model, tagger.about, caution=0.999)
    after = sum(map(len, wary.find(doubtful)))
    assert after > before
    assert wary.to_json()["caution"] == 0.999
    with pytest.raises(InvalidInput, match="caution"):
        Tagger(tagger._model, tagger.about, caution=2)


def test_a_tagger_keeps_the_caution_that_was_chosen_for_it(tagger: Tagger, tmp_path: Path) -> None:
    chosen = Tagger(tagger._model, tagger.about | {"caution": 0.7})
    chosen.save(tmp_path / "wary.tagger")
    again = Tagger.load(tmp_path / "wary.tagger")
    assert (again.caution, again.name) == (0.7, "tagger wary.tagger")
    assert again.with_caution(0.0).name == "tagger wary.tagger at caution 0"
    assert detector(str(tmp_path / "wary.tagger"), caution=0.9).name.endswith("at caution 0.9")


def test_the_least_caution_that_finds_enough_is_chosen(tagger: Tagger) -> None:
    held_out = [
        Utterance(tokens=(name, "called", "soon"), slots=("B-contact", "O", "O"))
        for name in ("zebediah", "quentin")
    ]

    def recall(caution: float) -> float:
        return evaluate(tagger.with_caution(caution), held_out, LABELS).recall

    chosen = choose_caution(tagger, held_out, LABELS, recall=1.0)
    assert chosen > 0
    assert recall(chosen) == 1
    assert recall(CAUTIONS[CAUTIONS.index(chosen) - 1]) < 1
    assert choose_caution(tagger, held_out, LABELS, recall=0.0) == 0


def test_a_recall_out_of_reach_is_refused(tagger: Tagger, monkeypatch: pytest.MonkeyPatch) -> None:
    public = [Utterance(tokens=("call", "now"), slots=("B-contact", "B-contact"))] * 3
    monkeypatch.setattr("sottovoce.deid.detect.crf.training.CAUTIONS", (0.0, 0.5))
    with pytest.raises(InvalidInput, match="train on more"):
        choose_caution(tagger, public, LABELS, recall=1.0)


@pytest.mark.parametrize("text", ["", "   ", "!!!", "\n"])
def test_texts_without_words(tagger: Tagger, text: str) -> None:
    assert tagger.find([utterance_of(text)]) == [[]]


def test_nothing_is_cut_off(tagger: Tagger) -> None:
    text = "hello there " * 20_000 + "call anna now"
    [spans] = tagger.find([utterance_of(text)])
    assert text.index("anna") in [span.start for span in spans]


def test_files_come_back_and_are_reproducible(tagger: Tagger, tmp_path: Path) -> None:
    tagger.save(tmp_path / "one.tagger")
    again = Tagger.load(tmp_path / "one.tagger")
    again.save(tmp_path / "two.tagger")
    assert (tmp_path / "one.tagger").read_bytes() == (tmp_path / "two.tagger").read_bytes()
    assert again.find(CALLS) == tagger.find(CALLS)
    assert detector(str(tmp_path / "one.tagger")).find(CALLS[:1]) == [[Span(5, 9, "PER")]]


def test_damaged_files_are_refused(tagger: Tagger, tmp_path: Path) -> None:
    path = tmp_path / "a.tagger"
    with pytest.raises(InvalidInput, match="found none"):
        Tagger.load(path)
    path.write_bytes(b"nonsense")
    with pytest.raises(InvalidInput, match="deid train"):
        Tagger.load(path)
    tagger.save(path)
    with zipfile.ZipFile(path) as archive:
        about = archive.read("tagger.json")
    for model, text, message in ((b"x", about, "altered"), (b"x", b'{"format": 9}', "format 1")):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model.crfsuite", model)
            archive.writestr("tagger.json", text)
        with pytest.raises(InvalidInput, match=message):
            Tagger.load(path)


def test_training_without_private_labels_is_refused() -> None:
    with pytest.raises(InvalidInput, match="to learn from"):
        train(CALLS, LabelMap(public=frozenset({"contact"})))
    with pytest.raises(InvalidInput, match="iterations >= 1"):
        TaggerTraining(iterations=0)


def test_features_do_not_depend_on_what_was_seen_before() -> None:
    used = Features()
    used.of(["anna", "Anna", "lee"])
    assert used.of(["call", "anna"]) == Features().of(["call", "anna"])


def test_the_shipped_tagger_finds_99_of_100_private_words() -> None:
    """On other users and utterances than it was trained on, with the patterns beside it."""
    corpus = [u for domain in DOMAINS for u in generate(domain, size=700, seed=4711)]
    found = evaluate(detector("tagger"), corpus, mapping("built-in"))
    assert found.recall >= 0.99
    as_written = evaluate(detector("tagger"), map(written, corpus), mapping("built-in"))
    assert as_written.recall >= 0.97


def test_the_shipped_file_is_small_and_carries_its_evaluation() -> None:
    shipped = Tagger.shipped()
    assert len(shipped._model) < 2 << 20
    assert shipped.about["evaluation"]["recall"] >= 0.99


def test_training_in_both_cases_makes_capitals_no_crutch(shared_data: Path) -> None:
    """On a part of CoNLL-2003, tested in lower case: a tagger of written text alone goes blind."""
    labels = LabelMap({"PER": "PER", "LOC": "LOC", "ORG": "ORG"}, frozenset({"MISC"}))
    folder = shared_data / "ner" / "conll2003"
    some = list(islice(read(folder / "train.jsonl.gz"), 800))
    test = [
        Utterance(tokens=tuple(token.lower() for token in u.tokens), slots=u.slots)
        for u in islice(read(folder / "test.jsonl"), 300)
    ]

    def recall(both_cases: bool) -> float:
        options = TaggerTraining(iterations=15, both_cases=both_cases)
        return evaluate(train(some, labels, options), test, labels).recall

    assert recall(both_cases=True) > 3 * recall(both_cases=False)
