"""A reference trainer of a few lines: logistic regression on hashed words, in numpy.

It trains by plain SGD, by exact DP-SGD, and by eDP-SGD as printed, and writes the facts of every
step into a ledger. `noise_factor` is the lie that an audit must find: the noise really added is
that much of what the ledger was told.
"""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from sottovoce.audit._checks import Scores
from sottovoce.audit.canaries import GradientCanaries
from sottovoce.corpora import Utterance
from sottovoce.privacy.facts import Contribution, NoisySum, Sampling
from sottovoce.privacy.guarantee import Relation, Unit
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.noise import NoiseSource, gaussian


def hashed(utterances: Sequence[Utterance], buckets: int) -> Scores:
    """Bags of words and of neighbouring pairs, hashed into buckets, of length 1, and a constant."""
    bags = np.zeros((len(utterances), buckets))
    for row, utterance in enumerate(utterances):
        words = utterance.tokens
        for feature in (*words, *map(" ".join, pairwise(words))):
            bags[row, zlib.crc32(feature.encode()) % (buckets - 1)] += 1
    bags /= np.maximum(np.linalg.norm(bags, axis=1, keepdims=True), 1)
    bags[:, -1] = 1
    return bags


@dataclass
class Model:
    """Probabilities of intents, linear in the hashed words."""

    intents: tuple[str, ...]
    buckets: int
    weights: Scores = field(init=False)

    def __post_init__(self) -> None:
        self.weights = np.zeros((self.buckets, len(self.intents)))

    def log_probabilities(self, features: Scores) -> Scores:
        odds = features @ self.weights
        top = odds.max(axis=1, keepdims=True)
        log_p: Scores = odds - top - np.log(np.exp(odds - top).sum(axis=1, keepdims=True))
        return log_p

    def probabilities(self, utterances: Sequence[Utterance]) -> Scores:
        found: Scores = np.exp(self.log_probabilities(hashed(utterances, self.buckets)))
        return found

    def labels(self, utterances: Sequence[Utterance]) -> Scores:
        places = [self.intents.index(utterance.intent) for utterance in utterances]
        return np.eye(len(self.intents))[places]

    def score(self, utterances: Sequence[Utterance]) -> Scores:
        """The log-probability of the true intent: what an audit asks for."""
        log_p = self.log_probabilities(hashed(utterances, self.buckets))
        found: Scores = (log_p * self.labels(utterances)).sum(axis=1)
        return found


def train_sgd(model: Model, utterances: Sequence[Utterance], *, epochs: int, rate: float) -> None:
    """Full-batch gradient descent: enough to learn a small corpus by heart."""
    features, labels = hashed(utterances, model.buckets), model.labels(utterances)
    for _ in range(epochs):
        errors = np.exp(model.log_probabilities(features)) - labels
        model.weights -= rate * features.T @ errors / len(utterances)


