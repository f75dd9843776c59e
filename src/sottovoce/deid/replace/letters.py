"""Letter case: a surrogate takes the case pattern of the value it replaces, one of three.

The pattern is released with the value. Finer case (a capital inside a word) would distinguish a
kept value from a surrogate, so kept values are normalised to their pattern too.
"""


def canonical(value: str) -> str:
    """The lookup form of a value: lower case, single blanks.

    >>> canonical("New  York")
    'new york'
    """
    return " ".join(value.lower().split())


def match_case(value: str, pattern: str) -> str:
    """Write `value` in the case pattern of `pattern`: capitals, initials, or unchanged.

    >>> match_case("london", "PARIS"), match_case("new york", "Paris"), match_case("london", "rome")
    ('LONDON', 'New York', 'london')
    """
    if pattern[:1].islower() or not pattern[:1].isalpha():
        return value
    if len(pattern) > 1 and pattern.isupper():
        return value.upper()
    return " ".join(word[:1].upper() + word[1:] for word in value.split(" "))
