"""What an epsilon lets an attacker conclude, in words and percentages."""

import math

from sottovoce.privacy.guarantee import Guarantee


def certainty(epsilon: float, prior: float = 0.5) -> float:
    """How certain a guess with this prior can become, at most, from a release with this epsilon.

    >>> round(certainty(0), 4), round(certainty(3), 4), round(certainty(8), 4), certainty(1e9)
    (0.5, 0.9526, 0.9997, 1.0)
    """
    if not 0 < prior < 1:
        return prior
    # Written with e^-epsilon, which cannot overflow.
    return prior / (prior + (1 - prior) * math.exp(-epsilon))


def percent_up(share: float) -> str:
    """A share in percent, rounded up, and never 100 % unless it is.

    >>> percent_up(0.5), percent_up(0.9526), percent_up(0.99966), percent_up(1 - 1e-9)
    ('50 %', '95.3 %', '99.97 %', 'more than 99.99 %')
    """
    if share > 0.9999:
        return "more than 99.99 %"
    digits = 2 if share > 0.99 else 1
    return f"{math.ceil(share * 10 ** (2 + digits) - 1e-6) / 10**digits:g} %"


def in_words(guarantee: Guarantee) -> str:
    """One sentence on what somebody can conclude about one unit."""
    if not guarantee.holds:
        return f"Nothing limits what somebody can conclude about one {guarantee.unit}."
    exception = f", except with probability {guarantee.delta:g}" if guarantee.delta else ""
    return (
        f"Somebody who gives 50 % to a guess about one {guarantee.unit} can become "
        f"{percent_up(certainty(guarantee.epsilon))} certain{exception}."
    )
