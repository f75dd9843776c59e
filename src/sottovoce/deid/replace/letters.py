"""Letter case: a surrogate takes the case of what it replaces, in one of three patterns.

The pattern is released with the value. Everything finer (a capital inside a word) would let a kept
value be told from a surrogate, so kept values are written in their pattern too.
"""


def canonical(value: str) -> str:
    """The form in which values are looked up: lower case, single blanks.

    >>> canonical("New  York")
    'new york'
    """
    return " ".join(value.lower().split())


def in_case_of(value: str, pattern: str) -> str:
    """Write `value` in capitals, with initials, or as it is in the list, as `pattern` is written.

    >>> in_case_of("london", "PARIS"), in_case_of("new york", "Paris"), in_case_of("london", "rome")
    ('LONDON', 'New York', 'london')
    """
    if pattern[:1].islower() or not pattern[:1].isalpha():
        return value
    if len(pattern) > 1 and pattern.isupper():
        return value.upper()
    return " ".join(word[:1].upper() + word[1:] for word in value.split(" "))
