"""Real N-best lists and public backgrounds for the tables of the paper (see fmp_tables.py)."""

import gzip
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np

from sottovoce.personalize.lm.language_model import load_lm
from sottovoce.personalize.lm.mixture import MixedLM, WordModel
from sottovoce.personalize.lm.ngram.model import NGramModel
from sottovoce.personalize.lm.ngram.training import train_ngram
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.formats import read_nbest
from sottovoce.personalize.nbest.lists import Hypothesis, NBest, normal_text
from sottovoce.personalize.rescoring.wer import reference_of

VOCABULARY, LISTED = 12_000, 20_000
MEETINGS = ("ami", "icsi-mrda", "swda", "sgd")

Normal = Callable[[str], str]


def as_it_is(text: str) -> str:
    return text


def compounds(lists: Iterable[NBest], background: Counter[str]) -> Normal:
    """One spelling for what is written as one word here and as two there.

    Pairs are found in lists that are not evaluated: "non stop" beside "nonstop" in one utterance.
    They are joined if the background knows the whole or the parts are letters, else split.
    """
    seen: Counter[tuple[str, str]] = Counter()
    for each in lists:
        texts = {h.text for h in each.hypotheses} | {reference_of(each)}
        for text in texts:
            words = text.split()
            others = {word for other in texts if other != text for word in other.split()}
            for pair in pairwise(words):
                whole = "".join(pair)
                if whole in others and whole not in words:
                    seen[pair] += 1
    pairs = {pair for pair, count in seen.items() if count >= 2}
    joined = {
        (a, b) for a, b in pairs if (len(a + b) <= 3 and min(len(a), len(b)) == 1)
        or background["".join((a, b))] >= 2
    }  # fmt: skip
    split = {a + b: f"{a} {b}" for a, b in pairs - joined}

    def normal(text: str) -> str:
        for _ in range(3):
            out: list[str] = []
            for word in " ".join(split.get(w, w) for w in text.split()).split():
                while out and (out[-1], word) in joined:
                    word = out.pop() + word
                out.append(word)
            text = " ".join(out)
        return text

    return normal


def public_lines(data: Path, names: Sequence[str]) -> list[str]:
    """Training text; that of AMI has neither the meetings nor the speakers of its test part."""
    lines = []
    for name in names:
        if name == "ami":
            with gzip.open(data / "ami/train.jsonl.gz", "rt") as stream:
                lines += [normal_text(json.loads(line)["norm"]) for line in stream]
            continue
        with gzip.open(data / "text" / f"{name}.train.txt.gz", "rt") as stream:
            lines += [normal_text(line) for line in stream]
    return lines


def normalised(lists: Iterable[NBest], normal: Normal) -> list[NBest]:
    return [
        replace(
            each,
            reference=normal(reference_of(each)),
            hypotheses=tuple(replace(h, text=normal(h.text)) for h in each.hypotheses),
        )
        for each in lists
    ]


def listed(data: Path) -> list[str]:
    with np.load(data / "vectors/glove-100d-subset.npz") as arrays:
        return [str(word) for word in arrays["words"][:LISTED]]


def background(data: Path, lines: list[str], normal: Normal = as_it_is) -> NGramModel:
    """A 4-gram of public text over its own words and a public list."""
    lines = [normal(line) for line in lines]
    return train_ngram(lines, Vocabulary.from_text(lines, VOCABULARY, listed(data)), 4)


def with_ami_text(data: Path) -> MixedLM:
    """A 4-gram of each text, mixed so that the development meetings of AMI are likeliest."""
    texts = [public_lines(data, [name]) for name in MEETINGS]
    words = Vocabulary.from_text(
        (line for lines in texts for line in lines), VOCABULARY, listed(data)
    )
    with gzip.open(data / "ami/dev.jsonl.gz", "rt") as stream:
        meetings = [normal_text(json.loads(line)["norm"]) for line in stream]
    return MixedLM([train_ngram(lines, words, 4) for lines in texts]).fitted(meetings)


def atis(data: Path) -> tuple[list[NBest], list[NBest], NGramModel]:
    """Speakers to tune on, speakers to evaluate, and the background."""
    folder = data / "nbest/hyporadise"
    test = list(read_nbest(folder / "atis.test.jsonl"))
    clients = {each.client for each in test}
    dev = [e for e in read_nbest(folder / "atis.train.jsonl.gz") if e.client not in clients]
    lines = public_lines(data, ["sgd", "swda", "icsi-mrda"])
    normal = compounds(dev, Counter(word for line in lines for word in line.split()))
    return normalised(dev, normal), normalised(test, normal), background(data, lines, normal)


def ami(data: Path) -> list[NBest]:
    """Sixteen speakers; nobody else was recorded, so each has to be evaluated by the others."""
    return list(read_nbest(data / "nbest/ami-tts/test.jsonl.gz"))


def with_transformer(ngram: WordModel, folder: Path | None) -> dict[str, WordModel]:
    """The n-gram; where there is a Transformer, that too, and half of each.

    All have the vocabulary of the n-gram, so that they are told apart by nothing else.
    """
    if folder is None:
        return {"4-gram": ngram}
    transformer = load_lm(folder)
    assert hasattr(transformer, "score_words")
    both = (ngram, cast(WordModel, transformer))
    return {
        "4-gram": ngram,
        "Transformer": MixedLM(both, (0.0, 1.0)),
        "half Transformer, half 4-gram": MixedLM(both, (0.5, 0.5)),
    }


def logged(hypotheses: tuple[Hypothesis, ...]) -> tuple[Hypothesis, ...]:
    """Posteriors as logarithms; the 1-best comes without one and gets that of its best rival."""
    known = [math.log(h.score) for h in hypotheses if h.score]
    best = max(known, default=0.0)
    return tuple(replace(h, score=math.log(h.score) if h.score else best) for h in hypotheses)


def snips(data: Path, part: str) -> list[NBest]:
    """No speakers are known: the seven domains (intents) stand in for clients."""
    path = data / f"nbest/snips-tts/{part}.jsonl"
    intents = {d["id"]: d["intent"] for d in map(json.loads, path.read_text().splitlines())}
    return [
        replace(each, client=intents[each.id], hypotheses=logged(each.hypotheses))
        for each in read_nbest(path)
    ]