@dataclass(frozen=True, kw_only=True)
class PrivateTraining:
    """Exact DP-SGD with Poisson sampling, or with everybody in every step (rate 1)."""

    steps: int
    noise_multiplier: float
    clip_norm: float = 1.0
    sampling_rate: float = 1.0
    learning_rate: float = 1.0
    noise_factor: float = 1.0

    def fact(self) -> NoisySum:
        everyone = self.sampling_rate == 1
        return NoisySum(
            unit=Unit.EXAMPLE,
            clip_norm=self.clip_norm,
            noise_stds=(self.clip_norm * self.noise_multiplier,),
            sampling=Sampling.EVERYONE if everyone else Sampling.POISSON,
            sampling_rate=None if everyone else self.sampling_rate,
            seeded=True,
        )

    def run(
        self,
        model: Model,
        utterances: Sequence[Utterance],
        *,
        source: NoiseSource,
        canaries: GradientCanaries | None = None,
    ) -> tuple[Ledger, Scores]:
        """Train, and return the ledger and the sum of all released sums (they weigh alike)."""
        ledger = Ledger(unit=Unit.EXAMPLE, relation=Relation.ADD_OR_REMOVE)
        features, labels = hashed(utterances, model.buckets), model.labels(utterances)
        configured = self.configured(len(utterances))
        released = np.zeros(model.weights.size)
        std = self.noise_factor * self.fact().noise_stds[0]
        for _ in range(self.steps):
            ledger.spend(self.fact())
            chosen = source.uniform(len(utterances)) < self.sampling_rate
            errors = np.exp(model.log_probabilities(features[chosen])) - labels[chosen]
            total = self.clipped(features[chosen], errors, source).ravel()
            if canaries is not None:
                count = len(canaries.included)
                total += canaries.contribution(source.uniform(count) < self.sampling_rate)
            total += gaussian(total.size, std, source)
            released += total
            model.weights -= self.learning_rate * total.reshape(model.weights.shape) / configured
        return ledger, released

    def clipped(self, features: Scores, errors: Scores, source: NoiseSource) -> Scores:
        """The sum of clipped gradients: each is an outer product, its norm a product of norms."""
        norms = np.linalg.norm(features, axis=1) * np.linalg.norm(errors, axis=1)
        scale = np.minimum(1, self.clip_norm / np.maximum(norms, 1e-12))
        total: Scores = features.T @ (errors * scale[:, None])
        return total

    def configured(self, size: int) -> float:
        return self.sampling_rate * size


@dataclass(frozen=True, kw_only=True)
class PublishedTraining(PrivateTraining):
    """eDP-SGD as printed: one clipped mean a worker, and y / N of noise from each worker."""

    workers: int = 8

    def fact(self) -> NoisySum:
        std = self.clip_norm * self.noise_multiplier / math.sqrt(self.workers)
        return replace(
            super().fact(),
            noise_stds=(std,),
            contribution=Contribution.MIXED,
            workers=self.workers,
        )

    def clipped(self, features: Scores, errors: Scores, source: NoiseSource) -> Scores:
        worker = source.integers(self.workers, len(features))
        total = np.zeros((features.shape[1], errors.shape[1]))
        for each in range(self.workers):
            mine = worker == each
            if mine.any():
                mean = features[mine].T @ errors[mine] / mine.sum()
                total += mean * min(1, self.clip_norm / max(float(np.linalg.norm(mean)), 1e-12))
        return total

    def configured(self, size: int) -> float:
        return float(self.workers)


@dataclass(frozen=True, kw_only=True)
class PublishedStep:
    """One step of eDP-SGD: every worker clips its mean gradient and adds its own noise.

    As printed each of N workers adds y / N with y of standard deviation C z; the exact split adds
    noise of variance (C z)^2 / N. Gradients have one dimension here, and many steps are taken at
    once, one in each row.
    """

    workers: int = 8
    noise_multiplier: float = 1.0
    clip_norm: float = 1.0
    exact_split: bool = False

    def worker_std(self) -> float:
        share = np.sqrt(self.workers) if self.exact_split else self.workers
        return float(self.clip_norm * self.noise_multiplier / share)

    def fact(self) -> NoisySum:
        return NoisySum(
            unit=Unit.EXAMPLE,
            clip_norm=self.clip_norm,
            noise_stds=(self.worker_std() * np.sqrt(self.workers),),
            contribution=Contribution.MIXED,
            sampling=Sampling.EVERYONE,
            workers=self.workers,
            seeded=True,
        )

    def released(
        self, batches: Sequence[Sequence[float]], runs: int, source: NoiseSource
    ) -> Scores:
        """The noisy sums of `runs` independent steps on the same batches, one a worker."""
        means = np.array([np.mean(batch) if batch else 0.0 for batch in batches])
        clipped = np.clip(means, -self.clip_norm, self.clip_norm)
        noise = gaussian((runs, self.workers), self.worker_std(), source)
        sums: Scores = (clipped + noise).sum(axis=1)
        return sums
