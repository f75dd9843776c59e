"""The tables of the paper on real N-best lists: rounds, mixture and kernel, epsilon.

    python benchmarks/fmp_tables.py --data PATH [--transformer FOLDER] [--dialogues FOLDER]
        [--only atis]

PATH holds the public lists (`nbest/`), text (`text/`) and word list (`vectors/`). Backgrounds:
4-grams of public text over a public vocabulary, and Transformers of `sottovoce lm train` on the
texts of fmp_text.py, if there are any. Every private row stands beside two controls: no global term
(alpha = 0), and a global term of noise alone; it counts only if it beats both, over several draws
of the noise. Global are the words that everybody says, and pairs of them.
"""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from helpers import fmp_data
from helpers.fmp_qbar import (
    Told,
    by_rounds,
    counts_of,
    halves,
    narrow_distribution,
    pair_counts,
    pairs_by_rounds,
)
from helpers.fmp_study import NOTHING, Setup, Study
from helpers.options import options_of, parser_of, tell, without_data, write
from sottovoce.personalize.federated.cache import ClientCache
from sottovoce.personalize.federated.counting import Caps, Counting
from sottovoce.personalize.federated.federation import ledger_for
from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.federated.pairs import pair_vocabulary
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.release import CountRelease
from sottovoce.personalize.federated.simplex import keep, project, threshold
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector, Vocabulary
from sottovoce.personalize.nbest.lists import NBest, by_client
from sottovoce.privacy.facts import Noise
from sottovoce.privacy.guarantee import Unit
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.recipes.federate import Kernel

MIXTURES = ((0.5, 0.25), (0.5, 0.45), (0.75, 0.2))
CANDIDATES = tuple(Setup(alpha=a, beta=b, trust=t) for a, b in MIXTURES for t in (None, 10.0))
ALONE = tuple(Setup(alpha=0.0, beta=b, trust=t) for b in (0.75, 0.95) for t in (None, 10.0))
MIXED = tuple(Setup(alpha=a, beta=0.95 - a, trust=10.0) for a in (0.25, 0.5))
STRENGTHS = (0.3, 0.6)
# With pairs a private release may leave the words out, which were paid for all the same.
PAIRED = tuple(
    Setup(alpha=a, beta=0.95 - a, trust=10.0, pairs=p) for a in (0.0, 0.25) for p in STRENGTHS
)
# Of a release of words and pairs, words have this share of epsilon and pairs the rest.
OF_WORDS, PAIR_WORDS = 0.3, 200
# What the speakers that ATIS is tuned on choose; the other sets take it as it is.
USUAL = Setup(alpha=0.5, beta=0.45, trust=10.0)
ORDERS = (2, 3)
DRAWS = 5
ROUNDS = 10
LINES_OF_TINY, EVERY_OF_TINY = 2000, 5

Row = dict[str, Any]


class Rows:
    """Rows of one study, with what is told made as each of them needs it."""

    def __init__(self, study: Study) -> None:
        self.study, self.small = study, study.small
        self.dev, self.test = list(study.dev.lists), list(study.test.lists)
        self.known: dict[tuple[Setup, int], Row] = {}
        self.told: dict[tuple[Counting, int, bool], Told] = {}

    def alone(self, setup: Setup) -> Row:
        return self.study.row(setup)

    def cold(self, setup: Setup, rounds: int = ROUNDS) -> Row:
        """Everybody starts with nothing and hears what all have said in earlier rounds."""
        if (setup, rounds) not in self.known:
            told = [self.told_cold(setup.counting, rounds, test=test) for test in (False, True)]
            self.known[setup, rounds] = self.study.row(setup, *told)
        return self.known[setup, rounds]

    def told_cold(self, rule: Counting, rounds: int = ROUNDS, *, test: bool = False) -> Told:
        key = (rule, rounds, test)
        if key not in self.told:
            lists, zero = self.test if test else self.dev, np.zeros(len(self.small))
            words = by_rounds(lists, self.small, rule, rounds, zero)
            self.told[key] = Told(words, pairs_by_rounds(lists, rule, rounds))
        return self.told[key]

    def told_by_others(self, setups: Sequence[Setup]) -> Row:
        """Cold, and each speaker has the set-up that the others choose."""
        return self.study.choice(setups, [self.told_cold(setup.counting) for setup in setups])

    def warm(self, setup: Setup, rounds: int = ROUNDS) -> Row:
        """As above, after a start with what other speakers said."""
        rule = setup.counting

        def told_by(told: list[NBest], others: list[NBest]) -> Told:
            start = counts_of(others, self.small, rule)
            words = by_rounds(told, self.small, rule, rounds, start)
            return Told(words, pairs_by_rounds(told, rule, rounds, pair_counts(others, rule)))

        return self.study.row(setup, halves(self.dev, told_by), told_by(self.test, self.dev))

    def private(self, setup: Setup, plans: "Plans", seed: int, *, truth: bool) -> Row:
        """One private release of what other speakers said, then the device alone."""
        told_of = released(plans, self.study.words, self.small, seed, truth=truth)
        tuning = halves(self.dev, lambda _, others: told_of(others))
        return self.study.row(setup, tuning, told_of(self.dev))


