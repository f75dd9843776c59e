"""What one backward pass leaves behind: for each use of a parameter, its gradient by example.

A gradient is never formed where its factors are smaller (`OuterProduct`, `Lookup`); it is formed
where it is the smaller of the two (`Instantiated`). `Tape` collects the records of one pass.
"""

from sottovoce.training.records.grouping import Grouping
from sottovoce.training.records.instantiated import Instantiated
from sottovoce.training.records.lookup import Lookup
from sottovoce.training.records.outer import OuterProduct
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
