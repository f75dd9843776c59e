"""What the attacks find and the bounds prove, on small models of text corpora.

    python benchmarks/audit.py                    the built-in corpora
    python benchmarks/audit.py --data FOLDER      SNIPS as well (FOLDER/nlu/snips/train.jsonl.gz)
    python benchmarks/audit.py --snips FOLDER     the same (FOLDER/train.jsonl.gz)

The models are logistic regressions on hashed words (tests/audit/trainer.py), trained by plain
gradient descent, by exact DP-SGD at epsilon 8, and by eDP-SGD as printed. Every training is seeded,
so the figures repeat; the timings do not.
"""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from helpers.options import options_of, parser_of, tell, write
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
from sottovoce.corpora import Utterance, read
from sottovoce.corpora.synthetic import DOMAINS, generate
from sottovoce.privacy.accountants import papers
from sottovoce.privacy.calibrate import noise_multiplier
from sottovoce.privacy.guarantee import rounded_down, rounded_up
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.recipes import Method, TrainingRecipe

# The reference trainer lives with the tests, beside which this folder stands.
sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.audit.trainer import Model, PrivateTraining, PublishedTraining, train_sgd

BUCKETS = 1024
DELTA, RATE, STEPS = 5e-4, 0.05, 200
METHODS = ("sgd", "dp-sgd, epsilon 8", "edp-sgd as printed")


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is trained and attacked: members, reference models, canaries, secrets."""

    size: int
    references: int
    canaries: int
    secrets: int
    domains: Sequence[str] = DOMAINS


FULL = Scale(size=1000, references=4, canaries=500, secrets=10)
QUICK = Scale(size=100, references=2, canaries=50, secrets=2, domains=("communication",))

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


def attack(
    train: Train, tried: Candidates[Utterance], public: Sequence[Utterance], scale: Scale
) -> Any:
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
        models=scale.references,
        source=source,
    )
    size = scale.size
    shadow = fresh(public[:size], tuple(sorted({u.intent for u in public})))
    teacher = ShadowAttack.fit(
        *(sorted_features(shadow.probabilities(half)) for half in (public[:size], public[size:]))
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
        "canaries": canary_bound(fresh, tried, intents, source, scale.canaries),
        "mean_exposure_bits": round(exposure(fresh, tried, intents, source, scale.secrets), 2),
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
    count: int,
) -> dict[str, Any]:
    vocabulary = sorted({token for u in tried.members for token in u.tokens})
    planted = text_canaries(count, vocabulary=vocabulary, intents=intents, source=source)
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
    count: int,
) -> float:
    """Mean bits of planted four-digit numbers; 1.44 without memory, 13.29 at most."""
    number = SecretFormat(carrier="redial # # # #", intent=intents[0], slot="phone_number")
    secrets = number.draw(count, source)
    model = fresh([*tried.members, *map(number.utterance, secrets)])
    every = model.score([number.utterance(each) for each in range(number.size)])

    def score(asked: Sequence[int]) -> ArrayLike:
        return every[list(asked)]

    return mean_exposure([exact_exposure(score, s, candidates=number.size) for s in secrets])


def corpora(
    snips: Path | None, scale: Scale
) -> Iterable[tuple[str, list[Utterance], list[Utterance]]]:
    part = 3 * scale.size
    for domain in scale.domains:
        spoken = list(generate(domain, size=2 * part, seed=1))
        yield domain, spoken[:part], spoken[part:]
    if snips is not None:
        # Only part of it is trained on: the rest of its training data are the non-members.
        spoken = list(read(snips / "train.jsonl.gz"))
        order = NoiseSource.seeded(2).words(len(spoken)).argsort().tolist()
        mixed = [spoken[place] for place in order]
        yield "snips", mixed[:part], mixed[part : 2 * part]


def seconds(bound: Callable[..., object]) -> float:
    start = time.perf_counter()
    bound(canaries=10**5, guesses=10**5, correct=60_000, delta=1e-9)
    return round(time.perf_counter() - start, 4)


def table(result: dict[str, Any]) -> str:
    """The figures as docs/reproductions/audit.md shows them."""
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
    parser = parser_of(__file__, __doc__, data="SNIPS")
    parser.add_argument(
        "--snips", type=Path, help="folder with SNIPS' train.jsonl.gz (default: DATA/nlu/snips)"
    )
    given = options_of(parser)
    scale = QUICK if given.quick else FULL
    snips = given.snips or given.data / "nlu" / "snips"
    if not (snips / "train.jsonl.gz").exists():
        print(f"Without SNIPS: {snips} has no train.jsonl.gz.")
        snips = None
    trainings = dict(zip(METHODS, methods(), strict=True))
    rows: dict[str, Any] = {}
    public = list(generate("video", size=2 * scale.size, seed=9))
    for name, training, test in corpora(snips, scale):
        source = NoiseSource.seeded(3)
        tried = candidates(training, test, sentence=words, source=source, most=scale.size)
        rows[name] = {"left_out": asdict(tried.left_out)}
        for method, train in trainings.items():
            rows[name][method] = attack(train, tried, public, scale)
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
    write(given.output, result)
    print(table(result))
    tell(given.output)


if __name__ == "__main__":
    main()
