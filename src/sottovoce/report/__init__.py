"""The report: run files in, one self-contained HTML page out.

It reads run.json and audit.json and nothing else, so it needs neither the models nor torch.
"""

from sottovoce.report.collect import collect, one_stage
from sottovoce.report.comparison import compare
from sottovoce.report.render import Report
from sottovoce.report.stage import Stage

__all__ = ["Report", "Stage", "collect", "compare", "one_stage"]
