"""Text as recognisers write it: lower case, no punctuation but apostrophes and inner hyphens."""

import re

# A word starts and ends with a letter or a digit of any script; an apostrophe may end it too.
_WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*'?")


def normal_text(line: str) -> str:
    """The words of a line.

    >>> normal_text('"Uh, first-class -- that\\'s $20, isn\\'t it?"')
    "uh first-class that's 20 isn't it"
    """
    return " ".join(_WORD.findall(line.lower().replace("’", "'")))
