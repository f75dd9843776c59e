"""The Flower client: counts the utterances of the rounds so far, and sends the increment.

A device that was not sampled for some rounds catches up when it is next asked. Its cache is stored
in Flower's context and is never sent as a whole. Flower is imported when `app` is accessed, so the
module can be imported without it.
"""

from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.counting import same_rules
from sottovoce.personalize.federated.federation import clients_of
from sottovoce.personalize.flower.masking import mask_when_asked, to_be_masked
from sottovoce.personalize.flower.settings import FederationSettings
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.formats import read_nbest
from sottovoce.personalize.nbest.lists import NBest, by_client
from sottovoce.privacy.recipes.federate import Release

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

__all__ = ["app", "client_app", "contribute"]  # noqa: F822 - `app` comes from __getattr__


@cache
def client_app() -> "ClientApp":
    """The app that Flower runs on a device."""
    from flwr.clientapp import ClientApp

    made = ClientApp(mods=[mask_when_asked])
    made.train()(contribute)
    return made


def __getattr__(name: str) -> object:
    if name == "app":
        return client_app()
    raise AttributeError(name)


def contribute(message: "Message", context: "Context") -> "Message":
    """Answer the server's request for counts.

    Flower's secure aggregation passes the request in a different field, and masks the answer.
    """
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

    secure = "fitins.config" in message.content
    order = message.content["fitins.config" if secure else "order"]
    assert isinstance(order, ConfigRecord)
    settings = FederationSettings.from_text(str(order["settings"]))
    number = int(str(order["round"]))
    plan = settings.release_plan()
    mine = _mine(settings, context)
    vocabulary = _vocabulary(settings.vocabulary)
    (client,) = clients_of(
        mine, vocabulary, plan, rounds=settings.rounds, key=settings.assignment()
    )
    if not same_rules(client.cache.rules, str(order["rules"])):
        raise InvalidInput(
            "Expected a request with the rules of this device (words, kernel, caps), got others: "
            "nothing is sent."
        )
    done = 0
    if "cache" in context.state:
        saved = context.state["cache"]
        assert isinstance(saved, ArrayRecord)
        progress = context.state["progress"]
        assert isinstance(progress, ConfigRecord)
        if progress.get("rules") != client.cache.rules:
            raise InvalidInput(
                "Expected the rules of earlier rounds (words, kernel, caps), got others: keep the "
                "rules, or the caps would start over."
            )
        client.cache.restore({name: array.numpy() for name, array in saved.items()})
        done = int(str(progress["heard"]))
    if number <= done:
        raise InvalidInput(f"Expected a round after {done}, got {number} again.")
    for missed in range(done + 1, number):
        client.skip(missed)
    cumulative = plan.release is Release.CUMULATIVE and not settings.noiseless
    counts = client.contribute(number, cumulative=cumulative)
    context.state["cache"] = ArrayRecord(
        {name: Array(vector) for name, vector in client.cache.arrays().items()}
    )
    context.state["progress"] = ConfigRecord({"heard": number, "rules": client.cache.rules})
    if secure:
        return Message(to_be_masked(counts, context), reply_to=message)
    answer = RecordDict(
        {
            "counts": ArrayRecord({"counts": Array(counts)}),
            "about": ConfigRecord({"rules": client.cache.rules}),
        }
    )
    return Message(answer, reply_to=message)


def _mine(settings: FederationSettings, context: "Context") -> list[NBest]:
    """The utterances of this device: its own file, or its partition of a simulation."""
    own = str(context.node_config.get("nbest", ""))
    if own:
        lists = _lists(own)
        return [NBest(e.id, e.hypotheses, None, "me", e.order) for e in lists]
    clients = by_client(_lists(settings.nbest))
    place = int(str(context.node_config["partition-id"]))
    if place >= len(clients):
        raise InvalidInput(f"Expected fewer than {len(clients)} nodes, got node {place}.")
    return clients[sorted(clients)[place]]


@lru_cache(maxsize=2)
def _lists(path: str) -> list[NBest]:
    return list(read_nbest(path))


@lru_cache(maxsize=2)
def _vocabulary(path: str) -> Vocabulary:
    return Vocabulary.load(Path(path))
