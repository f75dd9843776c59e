"""Small models of many architectures with random weights, and one loss per example for each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

EXAMPLES, LENGTH, WORDS = 4, 6, 50
WIDTH = {
    "vocab_size": WORDS,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
DECODER = WIDTH | {"num_key_value_heads": 1, "max_position_embeddings": 32, "pad_token_id": 0}
HEAD = DECODER | {"head_dim": 8}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
ENCODER = WIDTH | STILL | {"max_position_embeddings": 32}
SEQ2SEQ = {
    "vocab_size": WORDS,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "dropout": 0.0,
}
Losses = Callable[[nn.Module, Tensor], Tensor]
"""The losses of the examples with these numbers."""


@dataclass(frozen=True)
class Architecture:
    """`make` builds the model, `losses` computes one loss for each of the examples named."""

    name: str
    make: Callable[[], nn.Module]
    losses: Losses


def numbers(*shape: int) -> Tensor:
    return torch.randint(3, WORDS, shape, generator=torch.Generator().manual_seed(3))


def floats(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(4))


IDS, TARGETS = numbers(EXAMPLES, LENGTH), numbers(EXAMPLES, 4)
MASK = (torch.arange(LENGTH) < torch.tensor([[6], [4], [2], [6]])).long()
X = floats(EXAMPLES, LENGTH, 8)


def score(outputs: Tensor, examples: Tensor) -> Tensor:
    """A smooth loss that weights every number differently, so that all gradients differ."""
    flat = outputs.reshape(len(examples), -1)
    factors = torch.linspace(-1, 2, flat.shape[1], dtype=flat.dtype)
    return (flat.sin() * factors).mean(1)


def _text(model: nn.Module, examples: Tensor) -> Tensor:
    outputs = model(input_ids=IDS[examples], attention_mask=MASK[examples])
    return score(outputs.logits, examples)


def _to_text(model: nn.Module, examples: Tensor) -> Tensor:
    return score(
        model(
            input_ids=IDS[examples],
            attention_mask=MASK[examples],
            decoder_input_ids=TARGETS[examples],
        ).logits,
        examples,
    )


def _given(*inputs: Tensor, **named: Tensor) -> Losses:
    def losses(model: nn.Module, examples: Tensor) -> Tensor:
        chosen = {name: tensor[examples] for name, tensor in named.items()}
        outputs: Any = model(*(tensor[examples] for tensor in inputs), **chosen)
        outputs = outputs[0] if isinstance(outputs, tuple) else outputs
        return score(getattr(outputs, "logits", outputs), examples)

    return losses


def _hugging_face(name: str, losses: Losses, **settings: Any) -> Callable[[str], Architecture]:
    def make() -> nn.Module:
        import transformers

        model = getattr(transformers, name)
        built: nn.Module = model(model.config_class(**settings))
        return built

    return lambda title: Architecture(title, make, losses)


def _adapted(base: Architecture, **settings: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import peft

        adapter = peft.LoraConfig(r=2, init_lora_weights=False, **settings)
        model: nn.Module = peft.get_peft_model(base.make(), adapter)
        return model

    return make


LANGUAGE_MODELS = {
    "GPT-2": _hugging_face(
        "GPT2LMHeadModel", _text, vocab_size=WORDS, n_embd=16, n_layer=2, n_head=2, n_positions=32,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=1, eos_token_id=2,
    ),
    "GPT-NeoX": _hugging_face("GPTNeoXForCausalLM", _text, **WIDTH, max_position_embeddings=32),
    "Llama": _hugging_face("LlamaForCausalLM", _text, **DECODER),
    "Mistral": _hugging_face("MistralForCausalLM", _text, **DECODER),
    "Qwen2": _hugging_face("Qwen2ForCausalLM", _text, **DECODER),
    "Qwen3": _hugging_face("Qwen3ForCausalLM", _text, **HEAD),
    "Gemma": _hugging_face("GemmaForCausalLM", _text, **HEAD),
    "Gemma 2": _hugging_face("Gemma2ForCausalLM", _text, **HEAD),
    "Phi": _hugging_face(
        "PhiForCausalLM", _text, **DECODER, resid_pdrop=0.0, embd_pdrop=0.0, attention_dropout=0.0
    ),
    "Mixtral": _hugging_face(
        "MixtralForCausalLM", _text, **DECODER, num_local_experts=4, num_experts_per_tok=2
    ),
    "OPT": _hugging_face(
        "OPTForCausalLM", _text, vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, ffn_dim=24,
        num_attention_heads=2, max_position_embeddings=32, dropout=0.0, word_embed_proj_dim=16,
    ),
    "BLOOM": _hugging_face(
        "BloomForCausalLM", _text, vocab_size=WORDS, hidden_size=16, n_layer=2, n_head=2,
        hidden_dropout=0.0, attention_dropout=0.0,
    ),
    "BART": _hugging_face(
        "BartForConditionalGeneration", _to_text, **SEQ2SEQ, max_position_embeddings=32
    ),
    "T5": _hugging_face(
        "T5ForConditionalGeneration", _to_text, vocab_size=WORDS, d_model=16, d_kv=8, d_ff=24,
        num_layers=2, num_heads=2, dropout_rate=0.0,
    ),
    "Whisper": _hugging_face(
        "WhisperForConditionalGeneration",
        _given(input_features=floats(EXAMPLES, 8, 20), decoder_input_ids=TARGETS),
        **SEQ2SEQ, num_mel_bins=8, max_source_positions=10, max_target_positions=10,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    ),
}  # fmt: skip
ENCODERS = {
    "BERT, masked words": _hugging_face("BertForMaskedLM", _text, **ENCODER),
    "BERT, tokens": _hugging_face("BertForTokenClassification", _text, **ENCODER),
    "RoBERTa": _hugging_face("RobertaForSequenceClassification", _text, **ENCODER),
    "DistilBERT": _hugging_face(
        "DistilBertForTokenClassification", _text, vocab_size=WORDS, dim=16, n_layers=2, n_heads=2,
        hidden_dim=24, dropout=0.0, attention_dropout=0.0, max_position_embeddings=32,
    ),
    "ALBERT": _hugging_face("AlbertForMaskedLM", _text, **ENCODER, embedding_size=8),
    "ELECTRA": _hugging_face("ElectraForTokenClassification", _text, **ENCODER, embedding_size=8),
    "DeBERTa-v2": _hugging_face(
        "DebertaV2ForTokenClassification", _text, **ENCODER, relative_attention=True,
        position_buckets=4, norm_rel_ebd="layer_norm", share_att_key=True,
        pos_att_type=["p2c", "c2p"],
    ),
    "ModernBERT": _hugging_face(
        "ModernBertForMaskedLM", _text, **WIDTH, max_position_embeddings=32, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2, embedding_dropout=0.0,
        mlp_dropout=0.0, attention_dropout=0.0, local_attention=4,
    ),
    "ViT": _hugging_face(
        "ViTForImageClassification", _given(pixel_values=floats(EXAMPLES, 3, 8, 8)), hidden_size=16,
        num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=8,
        patch_size=4, **STILL,
    ),
    "Wav2Vec2": _hugging_face(
        "Wav2Vec2ForCTC", _given(input_values=floats(EXAMPLES, 400)), **WIDTH, conv_dim=(8, 8),
        conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2, layerdrop=0.0,
        num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, feat_extract_norm="layer",
        hidden_dropout=0.0, attention_dropout=0.0, feat_proj_dropout=0.0, activation_dropout=0.0,
        final_dropout=0.0, apply_spec_augment=False,
    ),
}  # fmt: skip


class Recurrent(nn.Module):
    """A cell called once a step."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor) -> Tensor:
        state: Any = None
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
        last: Tensor = state[0] if isinstance(state, tuple) else state
        return last


