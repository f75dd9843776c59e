"""Joint intent and slot models: what was said, in words of a schema, trained with a guarantee.

>>> from sottovoce import nlu
>>> nlu.read([{"text": "play some jazz", "intent": "play"}])[0].tokens
('play', 'some', 'jazz')

`nlu.train` makes a model, `nlu.load` reads one back (see `sottovoce.nlu.assistant` for ten lines
that run). The names below are imported when they are first used; `train`, `load`, `Assistant` and
`Settings` need torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sottovoce.corpora.memory import read_utterances as read
    from sottovoce.nlu.assistant import Assistant, load, train
    from sottovoce.nlu.evaluation import Evaluation, Score
    from sottovoce.nlu.fit.settings import Settings
    from sottovoce.nlu.parses import Parse, Slot
    from sottovoce.nlu.schema import Schema

_EXPORTS = {
    "Assistant": ("sottovoce.nlu.assistant", "Assistant"),
    "Evaluation": ("sottovoce.nlu.evaluation", "Evaluation"),
    "Parse": ("sottovoce.nlu.parses", "Parse"),
    "Schema": ("sottovoce.nlu.schema", "Schema"),
    "Score": ("sottovoce.nlu.evaluation", "Score"),
    "Settings": ("sottovoce.nlu.fit.settings", "Settings"),
    "Slot": ("sottovoce.nlu.parses", "Slot"),
    "load": ("sottovoce.nlu.assistant", "load"),
    "read": ("sottovoce.corpora.memory", "read_utterances"),
    "train": ("sottovoce.nlu.assistant", "train"),
}

__all__ = [
    "Assistant",
    "Evaluation",
    "Parse",
    "Schema",
    "Score",
    "Settings",
    "Slot",
    "load",
    "read",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, defined = _EXPORTS[name]
    return getattr(importlib.import_module(module), defined)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
