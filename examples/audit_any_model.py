"""Audit any model that returns probabilities.

    python examples/audit_any_model.py

The model is a logistic regression in ten lines of numpy, without noise and without a guarantee. For
the audit it is a function that scores utterances (log probability of the true intent). Attacks with
reference models find its members; canaries give a lower bound on epsilon.
"""

from collections.abc import Sequence

import numpy as np

from sottovoce.audit import audit_model, candidates, text_canaries, words
from sottovoce.corpora import Utterance
from sottovoce.corpora.synthetic import generate
from sottovoce.privacy.noise import NoiseSource

source = (
    NoiseSource()
)  # decides which canaries are included; uses the operating system's randomness
said = list(generate("health", size=1600, seed=1))
intents = sorted({utterance.intent for utterance in said})
WIDTH = 2048


def features(utterances: Sequence[Utterance]) -> np.ndarray:
    rows = np.zeros((len(utterances), WIDTH))
    for row, utterance in enumerate(utterances):
        for word in utterance.tokens:
            rows[row, int.from_bytes(word.encode(), "big") % 1000003 % WIDTH] = 1.0
    return rows


def targets(utterances: Sequence[Utterance]) -> np.ndarray:
    return np.array([intents.index(utterance.intent) for utterance in utterances])


class NotOurs:
    """Multinomial logistic regression by gradient descent, trained until it memorises its data."""

    def __init__(self, utterances: Sequence[Utterance], _index: int = 0) -> None:
        x, y = features(utterances), np.eye(len(intents))[targets(utterances)]
        self.weights = np.zeros((WIDTH, len(intents)))
        for _ in range(150):
            self.weights += 3.0 / len(x) * x.T @ (y - np.exp(self.logs(x)))

    def logs(self, x: np.ndarray) -> np.ndarray:
        scores = x @ self.weights
        return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)

    def __call__(self, utterances: Sequence[Utterance]) -> np.ndarray:
        logs = self.logs(features(utterances))
        return logs[np.arange(len(logs)), targets(utterances)]


# Each canary is a random sentence, added to the training data with probability 1/2.
vocabulary = sorted({word for utterance in said for word in utterance.tokens})
canaries = text_canaries(200, vocabulary=vocabulary, intents=intents, source=source)
tried = candidates(said[:800], said[800:], sentence=words, source=source)
model = NotOurs([*tried.members, *canaries.chosen()])
found = audit_model(
    model, tried, train=NotOurs, models=2, canaries=canaries, delta=1e-5, source=source
)
print(f"{len(tried.members)} members, {len(tried.non_members)} non-members")
for outcome in found.attacks:
    print(outcome)
print(found.lower_bound)
print("\n".join(found.notes))
