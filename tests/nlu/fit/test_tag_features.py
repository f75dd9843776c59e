"""Tags whose names have parts in common are learnt together, and only they."""

import torch
from tests.nlu.tiny import SCHEMA, UTTERANCES, shake, tiny_clc
from tests.training.reference import Partition, assert_exact

from sottovoce.nlu.fit.data import Encodings
from sottovoce.nlu.model import JointModel, tag_features
from sottovoce.nlu.schema import Schema

TAGS = Schema(
    intents=("fly",),
    slot_types=("arrive.city", "depart.city", "depart.day", "meal"),
    slots_of=None,
    declared=True,
).tags


def alike(one: str, other: str) -> float:
    """The part of a step for one tag that another one gets as well."""
    shares = tag_features(TAGS)
    return float(shares[TAGS.index(one)] @ shares[TAGS.index(other)])


def test_a_tag_is_most_like_itself() -> None:
    shares = tag_features(TAGS)
    torch.testing.assert_close(shares.norm(dim=1), torch.ones(len(TAGS)))
    products = shares @ shares.T
    assert bool((products.argmax(1) == torch.arange(len(TAGS))).all())
    assert int(torch.linalg.matrix_rank(shares)) == len(TAGS), "every scoring must be reachable"


def test_likeness_goes_by_the_parts_of_names() -> None:
    assert alike("B-arrive.city", "B-depart.city") > alike("B-arrive.city", "B-depart.day") > 0
    assert alike("B-depart.day", "B-depart.city") > alike("B-depart.day", "B-meal")
    assert alike("B-meal", "B-arrive.city") == alike("B-meal", "B-depart.day")  # both begin a slot
    assert alike("O", "B-meal") == alike("O", "I-depart.day") == 0


def test_names_without_common_parts_share_borders_only() -> None:
    shares = tag_features(SCHEMA.tags)
    assert shares.shape == (len(SCHEMA.tags), len(SCHEMA.tags) + 3)


def test_one_tag_teaches_another() -> None:
    """A step for one city's tag raises the other city's above the meal's, at the same word."""
    schema = Schema(
        intents=("fly",), slot_types=("arrive.city", "depart.city", "meal"), slots_of=None,
        declared=True,
    )  # fmt: skip
    raised = {}
    for share in (True, False):
        torch.manual_seed(0)
        model = JointModel(schema, tiny_clc(), share_names=share)
        inputs = model.encoder.collate([model.encoder.prepare(["call"])])
        model.heads(inputs)[1][0, 0, schema.tags.index("B-arrive.city")].backward()  # type: ignore[no-untyped-call]
        gradient = model.slot.weight.grad
        assert gradient is not None
        with torch.no_grad():
            model.slot.weight += 0.1 * gradient
            scores = dict(zip(schema.tags, model.heads(inputs)[1][0, 0].tolist(), strict=True))
        raised[share] = scores["B-depart.city"] - scores["B-meal"]
    assert raised[True] > 0
    assert raised[False] == 0


def test_clipping_stays_exact() -> None:
    torch.manual_seed(0)
    model = JointModel(SCHEMA, tiny_clc(), share_names=True)
    shake(model)
    batch = Encodings(model, UTTERANCES).batch(range(4))
    for groups in ([0, 1, 2, 3], [0, 0, 1, 1]):
        partition = Partition(torch.tensor(groups), max(groups) + 1)
        assert_exact(model, lambda: model(batch), partition)


def test_it_is_remembered() -> None:
    model = JointModel(SCHEMA, tiny_clc(), share_names=True)
    shake(model)
    again = JointModel.from_json(model.to_json(), SCHEMA, model.encoder.files())
    again.load_state_dict(model.state_dict())
    words = [u.tokens for u in UTTERANCES]
    assert again.eval().predict(words) == model.eval().predict(words)
