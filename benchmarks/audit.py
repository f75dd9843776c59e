"""What the attacks find and the bounds prove, on small models of text corpora.

    python benchmarks/audit.py                    the built-in corpora
    python benchmarks/audit.py --snips FOLDER     SNIPS as well (its train.jsonl.gz)

The models are logistic regressions on hashed words (tests/audit/trainer.py), trained by plain
gradient descent, by exact DP-SGD at epsilon 8, and by eDP-SGD as printed. Every training is seeded,
so the figures repeat; the timings do not.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from sottovoce.audit import (
    AttackOutcome,
    Candidates,
    SecretFormat,
    ShadowAttack,
    candidates,
    exact_exposure,
    mean_exposure,
    membership_attacks,
    one_run_audit,
    one_run_bound,
    one_run_gaussian_bound,
    sorted_features,
    strongest,
    text_canaries,
    train_references,
    words,
)
from sottovoce.audit.bounds import rounded_down
from sottovoce.corpora import Utterance, read
from sottovoce.corpora.synthetic import DOMAINS, generate
from sottovoce.privacy.accountants import papers
from sottovoce.privacy.calibrate import noise_multiplier
from sottovoce.privacy.guarantee import rounded_up
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.recipes import Method, TrainingRecipe

# The reference trainer lives with the tests, beside which this folder stands.
sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.audit.trainer import Model, PrivateTraining, PublishedTraining, train_sgd

RESULTS = Path(__file__).parent / "results" / "audit.json"
SIZE, BUCKETS, REFERENCES, CANARIES, SECRETS = 1000, 1024, 4, 500, 10
DELTA, RATE, STEPS = 5e-4, 0.05, 200
METHODS = ("sgd", "dp-sgd, epsilon 8", "edp-sgd as printed")

Train = Callable[[Model, Sequence[Utterance], NoiseSource], float | None]


def methods() -> list[Train]:
    """Each trains a model and returns the epsilon of its ledger, if it has one."""
    recipe = TrainingRecipe(
        method=Method.DP_SGD,
        noise_multiplier=1.0,
        epochs=10,
        steps_per_epoch=STEPS // 10,
        sampling_rate=RATE,
        delta=DELTA,
    )
    exact = PrivateTraining(
        steps=STEPS,
        noise_multiplier=noise_multiplier(recipe, 8.0).noise_multiplier,
        sampling_rate=RATE,
        learning_rate=8.0,
    )
    printed = PublishedTraining(
        steps=STEPS, noise_multiplier=1.0, sampling_rate=RATE, learning_rate=8.0
    )

    def by_heart(model: Model, records: Sequence[Utterance], _: NoiseSource) -> None:
        train_sgd(model, records, epochs=200, rate=20.0)

    def private(training: PrivateTraining) -> Train:
        def train(model: Model, records: Sequence[Utterance], source: NoiseSource) -> float:
            ledger, _ = training.run(model, records, source=source)
            return ledger.guarantee(DELTA).epsilon

        return train

    return [by_heart, private(exact), private(printed)]


def attack(train: Train, tried: Candidates[Utterance], public: Sequence[Utterance]) -> Any:
    """Utility, guarantee, all attacks, the canary bound and the exposure of one method."""
    source = NoiseSource.seeded(1)
    intents = tuple(sorted({u.intent for u in (*tried.members, *tried.non_members)}))

    def fresh(records: Sequence[Utterance], names: tuple[str, ...] = intents) -> Model:
        model = Model(names, BUCKETS)
        train(model, records, source)
        return model

    target = Model(intents, BUCKETS)
    epsilon = train(target, tried.members, source)
    references = train_references(
        [*tried.members, *tried.non_members],
        lambda records, index: fresh(records).score,
        models=REFERENCES,
        source=source,
    )
    shadow = fresh(public[:SIZE], tuple(sorted({u.intent for u in public})))
    teacher = ShadowAttack.learn(
        *(sorted_features(shadow.probabilities(half)) for half in (public[:SIZE], public[SIZE:]))
    )
    members, non_members = (
        teacher.score(sorted_features(target.probabilities(group)))
        for group in (tried.members, tried.non_members)
    )
    outcomes = membership_attacks(
        target.score,
        tried.members,
        tried.non_members,
        references=references,
        others={"shadow": (members, non_members)},
    )
    right = target.probabilities(tried.non_members).argmax(axis=1)
    truth = target.labels(tried.non_members).argmax(axis=1)
    return {
        "accuracy": round(float((right == truth).mean()), 3),
        "guarantee_epsilon": epsilon,
        "attacks": {outcome.attack: figures(outcome) for outcome in outcomes},
        "strongest": strongest(outcomes).attack,
        "canaries": canary_bound(fresh, tried, intents, source),
        "mean_exposure_bits": round(exposure(fresh, tried, intents, source), 2),
    }


def figures(outcome: AttackOutcome) -> dict[str, Any]:
    return {
        "auc": round(outcome.auc, 3),
        "auc_interval": [round(end, 3) for end in outcome.auc_interval],
        "tpr": {str(rate.false_positive_rate): rate.true_positive_rate for rate in outcome.rates},
    }


def canary_bound(
    fresh: Callable[[Sequence[Utterance]], Model],
    tried: Candidates[Utterance],
    intents: tuple[str, ...],
    source: NoiseSource,
) -> dict[str, Any]:
    vocabulary = sorted({token for u in tried.members for token in u.tokens})
    planted = text_canaries(CANARIES, vocabulary=vocabulary, intents=intents, source=source)
    model = fresh([*tried.members, *planted.chosen()])
    bound = one_run_audit(
        model.score(planted.utterances), planted.included, delta=DELTA, source=source
    )
    return {"epsilon_lower": round(bound.epsilon, 3), "evidence": bound.evidence}


def exposure(
    fresh: Callable[[Sequence[Utterance]], Model],
    tried: Candidates[Utterance],
    intents: tuple[str, ...],
    source: NoiseSource,
) -> float:
    """Mean bits of planted four-digit numbers; 1.44 without memory, 13.29 at most."""
    number = SecretFormat(carrier="redial # # # #", intent=intents[0], slot="phone_number")
    secrets = number.draw(SECRETS, source)
    model = fresh([*tried.members, *map(number.utterance, secrets)])
    every = model.score([number.utterance(each) for each in range(number.size)])

    def score(asked: Sequence[int]) -> ArrayLike:
        return every[list(asked)]

    return mean_exposure([exact_exposure(score, s, candidates=number.size) for s in secrets])


def corpora(snips: Path | None) -> Iterable[tuple[str, list[Utterance], list[Utterance]]]:
    for domain in DOMAINS:
        spoken = list(generate(domain, size=6 * SIZE, seed=1))
        yield domain, spoken[: 3 * SIZE], spoken[3 * SIZE :]
    if snips is not None:
        # Only part of it is trained on: the rest of its training data are the non-members.
        spoken = list(read(snips / "train.jsonl.gz"))
        order = NoiseSource.seeded(2).words(len(spoken)).argsort().tolist()
        mixed = [spoken[place] for place in order]
        yield "snips", mixed[: 3 * SIZE], mixed[3 * SIZE : 6 * SIZE]


def seconds(bound: Callable[..., object]) -> float:
    start = time.perf_counter()
    bound(canaries=10**5, guesses=10**5, correct=60_000, delta=1e-9)
    return round(time.perf_counter() - start, 4)


def table(result: dict[str, Any]) -> str:
    """The figures as docs/audit.md shows them."""
    head = ["corpus, method", "accuracy", "guarantee", "loss", "shadow", "LiRA", "RMIA",
            "found at 1 %", "canaries", "exposure"]  # fmt: skip
    lines = [head, ["---"] * len(head)]
    for name, found in result["corpora"].items():
        for method in METHODS:
            each = found[method]
            area = {attack: f"{of['auc']:.2f}" for attack, of in each["attacks"].items()}
            epsilon = each["guarantee_epsilon"]
            lines.append([
                f"{name}, {method}", f"{each['accuracy']:.2f}",
                "none" if epsilon is None else rounded_up(epsilon),
                *(area[attack] for attack in ("loss threshold", "shadow", "LiRA, online", "RMIA")),
                f"{each['attacks'][each['strongest']]['tpr']['0.01']:.1%} ({each['strongest']})",
                rounded_down(each["canaries"]["epsilon_lower"]), f"{each['mean_exposure_bits']}",
            ])  # fmt: skip
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--snips", type=Path, help="folder with train.jsonl.gz")
    snips = parser.parse_args().snips
    trainings = dict(zip(METHODS, methods(), strict=True))
    rows: dict[str, Any] = {}
    public = list(generate("video", size=2 * SIZE, seed=9))
    for name, training, test in corpora(snips):
        source = NoiseSource.seeded(3)
        tried = candidates(training, test, sentence=words, source=source, most=SIZE)
        rows[name] = {"left_out": asdict(tried.left_out)}
        for method, train in trainings.items():
            rows[name][method] = attack(train, tried, public)
    result = {
        "command": "python benchmarks/audit.py" + (" --snips FOLDER" if snips else ""),
        "delta": DELTA,
        "claimed_epsilon_of_edp-sgd": papers.zcdp([1.0] * 10, DELTA, "zCDP").epsilon,
        "corpora": rows,
        "seconds_for_100000_guesses": {
            "one-run": seconds(one_run_bound),
            "one-run-gdp": seconds(one_run_gaussian_bound),
        },
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(table(result))


if __name__ == "__main__":
    main()
