"""Joint intent and slot models, trained with a privacy guarantee.

>>> from sottovoce import nlu
>>> nlu.read([{"text": "play some jazz", "intent": "play"}])[0].tokens
('play', 'some', 'jazz')

`nlu.train` trains a model and `nlu.load` loads one (see `sottovoce.nlu.assistant` for a complete
example). Names are imported when first used; `train`, `load`, `Assistant` and `Settings` need
torch.
"""

from typing import TYPE_CHECKING

from sottovoce._extras import lazily

if TYPE_CHECKING:
    from sottovoce.corpora.memory import read_utterances as read
    from sottovoce.nlu.assistant import Assistant, load, train
    from sottovoce.nlu.fit.settings import Settings
    from sottovoce.nlu.metrics.scores import Evaluation, Score
    from sottovoce.nlu.parses import Parse, Slot
    from sottovoce.nlu.schema import Schema

_EXPORTS = {
    "Assistant": "sottovoce.nlu.assistant",
    "Evaluation": "sottovoce.nlu.metrics.scores",
    "Parse": "sottovoce.nlu.parses",
    "Schema": "sottovoce.nlu.schema",
    "Score": "sottovoce.nlu.metrics.scores",
    "Settings": "sottovoce.nlu.fit.settings",
    "Slot": "sottovoce.nlu.parses",
    "load": "sottovoce.nlu.assistant",
    "read": "sottovoce.corpora.memory:read_utterances",
    "train": "sottovoce.nlu.assistant",
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

__getattr__ = lazily(__name__, _EXPORTS)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
