"""Private training of torch models: DP-SGD with exact clipping, eDP-SGD, several workers."""

from sottovoce._extras import explained

try:
    from sottovoce.training.checkpoint import TailAverage
    from sottovoce.training.distributed import Worker, join_workers, leave_workers
    from sottovoce.training.edpsgd.scaling import LayerScales
    from sottovoce.training.errors import WorkerLost
    from sottovoce.training.loader import loader
    from sottovoce.training.optimizers import Together
    from sottovoce.training.plan import ClippingStyle, Method, Plan
    from sottovoce.training.private import PrivateTraining
    from sottovoce.training.step import Step
except ModuleNotFoundError as missing:
    raise explained(missing) from missing

__all__ = [
    "ClippingStyle",
    "LayerScales",
    "Method",
    "Plan",
    "PrivateTraining",
    "Step",
    "TailAverage",
    "Together",
    "Worker",
    "WorkerLost",
    "join_workers",
    "leave_workers",
    "loader",
]
