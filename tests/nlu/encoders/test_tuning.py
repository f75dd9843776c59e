import pytest
import torch
from tests.nlu.tiny import SCHEMA, UTTERANCES, shake, tiny_bert, tiny_clc
from tests.training.reference import Partition, assert_exact

from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.base import Encoder
from sottovoce.nlu.encoders.tuning import (
    LoraLinear,
    Tuned,
    Tuning,
    merge,
    merged_state,
    trained_names,
    tune,
)
from sottovoce.nlu.fit.data import Encodings
from sottovoce.nlu.model import JointModel


def trained(encoder: Encoder) -> set[str]:
    return {name for name, p in encoder.named_parameters() if p.requires_grad}


def words(encoder: Encoder) -> torch.Tensor:
    inputs = encoder.collate([encoder.prepare(u.tokens) for u in UTTERANCES])
    with torch.no_grad():
        found: torch.Tensor = encoder.eval()(inputs).words
    return found


def test_what_is_trained() -> None:
    encoder = tiny_bert()
    everything = {name for name, _ in encoder.named_parameters()}
    tune(encoder, Tuning())
    assert encoder.frozen
    tune(encoder, Tuning(kind=Tuned.LAST, layers=1))
    assert trained(encoder) == {name for name in everything if "encoder.layer.1." in name}
    tune(encoder, Tuning(kind=Tuned.BIAS))
    assert trained(encoder) == {name for name in everything if name.endswith("bias")}
    tune(encoder, Tuning(kind=Tuned.FULL))
    assert trained(encoder) == everything
    tune(encoder, Tuning(kind=Tuned.LORA, layers=1, targets=("query",)))
    assert trained(encoder) == {
        f"network.encoder.layer.1.attention.self.query.{side}.weight" for side in ("down", "up")
    }


@pytest.mark.parametrize(
    "tuning",
    [
        Tuning(kind=Tuned.FROZEN),
        Tuning(kind=Tuned.LAST, layers=1),
        Tuning(kind=Tuned.BIAS),
        Tuning(kind=Tuned.LORA, rank=2),
        Tuning(kind=Tuned.LORA, rank=3, layers=1, targets=("dense",)),
    ],
    ids=lambda tuning: f"{tuning.kind}-{tuning.rank}",
)
def test_clipped_exactly(tuning: Tuning) -> None:
    torch.manual_seed(0)
    encoder = tiny_bert()
    tune(encoder, tuning)
    model = JointModel(SCHEMA, encoder).double()
    shake(model)
    batch = Encodings(model, UTTERANCES, cache=False).batch(range(4))
    assert_exact(model, lambda: model.losses(batch), Partition(torch.tensor([0, 1, 2, 1]), 3))


def test_lora_starts_as_nothing_and_merges_into_the_same() -> None:
    torch.manual_seed(0)
    encoder = tiny_bert()
    before = words(encoder)
    tune(encoder, Tuning(kind=Tuned.LORA))
    torch.testing.assert_close(words(encoder), before)
    shake(encoder)
    changed = words(encoder)
    assert not torch.allclose(changed, before, atol=1e-3)
    state = merged_state(encoder)
    assert any(isinstance(module, LoraLinear) for module in encoder.modules())
    plain = tiny_bert()
    plain.load_state_dict(state)
    torch.testing.assert_close(words(plain), changed)
    merge(encoder)
    assert not any(isinstance(module, LoraLinear) for module in encoder.modules())
    torch.testing.assert_close(words(encoder), changed)


def test_a_stage_keeps_what_the_one_before_has_learnt() -> None:
    torch.manual_seed(0)
    encoder = tiny_bert()
    tune(encoder, Tuning(kind=Tuned.LORA))
    shake(encoder)
    learnt = words(encoder)
    tune(encoder, Tuning(kind=Tuned.LAST, layers=2))
    torch.testing.assert_close(words(encoder), learnt)


def test_names_of_what_is_trained_after_merging() -> None:
    encoder = tiny_bert()
    tune(encoder, Tuning(kind=Tuned.LORA, layers=1, targets=("value",)))
    names = trained_names(encoder)
    assert names == {"network.encoder.layer.1.attention.self.value.weight"}
    assert names <= set(merged_state(encoder))


def test_refusals() -> None:
    with pytest.raises(InvalidInput, match="number of layers"):
        Tuning(kind=Tuned.LAST)
    with pytest.raises(InvalidInput, match="at most 2"):
        tune(tiny_bert(), Tuning(kind=Tuned.LAST, layers=3))
    with pytest.raises(InvalidInput, match="named nothing"):
        tune(tiny_bert(), Tuning(kind=Tuned.LORA, targets=("nothing",)))
    with pytest.raises(InvalidInput, match="got clc"):
        tune(tiny_clc(), Tuning(kind=Tuned.LAST, layers=1))
