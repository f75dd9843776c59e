"""The tables of the paper on real N-best lists: rounds, mixture and kernel, epsilon.

    python benchmarks/fmp_tables.py [--only atis]

Background: a 4-gram of public text (../shared/data/text) over a public vocabulary. Weights and the
power lambda are tuned on clients that are not evaluated. Adaptation uses the paper's shortcut, so
that a grid of powers costs one pass. Every private row stands beside two controls: no global term
(alpha = 0), and a global term of noise alone; it counts only if it beats both.
"""

import argparse
import gzip
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.personalize.adaptation import Adaptation
from sottovoce.personalize.cache import Caps, ClientCache
from sottovoce.personalize.counting import Counting
from sottovoce.personalize.federation import ledger_for
from sottovoce.personalize.formats import read_nbest
from sottovoce.personalize.nbest import Hypothesis, NBest, by_client
from sottovoce.personalize.ngram.model import NGramModel
from sottovoce.personalize.ngram.training import train_ngram
from sottovoce.personalize.normal import normal_text
from sottovoce.personalize.phrases import PhraseCache
from sottovoce.personalize.plan import ReleasePlan
from sottovoce.personalize.release import CountRelease
from sottovoce.personalize.scores import Grid, ScoreTable, Weights, tune
from sottovoce.personalize.simplex import threshold
from sottovoce.personalize.stream import (
    Personalisation,
    background_scores,
    factor_sums,
    personal_factors,
)
from sottovoce.personalize.vocabulary import Vector, Vocabulary
from sottovoce.personalize.wer import WordErrors, change_interval, oracle, pooled, reference_of
from sottovoce.privacy.facts import Noise
from sottovoce.privacy.guarantee import Unit
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.recipes.federate import Kernel

