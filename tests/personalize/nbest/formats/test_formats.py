"""Round trips of every format, and its handling of bad input."""

import gzip
import itertools
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import InvalidInput
from sottovoce.personalize.nbest.formats import FORMATS, read_nbest, read_table, write_nbest
from sottovoce.personalize.nbest.formats.htk import FILLERS, Lattice
from sottovoce.personalize.nbest.lists import Hypothesis, NBest, attach, by_client

# No lm of 0 and a total that is their sum, so that every format can hold it.
HEARD = [
    NBest(
        f"utt-{i}",
        (
            Hypothesis("call mum", am=-3.5 - i, lm=-1.25, score=-4.75 - i),
            Hypothesis("null nan", am=-4.5 - i, lm=-2.25, score=-6.75 - i),
        ),
    )
    for i in range(3)
]
# What a format cannot store, as functions of one hypothesis.
LOSSES: dict[str, Callable[[Hypothesis], Hypothesis]] = {
    "nemo": lambda h: Hypothesis(h.text, score=h.score),
    "espnet": lambda h: Hypothesis(h.text, score=h.score),
    "hyporadise": lambda h: Hypothesis(h.text),
    "srilm": lambda h: Hypothesis(h.text, h.am, h.lm),
}


def unchanged(hypothesis: Hypothesis) -> Hypothesis:
    return hypothesis


def rounded(each: NBest) -> list[tuple[str, float | None, float | None, float | None]]:
    def near(value: float | None) -> float | None:
        return None if value is None else round(value, 9)

    return [(h.text, near(h.am), near(h.lm), near(h.score)) for h in each.hypotheses]


WRITTEN = [name for name in FORMATS if FORMATS.get(name).write or FORMATS.get(name).write_folder]


@pytest.mark.parametrize("format", WRITTEN)
def test_there_and_back(tmp_path: Path, format: str) -> None:
    path = tmp_path / "heard"
    assert write_nbest(path, HEARD, format) == 3
    back = list(read_nbest(path, format, beam_size=2))
    keep = LOSSES.get(format, unchanged)
    for sent, got in zip(HEARD, back, strict=True):
        assert rounded(got) == rounded(NBest("x", tuple(keep(h) for h in sent.hypotheses)))
    if format not in ("nemo", "hyporadise"):
        assert [each.id for each in back] == [each.id for each in HEARD]


@given(st.lists(st.tuples(st.text(), st.none() | st.floats(-1e9, 1e9)), max_size=4))
def test_canonical_keeps_any_text(rows: list[tuple[str, float | None]]) -> None:
    from sottovoce.personalize.nbest.formats.json_lists import from_object, to_object

    try:
        sent = NBest("u", tuple(Hypothesis(text, am=am) for text, am in rows), client="ann")
    except InvalidInput:
        return
    assert from_object(to_object(sent)) == sent


@pytest.mark.parametrize(
    ("format", "line", "reason"),
    [
        ("jsonl", '{"id": "u", "nbest": 3}', "nbest to be a list"),
        ("jsonl", '{"id": "u", "nbest": ["hi"]}', "to be an object"),
        ("jsonl", '{"id": "u", "nbest": [{"am": 1}]}', "a text in every"),
        ("jsonl", '{"id": "u", "nbest": [{"text": "a", "am": "x"}]}', "am to be a number"),
        ("jsonl", '{"id": "u", "nbest": [{"text": "a", "am": true}]}', "am to be a number"),
        ("jsonl", '{"id": 3, "nbest": []}', "id to be text"),
        ("jsonl", "[]", "JSON object"),
        ("flashlight", "u | 1 | 2 | 3 | text", "six columns"),
        ("flashlight", "u | loud | 2 | 3 | 0 | text", "a number"),
        ("flashlight", "u | nan | 2 | 3 | 0 | text", "finite"),
        ("srilm", "-1 -2", "two scores and a word count"),
    ],
)
def test_bad_lines(tmp_path: Path, format: str, line: str, reason: str) -> None:
    path = tmp_path / "heard"
    write_nbest(path, HEARD[:1], format)
    if path.is_dir():
        path = next(path.iterdir())
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(InvalidInput, match=reason):
        list(read_nbest(path, format))
    reader = read_nbest(path, format, on_error="lenient")
    assert len(list(reader)) == 1
    assert reader.rejected == 1
    assert reason in reader.problems[0].reason


