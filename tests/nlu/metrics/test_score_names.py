"""Every score has a name for people."""

from sottovoce.corpora import Utterance
from sottovoce.nlu.metrics.score_names import SCORE_NAMES
from sottovoce.nlu.metrics.scores import count


def test_every_score_has_a_name() -> None:
    stop = Utterance(tokens=("stop",), slots=("O",), intent="stop")
    assert list(count([stop], [stop]).scores().to_json()) == list(SCORE_NAMES)
