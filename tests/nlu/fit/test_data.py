import pytest
import torch
from tests.nlu.tiny import SCHEMA, UTTERANCES, shake, tiny_bert, tiny_clc

from sottovoce.corpora import Utterance
from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.base import Encoded
from sottovoce.nlu.encoders.tuning import Tuning, tune
from sottovoce.nlu.encoders.whitening import Readout, ReadoutPlan, Whitening
from sottovoce.nlu.fit.data import Encodings
from sottovoce.nlu.fit.loop import fit
from sottovoce.nlu.fit.optimisation import Optimisation
from sottovoce.nlu.model import JointModel
from sottovoce.training import Plan


def frozen_model() -> JointModel:
    torch.manual_seed(0)
    encoder = tiny_bert(layers=(1, 2))
    tune(encoder, Tuning())
    readout = Readout(
        encoder.width, encoder.summary_width, ReadoutPlan(whitening=Whitening.WHITEN, window=1)
    )
    readout.fit(encoder, [utterance.tokens for utterance in UTTERANCES])
    model = JointModel(SCHEMA, encoder, readout)
    shake(model)
    return model


def test_labels_and_padding() -> None:
    model = JointModel(SCHEMA, tiny_clc())
    encodings = Encodings(model, UTTERANCES)
    batch = encodings.batch(torch.tensor([2, 0]))
    assert len(encodings) == 4
    assert not encodings.cached
    assert batch.intents.tolist() == [2, 0]
    assert batch.tags.tolist() == [[0, 0], [0, 3]]
    assert batch.mask.tolist() == [[True, False], [True, True]]
    assert encodings.batch([2]).tags.tolist() == [[0]]


@pytest.mark.parametrize(("half", "tolerance"), [(False, 1e-4), (True, 3e-2)])
def test_kept_vectors_give_the_losses_of_computed_ones(half: bool, tolerance: float) -> None:
    model = frozen_model()
    kept = Encodings(model, UTTERANCES, half=half)
    computed = Encodings(model, UTTERANCES, cache=False)
    assert kept.cached
    assert not computed.cached
    for chosen in ([0, 1, 2, 3], [3], [2, 1]):
        batch = kept.batch(chosen)
        assert isinstance(batch.inputs, Encoded)
        losses = model.losses(batch)
        torch.testing.assert_close(
            losses, model.losses(computed.batch(chosen)), atol=tolerance, rtol=tolerance
        )


@pytest.mark.parametrize("lengths", [[3], [5, 1, 5, 2], [4] * 9, [1, 900, 8, 9, 10, 7, 2]])
def test_groups_of_similar_length(lengths: list[int]) -> None:
    words = [Utterance(tokens=("call",) * n, slots=("O",) * n, intent="call") for n in lengths]
    encodings = Encodings(JointModel(SCHEMA, tiny_clc()), words)
    indices = torch.arange(len(lengths))
    groups = encodings.groups_by_length(indices)
    assert sorted(torch.cat(groups).tolist()) == indices.tolist()
    for group in groups:
        inside = encodings.lengths[group]
        assert len(group) * int(inside.max()) <= 1.5 * int(inside.sum())
    once = [int(i) for batch in encodings.batches_by_length(4) for i in batch]
    assert sorted(once) == indices.tolist()
    assert all(len(batch) <= 4 for batch in encodings.batches_by_length(4))


def test_memory_is_bounded() -> None:
    model = frozen_model()
    assert not Encodings(model, UTTERANCES, limit=100).cached
    with pytest.raises(InvalidInput, match="at most 100 bytes"):
        Encodings(model, UTTERANCES, cache=True, limit=100)
    with pytest.raises(InvalidInput, match="frozen"):
        Encodings(JointModel(SCHEMA, tiny_clc()), UTTERANCES, cache=True)


def test_one_pass_sees_everything_once_by_length() -> None:
    encodings = Encodings(JointModel(SCHEMA, tiny_clc()), UTTERANCES)
    pieces = [piece.tolist() for piece in encodings.batches_by_length(3)]
    assert pieces == [[2, 0, 1], [3]]


def test_unknown_labels_are_refused_unless_they_do_not_matter() -> None:
    model = JointModel(SCHEMA, tiny_clc())
    strange = Utterance(tokens=("dance",), slots=("B-how",), intent="dance")
    with pytest.raises(InvalidInput, match=r"Utterance 2: .*'dance'"):
        Encodings(model, [UTTERANCES[0], strange])
    assert Encodings(model, [strange], labelled=False).batch([0]).tags.tolist() == [[0]]


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one example"):
        Encodings(JointModel(SCHEMA, tiny_clc()), UTTERANCES).batch([])


def test_heads_trained_without_their_encoder_are_those_trained_with_it() -> None:
    plan = Plan(population=4, batch_size=2, epochs=3, delta=0.01, noise_multiplier=1.0)
    heads = []
    for cache in (True, False):
        model = frozen_model()
        encoder = {name: x.clone() for name, x in model.encoder.state_dict().items()}
        fit(model, Encodings(model, UTTERANCES, cache), plan, Optimisation(), owners=4, seed=1)
        for name, x in model.encoder.state_dict().items():
            torch.testing.assert_close(x, encoder[name], rtol=0, atol=0)
        heads.append([x.detach() for x in (*model.slot.parameters(), *model.intent.parameters())])
    for one, other in zip(*heads, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_a_frozen_encoder_that_is_changed_while_training_is_noticed() -> None:
    model = frozen_model()
    weight = next(model.encoder.parameters())
    plan = Plan(population=4, batch_size=2, epochs=1, delta=0.01, noise_multiplier=1.0)

    def change(_: object) -> None:
        with torch.no_grad():
            weight.add_(1.0)

    with pytest.raises(InvalidInput, match="it was changed"):
        fit(model, Encodings(model, UTTERANCES), plan, Optimisation(), owners=4, on_step=change)


def test_utterances_of_the_same_words_share_vectors() -> None:
    model = frozen_model()
    counts: list[int] = []
    twice = Encodings(model, (*UTTERANCES, *UTTERANCES), on_count=counts.append)
    assert counts[-1] == 8
    one, other = twice.batch([0, 1, 2, 3]), twice.batch([4, 5, 6, 7])
    once = Encodings(model, UTTERANCES).batch([0, 1, 2, 3])
    for batch in (one, other):
        assert isinstance(batch.inputs, Encoded)
        assert isinstance(once.inputs, Encoded)
        torch.testing.assert_close(batch.inputs.words, once.inputs.words)
        torch.testing.assert_close(batch.inputs.utterance, once.inputs.utterance)
        assert torch.equal(batch.tags, once.tags)
