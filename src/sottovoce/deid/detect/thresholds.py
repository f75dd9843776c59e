"""Thresholds type by type: how probable a private value has to be for a word to be marked."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sottovoce import _validate

Thresholds = Mapping[str, float]


def checked(thresholds: Thresholds, types: Sequence[str]) -> dict[str, float]:
    """Those of the types that a model finds; each a probability."""
    return {
        kind: _validate.probability(f"threshold of {kind}", value)
        for kind, value in thresholds.items()
        if kind in types
    }


def decided(
    labels: NDArray[np.intp],
    shares: NDArray[np.floating],
    names: Sequence[str],
    caution: float,
    thresholds: Thresholds,
) -> NDArray[np.intp]:
    """Labels by caution and thresholds. The most probable private label decides on the type.

    A word that is labelled as public is private where its probability of being public is below the
    caution. For a type with a threshold nothing counts but that: the probability of being private.

    >>> names, shares = ["O", "B-PER", "B-ORG"], np.array([[0.6, 0.3, 0.1], [0.4, 0.1, 0.5]])
    >>> labels = np.array([0, 2])
    >>> decided(labels, shares, names, 0.5, {}).tolist()
    [0, 2]
    >>> decided(labels, shares, names, 0.5, {"PER": 0.4, "ORG": 0.7}).tolist()
    [1, 0]
    """
    outside = names.index("O") if "O" in names else -1
    if outside < 0:
        return labels
    public = shares[:, outside]
    inside = shares.copy()
    inside[:, outside] = -1.0
    told = np.where(labels == outside, inside.argmax(axis=1), labels)
    private = (labels != outside) | (public < caution)
    if thresholds:
        least = np.array([thresholds.get(name[2:], np.nan) for name in names])[told]
        private = np.where(np.isnan(least), private, 1 - public >= least)
    found: NDArray[np.intp] = np.where(private, told, outside)
    return found
