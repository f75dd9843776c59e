"""A causal model of Hugging Face: its tree scores as sentences one by one do, word by word."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.language_model import load_lm
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector, Vocabulary

torch = pytest.importorskip("torch", reason="torch is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")

from sottovoce.personalize.lm.neural.huggingface import HuggingFaceLM  # noqa: E402

torch.set_num_threads(1)

TEXT = ["call mum now", "call dad", "call mummy", "hang up now", "please call xylophone"]
WORDS = Vocabulary.from_text(TEXT, size=20)
SENTENCES = [
    ["call", "mum"], ["call", "mummy"], ["call", "mum", "now"], ["xylophone", "zebra"], [], ["up"],
]  # fmt: skip


def tiny_tokenizer() -> Any:
    """Byte pairs of a few sentences: some words are one piece, others are several."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.train_from_iterator(
        [*TEXT, *TEXT],
        tokenizers.trainers.BpeTrainer(
            vocab_size=300,
            special_tokens=["<end>"],
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<end>", bos_token="<end>"
    )


def tiny_model(size: int) -> Any:
    torch.manual_seed(0)
    shape = transformers.GPT2Config(
        vocab_size=size, n_positions=32, n_embd=32, n_layer=2, n_head=4,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(shape)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model.eval()


@pytest.fixture(scope="module")
def lm() -> HuggingFaceLM:
    tokenizer = tiny_tokenizer()
    return HuggingFaceLM(tiny_model(len(tokenizer)), tokenizer, WORDS)


def directly(
    lm: HuggingFaceLM, sentence: list[str], factors: Vector | None, *, normalise: bool
) -> float:
    """Piece by piece, each from a pass over its prefix."""

    def after(ids: list[int]) -> Vector:
        logits = lm.model(input_ids=torch.tensor([[0, *ids]])).logits[0, -1].detach()
        return np.asarray(logits.double().log_softmax(-1))

    def log_constant(ids: list[int]) -> float:
        assert factors is not None
        p, total, known = np.exp(after(ids)), 1.0, set()
        for place, word in reversed(list(enumerate(WORDS.words))):
            found = lm.tokenizer(" " + word if ids else word)["input_ids"]
            if word != UNKNOWN and len(found) == 1 and found[0] not in known:
                known.add(found[0])
                total += (np.exp(factors[place]) - 1) * p[found[0]]
        return float(np.log(total))

    said: list[int] = []
    total = 0.0
    for number, word in enumerate(sentence):
        if factors is not None:
            total += factors[WORDS.encode([word])[0]]
            total -= log_constant(said) if normalise else 0.0
        for piece in lm.tokenizer(" " + word if number else word)["input_ids"]:
            total += after(said)[piece]
            said.append(piece)
    total += after(said)[0]
    return float(total - (log_constant(said) if factors is not None and normalise else 0.0))


@pytest.mark.parametrize(("adapted", "normalise"), [(False, True), (True, True), (True, False)])
def test_the_tree_scores_as_piece_by_piece(
    lm: HuggingFaceLM, adapted: bool, normalise: bool
) -> None:
    factors = np.random.default_rng(1).normal(size=len(WORDS)) if adapted else None
    assert lm.tree_works
    together = lm.score(SENTENCES, factors, normalise=normalise)
    slow = [directly(lm, each, factors, normalise=normalise) for each in SENTENCES]
    assert np.allclose(together, slow, atol=1e-4)
    # Both kinds of words occur, so both parts of the formula are tested.
    sizes = {len(lm.tokenizer(" " + word)["input_ids"]) for word in WORDS.words}
    assert 1 in sizes
    assert max(sizes) > 1


def test_a_model_that_ignores_the_mask_is_noticed(
    lm: HuggingFaceLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = lm.score(SENTENCES)
    plain = lm.model.forward

    def forward(input_ids: Any, **_: Any) -> Any:
        return plain(input_ids=input_ids)

    monkeypatch.setattr(lm.model, "forward", forward)
    careful = HuggingFaceLM(lm.model, lm.tokenizer, WORDS)
    assert not careful.tree_works
    assert np.allclose(careful.score(SENTENCES), right, atol=1e-4)
    assert not np.allclose(careful.score_tree(SENTENCES), right, atol=1e-2)


def test_from_a_folder(lm: HuggingFaceLM, tmp_path: Path) -> None:
    lm.model.save_pretrained(tmp_path)
    lm.tokenizer.save_pretrained(tmp_path)
    with pytest.raises(InvalidInput, match="Expected a public vocabulary"):
        load_lm(tmp_path)
    assert np.allclose(load_lm(tmp_path, WORDS).score(SENTENCES), lm.score(SENTENCES), atol=1e-5)
    WORDS.save(tmp_path / "vocabulary.json")
    assert load_lm(tmp_path).vocabulary.words == WORDS.words
    with pytest.raises(InvalidInput, match="log factors"):
        lm.score(SENTENCES, np.zeros(2))
    assert lm.score([]) == []
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(InvalidInput, match="Expected a causal model"):
        load_lm(tmp_path)
