import itertools
import math

import pytest
import torch
from tests.nlu.tiny import SCHEMA, UTTERANCES, shake, tiny_bert, tiny_clc

from sottovoce.corpora import Utterance, check_bio
from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.whitening import Readout
from sottovoce.nlu.fit.data import Encodings
from sottovoce.nlu.model import JointModel
from sottovoce.nlu.schema import Schema
from sottovoce.training import Method, Plan, PrivateTraining

FREE = Schema.of(UTTERANCES, declared=True, ontology=False)


def shaken(schema: Schema = SCHEMA, seed: int = 0) -> JointModel:
    torch.manual_seed(seed)
    model = JointModel(schema, tiny_clc()).eval()
    shake(model, 1.0)
    return model


def every_labelling(schema: Schema, words: int) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (intent, tags)
        for intent in schema.intents
        for tags in itertools.product(schema.tags, repeat=words)
    ]


def labelled(intent: str, tags: tuple[str, ...]) -> Utterance:
    return Utterance(tokens=("call", "jazz")[: len(tags)], slots=tags, intent=intent)


def test_probabilities_of_all_labellings_add_up() -> None:
    model = shaken()
    logs = model.log_probabilities([labelled(*each) for each in every_labelling(SCHEMA, 2)])
    assert math.fsum(map(math.exp, logs)) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_the_best_pair_that_the_ontology_allows(seed: int) -> None:
    """Against all labellings; three intents are all tried."""
    model = shaken(seed=seed)
    allowed = []
    for intent, tags in every_labelling(SCHEMA, 2):
        try:
            check_bio(tags)
        except InvalidInput:
            continue
        assert SCHEMA.slots_of is not None
        if {tag[2:] for tag in tags if tag != "O"} <= SCHEMA.slots_of[intent]:
            allowed.append((intent, tags))
    logs = model.log_probabilities([labelled(*each) for each in allowed])
    best = allowed[max(range(len(logs)), key=logs.__getitem__)]
    (found,) = model.predict([["call", "jazz"]])
    assert (found.intent, found.slots) == best


def test_without_an_ontology_intent_and_slots_are_decoded_by_themselves() -> None:
    model = shaken(FREE, seed=3)
    found = model.predict([u.tokens for u in UTTERANCES])
    intents, words = model.scores(UTTERANCES)
    for prediction, row, marginal in zip(found, intents, words, strict=True):
        assert prediction.intent == FREE.intents[int(row.argmax())]
        assert prediction.probability == pytest.approx(float(row.max()), abs=1e-5)
        check_bio(prediction.slots)
        numbers = FREE.tag_numbers(prediction.slots)
        expected = marginal[torch.arange(len(numbers)), torch.tensor(numbers)]
        assert prediction.slot_probabilities == pytest.approx(expected.tolist(), abs=1e-5)
        torch.testing.assert_close(marginal.sum(1), torch.ones(len(numbers)))


def test_losses_are_minus_the_log_probabilities() -> None:
    model = shaken()
    losses = model.losses(Encodings(model, UTTERANCES).batch(range(4)))
    torch.testing.assert_close(-losses, torch.tensor(model.log_probabilities(UTTERANCES)))
    model.slot_reduction = "mean"
    shorter = model.losses(Encodings(model, UTTERANCES).batch(range(4)))
    assert bool((shorter[:2] < losses[:2]).all())
    torch.testing.assert_close(shorter[2], losses[2])


def test_order_and_batch_size_do_not_matter() -> None:
    model = shaken()
    tokens = [u.tokens for u in UTTERANCES] * 3
    one, many = (model.predict(tokens, batch_size=size) for size in (1, 64))
    assert [p.slots for p in one] == [p.slots for p in many]
    assert [len(p.slots) for p in one] == [len(t) for t in tokens]
    assert model.predict([]) == []


def test_predicting_leaves_the_mode_as_it_was() -> None:
    model = JointModel(SCHEMA, tiny_clc(dropout=0.5))
    shake(model)
    model.train()
    first, second = (model.predict([["call", "mum"]])[0].probability for _ in range(2))
    assert first == second
    assert model.training


def test_unknown_labels_have_no_probability() -> None:
    with pytest.raises(InvalidInput, match="'dance'"):
        shaken().log_probabilities([Utterance(tokens=("x",), slots=("O",), intent="dance")])


def test_refusals() -> None:
    encoder = tiny_clc()
    with pytest.raises(InvalidInput, match="widths 12"):
        JointModel(SCHEMA, encoder, Readout(5, 5))
    with pytest.raises(InvalidInput, match="slot_reduction"):
        JointModel(SCHEMA, encoder, slot_reduction="max")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="at least one token"):
        shaken().predict([[]])


@pytest.mark.parametrize("kind", ["clc", "bert"])
def test_it_learns_privately(kind: str) -> None:
    """With hardly any noise the training set is learnt; what it cost is still known."""
    torch.manual_seed(0)
    model = JointModel(SCHEMA, tiny_clc() if kind == "clc" else tiny_bert())
    encodings = Encodings(model, UTTERANCES)
    plan = Plan(
        population=4, batch_size=4, epochs=60, delta=0.1, noise_multiplier=0.05, clip_norm=1.0,
        method=Method.DP_SGD,
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    training = PrivateTraining(plan, model, optimizer, owners=4, seed=0)
    model.train()
    for step in training.steps():
        for indices in step:
            step.backward(model.losses(encodings.batch(indices)))
    predicted = model.predict([u.tokens for u in UTTERANCES])
    assert [p.intent for p in predicted] == [u.intent for u in UTTERANCES]
    assert [p.slots for p in predicted] == [u.slots for u in UTTERANCES]
    assert training.guarantee().epsilon > 100
