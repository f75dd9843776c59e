"""From noisy counts back to a distribution, without bias in the total mass.

Noise makes counts negative. Clipping them at zero would add about V b / 2 of mass (Laplace scale b,
V words with count zero), so noisy counts are projected onto the simplex, shrunk towards the
background or thresholded instead. All of this is post-processing and costs no privacy. The total is
taken from the noisy counts; an exact sum would be another release.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.vocabulary import Vector


def project(counts: ArrayLike) -> Vector:
    """L2 projection of the normalised counts onto the simplex (Duchi et al. 2008).

    >>> project([3.0, 1.0, -1.0]).tolist()
    [0.833..., 0.166..., 0.0]
    """
    vector = _finite(counts)
    total = vector.sum()
    if total <= 0:
        # All noise, no signal.
        return np.full(vector.size, 1 / vector.size)
    falling = np.sort(vector)[::-1]
    excess = np.cumsum(falling) - total
    support = np.flatnonzero(falling * np.arange(1, vector.size + 1) > excess)[-1]
    kept: Vector = np.maximum(vector - excess[support] / (support + 1), 0) / total
    return kept


def shrink(counts: ArrayLike, background: Vector, noise_std: float) -> Vector:
    """Shrink noisy counts towards total * u, as far as noise explains their distance to it.

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
    """Keep only counts that noise alone would rarely reach; the others follow u.

    The threshold is b ln V with b = s / sqrt(2), about the largest of V Laplace variables of scale
    b and standard deviation s. The largest of V normal ones is lower. A kept word keeps its count;
    all others share their total by u.

    >>> u = np.array([0.4, 0.4, 0.1, 0.1])
    >>> threshold([100.0, 1.0, -3.0, 2.0], u, 10.0).round(3).tolist()
    [0.99, 0.007, 0.002, 0.002]
    """
    vector = _same_size(counts, background)
    above = vector > _noise_quantile(noise_std, 0.5 / vector.size)
    if not above.any():
        return background.copy()
    # Noise averages out in the sum, so the total is more accurate than any single count.
    total = max(float(vector[~above].sum()), 1.0)
    shares = np.where(above, 0.0, background)
    rest = shares / shares.sum() * total if shares.sum() > 0 else shares
    mixed = np.where(above, vector, rest)
    return np.asarray(mixed / mixed.sum(), dtype=np.float64)


def keep(counts: ArrayLike, unknown: int, noise_std: float, rate: float = 0.0005) -> Vector:
    """Keep counts above the (1 - rate) quantile of the noise.

    The total of the other cells goes to the place `unknown`. This is for many cells of which few
    matter, such as word pairs.

    >>> keep([100.0, 1.0, -3.0, 2.0, 0.0], 4, 1.0).round(3).tolist()
    [1.0, 0.0, 0.0, 0.0, 0.0]
    """
    vector = _finite(counts)
    above = vector > _noise_quantile(noise_std, rate)
    above[unknown] = False
    kept: Vector = np.where(above, vector, 0.0)
    # Noise averages out in the sum; if no cell is kept, everything is unknown.
    kept[unknown] = max(float(vector[~above].sum()), 0.0 if above.any() else 1.0)
    share: Vector = kept / kept.sum()
    return share


def _noise_quantile(noise_std: float, rate: float) -> float:
    """The (1 - rate) quantile of Laplace noise with this standard deviation."""
    _validate.not_negative("noise_std", noise_std)
    _validate.between("rate", rate, 0, 0.5)
    return -noise_std / math.sqrt(2) * math.log(2 * rate)


def _finite(counts: ArrayLike) -> Vector:
    vector = np.asarray(counts, dtype=np.float64)
    if vector.ndim != 1 or not vector.size or not np.isfinite(vector).all():
        raise InvalidInput("Expected a vector of finite counts, got other values.")
    return vector


def _same_size(counts: ArrayLike, background: Vector) -> Vector:
    vector = _finite(counts)
    if vector.shape != background.shape:
        raise InvalidInput(f"Expected {background.size} counts, got {vector.size}.")
    return vector
