"""SVG charts, generated directly so that they take their colours from the page's style sheet.

Charts are 360 units wide: the width of a phone; wider screens show them side by side. Series differ
in colour, dashes and marker shape.
"""

from sottovoce.report.plots.history import history_chart
from sottovoce.report.plots.roc import roc_chart
from sottovoce.report.plots.utility import epsilon_chart
from sottovoce.report.plots.verdicts import VerdictLine, verdict_chart

__all__ = ["VerdictLine", "epsilon_chart", "history_chart", "roc_chart", "verdict_chart"]
