"""What private training refuses before the first step, and what ends it before the last."""

from sottovoce.errors import SottovoceError


class UnsupportedLayer(SottovoceError):
    """No exact gradient norm is known for these parameters, so they may not be trained privately.

    `reasons` maps the full name of each parameter or module to why, and what to do about it.
    """

    def __init__(self, reasons: dict[str, str]) -> None:
        self.reasons = reasons
        lines = "".join(f"\n  {name}: {reason}" for name, reason in reasons.items())
        super().__init__(f"Expected every trainable parameter to have an exact rule, got:{lines}")


class NeighbourCheckFailed(SottovoceError):
    """One unit moved the clipped sum by more than the ledger states, or moved something else."""


class WorkerLost(SottovoceError):
    """Another worker died; nothing of the step was released."""