def chosen(candidates: Sequence[Setup], run: Callable[[Setup], Row]) -> tuple[Setup, Row]:
    """The set-up that other speakers promise most of, and its row; ties go to the first."""
    rows = [run(setup) for setup in candidates]
    best = min(range(len(rows)), key=lambda place: rows[place]["on_other_speakers"])
    return candidates[best], {"setup": str(candidates[best]), **rows[best]}


def tables(
    study: Study, *, epsilons: Sequence[float] = (), warm: bool = False, brief: bool = False
) -> Row:
    """All tables of one background, or only what was chosen on other speakers."""
    rows = Rows(study)
    report: Row = {"baselines": study.baselines()}
    best = USUAL
    if study.alone:
        report["alpha 0 (personal only), chosen"] = study.choice(ALONE, [NOTHING] * len(ALONE))
        report["cold, chosen"] = rows.told_by_others(CANDIDATES)
        report["cold with phrases, chosen"] = rows.told_by_others(with_phrases(CANDIDATES))
        report["cold with pairs, chosen"] = rows.told_by_others(with_pairs(CANDIDATES))
        everything = (*ALONE, *CANDIDATES, *with_pairs((*ALONE, *CANDIDATES)))
        report["cold, all of these, chosen"] = rows.told_by_others(everything)
    else:
        _, report["alpha 0 (personal only), chosen"] = chosen(ALONE, rows.alone)
        best, report["cold, chosen"] = chosen(CANDIDATES, rows.cold)
        _, report["cold with phrases, chosen"] = chosen(with_phrases([best]), rows.cold)
        _, report["cold with pairs, chosen"] = chosen(with_pairs([best]), rows.cold)
        everything = (*ALONE, *CANDIDATES, *with_pairs((ALONE[-1], best)))
        _, report["cold, all of these, chosen"] = chosen(everything, rows.cold)
    if warm:
        started, report["warm, chosen"] = chosen(CANDIDATES, rows.warm)
        paired = with_pairs((ALONE[-1], started))
        _, report["warm with pairs, chosen"] = chosen(paired, rows.warm)
    if not brief:
        report |= varied(rows, best)
    if epsilons:
        report["table 4"] = table_4(rows, epsilons)
    return report


def varied(rows: Rows, best: Setup) -> Row:
    """One thing at a time: rounds, mixture and kernel, trust, phrases."""
    sigmas = [Counting(sigma=sigma, nbest=20) for sigma in (0.1, 5.0, 100.0)]
    kernels = [Setup(), *(replace(best, counting=counting) for counting in sigmas)]
    trusts = [replace(best, trust=trust) for trust in (None, 1.0, 3.0, 10.0, 30.0)]
    beyond: Row = {}
    for order in ORDERS:
        alone, both = Setup(alpha=0.0, beta=0.0, phrases=order), replace(best, phrases=order)
        beyond[f"phrases of {order} alone"] = rows.alone(alone)
        beyond[str(both)] = rows.cold(both)
    for strength in STRENGTHS:
        only, both = Setup(alpha=0.0, beta=0.0, pairs=strength), replace(best, pairs=strength)
        beyond[f"pairs {strength:g} alone"] = rows.cold(only)
        beyond[str(both)] = rows.cold(both)
    return {
        "table 2": {f"cold, T={number}": rows.cold(best, number) for number in (1, 2, 5, 10, 30)},
        "table 3": {str(setup): rows.cold(setup) for setup in kernels},
        "trust": {str(setup): rows.cold(setup) for setup in trusts},
        "beyond unigrams": beyond,
    }


