"""A real device behind a Flower node: its lists, its saved state and its owner's budget.

The node configuration names them: `nbest`, the file of its lists, to which utterances are added as
they are heard; `state` and `key`, by default beside it; `epsilon` and `delta`, the owner's budget,
without which nothing is sent. The first request that the owner's budget allows fixes the words, the
kernel and the caps of the device. Later requests with others are declined.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output
from sottovoce.personalize.device.messages import Contribution, RoundRequest
from sottovoce.personalize.device.sealed import KEY_BYTES
from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.formats import read_nbest
from sottovoce.personalize.personaliser import Personaliser
from sottovoce.privacy.guarantee import Budget

Config = Mapping[str, Any]
_WORDS = ".vocabulary.json"


def is_real(config: Config) -> bool:
    """Whether the node has lists of its own, and is not a partition of a simulation."""
    return bool(config.get("nbest"))


def answer(
    config: Config, request: RoundRequest, words: Vocabulary, *, replayable: bool
) -> Contribution | str:
    """The logged contribution to a round, or the reason for declining.

    A round that is asked for again gets the same answer, if it is `replayable`. Masked answers are
    not: sums over different nodes would reveal one of them.
    """
    with _device(config, request, words) as found:
        if isinstance(found, str):
            return found
        sent = found.contribute(request, replayable=replayable)
        if sent is None:
            return found.refusal or "Nothing is sent."
        return Contribution.from_bytes(sent)


def reason_to_decline(config: Config, request: RoundRequest, words: Vocabulary) -> str:
    """Why the device would not answer; empty if it would. Nothing is logged."""
    with _device(config, request, words) as found:
        return found if isinstance(found, str) else found.reason_to_decline(request) or ""


def receive(config: Config, marginals: bytes) -> None:
    """Store released marginals in the state of the device, if it has one."""
    place = _state(config)
    if place.exists():
        with _locked(place):
            device = _load(config, place)
            device.receive(Marginals.from_bytes(marginals))
            device.save()


@contextmanager
def _device(
    config: Config, request: RoundRequest, words: Vocabulary
) -> Iterator[Personaliser | str]:
    """The device with everything that its lists hold by now."""
    place, plan = _state(config), request.plan
    budget = _budget(config)
    if budget is None:
        yield "Expected epsilon=... in the node configuration, the owner's budget, got none."
        return
    with _locked(place):
        if place.exists():
            device = _load(config, place)
        elif plan.counting.order > 1:
            yield "Expected a request for words before one for pairs, got none."
            return
        else:
            words.save(_words(place))
            device = Personaliser(words, counting=plan.counting, caps=plan.caps, budget=budget)
            device.save(place, _key(config, place))
        device.budget = budget
        known = set(device.utterances)
        for each in read_nbest(config["nbest"]):
            # Utterances that were sent and then forgotten are never heard again.
            if each.id not in known and not device.was_sent(each.id):
                device.hear(replace(each, client=None))
        device.save()
        yield device


def _load(config: Config, place: Path) -> Personaliser:
    return Personaliser.load(place, _key(config, place), Vocabulary.load(_words(place)))


def _state(config: Config) -> Path:
    return Path(str(config.get("state") or f"{config['nbest']}.device"))


def _words(place: Path) -> Path:
    return place.with_name(place.name + _WORDS)


def _budget(config: Config) -> Budget | None:
    if config.get("epsilon") is None:
        return None
    return Budget(epsilon=float(config["epsilon"]), delta=float(config.get("delta", 0.0)))


def _key(config: Config, place: Path) -> bytes:
    """The key of the state: from the file that the owner names, or made once beside the state."""
    path = Path(str(config.get("key") or f"{place}.key"))
    if not path.exists():
        if config.get("key") or place.exists():
            raise InvalidInput(f"Expected the key of the device in {path}, got no such file.")
        with output(path, mode=0o600) as stream:
            stream.write(os.urandom(KEY_BYTES))
    return path.read_bytes()


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """One process at a time: Flower may start several for one node."""
    handle = os.open(f"{place}.node.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
