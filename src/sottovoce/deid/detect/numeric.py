"""Regular expressions for values that are written with digits, and the checks behind them.

They are tried only where a number begins. Every repetition is bounded or over one class of
characters, so no expression can take more than linear time; what an expression cannot decide
(a checksum, an address) is decided by a function.
"""

import ipaddress
import re
from collections.abc import Callable

from sottovoce.deid.detect.spoken import MONTHS

Check = Callable[[str], bool]


def luhn(number: str) -> bool:
    """Whether the check digit of a card number is right.

    >>> luhn("4111 1111 1111 1111"), luhn("4111 1111 1111 1112")
    (True, False)
    """
    digits = [int(digit) for digit in reversed(number) if digit.isdecimal()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
    return len(digits) >= 12 and (sum(digits[::2]) + sum(doubled)) % 10 == 0


def iban(number: str) -> bool:
    """Whether the check digits of a bank account are right (ISO 7064, mod 97).

    >>> iban("GB82 WEST 1234 5698 7654 32")
    True
    """
    plain = number.replace(" ", "").lower()
    if not 15 <= len(plain) <= 34:
        return False
    turned = plain[4:] + plain[:4]
    return int("".join(str(int(character, 36)) for character in turned)) % 97 == 1


def network(address: str) -> bool:
    """Whether the standard library reads it as an IP address."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True


def telephone(number: str) -> bool:
    """Whether there are as many digits as a telephone number has (ITU-T E.164).

    Pairs of digits alone are results and tables, unless they begin as numbers for dialling do.

    >>> telephone("555-0123"), telephone("06 12 34 56 78"), telephone("15 30 64 11 23")
    (True, True, False)
    """
    groups = re.findall(r"\d+", number)
    return 7 <= sum(map(len, groups)) <= 15 and (number[0] in "+0(" or max(map(len, groups)) >= 3)


def _rule(expression: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{expression})(?!\w)")


_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_DAY = r"(?:3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?"
_AMOUNT = r"\d[\d,]{0,20}(?:\.\d{1,6})?(?: (?:hundred|thousand|million|billion|k))?"
# The separators part the groups of digits in one way only; optional ones would not.
_TELEPHONE = _rule(
    r"\+?\(?\d{1,15}(?:\)[ .-]?\d{1,5}|[ .-]{1,2}\(\d{1,5}\)[ .-]?\d{1,8}|[ .-]{1,2}\d{2,8}){0,6}"
    r"(?: ?(?:x|ext\.?) ?\d{1,6})?"
)

NUMERIC: tuple[tuple[str, str, re.Pattern[str], Check | None], ...] = (
    ("CARD", "card number", _rule(r"\d(?:[ -]?\d){11,18}"), luhn),
    ("IP", "IP address", _rule(r"\d{1,3}(?:\.\d{1,3}){3}"), network),
    ("IP", "IP address", _rule(r"[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}"), network),
    ("PHONE", "telephone", _rule(r"0\d(?:([ .-])\d\d)(?:\1\d\d){3}"), None),
    ("DATE", "date", _rule(r"\d{4}([-/.])\d{1,2}\1\d{1,2}"), None),
    ("DATE", "date", _rule(r"\d{1,2}([-/.])\d{1,2}\1(?:\d{4}|\d\d)"), None),
    ("DATE", "date", _rule(rf"{_DAY}(?: of)?[ -](?:{_MONTH})\.?(?:,?[ -](?:19|20)\d\d)?"), None),
    ("DATE", "date", _rule(r"\d{1,4} (?:day|week|month|year)s? ago"), None),
    ("ID", "social security number", _rule(r"\d{3}-\d{2}-\d{4}"), None),
    ("PHONE", "telephone", _TELEPHONE, telephone),
    (
        "TIME",
        "time",
        _rule(r"\d{1,2}(?:[:.]\d\d){1,2} ?[ap]\.?m\b\.?|\d{1,2}(?::\d\d){1,2}"),
        None,
    ),
    ("TIME", "time", _rule(r"\d{1,2} ?(?:[ap]\.?m\b\.?|[ap] m|o'?clock)"), None),
    ("MONEY", "amount", _rule(rf"[$€£¥] ?{_AMOUNT}"), None),
    (
        "MONEY",
        "amount",
        _rule(rf"{_AMOUNT} ?(?:dollars?|euros?|pounds?|cents?|bucks|usd|eur|gbp)"),
        None,
    ),
    ("DATE", "date", _rule(r"\d{1,2}/\d{1,2}"), None),
    ("DATE", "day of a month", _rule(r"(?:3[01]|[12]?\d)(?:st|nd|rd|th)"), None),
    ("DATE", "year", _rule(r"(?:19|20)\d\d"), None),
    ("ID", "long number", _rule(r"\d{4,}"), None),
)
"""Type, name, expression and check, most certain first; the first one that fits decides."""
