"""Exact composition of token replacements.

One token through the kernel of `TokenLoss` has the loss +L with probability 1-p+p pi, -L with
probability p pi and 0 otherwise (at the least likely inputs, which is the worst case). The losses
of the private tokens of one unit add up, so their distribution is a convolution of three-point
distributions; then delta(epsilon) = E[(1 - e^(epsilon - loss))_+].
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.accountants.losses import TokenLoss

# With more atoms, losses are rounded up to a grid: pessimistic, with an error of about 1e-5.
_MOST_ATOMS = 200_000


# Convolving more tokens would take seconds.
_MOST_TOKENS = 5_000


def are_few(tokens: Iterable[tuple[TokenLoss, int]]) -> bool:
    """Whether `epsilon_of` takes about a second; if not, use another accountant."""
    atoms = 1
    for loss, count in tokens:
        if count > _MOST_TOKENS or atoms * (2 * count + 1) > 10 * _MOST_ATOMS:
            return False
        atoms = min(atoms * (2 * count + 1), _MOST_ATOMS) if loss.log_ratio else atoms
    return True


def pure_epsilon(tokens: Iterable[tuple[TokenLoss, int]]) -> float:
    """The sum of the epsilons of single tokens, which holds at delta = 0."""
    return sum(loss.log_ratio * count for loss, count in tokens if loss.log_ratio and count)


def epsilon_of(tokens: Iterable[tuple[TokenLoss, int]], delta: float) -> float:
    """The smallest epsilon at which replacing all these tokens of one unit satisfies delta.

    >>> round(epsilon_of([(TokenLoss(0.99, 0.01), 10)], 1e-6), 5)
    2.76907
    >>> epsilon_of([(TokenLoss(0.9, 0.0), 1)], 0.2)    # kept with probability 0.1 < delta
    0.0
    """
    tokens = list(tokens)
    if delta == 0:
        return pure_epsilon(tokens)
    losses, masses = np.zeros(1), np.ones(1)
    for loss, count in tokens:
        if loss.log_ratio == 0:
            continue
        own_losses, own_masses = _repeated(loss, count)
        losses = np.add.outer(losses, own_losses).ravel()
        masses = np.multiply.outer(masses, own_masses).ravel()
        if len(losses) > _MOST_ATOMS:
            losses, masses = _on_a_grid(losses, masses)
    return _smallest_epsilon(losses, masses, delta)


def _repeated(loss: TokenLoss, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Losses and probabilities of `count` equal tokens, by repeated squaring."""
    replaced = loss.replace_probability * loss.smallest_probability
    if math.isinf(loss.log_ratio):
        all_replaced = loss.replace_probability**count
        return np.array([0.0, math.inf]), np.array([all_replaced, 1 - all_replaced])
    one = np.array([replaced, max(0.0, loss.replace_probability - 2 * replaced), 0.0])
    one[2] = 1 - one[0] - one[1]
    masses, power = np.ones(1), one
    for bit in reversed(f"{count:b}"):
        if bit == "1":
            masses = np.convolve(masses, power)
        power = np.convolve(power, power)
    return loss.log_ratio * np.arange(-count, count + 1, dtype=np.float64), masses


def _on_a_grid(
    losses: NDArray[np.float64], masses: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    finite = np.isfinite(losses)
    low, high = losses[finite].min(), losses[finite].max()
    width = (high - low) / _MOST_ATOMS
    bins = np.ceil((losses[finite] - low) / width).astype(np.int64)
    binned = np.bincount(bins, weights=masses[finite])
    never = masses[~finite].sum()
    return (
        np.append(low + width * np.arange(len(binned)), math.inf),
        np.append(binned, never),
    )


def _smallest_epsilon(
    losses: NDArray[np.float64], masses: NDArray[np.float64], delta: float
) -> float:
    """Solve E[(1 - e^(epsilon - loss))_+] = delta, in closed form between two atoms."""
    endless = float(masses[np.isinf(losses)].sum())
    if endless > delta:
        return math.inf
    relevant = np.isfinite(losses) & (losses > 0)
    order = np.argsort(-losses[relevant])
    losses, masses = losses[relevant][order], masses[relevant][order]
    # delta(epsilon) = above - e^epsilon * weight, with sums over the atoms larger than epsilon.
    above = endless + np.cumsum(masses)
    log_weight = np.logaddexp.accumulate(np.log(np.maximum(masses, 1e-320)) - losses)
    next_loss = np.append(losses[1:], 0.0)
    for atom in range(len(losses)):
        if above[atom] <= delta:
            continue
        epsilon = math.log(above[atom] - delta) - float(log_weight[atom])
        if epsilon >= next_loss[atom]:
            return max(0.0, min(epsilon, float(losses[atom])))
    return 0.0
