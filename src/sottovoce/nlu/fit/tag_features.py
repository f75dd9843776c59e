"""Features of slot tags from their names: tags with common name parts share weights.

Slot names have parts: `arrive_date.day_name` and `depart_date.day_name` are both days,
`arrive_date.day_name` and `arrive_time.time` both arrivals. Each part has its own weights, and the
score of a tag is the weighted sum over its parts. Rare tags thus benefit from the examples of
other tags with the same part, while independent noise averages out. Only names are used, no data.
"""

import re
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from sottovoce.corpora import OUTSIDE

OWN, PART, BORDER = 0.7, 0.5, 0.5
"""Weights of the tag itself, of each part of its name, and of its prefix (O, B or I)."""

_SEAMS = re.compile(r"[._\-#+:/\s]+|(?<=[a-z])(?=[A-Z])")


def parts_of(kind: str) -> frozenset[str]:
    """The parts of a slot type's name: its words, and its prefix and suffix at a dot.

    >>> sorted(parts_of("arrive_date.day_name"))
    ['.day_name', 'arrive', 'arrive_date.', 'date', 'day', 'name']
    >>> sorted(parts_of("timeRange"))
    ['range', 'time']
    """
    words = {word.lower() for word in _SEAMS.split(kind) if word}
    first, dot, _ = kind.partition(".")
    return frozenset(words | ({f"{first}.", f".{kind.rpartition('.')[2]}"} if dot else set()))


def tag_features(tags: Sequence[str]) -> Tensor:
    """[tags, columns] feature weights of each tag; rows have unit length.

    The columns are the tags themselves, the parts that occur in several slot types, and O, B, I.

    >>> tag_features(["O", "B-who", "I-who"]).shape
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
