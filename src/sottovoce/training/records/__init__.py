"""Per-example gradients of one backward pass: one record for each use of a parameter.

A gradient is kept as factors where these are smaller (`OuterProduct`, `Lookup`), and materialised
otherwise (`Instantiated`). `Tape` collects the records of one pass.
"""

from sottovoce.training.records.grouping import Grouping
from sottovoce.training.records.records import Instantiated, Lookup, OuterProduct
from sottovoce.training.records.tape import Tape, record_lookup, record_outer_product

__all__ = [
    "Grouping",
    "Instantiated",
    "Lookup",
    "OuterProduct",
    "Tape",
    "record_lookup",
    "record_outer_product",
]
