"""Reading and writing corpora: records, formats, splits and statistics.

Word vectors (`corpora.wordvectors`) and the built-in corpora (`corpora.synthetic`) are separate
modules, so that reading a corpus loads neither numpy nor pyarrow.
"""

from sottovoce.corpora.formats import FORMATS, Reader, format_of, read, write
from sottovoce.corpora.records import OUTSIDE, Utterance, check_bio, repair_bio
from sottovoce.corpora.spans import Span, from_spans, spans_of
from sottovoce.corpora.splits import PARTS, Split, split
from sottovoce.corpora.statistics import CorpusStatistics, Tally, count, describe, shared
from sottovoce.corpora.tables import Columns

__all__ = [
    "FORMATS",
    "OUTSIDE",
    "PARTS",
    "Columns",
    "CorpusStatistics",
    "Reader",
    "Span",
    "Split",
    "Tally",
    "Utterance",
    "check_bio",
    "count",
    "describe",
    "format_of",
    "from_spans",
    "read",
    "repair_bio",
    "shared",
    "spans_of",
    "split",
    "write",
]
