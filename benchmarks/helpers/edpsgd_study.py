"""One cell of the paper's Table 1: train, measure, attack (see edpsgd_tables.py).

The shadow model of the attack is the model of another corpus, trained by the same method: what an
attacker who knows the method would do, and no training more than the table needs anyway.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from helpers.edpsgd_models import Kept, Models, Scale
from sottovoce.audit.attacks.shadow import ShadowAttack, sorted_features
from sottovoce.audit.duplicates import Candidates, candidates, words
from sottovoce.audit.roc import auc, auc_interval
from sottovoce.corpora import Utterance
from sottovoce.corpora.splits import Parts, load_parts
from sottovoce.corpora.synthetic import DOMAINS, generate
from sottovoce.nlu.fit.data import Encodings
from sottovoce.nlu.fit.loop import fit
from sottovoce.nlu.fit.optimisation import Optimisation
from sottovoce.nlu.fit.recipes import ModelKind
from sottovoce.nlu.fit.settings import Settings
from sottovoce.nlu.model import JointModel
from sottovoce.nlu.runs.experiment import evaluate
from sottovoce.nlu.schema import Schema
from sottovoce.privacy.facts import Sampling, ScaleSource
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.recipes import Decay
from sottovoce.training import Method, Plan

PUBLIC = ("snips", "atis", "nlu-eval")
PAPER_DELTA, PAPER_DELTA_BUILT_IN = 5e-4, 5e-5
OURS = "dp-sgd, epsilon 8"
DECAYS = {
    "edp-sgd, no decay": Decay.NONE,
    "edp-sgd, linear": Decay.LINEAR,
    "edp-sgd, exponential": Decay.EXPONENTIAL,
}
METHODS = ("sgd", *DECAYS, OURS)


def corpora(data: Path, scale: Scale) -> dict[str, Parts]:
    """The corpora of the table: public ones where they are at hand, then the built-in domains."""
    found = {}
    for name in PUBLIC:
        if (folder := data / "nlu" / name).is_dir():
            parts = load_parts(folder)
            found[name] = _drawn(name, (*parts.train, *parts.valid, *parts.test), scale)
    for domain in DOMAINS:
        found[domain] = _drawn(domain, tuple(generate(domain, size=scale.generated)), scale)
    return found


def _drawn(name: str, utterances: Sequence[Utterance], scale: Scale) -> Parts:
    """45:5:50 as in the paper, and of that as much as the scale wants; nothing is tuned here."""
    order = np.random.default_rng(1).permutation(len(utterances)).tolist()
    learnt, held_out = round(0.45 * len(order)), round(0.5 * len(order))
    train, test = order[:learnt][: scale.train], order[-held_out:][: scale.test]
    return Parts(
        name=name,
        train=tuple(utterances[i] for i in train),
        test=tuple(utterances[i] for i in test),
    )


def shadow_of(name: str, names: Sequence[str]) -> str:
    """The corpus that teaches the attack on `name`: the first other one.

    >>> shadow_of("snips", ["snips", "atis"]), shadow_of("video", ["snips", "atis", "video"])
    ('atis', 'snips')
    """
    return next(other for other in names if other != name)


@dataclass(frozen=True)
class Cell:
    """A trained model, who may stand trial, and the figures so far."""

    model: JointModel
    tried: Candidates[Utterance]
    figures: dict[str, Any]

    def features(self, records: Sequence[Utterance]) -> Any:
        return sorted_features(*self.model.scores(records))


class Group:
    """All corpora by one model and one method; models are trained when they are first needed."""

    def __init__(
        self, kind: ModelKind, method: str, known: Mapping[str, Parts], models: Models
    ) -> None:
        self.kind, self.method, self.known, self.models = kind, method, known, models
        self._cells: dict[str, Cell] = {}
        self._attacks: dict[str, ShadowAttack] = {}

    def figures(self, name: str) -> dict[str, Any]:
        """SER, AUC of the shadow attack, and both epsilons."""
        cell, shadow = self._cell(name), shadow_of(name, list(self.known))
        attack = self._attack(shadow)
        inside = attack.score(cell.features(cell.tried.members))
        outside = attack.score(cell.features(cell.tried.non_members))
        low, high = auc_interval(inside, outside)
        found = {
            "auc": round(100 * auc(inside, outside), 2),
            "auc_interval": [round(100 * low, 2), round(100 * high, 2)],
        }
        if shadow_of(shadow, list(self.known)) == name:
            self._attack(name)
        del self._cells[name]  # its attack is all that others want of it
        return {**cell.figures, **found, "shadow": shadow, "tried": len(inside)}

    def _attack(self, name: str) -> ShadowAttack:
        if name not in self._attacks:
            cell = self._cell(name)
            tried = cell.tried
            self._attacks[name] = ShadowAttack.fit(
                cell.features(tried.members), cell.features(tried.non_members)
            )
        return self._attacks[name]

    def _cell(self, name: str) -> Cell:
        if name not in self._cells:
            self._cells[name] = _trained(self.kind, self.method, self.known[name], self.models)
        return self._cells[name]


def _trained(kind: ModelKind, method: str, parts: Parts, models: Models) -> Cell:
    # Labels count as public and the models know no ontology, as in the paper.
    schema = Schema.of((*parts.train, *parts.test), declared=True, ontology=False)
    model = models.make(kind, schema)
    if isinstance(model.encoder, Kept):
        model.encoder.remember([u.tokens for u in (*parts.train, *parts.test)])
    plan, optimisation = plan_of(kind, method, parts, models.scale)
    size = len(parts.train)
    fitted = fit(model, Encodings(model, parts.train), plan, optimisation, owners=size)
    scores = evaluate(model, parts.test)
    figures = {
        "ser": round(100 * scores["ser"]["value"], 2),
        "ser_interval": [round(100 * scores["ser"][side], 2) for side in ("low", "high")],
        "train": size, "test": len(parts.test), "steps": plan.steps,
        **epsilons(plan, fitted.guarantee.epsilon),
    }  # fmt: skip
    tried = candidates(parts.train, parts.test, sentence=words, source=NoiseSource.seeded(1))
    return Cell(model, tried, figures)


def plan_of(kind: ModelKind, method: str, parts: Parts, scale: Scale) -> tuple[Plan, Optimisation]:
    """What a method does; the private rows of the paper differ in their decay alone."""
    size = len(parts.train)
    if method == OURS:
        epochs = scale.epochs_of_ours
        settings = Settings(model=kind, method=Method.DP_SGD, epsilon=8.0, epochs=epochs)
        return settings.plan(size), settings.optimisation()
    shared: dict[str, Any] = {
        "population": size,
        "batch_size": min(scale.batch_size, size),
        "epochs": scale.epochs[kind],
        "delta": PAPER_DELTA_BUILT_IN if parts.name in DOMAINS else PAPER_DELTA,
    }
    optimisation = Optimisation(learning_rate=scale.learning_rates[kind])
    if method == "sgd":
        return Plan(method=Method.SGD, sampling=Sampling.SHUFFLE, **shared), optimisation
    decay = DECAYS[method]
    plan = Plan.edpsgd_as_printed(
        **shared, workers=scale.workers, clip_norm=scale.clip_norm,
        noise_multiplier=scale.noise_multipliers[kind], decay=decay, tau=scale.tau(decay),
    )  # fmt: skip
    return plan, optimisation


def epsilons(plan: Plan, accounted: float) -> dict[str, Any]:
    """Claimed and true, as logarithms; `log10_public_scales` were the layer scales no secret."""
    if plan.method is Method.SGD:
        return {}
    found: dict[str, Any] = {"delta": plan.delta, "noise_multiplier": plan.noise_multiplier}
    if plan.method is Method.EDP_SGD:
        found["log10_claimed"] = _log10(plan.statement().claimed.epsilon)
        ones = replace(plan, alpha_source=ScaleSource.ONES)
        found["log10_public_scales"] = _log10(ones.guarantee().epsilon)
    return {**found, "log10_true": _log10(accounted)}


def _log10(epsilon: float) -> float | str:
    return "inf" if math.isinf(epsilon) else round(math.log10(epsilon), 2)