class Attention(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True, **options)
        self.other = options.get("kdim", 8)

    def forward(self, x: Tensor) -> Tensor:
        other = x[..., : self.other]
        found: Tensor = self.attention(x, other, other)[0]
        return found


class Raw(nn.Module):
    """Parameters without a layer: a scale, a list, learned queries."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(8))
        self.list = nn.ParameterList([torch.randn(8, 4), torch.randn(LENGTH, 4)])
        self.queries = nn.Parameter(torch.randn(1, 2, 4))

    def forward(self, x: Tensor) -> Tensor:
        x = (x * self.scale) @ self.list[0] + self.list[1]
        return torch.cat([self.queries.expand(len(x), -1, -1), x], 1)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 8), nn.Embedding(LENGTH, 8)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.words(ids) * 8**0.5 + self.places(torch.arange(ids.shape[1]).unsqueeze(0))
        return functional.linear(hidden, self.words.weight)


IMAGE, VOLUME, PAIR = floats(EXAMPLES, 2, 5, 5), floats(EXAMPLES, 2, 3, 4, 3), X.cos()
TORCH = (
    Architecture("Linear", lambda: nn.Linear(8, 3), _given(X)),
    Architecture("Bilinear", lambda: nn.Bilinear(8, 8, 3), _given(X, PAIR)),
    Architecture("Embedding", lambda: nn.Embedding(WORDS, 4), _given(IDS)),
    Architecture("EmbeddingBag", lambda: nn.EmbeddingBag(WORDS, 4), _given(IDS)),
    Architecture("Conv1d", lambda: nn.Conv1d(LENGTH, 4, 3), _given(X)),
    Architecture("Conv2d", lambda: nn.Conv2d(2, 4, 3, groups=2), _given(IMAGE)),
    Architecture("Conv3d", lambda: nn.Conv3d(2, 4, 2), _given(VOLUME)),
    Architecture("ConvTranspose1d", lambda: nn.ConvTranspose1d(LENGTH, 4, 3), _given(X)),
    Architecture("ConvTranspose2d", lambda: nn.ConvTranspose2d(2, 4, 3), _given(IMAGE)),
    Architecture("LayerNorm", lambda: nn.LayerNorm(8), _given(X)),
    Architecture("RMSNorm", lambda: nn.RMSNorm(8), _given(X)),
    Architecture("GroupNorm", lambda: nn.GroupNorm(2, LENGTH), _given(X)),
    Architecture("InstanceNorm3d", lambda: nn.InstanceNorm3d(2, affine=True), _given(VOLUME)),
    Architecture("PReLU", lambda: nn.PReLU(LENGTH), _given(X)),
    Architecture("RNN", lambda: nn.RNN(8, 5, batch_first=True), _given(X)),
    Architecture("LSTM", lambda: nn.LSTM(8, 5, bidirectional=True, batch_first=True), _given(X)),
    Architecture(
        "LSTM, projected", lambda: nn.LSTM(8, 5, proj_size=3, batch_first=True), _given(X)
    ),
    Architecture("GRU", lambda: nn.GRU(8, 5, batch_first=True), _given(X)),
    Architecture("RNNCell", lambda: Recurrent(nn.RNNCell(8, 5)), _given(X)),
    Architecture("LSTMCell", lambda: Recurrent(nn.LSTMCell(8, 5)), _given(X)),
    Architecture("GRUCell", lambda: Recurrent(nn.GRUCell(8, 5)), _given(X)),
    Architecture("MultiheadAttention", Attention, _given(X)),
    Architecture("MultiheadAttention, kdim", lambda: Attention(kdim=4, vdim=4), _given(X)),
    Architecture("MultiheadAttention, bias_kv", lambda: Attention(add_bias_kv=True), _given(X)),
    Architecture(
        "TransformerEncoderLayer",
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        _given(X),
    ),
    Architecture(
        "weight_norm", lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 3)), _given(X)
    ),
    Architecture("raw parameters", Raw, _given(X)),
    Architecture("tied and scaled embeddings", Tied, _given(IDS)),
)
_LLAMA = LANGUAGE_MODELS["Llama"]("Llama")
ADAPTERS = (
    Architecture(
        "LoRA of Llama", _adapted(_LLAMA, target_modules=["q_proj", "v_proj", "down_proj"]), _text
    ),
    Architecture(
        "DoRA of Llama", _adapted(_LLAMA, target_modules=["q_proj", "v_proj"], use_dora=True), _text
    ),
    Architecture("LoRA of embeddings", _adapted(_LLAMA, target_modules=["embed_tokens"]), _text),
    Architecture(
        "LoRA of GPT-2",
        _adapted(LANGUAGE_MODELS["GPT-2"]("GPT-2"), target_modules=["c_attn"], fan_in_fan_out=True),
        _text,
    ),
)
FAMILIES: dict[str, tuple[Architecture, ...]] = {
    "Language models and seq2seq": tuple(make(title) for title, make in LANGUAGE_MODELS.items()),
    "Encoders": tuple(make(title) for title, make in ENCODERS.items()),
    "Adapters (PEFT)": ADAPTERS,
    "Layers of torch": TORCH,
}
ARCHITECTURES = {each.name: each for family in FAMILIES.values() for each in family}


def gradients_by_loop(model: nn.Module, losses: Losses) -> dict[str, Tensor]:
    """[examples, *shape] by one backward pass of each example alone, by name."""
    rows: dict[str, list[Tensor]] = {n: [] for n, p in model.named_parameters() if p.requires_grad}
    for example in range(EXAMPLES):
        model.zero_grad()
        losses(model, torch.tensor([example])).sum().backward()  # type: ignore[no-untyped-call]
        for name, found in rows.items():
            parameter = model.get_parameter(name)
            gradient = parameter.grad
            found.append(torch.zeros_like(parameter) if gradient is None else gradient.clone())
    model.zero_grad()
    return {name: torch.stack(found) for name, found in rows.items()}
