import pytest
import torch
from tests.nlu.tiny import UTTERANCES, tiny_clc

from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.base import Encoded
from sottovoce.nlu.encoders.whitening import Readout, ReadoutPlan, Whitening

PUBLIC = [utterance.tokens for utterance in UTTERANCES] * 3


def learnt(plan: ReadoutPlan) -> tuple[Readout, Encoded]:
    torch.manual_seed(0)
    encoder = tiny_clc()
    readout = Readout(encoder.width, encoder.summary_width, plan)
    readout.fit(encoder, PUBLIC, batch_size=5)
    with torch.no_grad():
        encoded = encoder(encoder.collate([encoder.prepare(tokens) for tokens in PUBLIC]))
    return readout, encoded


def test_nothing_is_trained() -> None:
    readout, _ = learnt(ReadoutPlan(whitening=Whitening.WHITEN, window=1))
    assert not list(readout.parameters())


def test_standardised_on_the_public_text() -> None:
    readout, encoded = learnt(ReadoutPlan(whitening=Whitening.STANDARDISE, ridge=0.0))
    seen = readout(encoded)
    words = seen.words[seen.mask]
    torch.testing.assert_close(words.mean(0), torch.zeros(12), atol=1e-4, rtol=0)
    torch.testing.assert_close(words.std(0, unbiased=False), torch.ones(12), atol=1e-3, rtol=0)
    assert seen.words[~seen.mask].abs().max() == 0


def test_whitened_strongest_first() -> None:
    readout, encoded = learnt(
        ReadoutPlan(whitening=Whitening.WHITEN, components=4, summary_components=3, ridge=0.0)
    )
    seen = readout(encoded)
    words = seen.words[seen.mask]
    assert (readout.width, readout.summary_width) == (4, 3)
    covariance = torch.cov(words.t(), correction=0)
    torch.testing.assert_close(covariance, torch.eye(4), atol=2e-3, rtol=0)
    plain = encoded.words[encoded.mask]
    strongest = torch.linalg.eigh(torch.corrcoef(plain.t()))[1][:, -1]
    first = readout.words.scale[:, 0] * plain.std(0)
    assert abs(torch.cosine_similarity(first, strongest, 0)) > 0.999


def test_one_long_on_average() -> None:
    for whitening in (Whitening.WHITEN, Whitening.STANDARDISE):
        readout, encoded = learnt(ReadoutPlan(whitening=whitening, unit=True))
        seen = readout(encoded)
        squares = seen.words[seen.mask].square().sum(-1)
        assert float(squares.mean()) == pytest.approx(1, abs=1e-3)
        assert float(squares.std()) > 0.01  # single vectors keep their own lengths


def test_neighbours_and_nothing_beyond_the_ends() -> None:
    readout = Readout(2, 3, ReadoutPlan(window=1))
    words = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]]])
    mask = torch.tensor([[True, True, False]])
    seen = readout(Encoded(words, torch.zeros(1, 3), mask))
    assert seen.words[0, 0].tolist() == [1, 2, 0, 0, 3, 4]
    assert seen.words[0, 1].tolist() == [3, 4, 1, 2, 0, 0]


def test_only_the_strongest_of_the_neighbours() -> None:
    readout, encoded = learnt(ReadoutPlan(whitening=Whitening.WHITEN, window=1, neighbours=2))
    own = readout.whiten(encoded).words
    seen = readout(encoded).words
    assert readout.width == seen.shape[-1] == own.shape[-1] + 4
    torch.testing.assert_close(seen[:, 1:, -4:-2], own[:, :-1, :2])
    torch.testing.assert_close(seen[:, :-1, -2:], own[:, 1:, :2])


def test_one_length_for_all() -> None:
    readout, encoded = learnt(ReadoutPlan(norm=2.0))
    seen = readout(encoded)
    torch.testing.assert_close(
        seen.words[seen.mask].norm(dim=-1), torch.full((int(seen.mask.sum()),), 2.0)
    )


def test_json_both_ways() -> None:
    plan = ReadoutPlan(whitening=Whitening.WHITEN, components=3, window=1, norm=1.0)
    readout, encoded = learnt(plan)
    again = Readout.from_json(readout.to_json())
    again.load_state_dict(readout.state_dict())
    torch.testing.assert_close(again(encoded).words, readout(encoded).words)


def test_refusals() -> None:
    encoded = Encoded(torch.ones(1, 1, 2), torch.ones(1, 2), torch.ones(1, 1, dtype=torch.bool))
    with pytest.raises(InvalidInput, match="call fit"):
        Readout(2, 2, ReadoutPlan(whitening=Whitening.WHITEN))(encoded)
    with pytest.raises(InvalidInput, match="whitening"):
        ReadoutPlan(components=3)
    with pytest.raises(InvalidInput, match="window"):
        ReadoutPlan(window=-1)
    encoder = tiny_clc()
    with pytest.raises(InvalidInput, match="public text"):
        Readout(12, 12, ReadoutPlan(whitening=Whitening.WHITEN)).fit(encoder, [])


def test_a_readout_saved_with_the_old_name_of_its_field_is_read() -> None:
    saved = Readout(4, 4, ReadoutPlan(whitening=Whitening.STANDARDISE)).to_json()
    saved["plan"]["evening"] = saved["plan"].pop("whitening")
    assert Readout.from_json(saved).plan.whitening is Whitening.STANDARDISE
