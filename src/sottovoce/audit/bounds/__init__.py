"""Lower bounds on epsilon from the outcome of an attack."""

from sottovoce.audit.bounds.lower_bound import (
    Interval,
    LowerBound,
    clopper_pearson,
    clopper_pearson_bound,
    gaussian_bound,
)
from sottovoce.audit.bounds.one_run import one_run_bound, one_run_gaussian_bound, p_value

__all__ = [
    "Interval",
    "LowerBound",
    "clopper_pearson",
    "clopper_pearson_bound",
    "gaussian_bound",
    "one_run_bound",
    "one_run_gaussian_bound",
    "p_value",
]
