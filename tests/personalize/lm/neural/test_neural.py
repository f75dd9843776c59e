"""The Transformer: a tree scores as sentences one by one do, training learns and resumes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.language_model import load_lm, save_ngram, save_transformer
from sottovoce.personalize.lm.ngram.training import train_ngram
from sottovoce.personalize.lm.vocabulary import Vocabulary

torch = pytest.importorskip("torch", reason="torch is not installed")

from sottovoce.personalize.lm.neural.model import (  # noqa: E402  # noqa: E402
    PrefixTree,
    TransformerLM,
    TransformerShape,
    score_one_by_one,
)
from sottovoce.personalize.lm.neural.training import (  # noqa: E402
    TrainingOptions,
    perplexity,
    train_transformer,
)

# The models are tiny; leave the cores to other tests.
torch.set_num_threads(1)

TEXT = ["call mum now", "call dad", "call mum", "hang up now", "please call mum"] * 8
WORDS = Vocabulary.from_text(TEXT, size=9)
SMALL = TransformerShape(embedding=32, feed_forward=64, blocks=2, heads=4, longest=12)
OPTIONS = TrainingOptions(epochs=3, batch_words=32, learning_rate=1e-2, warm_up=5, save_every=2)
SENTENCES = st.lists(
    st.lists(st.sampled_from([*WORDS.words, "zebra"]), max_size=15), min_size=1, max_size=8
)


def small(seed: int = 0) -> TransformerLM:
    torch.manual_seed(seed)
    model = TransformerLM(WORDS, SMALL)
    # Fresh weights give nearly uniform scores; these vary enough to reveal a wrong mask.
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model.eval()


@settings(max_examples=15)
@given(SENTENCES, st.booleans(), st.booleans())
def test_the_tree_scores_as_one_by_one(
    sentences: list[list[str]], adapted: bool, normalise: bool
) -> None:
    model = small()
    factors = np.random.default_rng(1).normal(size=len(WORDS)) if adapted else None
    together = model.score(sentences, factors, normalise=normalise)
    alone = score_one_by_one(model, sentences, factors, normalise=normalise)
    assert np.allclose(together, alone, atol=1e-4)


def test_a_wrong_mask_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = [["call", "mum"], ["call", "dad", "now"], ["hang", "up"]]
    right = score_one_by_one(small(), sentences)
    monkeypatch.setattr(
        PrefixTree, "ancestors", lambda self: np.tri(len(self.words), dtype=np.bool_)
    )
    assert not np.allclose(small().score(sentences), right, atol=1e-3)


def test_probabilities_sum_to_one() -> None:
    model = small().requires_grad_(False)
    factors = np.random.default_rng(1).normal(size=len(WORDS))
    states = model.states(torch.tensor([[model.boundary]]), torch.tensor([[0]]))
    raised = model.logits(states)[0, 0].log_softmax(-1) + model.factors(factors)
    # One word and the end, over all words, and the end at once.
    first = raised.log_softmax(-1).exp()
    assert float(first.sum()) == pytest.approx(1, abs=1e-5)
    (empty,) = model.score([[]], factors)
    assert empty == pytest.approx(float(first[model.boundary].log()), abs=1e-4)
    assert model.score([]) == []


def test_training_learns_and_a_resumed_run_is_the_same(tmp_path: Path) -> None:
    torch.manual_seed(1)
    start = TransformerLM(WORDS, SMALL)
    weights = {name: value.clone() for name, value in start.state_dict().items()}
    before = perplexity(start, TEXT)
    whole = list(train_transformer(start, TEXT, TEXT, OPTIONS))
    assert whole[-1].valid_perplexity < min(before, 9)
    again = TransformerLM(WORDS, SMALL)
    again.load_state_dict(weights)
    checkpoint = tmp_path / "checkpoint.pt"
    stopped = train_transformer(again, TEXT, TEXT, OPTIONS, checkpoint=checkpoint)
    next(stopped)
    stopped.close()
    other = TransformerLM(WORDS, SMALL)
    resumed = list(train_transformer(other, TEXT, TEXT, OPTIONS, checkpoint=checkpoint))
    assert [report.epoch for report in resumed] == [2, 3]
    assert resumed[-1].valid_perplexity == pytest.approx(whole[-1].valid_perplexity, rel=1e-4)
    with pytest.raises(InvalidInput, match="options of the checkpoint"):
        next(train_transformer(other, TEXT, TEXT, TrainingOptions(seed=9), checkpoint=checkpoint))
    checkpoint.write_bytes(b"damaged")
    with pytest.raises(InvalidInput, match="Expected a checkpoint of this model"):
        next(train_transformer(other, TEXT, TEXT, OPTIONS, checkpoint=checkpoint))


class Stopped(Exception):
    """Simulates Ctrl-C."""


def test_a_run_that_stops_within_an_epoch_is_the_same_too(tmp_path: Path) -> None:
    torch.manual_seed(1)
    start = TransformerLM(WORDS, SMALL)
    again = TransformerLM(WORDS, SMALL)
    again.load_state_dict(start.state_dict())
    seen: list[int] = []
    whole = list(train_transformer(start, TEXT, TEXT, OPTIONS, on_words=seen.append))
    late = (seen.index(max(seen)) + 1) // 2 * 2 - 1

    def stop(words: int) -> None:
        if words == seen[late]:
            raise Stopped

    checkpoint = tmp_path / "checkpoint.pt"
    with pytest.raises(Stopped):
        list(train_transformer(again, TEXT, TEXT, OPTIONS, checkpoint=checkpoint, on_words=stop))
    other = TransformerLM(WORDS, SMALL)
    told: list[int] = []
    resumed = list(
        train_transformer(other, TEXT, TEXT, OPTIONS, checkpoint=checkpoint, on_words=told.append)
    )
    # It resumes after the last checkpoint, not at the start of the epoch, and reports it whole.
    assert 0 < len(seen) - len(told) <= late
    assert [report.epoch for report in resumed] == [1, 2, 3]
    for one, other_one in zip(whole, resumed, strict=True):
        assert one.train_loss == pytest.approx(other_one.train_loss, rel=1e-4)
        assert one.valid_perplexity == pytest.approx(other_one.valid_perplexity, rel=1e-4)


def test_saved_and_loaded(tmp_path: Path) -> None:
    model = small()
    save_transformer(tmp_path / "t", model)
    sentences = [["call", "mum"], ["zebra"]]
    assert load_lm(tmp_path / "t").score(sentences) == model.score(sentences)
    ngram = train_ngram(TEXT, WORDS, 2)
    save_ngram(tmp_path / "n", ngram)
    loaded = load_lm(tmp_path / "n")
    assert np.allclose(loaded.score(sentences), ngram.score(sentences), atol=1e-5)
    assert np.allclose(loaded.vocabulary.unigram, WORDS.unigram)


def test_damaged_folders(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Expected an ARPA file or a folder"):
        load_lm(tmp_path)
    for text, reason in (("{}", "name a kind"), ('{"kind": "lstm"}', "kind ngram or transformer")):
        (tmp_path / "lm.json").write_text(text)
        with pytest.raises(InvalidInput, match=reason):
            load_lm(tmp_path)
    save_transformer(tmp_path, small())
    (tmp_path / "weights.pt").unlink()
    with pytest.raises(InvalidInput, match="Expected a Transformer"):
        load_lm(tmp_path)


def test_bad_input() -> None:
    for wrong in ({"heads": 3}, {"embedding": 0}, {"dropout": 0.95}):
        with pytest.raises(InvalidInput, match="Expected"):
            TransformerShape(**{"embedding": 32, **wrong})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="log factors"):
        small().score([["call"]], np.zeros(2))
    with pytest.raises(InvalidInput, match="train on, got none"):
        next(train_transformer(small(), [""], TEXT))
    with pytest.raises(InvalidInput, match="perplexity on, got none"):
        perplexity(small(), [""])
    with pytest.raises(InvalidInput, match="learning_rate > 0"):
        TrainingOptions(learning_rate=0)


def test_personalize_loads_no_torch() -> None:
    code = (
        "import sys, sottovoce.personalize, sottovoce.personalize.rescoring.stream\n"
        "assert not {'torch', 'flwr'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
