"""The device: hears what belongs to the rounds so far, and sends what is new.

A device that was not sampled for some rounds hears them when it is next asked, so that it ends up
where it would have been. Its cache lives in Flower's context and never leaves as a whole. Flower
is loaded when `app` is asked for, so that the module can be read without it.
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

__all__ = ["app", "client_app", "contribute"]  # noqa: F822 - `app` is made by __getattr__


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
    """Answer the server's call for counts.

    Flower's secure aggregation has a place of its own for the order, and masks the answer.
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
            "Expected an order that counts by the rules of this device (words, kernel, caps), got "
            "another: nothing is sent."
        )
    heard = 0
    if "cache" in context.state:
        saved = context.state["cache"]
        assert isinstance(saved, ArrayRecord)
        told = context.state["progress"]
        assert isinstance(told, ConfigRecord)
        if told.get("rules") != client.cache.rules:
            raise InvalidInput(
                "Expected the rules of the rounds before (words, kernel, caps), got others: caps "
                "would start anew."
            )
        client.cache.restore({name: array.numpy() for name, array in saved.items()})
        heard = int(str(told["heard"]))
    if number <= heard:
        raise InvalidInput(f"Expected a round after {heard}, got {number} again.")
    for missed in range(heard + 1, number):
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
    """The utterances of this device: its own file, or its share of a simulation."""
    own = str(context.node_config.get("nbest", ""))
    if own:
        lists = _lists(own)
        return [NBest(e.id, e.hypotheses, None, "me", e.order) for e in lists]
    everybody = by_client(_lists(settings.nbest))
    place = int(str(context.node_config["partition-id"]))
    if place >= len(everybody):
        raise InvalidInput(f"Expected fewer than {len(everybody)} nodes, got node {place}.")
    return everybody[sorted(everybody)[place]]


@lru_cache(maxsize=2)
def _lists(path: str) -> list[NBest]:
    return list(read_nbest(path))


@lru_cache(maxsize=2)
def _vocabulary(path: str) -> Vocabulary:
    return Vocabulary.load(Path(path))