SHARED = Path(__file__).parents[2] / "shared" / "data"
RESULTS = Path(__file__).parent / "results" / "fmp_tables.json"
POWERS = (0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
GRID = Grid(
    scale=(0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.2, 0.35, 0.5),
    mix=(1.0,),
    bonus=(0.0, 0.05, -0.1, 0.1, 0.2, 0.35, -0.5, 0.5, 1.0),
)
VOCABULARY, LISTED = 12_000, 20_000
DENSE_SIGMA = 1.0

QBar = Vector | Callable[[NBest], Vector] | None
Normal = Callable[[str], str]


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


def public_lines(names: Sequence[str]) -> list[str]:
    lines = []
    for name in names:
        with gzip.open(SHARED / "text" / f"{name}.train.txt.gz", "rt") as stream:
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


@dataclass
class Study:
    """One data set: what is tuned on, what is evaluated, under which background model."""

    dev: list[NBest]
    test: list[NBest]
    model: NGramModel

    def __post_init__(self) -> None:
        everything = [*self.dev, *self.test]
        self.plain = background_scores(everything, self.model)
        self.tables = {id(p): ScoreTable(p, self.plain) for p in (self.dev, self.test)}
        self.weights = tune({0.0: self.tables[id(self.dev)]}, GRID)[1]
        self.base = self.errors(self.tables[id(self.test)], self.weights)

    def errors(self, table: ScoreTable, weights: Weights) -> dict[str, WordErrors]:
        """Errors on the evaluated lists, by client."""
        found: dict[str, WordErrors] = {}
        picks = table.picks(weights)
        kept = [each for each in self.test if each.hypotheses]
        for each, row, pick in zip(kept, table.errors, picks, strict=True):
            words = len(reference_of(each).split())
            client = str(each.client)
            # The kind of error does not matter here, so all of them are booked as substitutions.
            found[client] = found.get(client, WordErrors()) + WordErrors(
                int(row[pick]), words=words
            )
        return found

    def baselines(self) -> dict[str, Any]:
        rate = wer(self.base)
        first = pooled((reference_of(each), each.best.text) for each in self.test)
        best = sum((oracle(each) for each in self.test), WordErrors())
        return {
            "clients": len(by_client(self.test)), "utterances": len(self.test),
            "first_pass": round(100 * first.rate, 2), "background": rate,
            "oracle": round(100 * best.rate, 2),
        }  # fmt: skip

    def row(
        self, *, alpha: float, beta: float, counting: Counting, q_dev: QBar = None,
        q_test: QBar = None, phrases: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        """Tune on the development part with its q_bar, evaluate with the other."""
        settings = Personalisation(
            adaptation=Adaptation(alpha=alpha, beta=beta, power=1.0), counting=counting
        )
        tables = {}
        for part, q_bar in ((self.dev, q_dev), (self.test, q_test)):
            table = self.tables[id(part)]
            if phrases:
                table = ScoreTable(part, phrase_scores(part, self.model, counting))
            sums = factor_sums(personal_factors(part, self.model, settings, q_bar), self.model)
            padded = np.zeros_like(table.second)
            for place, each in enumerate(e for e in part if e.hypotheses):
                padded[place, : len(each.hypotheses)] = sums[each.id]
            tables[id(part)] = (table, padded)
        table, padded = tables[id(self.dev)]
        power, weights, _ = tune(
            {p: table.replaced(table.second + p * padded) for p in POWERS}, GRID
        )
        table, padded = tables[id(self.test)]
        after = self.errors(table.replaced(table.second + power * padded), weights)
        change = change_interval(list(self.base.values()), [after[c] for c in self.base])
        relative = sum(e.count for e in after.values()) / sum(e.count for e in self.base.values())
        return {
            "wer": wer(after), "power": power, "change": round(100 * (relative - 1), 1),
            "interval": [round(100 * change.low, 1), round(100 * change.high, 1)],
        }  # fmt: skip


def phrase_scores(
    lists: Sequence[NBest], model: NGramModel, counting: Counting
) -> dict[str, list[float]]:
    """The background with each client's own word pairs mixed in, in the order of time."""
    scores = {}
    for mine in by_client(lists).values():
        cache = PhraseCache(counting, strength=0.3)
        for each in mine:
            scores[each.id] = cache.score([h.words for h in each.hypotheses], model)
            cache.add(each)
    return scores


def wer(errors: dict[str, WordErrors]) -> float:
    return round(100 * sum(errors.values(), WordErrors()).rate, 2)


def counts_of(lists: Iterable[NBest], words: Vocabulary, counting: Counting) -> Vector:
    total = np.zeros(len(words))
    for each in lists:
        places, added = counting.count(each, words)
        total[places] += added
    return total


def by_rounds(
    lists: Sequence[NBest], words: Vocabulary, counting: Counting, rounds: int, start: Vector
) -> Callable[[NBest], Vector]:
    """q_bar as the paper has it: utterances in rounds + 1 groups, each told by those before."""
    group = {
        each.id: place * (rounds + 1) // len(mine)
        for mine in by_client(lists).values()
        for place, each in enumerate(mine)
    }
    counts, bars = start.copy(), []
    for number in range(rounds + 1):
        bars.append(counts / counts.sum() if counts.sum() > 0 else words.unigram)
        counts = counts + counts_of((e for e in lists if group[e.id] == number), words, counting)
    return lambda each: bars[group[each.id]]


def halves(lists: Sequence[NBest], q_of: Callable[[list[NBest]], Vector]) -> QBar:
    """q_bar for tuning: half of the clients are told what the other half said."""
    names = sorted(by_client(lists))
    first = set(names[::2])
    one = q_of([each for each in lists if each.client not in first])
    two = q_of([each for each in lists if each.client in first])
    return lambda each: one if each.client in first else two


def private(
    plan: ReleasePlan, words: Vocabulary, seed: int, *, truth: bool
) -> Callable[[list[NBest]], Vector]:
    """q_bar from one private release over the vocabulary; without `truth`, of noise alone."""

    def q_of(lists: list[NBest]) -> Vector:
        total = np.zeros(len(words))
        for mine in by_client(lists).values():
            cache = ClientCache(words, plan.counting, plan.caps)
            for each in mine:
                cache.add(each)
            total += cache.take_increment()
        release = CountRelease(plan, ledger_for(plan), NoiseSource.seeded(seed))
        noisy = release(total if truth else np.zeros(len(words)))
        return threshold(noisy, words.unigram, plan.noise_std)

    return q_of


def tables(study: Study, *, epsilons: Sequence[float]) -> dict[str, Any]:
    words, dev, test = study.model.vocabulary, study.dev, study.test
    zero = np.zeros(len(words))
    rule = Counting(sigma=DENSE_SIGMA, nbest=20)
    report: dict[str, Any] = {"baselines": study.baselines(), "table 2": {}, "table 3": {}}
    warm_dev = halves(dev, lambda part: share(counts_of(part, words, rule)))
    warm_counts = counts_of(dev, words, rule)
    report["alpha 0 (personal only)"] = study.row(alpha=0.0, beta=0.75, counting=rule)
    for rounds in (1, 2, 5, 10):
        report["table 2"][f"cold, T={rounds}"] = study.row(
            alpha=0.5, beta=0.25, counting=rule,
            q_dev=by_rounds(dev, words, rule, rounds, zero),
            q_test=by_rounds(test, words, rule, rounds, zero),
        )  # fmt: skip
    report["table 2"]["warm, T=10"] = study.row(
        alpha=0.5, beta=0.25, counting=rule, q_dev=warm_dev,
        q_test=by_rounds(test, words, rule, 10, warm_counts),
    )  # fmt: skip
    for alpha, beta, sigma in (
        (0.5, 0.25, 0.1), (0.5, 0.25, 5.0), (0.5, 0.25, 100.0), (0.5, 0.45, 1.0), (0.75, 0.0, 1.0),
    ):  # fmt: skip
        other = Counting(sigma=sigma, nbest=20)
        report["table 3"][f"alpha={alpha}, beta={beta}, sigma={sigma}, T=10"] = study.row(
            alpha=alpha, beta=beta, counting=other,
            q_dev=by_rounds(dev, words, other, 10, zero),
            q_test=by_rounds(test, words, other, 10, zero),
        )  # fmt: skip
    report["beyond unigrams"] = {
        "word pairs alone": study.row(alpha=0.0, beta=0.0, counting=rule, phrases=True),
        "word pairs, cold, T=10": study.row(
            alpha=0.5, beta=0.25, counting=rule, phrases=True,
            q_dev=by_rounds(dev, words, rule, 10, zero),
            q_test=by_rounds(test, words, rule, 10, zero),
        ),
    }  # fmt: skip
    if epsilons:
        report["table 4"] = table_4(study, rule, epsilons)
    return report


def table_4(study: Study, rule: Counting, epsilons: Sequence[float]) -> dict[str, Any]:
    """One private release of what other clients said, then personalisation on the device."""
    words = study.model.vocabulary
    one_best = Counting(
        sigma=0.1, nbest=1, max_words=10, distinct=True, integer=True, kernel=Kernel.NORMALISED
    )
    utterance = ReleasePlan(counting=one_best, noise=Noise.DISCRETE_LAPLACE)
    user = ReleasePlan(
        counting=one_best, noise=Noise.DISCRETE_LAPLACE, unit=Unit.USER, caps=Caps(40.0, 4.0)
    )
    plans = [(f"utterance, epsilon {e:g}", utterance, e) for e in epsilons]
    plans += [(f"user, epsilon {e:g}", user, e) for e in epsilons if e >= 2]
    rows: dict[str, Any] = {}
    for name, plan, epsilon in plans:
        exact = plan.calibrated(epsilon=epsilon, rounds=1)
        found: dict[str, Any] = {"claimed": round(exact.claim().epsilon, 4), "true": epsilon}
        for label, truth in (("told", True), ("noise only", False)):
            q_of = private(exact, words, 1, truth=truth)
            found[label] = study.row(
                alpha=0.5, beta=0.25, counting=rule, q_dev=halves(study.dev, q_of),
                q_test=q_of(study.dev),
            )  # fmt: skip
        rows[name] = found
    rows["the paper's Laplace(1/0.5), m=30, ten cumulative releases"] = {
        "claimed": 0.5,
        "true": round(30 * 10 * 0.5, 1),
    }
    return rows


def share(counts: Vector) -> Vector:
    part: Vector = counts / counts.sum()
    return part


def listed() -> list[str]:
    with np.load(SHARED / "vectors/glove-100d-subset.npz") as arrays:
        return [str(word) for word in arrays["words"][:LISTED]]


def background(lines: list[str], normal: Normal) -> NGramModel:
    lines = [normal(line) for line in lines]
    return train_ngram(lines, Vocabulary.from_text(lines, VOCABULARY, listed()), 4)


def atis() -> dict[str, Any]:
    folder = SHARED / "nbest/hyporadise"
    test = list(read_nbest(folder / "atis.test.jsonl"))
    clients = {each.client for each in test}
    dev = [e for e in read_nbest(folder / "atis.train.jsonl.gz") if e.client not in clients]
    lines = public_lines(["sgd", "swda", "icsi-mrda"])
    normal = compounds(dev, Counter(word for line in lines for word in line.split()))
    model = background(lines, normal)
    study = Study(normalised(dev, normal), normalised(test, normal), model)
    return tables(study, epsilons=(0.1, 0.5, 1.0, 2.0, 8.0))


def ami() -> dict[str, Any]:
    """Sixteen speakers: each half of them tunes for the other half."""
    lists = list(read_nbest(SHARED / "nbest/ami-tts/test.jsonl.gz"))
    names = sorted(by_client(lists))
    first = [each for each in lists if each.client in names[::2]]
    second = [each for each in lists if each.client in names[1::2]]
    report: dict[str, Any] = {}
    for name, texts in (("sgd", ["sgd"]), ("meetings", ["sgd", "swda", "icsi-mrda"])):
        model = background(public_lines(texts), lambda line: line)
        report[name] = {
            "first half": tables(Study(second, first, model), epsilons=()),
            "second half": tables(Study(first, second, model), epsilons=()),
        }
    return report


def logged(hypotheses: tuple[Hypothesis, ...]) -> tuple[Hypothesis, ...]:
    """Posteriors as logarithms; the 1-best comes without one and gets that of its best rival."""
    known = [math.log(h.score) for h in hypotheses if h.score]
    best = max(known, default=0.0)
    return tuple(replace(h, score=math.log(h.score) if h.score else best) for h in hypotheses)


def snips() -> dict[str, Any]:
    """No speakers are known: the seven domains (intents) stand in for clients."""

    def part(name: str) -> list[NBest]:
        path = SHARED / f"nbest/snips-tts/{name}.jsonl"
        intents = {d["id"]: d["intent"] for d in map(json.loads, path.read_text().splitlines())}
        return [
            replace(each, client=intents[each.id], hypotheses=logged(each.hypotheses))
            for each in read_nbest(path)
        ]

    model = background(public_lines(["sgd"]), lambda line: line)
    return tables(Study(part("valid"), part("test"), model), epsilons=())


def main() -> None:
    parser = argparse.ArgumentParser()
    sets = {"atis": atis, "ami-tts": ami, "snips-tts": snips}
    parser.add_argument("--only", choices=sets)
    only = parser.parse_args().only
    if not SHARED.is_dir():
        print(f"Nothing to do: the public datasets are not at {SHARED}.")
        return
    report = json.loads(RESULTS.read_text()) if only and RESULTS.exists() else {}
    for name, run in sets.items():
        if only in (None, name):
            report[name] = run()
            print(json.dumps({name: report[name]}, indent=1))
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
