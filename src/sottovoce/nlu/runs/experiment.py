"""Train and evaluate a model from settings and a corpus: the implementation of `sottovoce train`.

The command line, tuning, utility studies and the reference models of an audit all call `train`, so
they build models in the same way.
"""

import platform
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from sottovoce import __version__, _validate
from sottovoce.corpora import OUTSIDE, Utterance
from sottovoce.corpora.records import is_role
from sottovoce.corpora.splits import Parts
from sottovoce.errors import InvalidInput
from sottovoce.io.run import Run, header
from sottovoce.nlu.fit.data import Encodings
from sottovoce.nlu.fit.factory import LEDGER, Built, build
from sottovoce.nlu.fit.loop import Fitted, Progress, fit, rank_checkpoint, vectors_progress
from sottovoce.nlu.fit.settings import Settings
from sottovoce.nlu.fit.warm_start import SampleSet, read_samples, warm_start_from
from sottovoce.nlu.metrics.bootstrap import intervals
from sottovoce.nlu.metrics.scores import count
from sottovoce.nlu.model import JointModel
from sottovoce.nlu.runs.card import MEASURED
from sottovoce.nlu.runs.checks import check_signal
from sottovoce.nlu.runs.in_progress import SearchCost
from sottovoce.nlu.schema import Schema
from sottovoce.privacy.groups import group_guarantee
from sottovoce.privacy.guarantee import SEEDED_STAMP, Guarantee, Relation, Unit, number_to_json
from sottovoce.privacy.ledger import Ledger
from sottovoce.training import Method, Plan, Worker

CHECKPOINT = "checkpoint.pt"
FEW_USERS = 10
"""Fewer users than this, with more than this many records each, are assumed to be roles."""