def test_kaldi_costs_add_up(tmp_path: Path) -> None:
    (tmp_path / "words_text").write_text("a-b-1 call mum\na-b-2\n")
    (tmp_path / "acwt").write_text("a-b-1 10\na-b-2 20\n")
    (tmp_path / "lmwt.nolm").write_text("a-b-1 1\na-b-2 2\n")
    (tmp_path / "lmwt.withlm").write_text("a-b-1 4\na-b-2 7\n")
    (each,) = read_nbest(tmp_path, "kaldi")
    assert each.id == "a-b"
    assert each.hypotheses[0] == Hypothesis("call mum", am=-10, lm=-3, score=-14)
    assert each.hypotheses[1] == Hypothesis("", am=-20, lm=-5, score=-27)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "Expected a file"),
        ({"words_text": "nokey hello\n"}, "key such as"),
        ({"words_text": "u-0 hello\n"}, "key such as"),
        ({"words_text": "u-1 a\nu-1 b\n"}, "every key once"),
        ({"words_text": "u-1 a\n", "acwt": "u-2 3\n"}, "a cost for"),
        ({"words_text": "u-1 a\n", "acwt": "u-1 x\n"}, "a number"),
    ],
)
def test_bad_kaldi_folders(tmp_path: Path, files: dict[str, str], reason: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInput, match=reason):
        list(read_nbest(tmp_path, "kaldi"))


def test_nemo_keeps_words_that_look_like_numbers_and_counts_lines(tmp_path: Path) -> None:
    path, manifest = tmp_path / "out.tsv", tmp_path / "manifest.json"
    path.write_text("nan\t-1\nnull\t-2\n\t-3\n1e5\t-4\n")
    manifest.write_text('{"text": "one"}\n{"text": "two"}\n')
    first, second = read_nbest(path, "nemo", beam_size=2, manifest=manifest)
    assert [h.text for h in first.hypotheses + second.hypotheses] == ["nan", "null", "", "1e5"]
    assert (first.reference, second.reference) == ("one", "two")
    with pytest.raises(InvalidInput, match="Expected 3 lines"):
        list(read_nbest(path, "nemo", beam_size=3))
    with pytest.raises(InvalidInput, match="check beam_size 1"):
        list(read_nbest(path, "nemo", beam_size=1, manifest=manifest))
    with pytest.raises(InvalidInput, match="as many utterances"):
        list(read_nbest(path, "nemo", beam_size=4, manifest=manifest))
    with pytest.raises(InvalidInput, match="a beam size"):
        read_nbest(path, "nemo")
    path.write_text("no tab\n")
    with pytest.raises(InvalidInput, match="a tab and a score"):
        list(read_nbest(path, "nemo", beam_size=1, on_error="lenient"))
    path.write_text("hi\tloud\n")
    with pytest.raises(InvalidInput, match="line 1: Expected a number"):
        list(read_nbest(path, "nemo", beam_size=1))
    manifest.write_text("{}\n")
    path.write_text("hi\t1\n")
    with pytest.raises(InvalidInput, match="a text in every line"):
        list(read_nbest(path, "nemo", beam_size=1, manifest=manifest))


def test_writers_say_what_they_miss(tmp_path: Path) -> None:
    uneven = [HEARD[0], NBest("v", HEARD[0].hypotheses[:1])]
    with pytest.raises(InvalidInput, match="same number of hypotheses"):
        write_nbest(tmp_path / "out.tsv", uneven, "nemo")
    assert not (tmp_path / "out.tsv").exists()
    bare = [NBest("u", (Hypothesis("hi"),))]
    for format in ("nemo", "srilm", "flashlight", "htk"):
        with pytest.raises(InvalidInput, match="for every hypothesis"):
            write_nbest(tmp_path / f"out.{format}", bare, format)
    slashed = [NBest("../u", HEARD[0].hypotheses)]
    for format in ("srilm", "htk"):
        with pytest.raises(InvalidInput, match="valid file name"):
            write_nbest(tmp_path / format, slashed, format)
    for format in ("kaldi", "espnet"):
        with pytest.raises(InvalidInput, match="without spaces"):
            write_nbest(tmp_path / format, [NBest("a b", HEARD[0].hypotheses)], format)
    with pytest.raises(InvalidInput, match="without a bar"):
        write_nbest(tmp_path / "f", [NBest("a|b", HEARD[0].hypotheses)], "flashlight")


def test_espnet_prints_of_tensors_and_gaps(tmp_path: Path) -> None:
    first, second = tmp_path / "1best_recog", tmp_path / "2best_recog"
    first.mkdir()
    (first / "text").write_text("u1 call mum\nu2\n")
    (first / "score").write_text("u1 tensor(-1.5)\nu2 tensor(-2.5, device='cuda:0')\n")
    one, two = read_nbest(tmp_path, "espnet")
    assert (one.best.score, two.best.score) == (-1.5, -2.5)
    second.mkdir()
    (second / "text").write_text("u3 hello\n")
    with pytest.raises(InvalidInput, match="in 1best_recog too"):
        list(read_nbest(tmp_path, "espnet"))
    (first / "score").write_text("u1 1\n")
    with pytest.raises(InvalidInput, match="Expected a score of 'u2'"):
        list(read_nbest(tmp_path, "espnet"))
    with pytest.raises(InvalidInput, match="Expected a folder 1best_recog"):
        list(read_nbest(first, "espnet"))


