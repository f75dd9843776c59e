"""Labels that share a name share what is learnt about them.

Names of slots are made of parts: `arrive_date.day_name` and `depart_date.day_name` are both days,
`arrive_date.day_name` and `arrive_time.time` both arrivals. Each part has weights of its own, and a
tag's score is the sum over its parts. What many utterances say of a part then serves the tags that
few of them carry, while noise, which knows of no parts, does not add up. Only names are looked at.
"""

import re
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from sottovoce.corpora import OUTSIDE

OWN, PART, BORDER = 0.7, 0.5, 0.5
"""How much of a tag is its own, of each part of its name, and of being a B, an I or O."""

_SEAMS = re.compile(r"[._\-#+:/\s]+|(?<=[a-z])(?=[A-Z])")


def parts_of(kind: str) -> frozenset[str]:
    """The parts of a slot type's name: its words, and its beginning and end at a dot.

    >>> sorted(parts_of("arrive_date.day_name"))
    ['.day_name', 'arrive', 'arrive_date.', 'date', 'day', 'name']
    >>> sorted(parts_of("timeRange"))
    ['range', 'time']
    """
    words = {word.lower() for word in _SEAMS.split(kind) if word}
    first, dot, _ = kind.partition(".")
    return frozenset(words | ({f"{first}.", f".{kind.rpartition('.')[2]}"} if dot else set()))


def shared_names(tags: Sequence[str]) -> Tensor:
    """[tags, columns] how much each tag has of every column; rows are one long.

    The first columns are the tags themselves, then come the parts that several slot types have,
    then O, B and I.

    >>> shared_names(["O", "B-who", "I-who"]).shape
    torch.Size([3, 6])
    """
    kinds = sorted({tag[2:] for tag in tags if tag != OUTSIDE})
    carriers = Counter(part for kind in kinds for part in parts_of(kind))
    parts = sorted(part for part, carried in carriers.items() if carried > 1)
    rows = []
    for tag in tags:
        has = frozenset() if tag == OUTSIDE else parts_of(tag[2:])
        rows.append(
            [OWN * (tag == other) for other in tags]
            + [PART * (part in has) for part in parts]
            + [BORDER * (tag[0] == border) for border in "OBI"]
        )
    shares = torch.tensor(rows, dtype=torch.float32)
    return shares / shares.square().sum(1, keepdim=True).sqrt()
