"""Rescoring on a device with the personal model, by the trust that `rescore` has tuned.

Everything is derived from the utterances in the order they were heard, so forgetting one and
building anew leaves nothing of it.
"""

import numpy as np

from sottovoce.errors import InvalidInput
from sottovoce.personalize.device.state import StoredUtterance
from sottovoce.personalize.lm.mixture import WordModel
from sottovoce.personalize.nbest.lists import NBest
from sottovoce.personalize.rescoring.trusting import Gate, Sources, Trust, log_scores


class DeviceRescorer:
    """The personal model and the gate of one user."""

    def __init__(self, lm: WordModel, trust: Trust, sources: Sources) -> None:
        if not hasattr(lm, "score_words"):
            raise InvalidInput(
                "Expected an n-gram or a Transformer of `lm train` for a personal model, got a "
                "model without scores per word."
            )
        self._lm, self._trust = lm, trust
        self._personal, self._gate = trust.used(sources).model(lm, None), Gate(trust.expected)

    def hear(self, heard: StoredUtterance) -> None:
        """Count what was said: the user's correction, or the first pass's best text."""
        corrected = heard.correction is not None
        text = heard.correction if corrected else next(iter(heard.texts), "")
        words = tuple((text or "").split())
        (log_p,) = log_scores(self._lm, [words])
        self._gate.add(self._personal.gains([words], [log_p])[0], len(words) + 1)
        self._personal.add(words, corrected=corrected)

    def totals(self, nbest: NBest) -> list[float]:
        """The total of every hypothesis."""
        if not nbest.hypotheses:
            return []
        trust, sentences = self._trust, [h.words for h in nbest.hypotheses]
        log_p = log_scores(self._lm, sentences)
        second = [float(values.sum()) for values in log_p]
        plain = np.array(trust.background.totals(nbest, second, self._lm.vocabulary))
        opened = 1.0 if self._personal.bias else self._gate.value
        used = trust.weight * opened * np.array(trust.classes, dtype=np.float64)
        totals: list[float] = (plain + self._personal.gains(sentences, log_p) @ used).tolist()
        return totals
