"""Privacy loss distributions: the tightest accountant for sampled and heterogeneous mechanisms.

Google's dp-accounting builds and composes the distributions, pessimistically (connect-the-dots).
This module chooses the grid. The discretisation error of n composed releases grows like n h^2,
memory like epsilon / h, so a fixed h is either slow or inaccurate. We choose h such that the error
is a small fraction of epsilon, and compose small distributions first.
"""

import heapq
import itertools
import math
from collections.abc import Iterable, Sequence

from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as distribution
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from sottovoce import _validate
from sottovoce.errors import CannotAccount
from sottovoce.privacy.accountants import gaussian, mixture, tokens
from sottovoce.privacy.accountants.losses import (
    ApproximateLoss,
    GaussianLoss,
    GroupLoss,
    LaplaceLoss,
    Loss,
    PoissonGaussianLoss,
    PureLoss,
    TokenLoss,
)
from sottovoce.privacy.guarantee import Relation

# Measured: composing n releases on a grid of width h adds at most about 0.7 n h^2 to epsilon.
_ERROR_PER_RELEASE = 0.7
# The relative error of epsilon that the grid may cause.
_TOLERANCE = 1e-4
# More points would take minutes and gigabytes; fewer still give an upper bound.
_MOST_POINTS = 300_000
# e^h must not overflow, so above LARGEST_EPSILON only the quick upper estimate is used.
_WIDEST = 500.0
LARGEST_EPSILON = _WIDEST * _MOST_POINTS
# Composing n distributions by FFT misplaces about n * 1e-16 of the probability; this is ten times
# as much per release.
_ROUNDING_ERROR = 1e-15
# For a delta below this multiple of the rounding error, other accountants are used.
_SAFETY_FACTOR = 10
# Maximum points per release where epsilon is far below its losses.
_MOST_POINTS_PER_RELEASE = 1_000_000
# Maximum of points times mixture components for a group: the time is proportional to it.
_MOST_TERMS = 2_000_000
# For the first pass, while only the order of magnitude of epsilon is known.
_COARSE_POINTS = 2_000


def epsilon_of(
    losses: Iterable[tuple[Loss, int]], delta: float, relation: Relation = Relation.ADD_OR_REMOVE
) -> float:
    """The epsilon of the composed losses: an upper bound with a relative error of about 1e-4.

    >>> round(epsilon_of([(PoissonGaussianLoss(0.007, 1.0), 1400)], 5e-4), 3)
    1.011
    """
    relation = _validate.choice("relation", relation, Relation)
    losses = [(loss, count) for loss, count in losses if count]
    releases = sum(count for _, count in losses)
    bound = epsilon = _upper_estimate(losses, delta, relation)
    if bound > LARGEST_EPSILON or not is_precise(losses, delta):
        return bound
    # Subtract the rounding error from delta.
    certain_delta = delta - releases * _ROUNDING_ERROR
    coarsest = max((_finest_width(loss, n, relation) for loss, n in losses), default=0.0)
    width = math.inf
    # Each pass determines the grid of the next. Return the last result, not the smallest: that
    # would select for favourable rounding.
    while 0 < epsilon < math.inf and width > max(coarsest, 2 * grid_width(epsilon, releases)):
        finest = epsilon / (_COARSE_POINTS if math.isinf(width) else _MOST_POINTS)
        width = min(max(grid_width(epsilon, releases), finest, coarsest), _WIDEST)
        try:
            answer = _compose(losses, width, relation).get_epsilon_for_delta(certain_delta)
        except OverflowError:  # losses below -700: almost no noise
            return bound
        epsilon = min(bound, answer)
    return float(epsilon)


def deltas_of(
    losses: Iterable[tuple[Loss, int]], epsilons: Sequence[float], relation: Relation
) -> list[float]:
    """The delta of the composed losses at each epsilon: the whole curve, as upper bounds.

    >>> [round(d, 4) for d in deltas_of([(GaussianLoss(1.0), 1)], [0.0, 1.0], Relation.REPLACE_ONE)]
    [0.3829, 0.1269]
    """
    relation = _validate.choice("relation", relation, Relation)
    losses = [(loss, count) for loss, count in losses if count]
    releases = sum(count for _, count in losses)
    if not losses:
        return [0.0] * len(epsilons)
    if all(isinstance(loss, GaussianLoss) for loss, _ in losses):
        mu = gaussian.compose(
            loss.mu * math.sqrt(n) for loss, n in losses if isinstance(loss, GaussianLoss)
        )
        return [gaussian.delta_of(mu, epsilon) for epsilon in epsilons]
    middle = epsilon_of(losses, 1e-3, relation)
    if not 0 < middle < LARGEST_EPSILON:
        return [1.0] * len(epsilons)
    coarsest = max(_finest_width(loss, n, relation) for loss, n in losses)
    width = max(grid_width(middle, releases), middle / _MOST_POINTS, coarsest)
    composed = _compose(losses, min(width, _WIDEST), relation)
    return [
        min(1.0, float(composed.get_delta_for_epsilon(epsilon)) + releases * _ROUNDING_ERROR)
        for epsilon in epsilons
    ]


