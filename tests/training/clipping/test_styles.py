"""No clipped gradient exceeds the sensitivity of its style."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import InvalidInput
from sottovoce.training.clipping.styles import (
    AutomaticClipping,
    Clipping,
    FlatClipping,
    PerLayerClipping,
)

LAYERS = 3
limits = st.floats(1e-6, 1e6)
styles = st.one_of(
    st.builds(FlatClipping, clip_norm=limits),
    st.builds(AutomaticClipping, clip_norm=limits, stability=st.floats(1e-6, 1e3)),
    st.builds(PerLayerClipping, clip_norms=st.tuples(limits, limits, limits)),
)
anything = st.floats(allow_nan=True, allow_infinity=True, width=32)
gradients = st.lists(st.tuples(anything, anything, anything), min_size=1, max_size=6)


@settings(max_examples=200, deadline=None)
@given(style=styles, gradients=gradients)
def test_a_clipped_gradient_is_within_the_sensitivity(
    style: Clipping, gradients: list[tuple[float, float, float]]
) -> None:
    """Layers of one number each: group g has the gradient gradients[g]."""
    norms = torch.tensor(gradients, dtype=torch.float32).t()
    weights = style.weights(norms.square())
    assert weights.isfinite().all()
    assert (weights >= 0).all()
    usable = norms.isfinite().all(0) & norms.square().sum(0).isfinite()
    clipped = (norms.double() * weights.double())[:, usable]
    assert (clipped.norm(dim=0) <= style.sensitivity() * (1 + 1e-6)).all()
    assert (weights.expand_as(norms)[:, ~usable] == 0).all()


@given(norm=st.floats(0, 1), limit=st.floats(1, 1e3))
def test_short_gradients_are_left_alone(norm: float, limit: float) -> None:
    squared = torch.tensor([[norm * norm]], dtype=torch.float64)
    assert FlatClipping(clip_norm=limit).weights(squared).item() == 1


def test_weights() -> None:
    squared = torch.tensor([[9.0, 0.0], [16.0, 0.0]])
    assert FlatClipping(clip_norm=1).weights(squared).tolist() == pytest.approx([0.2, 1])
    automatic = AutomaticClipping(clip_norm=1, stability=0.5).weights(squared)
    assert automatic.tolist() == pytest.approx([1 / 5.5, 2])
    by_layer = PerLayerClipping(clip_norms=(1, 8)).weights(squared)
    assert by_layer.tolist() == [pytest.approx([1 / 3, 1]), [1, 1]]


def test_one_layer_that_is_not_finite_spoils_its_group_only() -> None:
    squared = torch.tensor([[torch.inf, 4.0], [1.0, 4.0]])
    assert PerLayerClipping(clip_norms=(1, 1)).weights(squared).tolist() == [[0, 0.5], [0, 0.5]]


def test_sensitivity() -> None:
    assert FlatClipping(clip_norm=2).sensitivity() == 2
    assert AutomaticClipping(clip_norm=2).sensitivity() == 2
    assert PerLayerClipping(clip_norms=(1, 2)).sensitivity() == pytest.approx(math.sqrt(5))
    assert PerLayerClipping.equal(2, layers=7).sensitivity() == pytest.approx(2)


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_a_limit_is_a_positive_number(value: float) -> None:
    with pytest.raises(InvalidInput, match="clip_norm > 0"):
        FlatClipping(clip_norm=value)
    with pytest.raises(InvalidInput, match="stability > 0"):
        AutomaticClipping(clip_norm=1, stability=value)
    with pytest.raises(InvalidInput, match=r"clip_norms\[1\] > 0"):
        PerLayerClipping(clip_norms=(1, value))


def test_shapes_must_fit() -> None:
    with pytest.raises(InvalidInput, match=r"\[layers, groups\]"):
        FlatClipping(clip_norm=1).weights(torch.ones(3))
    with pytest.raises(InvalidInput, match="2 layers"):
        PerLayerClipping(clip_norms=(1, 1)).weights(torch.ones(LAYERS, 4))
    with pytest.raises(InvalidInput, match="number of clip_norms"):
        PerLayerClipping(clip_norms=())
