"""The report: run files in, one self-contained HTML page out.

It reads only run.json and audit.json, so it needs neither the models nor torch. The names below are
imported when they are first used: the command line formats numbers as the report does, and `--help`
must stay fast.
"""

from typing import TYPE_CHECKING

from sottovoce._extras import lazily

if TYPE_CHECKING:
    from sottovoce.report.collection import collect as collect
    from sottovoce.report.collection import one_stage as one_stage
    from sottovoce.report.comparison import compare as compare
    from sottovoce.report.render import Report as Report
    from sottovoce.report.stage import Stage as Stage

_EXPORTS = {
    "Report": "sottovoce.report.render",
    "Stage": "sottovoce.report.stage",
    "collect": "sottovoce.report.collection",
    "compare": "sottovoce.report.comparison",
    "one_stage": "sottovoce.report.collection",
}

__all__ = ["Report", "Stage", "collect", "compare", "one_stage"]

__getattr__ = lazily(__name__, _EXPORTS)