def is_precise(losses: Iterable[tuple[Loss, int]], delta: float) -> bool:
    """Whether delta is well above the rounding errors of composition."""
    return delta >= _SAFETY_FACTOR * _ROUNDING_ERROR * sum(count for _, count in losses)


def grid_width(epsilon: float, releases: int) -> float:
    """The grid width at which the error stays below the tolerance."""
    wanted = math.sqrt(_TOLERANCE * epsilon / (_ERROR_PER_RELEASE * releases))
    return max(min(wanted, epsilon / 200), epsilon / _MOST_POINTS)


def _finest_width(loss: Loss, count: int, relation: Relation) -> float:
    """The finest grid on which this loss can be discretised in about a second.

    It matters where epsilon is close to 0 and far below the losses.
    """
    match loss:
        case GroupLoss():
            return mixture.range_of(loss) * mixture.components(loss) / _MOST_TERMS
        case GaussianLoss(mu=mu):
            shift = mu * math.sqrt(count)
        case PoissonGaussianLoss(noise_multiplier=noise):
            shift = (2 if relation is Relation.REPLACE_ONE else 1) / noise
        case _:
            return 0.0
    return (shift**2 / 2 + 20 * shift) / _MOST_POINTS_PER_RELEASE


def _upper_estimate(losses: list[tuple[Loss, int]], delta: float, relation: Relation) -> float:
    """A quick upper bound: the pure sum, plus Gaussian noise without amplification."""
    pure = sum(
        loss.epsilon * count
        for loss, count in losses
        if isinstance(loss, PureLoss | LaplaceLoss | ApproximateLoss)
    )
    shift = 2 if relation is Relation.REPLACE_ONE else 1
    mus = [loss.mu * math.sqrt(n) for loss, n in losses if isinstance(loss, GaussianLoss)]
    for loss, n in losses:
        if isinstance(loss, PoissonGaussianLoss | GroupLoss):
            size = loss.size if isinstance(loss, GroupLoss) else 1
            mus.append(shift * size / loss.noise_multiplier * math.sqrt(n))
    token = tokens.pure_epsilon((loss, n) for loss, n in losses if isinstance(loss, TokenLoss))
    return pure + token + gaussian.epsilon_of(gaussian.compose(mus), delta)


def _compose(
    losses: list[tuple[Loss, int]], width: float, relation: Relation
) -> PrivacyLossDistribution:
    order = itertools.count()  # breaks ties: distributions are not comparable
    heap = [
        (_size(composed), next(order), composed)
        for loss, count in losses
        for composed in [_distribution(loss, count, width, relation)]
    ]
    heapq.heapify(heap)
    while len(heap) > 1:
        _, _, first = heapq.heappop(heap)
        _, _, second = heapq.heappop(heap)
        together = first.compose(second)
        heapq.heappush(heap, (_size(together), next(order), together))
    return heap[0][2]


def _size(composed: PrivacyLossDistribution) -> int:
    return int(composed._pmf_remove.size)


def _distribution(
    loss: Loss, count: int, width: float, relation: Relation
) -> PrivacyLossDistribution:
    match loss:
        case GaussianLoss(mu=mu):
            return distribution.from_gaussian_mechanism(
                1 / (mu * math.sqrt(count)), value_discretization_interval=width
            )
        case PoissonGaussianLoss(rate=rate, noise_multiplier=noise):
            if relation is Relation.ADD_OR_REMOVE:
                single = gaussian.loss_distribution(rate, noise, width)
            else:
                single = distribution.from_gaussian_mechanism(
                    noise,
                    sampling_prob=rate,
                    value_discretization_interval=width,
                    neighboring_relation=NeighboringRelation.REPLACE_ONE,
                )
        case GroupLoss():
            if relation is Relation.ADD_OR_REMOVE:
                single = mixture.loss_distribution(loss, width)
            else:
                single = mixture.replacing_distribution(loss, width)
        case LaplaceLoss(epsilon=epsilon):
            single = distribution.from_laplace_mechanism(
                1 / epsilon, value_discretization_interval=width
            )
        case PureLoss(epsilon=epsilon):
            single = distribution.from_privacy_parameters(
                DifferentialPrivacyParameters(epsilon, 0), value_discretization_interval=width
            )
        case ApproximateLoss(epsilon=epsilon, delta=delta):
            single = distribution.from_privacy_parameters(
                DifferentialPrivacyParameters(epsilon, delta), value_discretization_interval=width
            )
        case TokenLoss(replace_probability=p, smallest_probability=pi):
            single = distribution.from_two_probability_mass_functions(
                _log_masses({"own": 1 - p + p * pi, "other": p * pi, "rest": p * (1 - 2 * pi)}),
                _log_masses({"own": p * pi, "other": 1 - p + p * pi, "rest": p * (1 - 2 * pi)}),
                value_discretization_interval=width,
            )
        case _:
            raise CannotAccount(f"Expected a loss with a privacy loss distribution, got {loss}.")
    return single.self_compose(count) if count > 1 else single


def _log_masses(masses: dict[str, float]) -> dict[str, float]:
    return {output: math.log(mass) for output, mass in masses.items() if mass > 0}