def test_hyporadise_entries(tmp_path: Path) -> None:
    path = tmp_path / "heard.json"
    path.write_text('[{"input": ["a"], "output": "b"}, {"input": "a", "output": "b"}]')
    reader = read_nbest(path, "hyporadise", on_error="lenient")
    assert [each.reference for each in reader] == ["b"]
    assert reader.problems[0].place == 2
    for text, reason in (("{}", "Expected a list"), ("[", "Expected JSON")):
        path.write_text(text)
        with pytest.raises(InvalidInput, match=reason):
            list(read_nbest(path, "hyporadise"))


def test_srilm_byte_logarithms_and_compression(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "utt1.gz", "wb") as stream:
        stream.write(b"NBestList1.0\n(-100) call mum\n(-200) hang up\n")
    (each,) = read_nbest(tmp_path, "srilm")
    assert each.id == "utt1"
    score = each.best.score
    assert score is not None
    assert math.isclose(score / math.log(10), -100 * 1024 / 10000.5 / math.log(10))
    (tmp_path / "bad").write_text("NBestList1.0\n(-100 call\n")
    with pytest.raises(InvalidInput, match="score in brackets"):
        list(read_nbest(tmp_path, "srilm"))


def lattice_of(words: list[str], links: list[tuple[int, int, float]]) -> Lattice:
    lattice = Lattice(dict(enumerate(words)))
    for source, target, am in links:
        lattice.links[source].append((target, am, 0.0))
    return lattice


@given(st.data())
def test_lattice_paths_equal_brute_force(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 6))
    words = ["!SENT_START", *data.draw(
        st.lists(st.sampled_from(["a", "b", "<sil>"]), min_size=size, max_size=size)
    ), "!SENT_END"]  # fmt: skip
    last = len(words) - 1
    scores = st.integers(-9, 0).map(float)
    links = [(i, i + 1, data.draw(scores)) for i in range(last)]
    links += [
        (i, j, data.draw(scores))
        for i, j in itertools.combinations(range(last + 1), 2)
        if j > i + 1 and data.draw(st.booleans())
    ]
    best: dict[str, float] = {}

    def walk(node: int, said: list[str], score: float) -> None:
        said = said if words[node] in FILLERS else [*said, words[node]]
        if node == last:
            text = " ".join(said)
            best[text] = max(score, best.get(text, -math.inf))
        for source, target, am in links:
            if source == node:
                walk(target, said, score + am)

    walk(0, [], 0.0)
    found = {h.text: h.first_pass for h in lattice_of(words, links).paths(100)}
    assert found == best
    assert list(found.values()) == sorted(found.values(), reverse=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("VERSION=1.0\n", "Expected nodes"),
        ("I=0 W=a\nI=1 W=b\n", "one start and one end"),
        ("I=0 W=a\nJ=0 S=0 E=7 a=1\n", "between known nodes"),
        ("I=x W=a\n", "a node number"),
        ("I=0 W=s\nI=1 W=a\nI=2 W=b\nI=3 W=e\nJ=0 S=0 E=1\nJ=1 S=1 E=2\nJ=2 S=2 E=1\nJ=3 S=2 E=3\n",
         "without loops"),
    ],
)  # fmt: skip
def test_bad_lattices(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "u.slf").write_text(text)
    with pytest.raises(InvalidInput, match=reason):
        list(read_nbest(tmp_path, "htk"))


def test_sources_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such file"):
        read_nbest(tmp_path / "none.jsonl")
    with pytest.raises(InvalidInput, match="got the folder"):
        read_nbest(tmp_path, "jsonl")
    with pytest.raises(InvalidInput, match="Expected format to be one of"):
        read_nbest(tmp_path, "xml")
    for format in ("srilm", "htk"):
        with pytest.raises(InvalidInput, match="got none"):
            list(read_nbest(tmp_path, format))
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(InvalidInput, match="got none"):
        list(read_nbest(tmp_path / "empty.jsonl"))
    twice = tmp_path / "twice.jsonl"
    twice.write_text('{"id": "u", "nbest": []}\n' * 2)
    with pytest.raises(InvalidInput, match="every id once"):
        list(read_nbest(twice))


def test_references_and_clients_from_tables(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("utt-0 call mum\n")
    lists = list(
        attach(HEARD[:1], references=read_table(tmp_path / "text"), clients={"utt-0": "ann"})
    )
    assert lists[0].reference == "call mum"
    assert list(by_client(lists)) == ["ann"]
    with pytest.raises(InvalidInput, match="a client for every"):
        by_client(HEARD)
    with pytest.raises(InvalidInput, match="with an id"):
        NBest("", ())


def test_the_shared_lists_are_readable(shared_data: Path) -> None:
    for name, count in (
        ("hyporadise/atis.test.jsonl", 809),
        ("ami-tts/test.jsonl.gz", 1026),
        ("snips-tts/test.jsonl", 700),
    ):
        lists = list(read_nbest(shared_data / "nbest" / name))
        assert len(lists) == count
        assert all(each.reference for each in lists)