def with_phrases(setups: Sequence[Setup]) -> list[Setup]:
    """Each set-up without and with personal phrases."""
    return [replace(setup, phrases=order) for order in (1, *ORDERS) for setup in setups]


def with_pairs(setups: Sequence[Setup]) -> list[Setup]:
    """Each set-up with shared pairs."""
    return [replace(setup, pairs=strength) for strength in STRENGTHS for setup in setups]


@dataclass(frozen=True)
class Plans:
    """What is released: words, and pairs of the most frequent of them if there is a plan."""

    words: ReleasePlan
    pairs: ReleasePlan | None = None

    def calibrated(self, epsilon: float) -> "Plans":
        if self.pairs is None:
            return Plans(self.words.calibrated(epsilon=epsilon, rounds=1))
        return Plans(
            self.words.calibrated(epsilon=OF_WORDS * epsilon, rounds=1),
            self.pairs.calibrated(epsilon=(1 - OF_WORDS) * epsilon, rounds=1),
        )

    @property
    def claimed(self) -> float:
        """The paper's arithmetic; it knows of no pairs, so their release is one more of words."""
        return sum(plan.claim().epsilon for plan in (self.words, self.pairs) if plan)

    @property
    def setups(self) -> Sequence[Setup]:
        return MIXED if self.pairs is None else PAIRED

    def true(self) -> float:
        """What the ledger of both releases says."""
        ledger = ledger_for(self.words)
        for plan in (self.words, self.pairs):
            if plan is not None:
                ledger.spend(plan.fact())
        return ledger.guarantee(0.0).epsilon


def table_4(rows: Rows, epsilons: Sequence[float]) -> Row:
    """Private releases, each drawn several times, beside noise that was drawn as often."""
    one_best = Counting(
        sigma=0.1, nbest=1, max_words=10, distinct=True, integer=True, kernel=Kernel.NORMALISED
    )
    utterance = ReleasePlan(counting=one_best, noise=Noise.DISCRETE_LAPLACE)
    user = ReleasePlan(
        counting=one_best, noise=Noise.DISCRETE_LAPLACE, unit=Unit.USER, caps=Caps(40.0, 4.0)
    )
    both = {
        name: Plans(words, replace(words, counting=replace(one_best, order=2)))
        for name, words in (("utterance", utterance), ("user", user))
    }
    most = max(epsilons)
    plans = [(f"utterance, epsilon {e:g}", Plans(utterance), e) for e in epsilons]
    plans.append((f"user, epsilon {most:g}", Plans(user), most))
    plans += [(f"utterance, epsilon {e:g}, with pairs", both["utterance"], e) for e in epsilons]
    plans.append((f"user, epsilon {most:g}, with pairs", both["user"], most))
    found: Row = {}
    for name, plan, epsilon in plans:
        exact = plan.calibrated(epsilon)
        found[name] = {"claimed": round(exact.claimed, 4), "true": round(exact.true(), 4)}
        for label, truth in (("told", True), ("noise only", False)):
            found[name][label] = drawn(rows, exact, truth=truth)
        print(json.dumps({name: found[name]}), flush=True)
    found["the paper's Laplace(1/0.5), m=30, ten cumulative releases"] = {
        "claimed": 0.5,
        "true": round(30 * 10 * 0.5, 1),
    }
    return found


def drawn(rows: Rows, plans: Plans, *, truth: bool) -> Row:
    """Mean and spread over draws; the set-up is chosen by the first draw, on other speakers."""
    setup, first = chosen(plans.setups, lambda each: rows.private(each, plans, 1, truth=truth))
    rates = [first["wer"]]
    rates += [rows.private(setup, plans, seed, truth=truth)["wer"] for seed in range(2, DRAWS + 1)]
    return {
        "setup": str(setup), "wer": round(statistics.mean(rates), 3),
        "standard_deviation": round(statistics.stdev(rates), 3), "draws": rates,
    }  # fmt: skip


