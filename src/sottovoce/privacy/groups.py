"""Group privacy: the guarantee of example-level training for a user with several examples.

Training that protects one example gives a weaker guarantee to a user with K examples. It is
computed from the executed releases, with the losses of a group of K. The textbook rule, K epsilon
and K e^((K-1) epsilon) delta, needs only the epsilon and delta of one example, but is often
vacuous. For replacing a user under Poisson sampling the bound here is valid but not tight.
"""

from collections.abc import Iterable, Sequence

from sottovoce import _validate
from sottovoce.errors import CannotAccount
from sottovoce.privacy.accounting import Entry, checked_entries, derive
from sottovoce.privacy.guarantee import Guarantee, Relation, Unit

# Larger groups are slow to compute and have no useful guarantee.
LARGEST_GROUP = 10_000


def group_guarantee(
    entries: Iterable[Entry],
    *,
    group_size: int,
    relation: Relation,
    delta: float,
    population: int | None = None,
    assumptions: Sequence[str] = (),
    not_covered: Sequence[str] = (),
) -> Guarantee:
    """The guarantee to one user with at most `group_size` examples, from entries about examples.

    `population` is the public number of users. Replacing a user means replacing every example of
    that user; adding or removing one, adding or removing up to `group_size` examples.

    >>> from sottovoce.privacy.facts import NoisySum
    >>> step = NoisySum(unit=Unit.EXAMPLE, clip_norm=1, noise_stds=(2.0,), sampling_rate=0.01)
    >>> user = group_guarantee([Entry(step, 500)], group_size=4,
    ...                        relation=Relation.ADD_OR_REMOVE, delta=1e-5)
    >>> user.unit.value, round(user.epsilon, 1)
    ('user', 2.0)
    >>> user.assumptions[-2]
    'no user has more than 4 examples'
    """
    size = _validate.at_least_one("group_size", _validate.whole("group_size", group_size))
    _validate.between("group_size", size, 1, LARGEST_GROUP)
    entries = checked_entries(entries)
    for entry in entries:
        if entry.fact.unit is not Unit.EXAMPLE:
            raise CannotAccount(
                f"Expected entries that protect one example, got one that protects one "
                f"{entry.fact.unit}: a limit on examples per user does not apply to it."
            )
    return derive(
        entries,
        unit=Unit.USER,
        relation=relation,
        delta=delta,
        population=population,
        assumptions=[
            *assumptions,
            f"no user has more than {size} example{'s' if size > 1 else ''}",
        ],
        not_covered=not_covered,
        group_size=size,
    )
