"""From noisy counts back to a distribution, without inventing mass.

Noise makes counts negative. Cutting them off at zero would add about V b / 2 of mass from nothing
(Laplace scale b, V words never said), so noisy counts are projected onto the simplex, shrunk
towards the background or thresholded instead. All of it is post-processing: it costs no privacy.
The total is taken from the noisy counts themselves; an exact sum would be another release.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.vocabulary import Vector


def project(counts: ArrayLike) -> Vector:
    """The distribution nearest (L2) to the counts over their sum (Duchi et al. 2008).

    >>> project([3.0, 1.0, -1.0]).tolist()
    [0.833..., 0.166..., 0.0]
    """
    vector = _finite(counts)
    total = vector.sum()
    if total <= 0:
        # Noise has drowned the counts: nothing is known.
        return np.full(vector.size, 1 / vector.size)
    falling = np.sort(vector)[::-1]
    excess = np.cumsum(falling) - total
    support = np.flatnonzero(falling * np.arange(1, vector.size + 1) > excess)[-1]
    kept: Vector = np.maximum(vector - excess[support] / (support + 1), 0) / total
    return kept


def shrink(counts: ArrayLike, background: Vector, noise_std: float) -> Vector:
    """Pull noisy counts towards total * u, as far as the noise explains their distance to it.

    James and Stein: the weight of the counts is 1 - V s^2 / ||n - c u||^2, at least 0.

    >>> u = np.array([0.5, 0.3, 0.2])
    >>> shrink([1.0, 5.0, 2.0], u, 0.0).tolist() == [0.125, 0.625, 0.25]
    True
    >>> shrink([1.0, 5.0, 2.0], u, 100.0).tolist() == u.tolist()
    True
    """
    _validate.not_negative("noise_std", noise_std)
    vector = _same_size(counts, background)
    total = vector.sum()
    if total <= 0:
        return background.copy()
    distance = vector - total * background
    energy = float(distance @ distance)
    weight = max(0.0, 1 - vector.size * noise_std**2 / energy) if energy > 0 else 0.0
    return project(total * background + weight * distance)


def threshold(counts: ArrayLike, background: Vector, noise_std: float) -> Vector:
    """Believe only counts that noise alone would hardly reach; the rest is told by u.

    The bar is b ln V with b = s / sqrt(2): of V Laplace variables of scale b, and so of standard
    deviation s, the largest is about there. The largest of V normal ones is lower.
    A believed word keeps its count, all others share what they have by u.

    >>> u = np.array([0.4, 0.4, 0.1, 0.1])
    >>> threshold([100.0, 1.0, -3.0, 2.0], u, 10.0).round(3).tolist()
    [0.99, 0.007, 0.002, 0.002]
    """
    vector = _same_size(counts, background)
    believed = vector > _bar(noise_std, 0.5 / vector.size)
    if not believed.any():
        return background.copy()
    # Noise cancels in the sum of many words, so their total is known better than any of them.
    total = max(float(vector[~believed].sum()), 1.0)
    told = np.where(believed, 0.0, background)
    rest = told / told.sum() * total if told.sum() > 0 else told
    mixed = np.where(believed, vector, rest)
    return np.asarray(mixed / mixed.sum(), dtype=np.float64)


def keep(counts: ArrayLike, unknown: int, noise_std: float, mistakes: float = 0.0005) -> Vector:
    """Believe counts over a bar that so large a share of cells without any count pass by mistake.

    Nothing is known of the others: what they have together goes to the place `unknown`. This is for
    many cells of which few matter, such as pairs of words.

    >>> keep([100.0, 1.0, -3.0, 2.0, 0.0], 4, 1.0).round(3).tolist()
    [1.0, 0.0, 0.0, 0.0, 0.0]
    """
    vector = _finite(counts)
    believed = vector > _bar(noise_std, mistakes)
    believed[unknown] = False
    kept: Vector = np.where(believed, vector, 0.0)
    # Noise cancels in the sum of many cells; without a believed one, all is unknown.
    kept[unknown] = max(float(vector[~believed].sum()), 0.0 if believed.any() else 1.0)
    share: Vector = kept / kept.sum()
    return share


def _bar(noise_std: float, share: float) -> float:
    """What such a share of Laplace variables of this standard deviation exceed."""
    _validate.not_negative("noise_std", noise_std)
    _validate.between("share", share, 0, 0.5)
    return -noise_std / math.sqrt(2) * math.log(2 * share)


def _finite(counts: ArrayLike) -> Vector:
    vector = np.asarray(counts, dtype=np.float64)
    if vector.ndim != 1 or not vector.size or not np.isfinite(vector).all():
        raise InvalidInput("Expected a vector of finite counts.")
    return vector


def _same_size(counts: ArrayLike, background: Vector) -> Vector:
    vector = _finite(counts)
    if vector.shape != background.shape:
        raise InvalidInput(f"Expected {background.size} counts, got {vector.size}.")
    return vector
