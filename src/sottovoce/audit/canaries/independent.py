"""A tight bound where canaries do not touch each other: every canary is a trial of its own.

Dirac canaries own one coordinate each, and Gaussian noise on a sum is independent from coordinate
to coordinate. Then m canaries in one run are as good as m runs with one canary, and the counts
above a threshold go into the Clopper-Pearson bounds: with 20,000 canaries the bound comes within
a few percent of the truth. The one-run bounds (`one_run`) need no independence and prove less.
"""

import math

from numpy.typing import ArrayLike

from sottovoce import _validate
from sottovoce.audit import _checks
from sottovoce.audit._checks import Flags
from sottovoce.audit.bounds import LowerBound, clopper_pearson_bound, gaussian_bound
from sottovoce.audit.canaries.one_run import Family
from sottovoce.errors import InvalidInput


def independent_canaries_audit(
    scores: ArrayLike,
    included: Flags,
    *,
    threshold: float,
    delta: float,
    confidence: float = 0.95,
    family: Family = Family.ANY,
) -> LowerBound:
    """The epsilon that independent canaries prove; a score above `threshold` is called "in".

    Fix the threshold beforehand, without the coins: half way between what a canary scores if it
    is in and if it is out. Canaries may have unlike error rates: their means obey the same
    inequality, and a mean of unlike independent trials varies less than Clopper-Pearson allows.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> included = rng.random(20_000) < 0.5
    >>> bound = independent_canaries_audit(included + rng.normal(size=20_000), included,
    ...                                    threshold=0.5, delta=1e-5, family=Family.GAUSSIAN)
    >>> round(bound.mu, 2)                                    # the truth is 1
    0.94
    """
    found = _checks.scores("the canaries' scores", scores)
    coins = _checks.flags("included", included, found.shape)
    if math.isnan(threshold):
        raise InvalidInput("Expected a threshold, got NaN.")
    called = found > threshold
    family = _validate.choice("family", family, Family)
    make = clopper_pearson_bound if family is Family.ANY else gaussian_bound
    return make(
        true_positives=int((called & coins).sum()),
        members=int(coins.sum()),
        false_positives=int((called & ~coins).sum()),
        non_members=int((~coins).sum()),
        delta=delta,
        confidence=confidence,
    )
