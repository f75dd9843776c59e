"""The Flower client: answers a request for counts from its own utterances.

A real device has its own lists (`nbest` in its node configuration) and is a `Personaliser`: its
log is a file that outlasts runs and servers, so every utterance is sent once, whoever asks. A node
of a simulation takes its partition of the lists that all nodes share; its cache is stored in
Flower's context. Flower is imported when `app` is accessed, so the module can be imported without
it.
"""

import json
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.errors import InvalidInput
from sottovoce.personalize.device.messages import RoundRequest
from sottovoce.personalize.federated.counting import same_rules
from sottovoce.personalize.federated.federation import clients_of
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.flower import device
from sottovoce.personalize.flower.masking import mask_when_asked, to_be_masked
from sottovoce.personalize.flower.settings import unpacked_words
from sottovoce.personalize.lm.vocabulary import Vector, Vocabulary
from sottovoce.personalize.nbest.formats import read_nbest
from sottovoce.personalize.nbest.lists import NBest, by_client
from sottovoce.privacy.recipes.federate import Release
from sottovoce.privacy.sampling import SamplingKey

if TYPE_CHECKING:
    from flwr.app import ConfigRecord, Context, Message
    from flwr.clientapp import ClientApp

__all__ = ["app", "client_app", "contribute", "ready", "receive"]  # noqa: F822 - __getattr__


@cache
def client_app() -> "ClientApp":
    """The app that Flower runs on a device."""
    from flwr.clientapp import ClientApp

    made = ClientApp(mods=[mask_when_asked])
    made.train()(contribute)
    made.query()(ready)
    made.evaluate()(receive)
    return made


def __getattr__(name: str) -> object:
    if name == "app":
        return client_app()
    raise AttributeError(name)


def contribute(message: "Message", context: "Context") -> "Message":
    """Answer the server's request for counts, or decline with the reason.

    Flower's secure aggregation passes the request in a different field, and masks the answer.
    """
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

    secure = "fitins.config" in message.content
    order = _order(message, "fitins.config" if secure else "order")
    request, words = _request(order)
    about: dict[str, str | bytes] = {}
    if device.is_real(context.node_config):
        answer = device.answer(context.node_config, request, words, replayable=not secure)
        if isinstance(answer, str):
            if secure:
                raise InvalidInput(answer)
            about = {"declined": answer}
            return Message(RecordDict({"about": ConfigRecord({**about})}), reply_to=message)
        counts, about = answer.counts(len(words)), {"rules": answer.rules, "name": answer.device}
    else:
        counts, rules = _simulated(order, request, words, context)
        about = {"rules": rules}
    if secure:
        return Message(to_be_masked(counts, context), reply_to=message)
    content = RecordDict(
        {"counts": ArrayRecord({"counts": Array(counts)}), "about": ConfigRecord({**about})}
    )
    return Message(content, reply_to=message)


def ready(message: "Message", context: "Context") -> "Message":
    """Say whether this node would answer the round; a dead node says nothing."""
    from flwr.app import ConfigRecord, Message, RecordDict

    order = _order(message, "order")
    reason = ""
    if device.is_real(context.node_config):
        reason = device.reason_to_decline(context.node_config, *_request(order))
    return Message(RecordDict({"about": ConfigRecord({"declined": reason})}), reply_to=message)


def receive(message: "Message", context: "Context") -> "Message":
    """Store the released marginals for rescoring on this device."""
    from flwr.app import ConfigRecord, Message, RecordDict

    if device.is_real(context.node_config):
        device.receive(context.node_config, bytes(_order(message, "released")["marginals"]))  # type: ignore[arg-type]
    return Message(RecordDict({"about": ConfigRecord({"received": 1})}), reply_to=message)


def _order(message: "Message", name: str) -> "ConfigRecord":
    from flwr.app import ConfigRecord

    order = message.content.get(name)
    if not isinstance(order, ConfigRecord):
        raise InvalidInput("Expected a request for counts, got another message.")
    return order


def _request(order: "ConfigRecord") -> tuple[RoundRequest, Vocabulary]:
    """The request in the form of `RoundRequest`, and the words to count."""
    packed = order["words"]
    words = unpacked_words(packed if isinstance(packed, bytes) else b"")
    plan = ReleasePlan.from_json(json.loads(str(order["plan"])))
    request = RoundRequest(
        server=str(order["server"]),
        run=str(order["run"]),
        number=int(str(order["round"])),
        plan=plan,
        rules=str(order["rules"]),
        pairs=words.words if plan.counting.order > 1 else None,
    )
    return request, words


def _simulated(
    order: "ConfigRecord", request: RoundRequest, words: Vocabulary, context: "Context"
) -> tuple[Vector, str]:
    """The counts of one partition; a node that was not sampled catches up when it is next asked."""
    from flwr.app import Array, ArrayRecord, ConfigRecord

    given: dict[str, Any] = json.loads(str(order["simulation"]) or "{}")
    if not given:
        raise InvalidInput('Expected nbest="FILE" in the node configuration of a device, got none.')
    (client,) = clients_of(
        _partition(given["nbest"], context),
        words,
        request.plan,
        rounds=given["rounds"],
        key=SamplingKey(bytes.fromhex(given["round_key"])),
    )
    if not same_rules(client.cache.rules, request.rules):
        raise InvalidInput(
            "Expected a request with the rules of this device (words, kernel, caps), got others: "
            "nothing is sent."
        )
    done = 0
    if "cache" in context.state:
        saved, progress = context.state["cache"], context.state["progress"]
        assert isinstance(saved, ArrayRecord)
        assert isinstance(progress, ConfigRecord)
        if progress.get("rules") != client.cache.rules:
            raise InvalidInput(
                "Expected the rules of earlier rounds (words, kernel, caps), got others: keep the "
                "rules, or the caps would start over."
            )
        client.cache.restore({name: array.numpy() for name, array in saved.items()})
        done = int(str(progress["heard"]))
    if request.number <= done:
        raise InvalidInput(f"Expected a round after {done}, got {request.number} again.")
    for replayed in range(done + 1, given["done"] + 1):
        client.replay(replayed)
    for missed in range(max(done, given["done"]) + 1, request.number):
        client.skip(missed)
    cumulative = request.plan.release is Release.CUMULATIVE and not given["noiseless"]
    counts = client.contribute(request.number, cumulative=cumulative)
    context.state["cache"] = ArrayRecord(
        {name: Array(np.asarray(vector)) for name, vector in client.cache.arrays().items()}
    )
    context.state["progress"] = ConfigRecord({"heard": request.number, "rules": client.cache.rules})
    return counts, client.cache.rules


def _partition(path: str, context: "Context") -> list[NBest]:
    clients = by_client(_lists(path))
    place = int(str(context.node_config["partition-id"]))
    if place >= len(clients):
        raise InvalidInput(f"Expected fewer than {len(clients)} nodes, got node {place}.")
    return clients[sorted(clients)[place]]


@lru_cache(maxsize=2)
def _lists(path: str) -> list[NBest]:
    return list(read_nbest(path))