def released(
    plans: Plans, words: Vocabulary, small: Vocabulary, seed: int, *, truth: bool
) -> Callable[[list[NBest]], Told]:
    """Private releases over the whole vocabulary and pairs of its words; else of noise alone."""

    def told_of(lists: list[NBest]) -> Told:
        source = NoiseSource.seeded(seed)
        said = lists if truth else []
        noisy = noisy_counts(said, words, plans.words, source)
        q_bar = threshold(noisy, words.unigram, plans.words.noise_std)
        narrow = narrow_distribution(q_bar, words, small)
        if plans.pairs is None:
            return Told(narrow)
        pairs = pair_vocabulary(words, project(noisy), PAIR_WORDS)
        noisy = noisy_counts(said, pairs, plans.pairs, source)
        believed = keep(noisy, pairs.index[UNKNOWN], plans.pairs.noise_std)
        return Told(narrow, Marginals(pairs.words, believed, mass=max(float(noisy.sum()), 0.0)))

    return told_of


def noisy_counts(
    lists: Sequence[NBest], words: Vocabulary, plan: ReleasePlan, source: NoiseSource
) -> Vector:
    total = np.zeros(len(words))
    for mine in by_client(lists).values():
        cache = ClientCache(words, plan.counting, plan.caps)
        for each in mine:
            cache.add(each)
        total += cache.take_increment()
    return CountRelease(plan, ledger_for(plan), source)(total)


def atis(data: Path, transformer: Path | None, _: Path | None) -> Row:
    dev, test, ngram = fmp_data.atis(data)
    report: Row = {}
    for name, model in fmp_data.with_transformer(ngram, transformer).items():
        # Noise is drawn and settings are varied with one background; others would repeat it.
        first = model is ngram
        study = Study(dev, test, model, divided=True)
        epsilons = (1.0, 8.0) if first else ()
        report[name] = tables(study, epsilons=epsilons, warm=True, brief=not first)
        print(json.dumps({name: report[name]}), flush=True)
    return report


def ami(data: Path, transformer: Path | None, dialogues: Path | None) -> Row:
    """Sixteen speakers, each evaluated with what the other fifteen chose.

    What the totals are made of was tried out on every second speaker; nobody looked at the others.
    """
    lists = fmp_data.ami(data)
    untouched = frozenset(sorted(by_client(lists))[1::2])
    dialogue = fmp_data.background(data, fmp_data.public_lines(data, ["sgd"]))
    backgrounds = {
        f"{name} of dialogues alone": model
        for name, model in fmp_data.with_transformer(dialogue, dialogues).items()
    }
    backgrounds |= fmp_data.with_transformer(fmp_data.with_ami_text(data), transformer)
    report: Row = {}
    for name, model in backgrounds.items():
        study = Study(lists, None, model, untouched=untouched)
        report[name] = tables(study, brief=name.startswith("Transformer"))
        print(json.dumps({name: report[name]}), flush=True)
    return report


def snips(data: Path, _: Path | None, __: Path | None) -> Row:
    model = fmp_data.background(data, fmp_data.public_lines(data, ["sgd"]))
    study = Study(fmp_data.snips(data, "valid"), fmp_data.snips(data, "test"), model)
    return {"4-gram": tables(study)}


def tiny(data: Path) -> Row:
    """SNIPS with little text, few lists and one set-up: the machinery runs, the rates are bad."""
    lines = fmp_data.public_lines(data, ["sgd"])[:LINES_OF_TINY]
    model = fmp_data.background(data, lines)
    dev, test = (fmp_data.snips(data, part)[::EVERY_OF_TINY] for part in ("valid", "test"))
    rows = Rows(Study(dev, test, model))
    return {"4-gram": {"baselines": rows.study.baselines(), "cold": rows.cold(USUAL)}}


def main() -> None:
    sets = {"ami-tts": ami, "snips-tts": snips, "atis": atis}
    parser = parser_of(__file__, __doc__, data="all of it")
    parser.add_argument("--transformer", type=Path, help="folder of `sottovoce lm train`")
    parser.add_argument("--dialogues", type=Path, help="the same, of a model that read no meetings")
    parser.add_argument("--only", choices=sets, help="one set; the others stay as they are")
    given = options_of(parser)
    if not (given.data / "nbest").is_dir():
        without_data(given, "nbest")
    if given.quick:
        report = {"snips-tts": tiny(given.data)}
        print(json.dumps(report, indent=1))
        write(given.output, report, indent=1)
        tell(given.output)
        return
    earlier = given.only and given.output.exists()
    report = json.loads(given.output.read_text()) if earlier else {}
    for name, run in sets.items():
        if given.only in (None, name):
            report[name] = run(given.data, given.transformer, given.dialogues)
            write(given.output, report, indent=1)
    tell(given.output)


if __name__ == "__main__":
    main()
