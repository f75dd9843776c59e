"""Which files of the documentation are made, and by what."""

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.generators import architectures, before_after, command_line, layers, results, rooms

ROOT = Path(__file__).parents[2]

MADE: Mapping[str, Callable[[], str]] = {
    "docs/architecture.md": rooms.page,
    "docs/how-to/architectures.md": architectures.page,
    "docs/cli.md": command_line.page,
    "docs/images/layers.svg": layers.picture,
    "docs/images/training.svg": results.training_plot,
    "docs/reproductions/before-after.md": before_after.page,
    "docs/reproductions/results.md": results.page,
    "docs/reproductions/training-cost.md": results.training_page,
}


def write() -> list[str]:
    """Write all of them; the names of those that changed."""
    changed = []
    for name, make in MADE.items():
        path, text = ROOT / name, make()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            changed.append(name)
    return changed
