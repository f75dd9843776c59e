"""Check digits of national numbers: what an expression cannot decide."""


def verhoeff(number: str) -> bool:
    """Whether the check digit of an Indian Aadhaar number is right.

    >>> verhoeff("2363"), verhoeff("2364")
    (True, False)
    """
    check = 0
    for place, digit in enumerate(reversed(_digits(number))):
        check = _MULTIPLIED[check][_PERMUTED[place % 8][digit]]
    return check == 0


_MULTIPLIED = [
    [(a + b) % 5 if a < 5 and b < 5 else
     5 + (a + b) % 5 if a < 5 else
     5 + (a - b) % 5 if b < 5 else
     (a - b) % 5
     for b in range(10)]
    for a in range(10)
]  # fmt: skip
_FIRST = (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)
_PERMUTED = [list(range(10))]
for _ in range(7):
    _PERMUTED.append([_PERMUTED[-1][digit] for digit in _FIRST])


def weighted(number: str, weights: tuple[int, ...], modulus: int = 11) -> bool:
    """Whether the weighted sum of the digits is a multiple of the modulus.

    >>> weighted("943 476 5919", (10, 9, 8, 7, 6, 5, 4, 3, 2, 1))
    True
    """
    digits = _digits(number)
    return (
        len(digits) == len(weights)
        and sum(a * b for a, b in zip(digits, weights, strict=True)) % modulus == 0
    )


def german_tax_id(number: str) -> bool:
    """Whether the check digit is right (ISO 7064, mod 11,10).

    >>> german_tax_id("86 095 742 719"), german_tax_id("86 095 742 718")
    (True, False)
    """
    digits = _digits(number)
    product = 10
    for digit in digits[:-1]:
        total = (digit + product) % 10 or 10
        product = 2 * total % 11
    return len(digits) == 11 and (11 - product) % 10 == digits[-1]


def french_number(number: str) -> bool:
    """Whether the key of a French social security number is right.

    >>> french_number("2 55 08 14 168 025 38")
    True
    """
    digits = "".join(filter(str.isdigit, number))
    return len(digits) == 15 and 97 - int(digits[:13]) % 97 == int(digits[13:])


def spanish_id(number: str) -> bool:
    """Whether the letter of a Spanish identity number is right.

    >>> spanish_id("12345678-Z"), spanish_id("x1234567l"), spanish_id("12345678A")
    (True, True, False)
    """
    lower = number.lower()
    first = {"x": "0", "y": "1", "z": "2"}.get(lower[0], "")
    digits = first + "".join(filter(str.isdigit, lower))
    return lower[-1] == "trwagmyfpdxbnjzsqvhlcke"[int(digits) % 23]


def _digits(number: str) -> list[int]:
    return [int(character) for character in number if character in "0123456789"]


def nhs_number(number: str) -> bool:
    return weighted(number, (10, 9, 8, 7, 6, 5, 4, 3, 2, 1))


def australian_tax(number: str) -> bool:
    return weighted(number, (1, 4, 3, 7, 5, 8, 6, 9, 10))


def australian_medicare(number: str) -> bool:
    """Whether the ninth digit of an Australian Medicare number is right.

    >>> australian_medicare("2123 45670 1"), australian_medicare("2123 45671 1")
    (True, False)
    """
    digits = _digits(number)
    weights = (1, 3, 7, 9, 1, 3, 7, 9)
    total = sum(a * b for a, b in zip(digits, weights, strict=False))
    return len(digits) in (10, 11) and total % 10 == digits[8]


def german_id_card(number: str) -> bool:
    """Whether the last digit of a German identity card or passport is right (weights 7, 3, 1).

    >>> german_id_card("T220001293"), german_id_card("T220001294")
    (True, False)
    """
    plain = number.upper()
    values = [int(character, 36) for character in plain]
    weights = (7, 3, 1) * 3
    return len(plain) == 10 and (
        sum(a * b for a, b in zip(values, weights, strict=False)) % 10 == values[-1]
    )
