"""Charts as SVG, written by hand so that they take their colours from the page.

They are drawn 360 units wide: as wide as a phone, and beside each other on anything wider. A
series differs from the next in colour, in dashes and in the form of its marks.
"""

from sottovoce.report.plots.history import history_chart
from sottovoce.report.plots.roc import roc_chart
from sottovoce.report.plots.utility import epsilon_chart
from sottovoce.report.plots.verdicts import VerdictLine, verdict_chart

__all__ = ["VerdictLine", "epsilon_chart", "history_chart", "roc_chart", "verdict_chart"]
