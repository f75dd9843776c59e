"""Errors of private training."""

from sottovoce.errors import SottovoceError


class UnsupportedLayer(SottovoceError):
    """Parameters without an exact gradient norm, which cannot be trained privately.

    `reasons` maps the full name of each parameter or module to the reason and a remedy.
    """

    def __init__(self, reasons: dict[str, str]) -> None:
        self.reasons = reasons
        lines = "".join(f"\n  {name}: {reason}" for name, reason in reasons.items())
        super().__init__(f"Expected every trainable parameter to have an exact rule, got:{lines}")


class NeighbourCheckFailed(SottovoceError):
    """One unit changed the clipped sum by more than its recorded sensitivity, or other state."""


class WorkerLost(SottovoceError):
    """Another worker failed; nothing of the step was released."""
