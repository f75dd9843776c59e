"""The client on a device: counts utterances, rescores, forgets, and contributes within its caps.

Everything is derived from the stored utterances, in the order they were received. So forgetting one
means recounting the rest, and nothing of it remains except the record that it was sent, if it was.
What it sends is in `device/answers`, and what it remembers of that in `device/contribution_log`.
"""

import copy
import json
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, Self, cast

import numpy as np

from sottovoce.errors import InvalidInput
from sottovoce.personalize.device.answers import Agreement, Increment
from sottovoce.personalize.device.contribution_log import (
    KINDS,
    SECRET_BYTES,
    ContributionLog,
    Declined,
)
from sottovoce.personalize.device.messages import RoundRequest
from sottovoce.personalize.device.rescorer import DeviceRescorer
from sottovoce.personalize.device.sealed import Key, SealedFile
from sottovoce.personalize.device.state import LastAnswer, ReceivedMarginals, StoredUtterance
from sottovoce.personalize.federated.cache import ClientCache
from sottovoce.personalize.federated.counting import Caps, Counting, pairs_of
from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.federated.pairs import SharedPairs
from sottovoce.personalize.lm.language_model import LanguageModel
from sottovoce.personalize.lm.mixture import WordModel
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Dirichlet, Smoothing, Vector, Vocabulary
from sottovoce.personalize.nbest.lists import NBest
from sottovoce.personalize.rescoring.personal import BiasList
from sottovoce.personalize.rescoring.run import Tuned
from sottovoce.personalize.rescoring.scores import Adaptation, Weights
from sottovoce.personalize.rescoring.stream import Personalisation, client_factors
from sottovoce.personalize.rescoring.trusting import Sources, Trust
from sottovoce.privacy.guarantee import Budget, Guarantee

VERSION = 1
_UNTUNED = Tuned(Weights(), Weights(), 0.5)
_COPY = "This is a copy of another device's state: it can rescore, but never contributes."
_RESTORED = (
    "This device was restored from an older state: what it sent since then is unknown, so it never "
    "contributes again."
)


@dataclass
class _Derived:
    """Values derived from the utterances, computed on demand."""

    factors: Vector | None = None
    model: LanguageModel | None = None
    rescorer: DeviceRescorer | None = None