PUBLIC_LABELS = "the names of intents and slots, and which slots an intent may carry, are public"
SIZE_SEEN = "the number of {unit}s, which set the sampling rate and delta (declare a population)"


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A trained model, and its run.json: configuration, guarantee and ledger."""

    model: JointModel
    run: dict[str, Any]
    fitted: Fitted


def train(
    settings: Settings,
    parts: Parts,
    schema: Schema | None = None,
    *,
    folder: Path | None = None,
    resume: bool = False,
    publish_metrics: bool = False,
    search: SearchCost | None = None,
    on_step: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Trained:
    """Train on the train part and evaluate on the others.

    With a `folder`, the ledger and checkpoints are stored there during training (the finished model
    is written by `sottovoce.nlu.runs.run`). Without a `schema`, labels are inferred from the train
    part. With `publish_metrics`, the run publishes the scores and lists them as not covered. The
    cost of the `search` for these settings is added to the ledger.
    """
    schema = schema or Schema.of(parts.train)
    check_labels(schema, parts.train)
    owners = owners_of(parts.train, settings.unit)
    check_examples_per_user(parts.train, settings.max_examples_per_user)
    population = len(set(owners))
    plan = settings.plan(population)
    if search is not None and search.ledger is not None:
        _check_chargeable(search.ledger, plan)
    samples = None if settings.samples is None else read_samples(settings.samples, schema)
    _seed_weights(settings.seed)
    built = build(settings, schema, parts.train, owners, plan, folder)
    plan = built.plan
    check_signal(settings, plan, built.model)
    checkpoint = None if folder is None else Run(folder).private(CHECKPOINT)
    begun = resume and checkpoint is not None and rank_checkpoint(checkpoint).exists()
    if samples is not None and not begun:
        warm_start_from(
            samples, built.model, settings.optimisation(),
            virtual_batch=settings.virtual_batch, seed=settings.seed, on_step=on_step,
        )  # fmt: skip
    on_count = vectors_progress(on_step, len(parts.train))
    encodings = Encodings(built.model, parts.train, on_count=on_count)
    fitted = fit(
        built.model,
        encodings,
        plan,
        settings.optimisation(),
        owners=owners,
        ledger=None if folder is None else folder / LEDGER,
        checkpoint=checkpoint,
        resume=resume,
        seed=settings.seed,
        assumptions=_assumptions(schema, built, samples),
        uncovered=[
            *_uncovered(settings, schema, built, publish_metrics=publish_metrics),
            *(() if search is None else search.uncovered),
        ],
        on_step=on_step,
        should_stop=should_stop,
    )
    if search is not None and search.ledger is not None and not fitted.stopped:
        fitted = _with_search(fitted, search.ledger, plan, folder)
    run = _run(settings, parts, plan, fitted)
    if samples is not None:
        run["samples"] = samples.to_json()
    # A stopped run is evaluated when it is finished, and only by the first worker.
    measured = () if fitted.stopped or Worker.this().rank > 0 else ("valid", "test")
    for part in measured:
        if utterances := getattr(parts, part):
            run["metrics"][part] = evaluate(built.model, utterances)
    return Trained(model=built.model, run=run, fitted=fitted)


def check_labels(schema: Schema, utterances: Sequence[Utterance]) -> None:
    """Refuse utterances with labels that the schema does not allow: the model cannot learn them.

    >>> call = Utterance(tokens=("call", "mum"), slots=("O", "B-who"), intent="call")
    >>> bare = Schema(intents=("call",), slot_types=("who",), slots_of={"call": frozenset()},
    ...               declared=True)
    >>> check_labels(bare, [call])
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Utterance 1: Expected slots that the labels allow with 'call',
    got 'who'.
    """
    fits = schema.fits()
    for number, utterance in enumerate(utterances, 1):
        if fits(utterance):
            continue
        try:
            schema.intent_number(utterance.intent)
            schema.tag_numbers(utterance.slots)
        except InvalidInput as problem:
            raise InvalidInput(f"Utterance {number}: {problem}") from problem
        allowed = (schema.slots_of or {}).get(utterance.intent, frozenset())
        wrong = next(s[2:] for s in utterance.slots if s != OUTSIDE and s[2:] not in allowed)
        raise InvalidInput(
            f"Utterance {number}: Expected slots that the labels allow with "
            f"{utterance.intent!r}, got {wrong!r}."
        )


def owners_of(utterances: Sequence[Utterance], unit: Unit) -> list[str]:
    """The protected unit of each utterance: the utterance itself, or its user.

    >>> owners_of([Utterance(tokens=("stop",), slots=("O",), user="ann")], Unit.USER)
    ['ann']
    """
    if _validate.choice("unit", unit, Unit) is not Unit.USER:
        return [str(number) for number in range(len(utterances))]
    for number, utterance in enumerate(utterances, 1):
        if not utterance.user:
            raise InvalidInput(
                "Expected a user in every training record to protect users, got none in utterance "
                f"{number:,}: add users, or protect examples (--unit example)."
            )
    users = [utterance.user for utterance in utterances]
    _check_persons(users)
    return users


def check_examples_per_user(utterances: Sequence[Utterance], most: int | None) -> None:
    """Refuse data in which a user has more examples than the user guarantee allows.

    Records without a user are not checked; the guarantee states this assumption.
    """
    examples = Counter(utterance.user for utterance in utterances if utterance.user)
    if most is not None and any(count > most for count in examples.values()):
        raise InvalidInput(
            f"Expected at most {most} examples of every user (--max-examples-per-user), got "
            f"{max(examples.values())} of one user: leave some out, raise the number, or protect "
            "users (--unit user)."
        )


def _check_persons(users: Sequence[str]) -> None:
    """Refuse roles: protecting "agent" as one user would not protect any caller."""
    distinct = sorted(set(users))
    if role := next((user for user in distinct if is_role(user)), None):
        raise InvalidInput(
            f"Expected persons in the field user to protect users, got {role!r}, which is a role "
            "or a placeholder: identify the persons in user, or protect examples (--unit example)."
        )
    if len(distinct) < FEW_USERS and len(users) > FEW_USERS * len(distinct):
        raise InvalidInput(
            f"Expected at least {FEW_USERS} users to protect users, got {len(distinct)} in "
            f"{len(users):,} records: a role, a channel or a speaker number is not a person; "
            "identify the persons in user, or protect examples (--unit example)."
        )


def evaluate(model: JointModel, utterances: Sequence[Utterance]) -> dict[str, Any]:
    """The four scores of a model on labelled utterances, with bootstrap intervals."""
    predicted = model.predict([utterance.tokens for utterance in utterances])
    found = [
        Utterance(tokens=utterance.tokens, slots=tuple(p.slots), intent=p.intent)
        for utterance, p in zip(utterances, predicted, strict=True)
    ]
    counts = count(utterances, found)
    limits = intervals(counts)
    return {
        name: {"value": value, "low": limits[name].low, "high": limits[name].high}
        for name, value in counts.scores().to_json().items()
    }


def _check_chargeable(spent: Ledger, plan: Plan) -> None:
    """Refuse, before the first step, a search whose cost cannot be added to the ledger."""
    private = plan.method is not Method.SGD
    relation = plan.neighbours if private else Relation.ADD_OR_REMOVE
    if (spent.unit, spent.relation) != (plan.unit, relation):
        raise InvalidInput(
            f"Expected to protect one {spent.unit} under {spent.relation}, as the search for these "
            f"settings did, got one {plan.unit} under {relation}: the costs cannot be added, so "
            "tune again."
        )


def _with_search(fitted: Fitted, spent: Ledger, plan: Plan, folder: Path | None) -> Fitted:
    """Add the search for the settings to the ledger of the training.

    It is added last, because a resumed training counts the steps in its ledger.
    """
    path = None if folder is None or not Worker.this().alone else folder / LEDGER
    if path is None:
        ledger = Ledger.from_json(fitted.ledger.to_json())
        ledger.union(spent)
    else:
        with Ledger.open(path, unit=spent.unit, relation=spent.relation) as opened:
            opened.union(spent)
        ledger = Ledger.read(path)
    guarantee = ledger.guarantee(plan.delta, population=plan.population)
    history = [*fitted.history]
    if history and "epsilon" in history[-1]:
        history[-1] = history[-1] | {"epsilon": number_to_json(guarantee.epsilon)}
    return replace(fitted, ledger=ledger, guarantee=guarantee, history=history)


def _assumptions(schema: Schema, built: Built, samples: SampleSet | None) -> list[str]:
    return [
        *([PUBLIC_LABELS] if schema.declared else []),
        *built.assumptions,
        *([] if samples is None else [samples.assumption]),
    ]


def _uncovered(
    settings: Settings, schema: Schema, built: Built, *, publish_metrics: bool
) -> list[str]:
    return [
        *schema.uncovered,
        *built.model.encoder.uncovered,
        *([SIZE_SEEN.format(unit=settings.unit)] if settings.population is None else []),
        *([MEASURED] if publish_metrics else []),
    ]


def _run(settings: Settings, parts: Parts, plan: Plan, fitted: Fitted) -> dict[str, Any]:
    private = plan.method is not Method.SGD
    most = settings.max_examples_per_user
    to_users = {} if most is None else {"user_guarantee": user_guarantee(most, plan, fitted)}
    return {
        **header("train", versions()),
        "configuration": settings.filled().to_json()
        | {
            "population": plan.population,
            "batch_size": plan.batch_size,
            "steps": plan.steps,
            "delta": plan.delta,
            "noise_multiplier": plan.noise_multiplier if private else None,
        },
        "asked": settings.to_json(),
        "seed": "keyed by the operating system" if settings.seed is None else SEEDED_STAMP,
        "ledger": fitted.ledger.to_json(),
        "guarantee": fitted.guarantee.to_json(),
        **{name: guarantee.to_json() for name, guarantee in to_users.items()},
        "claimed": plan.statement().claimed.to_json() if private else None,
        "metrics": {},
        "history": fitted.history,
        "timings": {
            "seconds": round(fitted.seconds, 2),
            "steps": fitted.steps,
            "examples_per_second": round(fitted.examples / max(fitted.seconds, 1e-9), 1),
        },
        "data": {"name": parts.name, **parts.sizes()},
    }


def user_guarantee(most: int, plan: Plan, fitted: Fitted) -> Guarantee:
    """The guarantee for a user with at most `most` examples."""
    return group_guarantee(
        fitted.ledger.entries,
        group_size=most,
        relation=fitted.ledger.relation,
        delta=plan.delta,
        population=plan.population,  # an upper bound: there are no more users than examples
        assumptions=fitted.guarantee.assumptions,
        not_covered=fitted.guarantee.not_covered,
    )


def versions() -> dict[str, str]:
    """Versions of the packages used."""
    found = {"sottovoce": __version__, "python": platform.python_version()}
    for package in ("torch", "transformers"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _seed_weights(seed: int | None) -> None:
    """Initial weights are not secret, but runs should differ unless a seed is set."""
    if seed is None:
        torch.seed()
    else:
        torch.manual_seed(seed)
