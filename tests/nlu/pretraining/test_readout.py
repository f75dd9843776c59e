"""An adapted encoder's folder: what is loaded reads like what was saved."""

from pathlib import Path

import pytest
import torch
from tests.nlu.tiny import UTTERANCES, tiny_bert

from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import write_together
from sottovoce.nlu.encoders.bert import save_encoder
from sottovoce.nlu.encoders.whitening import ReadoutPlan, Whitening
from sottovoce.nlu.pretraining import fit_readout, has_readout, load_readout, readout_files

PLAN = ReadoutPlan(whitening=Whitening.WHITEN, components=5, window=1)


def save(folder: Path) -> torch.Tensor:
    torch.manual_seed(0)
    public = [utterance.tokens for utterance in UTTERANCES] * 3
    encoder, readout = fit_readout(tiny_bert(), public, PLAN, layers=(1, 2), summary="both")
    save_encoder(encoder, folder)
    write_together(folder, readout_files(encoder, readout))
    inputs = encoder.collate([encoder.prepare(["play", "mum"])])
    words: torch.Tensor = readout(encoder.eval()(inputs)).words
    return words


@torch.no_grad()
def test_what_is_loaded_reads_like_what_was_saved(tmp_path: Path) -> None:
    expected = save(tmp_path)
    assert has_readout(tmp_path)
    encoder, readout = load_readout(tmp_path)
    assert encoder.layers == (1, 2)
    inputs = encoder.collate([encoder.prepare(["play", "mum"])])
    torch.testing.assert_close(readout(encoder.eval()(inputs)).words, expected)


def test_a_folder_without_statistics_is_reported(tmp_path: Path) -> None:
    assert not has_readout(tmp_path)
    with pytest.raises(InvalidInput, match=r"readout\.json"):
        load_readout(tmp_path)


def test_broken_statistics_are_refused(tmp_path: Path) -> None:
    save(tmp_path)
    (tmp_path / "readout.safetensors").write_bytes(b"nothing")
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_readout(tmp_path)