class Personaliser:
    """One user's device. Needs torch only if the language model does.

    `weights` are tuned by `rescore`: a `Trust` for the personal model, with a `bias` list if there
    is one, else those of the paper's factors. Without an `lm` these are added to the recogniser's
    scores. `counting` and `caps` are what the device agrees to; a request with others is declined.
    With caps the `budget` protects the user, without them each utterance; without a budget nothing
    is ever sent.

    >>> from sottovoce.personalize.nbest.lists import Hypothesis
    >>> words = Vocabulary(("call", "mum", "mom", "<unk>"), [0.4, 0.2, 0.2, 0.2])
    >>> device = Personaliser(words, user="ann")
    >>> readings = Hypothesis("call mom", score=-1.0), Hypothesis("call mum", score=-1.1)
    >>> nbest = NBest("u1", readings)
    >>> device.rescore(nbest)
    'call mom'
    >>> device.hear(nbest, correction="call mum")
    >>> device.rescore(nbest)
    'call mum'
    >>> device.forget("u1")
    >>> device.rescore(nbest)
    'call mom'
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        lm: LanguageModel | None = None,
        *,
        weights: Weights | Tuned | Trust | None = None,
        bias: Iterable[str] = (),
        counting: Counting | None = None,
        caps: Caps | None = None,
        user: str = "me",
        budget: Budget | None = None,
        adaptation: Adaptation | None = None,
        smoothing: Smoothing | None = None,
        trust: float | None = None,
    ) -> None:
        _check_words(vocabulary, lm)
        self.vocabulary, self._lm, self.user = vocabulary, lm, user
        self._believed = weights if isinstance(weights, Trust) else None
        self._bias = BiasList(bias)
        if self._believed is not None and lm is None:
            raise InvalidInput("Expected a language model with a Trust as weights, got none.")
        if self._bias and self._believed is None:
            raise InvalidInput("Expected a Trust as weights with a bias list, got others.")
        self._tuned = weights if isinstance(weights, Tuned) else _tuned(weights)
        self._counting, self._caps = counting or Counting(), caps or Caps()
        if self._counting.order != 1:
            raise InvalidInput(
                "Expected a device that counts words, got pairs: servers request pairs separately."
            )
        if self._caps.mass is None and self._caps.per_word is not None:
            raise InvalidInput("Expected a mass cap with the word cap, got none.")
        self._adaptation = adaptation
        if adaptation is not None and isinstance(weights, Tuned):
            self._adaptation = replace(adaptation, power=weights.power)
        self._smoothing, self._trust = smoothing or Dirichlet(), trust
        self._utterances: dict[str, StoredUtterance] = {}
        self._received = ReceivedMarginals()
        self._last: LastAnswer | None = None
        self._agreement = Agreement(vocabulary, self._counting, self._caps)
        self._log = ContributionLog(self._caps, budget, os.urandom(SECRET_BYTES))
        self._file: SealedFile | None = None
        self._serial = 0
        self._lock = threading.RLock()
        self._process = os.getpid()
        self.refusal: str | None = None
        self._derived = _Derived()
        self._recount()
        self.settings()  # validates `trust` early

    # Immutable: counts made under one rule must not be sent under another.
    @property
    def counting(self) -> Counting:
        return self._counting

    @property
    def caps(self) -> Caps:
        return self._caps

    @property
    def budget(self) -> Budget | None:
        return self._log.budget

    @budget.setter
    def budget(self, budget: Budget | None) -> None:
        """The owner may change it; what was spent stays spent."""
        self._log.budget = budget

    @property
    def rules(self) -> str:
        """The digest of the vocabulary, kernel and caps that this device counts by."""
        return self._agreement.rules

    @property
    def utterances(self) -> tuple[str, ...]:
        """The ids of the stored utterances, in the order they were received."""
        return tuple(self._utterances)

    def personal(self) -> Vector:
        """The personal counts over the vocabulary."""
        return self._cache.personal()

    def spent(self) -> Guarantee:
        """The joint guarantee of all contributions, to all servers."""
        return self._log.spent()

    def hear(self, nbest: NBest, correction: str | None = None) -> None:
        """Count one utterance, only once; `correction` is the user's transcript."""
        with self._lock:
            if nbest.client not in (None, self.user):
                raise InvalidInput(f"Expected utterances of {self.user!r}, got {nbest.client!r}.")
            if nbest.id in self._utterances or self._log.was_ever_sent(nbest.id):
                raise InvalidInput(
                    f"Expected a new utterance, got {nbest.id!r} again: each counts once."
                )
            texts = tuple(h.text for h in nbest.hypotheses[: self.counting.nbest])
            corrected = None if correction is None else " ".join(correction.split())
            self._utterances[nbest.id] = new = StoredUtterance(nbest.id, texts, corrected)
            self._cache.add(new.personal(self.counting.nbest))
            self._derived = _Derived(rescorer=self._derived.rescorer)
            if self._derived.rescorer is not None:
                self._derived.rescorer.hear(new)

    def correct(self, utterance: str, text: str) -> None:
        """Set the user's transcript of a stored utterance."""
        with self._lock:
            known = self._remembered(utterance)
            self._utterances[utterance] = replace(known, correction=" ".join(text.split()))
            self._recount()

    def rescore(self, nbest: NBest) -> str:
        """The text of the best hypothesis under the adapted model; ties go to the first pass."""
        if not nbest.hypotheses:
            return ""
        return nbest.hypotheses[self.ranking(nbest)[0]].text

    def rescore_scores(self, nbest: NBest) -> list[float]:
        """ln p of every hypothesis under the adapted model, in list order."""
        if not nbest.hypotheses:
            return []
        settings, factors = self.settings(), self._factors()
        if self._lm is None:
            encode = self.vocabulary.encode
            return [
                (h.lm or 0.0) + float(np.sum(factors[encode(h.words)])) for h in nbest.hypotheses
            ]
        sentences = [h.words for h in nbest.hypotheses]
        normalise = settings.adaptation.normalise
        return self._model(settings).score(sentences, factors, normalise=normalise)

    def ranking(self, nbest: NBest) -> list[int]:
        """The indices of the hypotheses, best first."""
        if self._believed is not None:
            totals = self._rescorer(self._believed).totals(nbest)
        else:
            scores = self.rescore_scores(nbest)
            totals = self._tuned.adapted.totals(nbest, scores, self.vocabulary)
        return sorted(range(len(totals)), key=lambda place: -totals[place])

    def settings(self) -> Personalisation:
        """The current settings of the adaptation."""
        shared = self._received.words is not None
        usual = Adaptation.usual(shared=shared, power=self._tuned.power)
        pairs = None
        if self._received.pairs is not None and hasattr(self._lm, "score_words"):
            pairs = SharedPairs(self._received.pairs)
        return Personalisation(
            adaptation=self._adaptation or usual,
            counting=self.counting,
            smoothing=self._smoothing,
            trust=self._trust,
            pairs=pairs,
        )

    def forget(self, utterance: str) -> None:
        """Forget one utterance, as if it had never been received.

        Sending cannot be undone: the log keeps a keyed hash of its id, so that it is not sent
        again, and the mass charged to the caps. A saved device is saved again.
        """
        with self._lock:
            self._remembered(utterance)
            del self._utterances[utterance]
            if self.was_sent(utterance):
                self._last = None
            self._after_forgetting()

    def forget_everything(self) -> None:
        """Forget all utterances and received marginals; the log stays, as in `forget`."""
        with self._lock:
            self._utterances.clear()
            self._received, self._last = ReceivedMarginals(), None
            self._after_forgetting()

    def receive(self, released: Marginals) -> None:
        """Store released marginals; words and pairs are distinguished by content."""
        if not isinstance(released, Marginals):
            raise InvalidInput(f"Expected marginals, got {type(released).__name__}.")
        names = [word for word in released.words if word != UNKNOWN]
        with self._lock:
            if names and all(" " in name for name in names):
                SharedPairs(released)  # validates the pairs
                self._received.pairs = replace(released, about={})
            else:
                self._received.words = released.over(self.vocabulary)
            self._derived = _Derived()

    def contribute(self, request: RoundRequest | bytes, *, replayable: bool = True) -> bytes | None:
        """The increment since the last contribution, for one round; None if nothing is sent.

        `refusal` then gives the reason. The returned contribution is already in the log, and on
        disk if the device was saved or loaded. If the last round is asked for again, and its answer
        was `replayable`, the same bytes are returned: nothing new is told, and nothing is lost. A
        device that was never saved has its log in memory only: save it before sending.
        """
        with self._lock:
            self.refusal = None
            try:
                with self._unchanged_on_disk():
                    found = self._increment(request)
                    if isinstance(found, LastAnswer):
                        return found.message
                    message = found.logged(self._log)
                    self._last = LastAnswer(found.request.id, message) if replayable else None
                    if self._file is not None:
                        self._write_locked()
                    return message
            except Declined as problem:
                self.refusal = str(problem)
                return None

    def reason_to_decline(self, request: RoundRequest | bytes) -> str | None:
        """Why `contribute` would return None, or None if it would not; nothing is logged."""
        with self._lock:
            try:
                self._increment(request)
            except Declined as problem:
                return str(problem)
            return None

    def was_sent(self, utterance: str) -> bool:
        """Whether anything of the utterance was ever sent."""
        return self._log.was_ever_sent(utterance)

    def save(self, path: Path | str | None = None, key: Key | None = None) -> None:
        """Write the encrypted state; without arguments, to where the device was saved before.

        The key is 32 bytes or a passphrase. A counter file next to it holds the number of writes;
        keep both together. If the device is already saved elsewhere, a copy is written that can
        rescore but never contributes, because two logs would each hold only half of what was sent.
        """
        with self._lock:
            if path is None or key is None:
                if self._file is None or path is not None or key is not None:
                    raise InvalidInput(
                        "Expected a path and a key to save the device, got only one or neither."
                    )
                self._write()
                return
            file = SealedFile(path, key)
            if self._file is not None and file.path == self._file.path:
                self._file = file
                self._write()
                return
            with file.locked():
                if file.path.exists() or file.counter.exists():
                    raise InvalidInput(
                        f"Expected no file at {file.path}, got one: load it, or its record of what "
                        "was sent would be lost."
                    )
                if self._file is None:
                    file.write(self._plain(), self._serial + 1)
                    self._file, self._serial = file, self._serial + 1
                    return
                log = copy.copy(self._log)
                log.closed = log.closed or _COPY
                file.write(self._plain(log), 1)

    @classmethod
    def load(
        cls,
        path: Path | str,
        key: Key,
        vocabulary: Vocabulary | None = None,
        lm: LanguageModel | None = None,
        *,
        restored: bool = False,
        weights: Weights | Tuned | Trust | None = None,
        bias: Iterable[str] = (),
        adaptation: Adaptation | None = None,
        smoothing: Smoothing | None = None,
        trust: float | None = None,
    ) -> Self:
        """Load a device; the words come from the `vocabulary` or the `lm`.

        A file that is older than its counter is refused. With `restored` it is loaded, but never
        contributes again.
        """
        words = vocabulary or (None if lm is None else lm.vocabulary)
        if words is None:
            raise InvalidInput("Expected a vocabulary or a language model, got neither.")
        file = SealedFile(path, key)
        with file.locked():
            plain, serial = file.read()
            newest = file.newest()
        is_older = newest is None or newest > serial
        if is_older and not restored:
            found = "without its counter" if newest is None else "that is older than its counter"
            raise InvalidInput(
                f"Expected the newest state of the device, got {file.path} {found}: it may not "
                "know all that was sent. Pass restored=True to load it; it never contributes then."
            )
        try:
            state = json.loads(plain)
            if state["version"] != VERSION:
                raise InvalidInput(f"Expected version {VERSION}, got {state['version']!r}.")
            if state["vocabulary"] != words.digest:
                raise InvalidInput(
                    f"Expected the vocabulary of the device in {path}, got another one."
                )
            device = cls(
                words,
                lm,
                weights=weights,
                bias=bias,
                counting=Counting.from_json(state["counting"]),
                caps=Caps.from_json(state["caps"]),
                user=state["user"],
                adaptation=adaptation,
                smoothing=smoothing,
                trust=trust,
            )
            device._log = ContributionLog.from_json(state["book"], device.caps)
            device._utterances = {
                name: StoredUtterance(name, tuple(texts), correction)
                for name, texts, correction in state["heard"]
            }
            device._received = ReceivedMarginals.from_json(state["everybody"], len(words))
            device._last = LastAnswer.from_json(state.get("last"))
        except (LookupError, TypeError, AttributeError, json.JSONDecodeError) as problem:
            raise InvalidInput(f"Expected a device in {path}, but {problem!r}.") from problem
        if is_older:
            device._log.closed = _RESTORED
        device._file, device._serial = file, max(serial, newest or 0)
        device._recount()
        return device

    def _increment(self, asked: RoundRequest | bytes) -> Increment | LastAnswer:
        """What would be sent, after all checks; nothing is logged."""
        try:
            request = RoundRequest.from_bytes(asked) if isinstance(asked, bytes) else asked
        except InvalidInput as problem:
            raise Declined(str(problem)) from problem
        if not isinstance(request, RoundRequest):
            raise InvalidInput(f"Expected a request for counts, got {type(request).__name__}.")
        if os.getpid() != self._process:
            raise Declined("Expected the process that created this device, got a fork of it.")
        last = self._last
        if last is not None and last.round == request.id and self._log.closed is None:
            return last
        heard = (each.first_pass() for each in self._utterances.values())
        return Increment.of(request, self._agreement, self._log, heard)

    def _model(self, settings: Personalisation) -> LanguageModel:
        assert self._lm is not None
        if self._derived.model is None:
            pairs = settings.pairs
            self._derived.model = (
                self._lm if pairs is None else pairs.over(cast(WordModel, self._lm))
            )
        return self._derived.model

    def _factors(self) -> Vector:
        if self._derived.factors is None:
            self._derived.factors = client_factors(
                self._cache, self.settings(), self._received.words
            )
        return self._derived.factors

    def _rescorer(self, trust: Trust) -> DeviceRescorer:
        with self._lock:
            if self._derived.rescorer is None:
                pairs = self._received.pairs
                sources = Sources(
                    everybody=self._received.words,
                    pairs=None if pairs is None else SharedPairs(pairs),
                    bias=self._bias,
                )
                made = DeviceRescorer(cast(WordModel, self._lm), trust, sources)
                for each in self._utterances.values():
                    made.hear(each)
                self._derived.rescorer = made
            return self._derived.rescorer

    def _remembered(self, utterance: str) -> StoredUtterance:
        if utterance not in self._utterances:
            raise InvalidInput(f"Expected the id of a stored utterance, got {utterance!r}.")
        return self._utterances[utterance]

    def _recount(self) -> None:
        self._cache = ClientCache(self.vocabulary, self.counting)
        for each in self._utterances.values():
            self._cache.add(each.personal(self.counting.nbest))
        self._derived = _Derived()

    def _after_forgetting(self) -> None:
        self._recount()
        lines = [text.split() for each in self._utterances.values() for text in each.texts]
        # <unk> identifies no word.
        words = {UNKNOWN, *(word for line in lines for word in line)}
        pairs = {pair for line in lines for pair in pairs_of(line)}
        self._log.forget_words({KINDS[1]: words, KINDS[2]: pairs})
        if self._file is not None:
            self._write()

    def _plain(self, log: ContributionLog | None = None) -> bytes:
        state = {
            "version": VERSION,
            "user": self.user,
            "vocabulary": self.vocabulary.digest,
            "counting": self.counting.to_json(),
            "caps": self.caps.to_json(),
            "heard": [[each.id, each.texts, each.correction] for each in self._utterances.values()],
            "everybody": self._received.to_json(),
            "book": (log or self._log).to_json(),
            "last": None if self._last is None else self._last.to_json(),
        }
        return json.dumps(state, ensure_ascii=False, sort_keys=True).encode()

    @contextmanager
    def _unchanged_on_disk(self) -> Iterator[None]:
        """Lock the file, if there is one, and decline if another process has written it."""
        file = self._file
        with nullcontext() if file is None else file.locked():
            if file is not None and not self._is_newest(file):
                raise Declined(
                    f"Expected the newest state of the device, but {file.path} was changed by "
                    "another process or deleted: load it again."
                )
            yield

    def _is_newest(self, file: SealedFile) -> bool:
        newest = file.newest()
        # One less if a crash came between writing the file and its counter.
        return file.path.exists() and newest in (self._serial, self._serial - 1)

    def _write(self) -> None:
        assert self._file is not None
        with self._file.locked():
            self._write_locked()

    def _write_locked(self) -> None:
        file = self._file
        assert file is not None
        if not self._is_newest(file) and self._log.closed != _RESTORED:
            raise InvalidInput(
                f"Expected the newest state of the device, but {file.path} was changed by another "
                "process or deleted: load it again."
            )
        file.write(self._plain(), self._serial + 1)
        self._serial += 1

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            "Expected a device that is not copied or pickled, got a copy: use save, since two logs "
            "would each hold only half of what was sent."
        )


def _check_words(vocabulary: Vocabulary, lm: LanguageModel | None) -> None:
    if lm is None:
        return
    theirs = lm.vocabulary
    if theirs.words != vocabulary.words or not np.allclose(theirs.unigram, vocabulary.unigram):
        raise InvalidInput(
            "Expected the vocabulary of the language model, got another: pass lm.vocabulary."
        )


def _tuned(weights: Weights | Trust | None) -> Tuned:
    return (
        _UNTUNED
        if not isinstance(weights, Weights)
        else replace(_UNTUNED, background=weights, adapted=weights)
    )
