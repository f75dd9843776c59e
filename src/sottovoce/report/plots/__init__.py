"""SVG charts, generated directly so that they take their colours from the page's style sheet.

Charts are 360 units wide: the width of a phone; wider screens show them side by side. Series differ
in colour, dashes and marker shape.
"""

from sottovoce.report.plots.charts import (
    VerdictLine,
    epsilon_chart,
    history_chart,
    roc_chart,
    verdict_chart,
)

__all__ = ["VerdictLine", "epsilon_chart", "history_chart", "roc_chart", "verdict_chart"]
