"""A tiny BERT with random weights, made here: nothing is downloaded."""

from pathlib import Path

import pytest

from sottovoce.deid.masked import MaskedModel, fill_in
from sottovoce.deid.pairing import Told
from sottovoce.errors import InvalidInput

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="needs the extra `bert`")

WORDS = ("call", "in", "now", "anna", "rome", "lee", "new", "york")
LONGEST = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bert")
    vocabulary = path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
    transformers.BertTokenizer(str(vocabulary)).save_pretrained(path)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=5 + len(WORDS),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=LONGEST,
    )
    model = transformers.BertForMaskedLM(config)
    # It says of every place what the bias says: anna is ten times likelier than rome.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        bias = torch.zeros(config.vocab_size)
        bias[5 + WORDS.index("anna")] = 4.0
        bias[5 + WORDS.index("rome")] = 1.7
        model.cls.predictions.bias.copy_(bias)
        model.cls.predictions.decoder.bias.copy_(bias)
    model.save_pretrained(path)
    return path


def told(value: str) -> Told:
    return Told(type="PER", value=value, output="x", before="call", after="now")


def test_it_takes_the_likeliest_candidate_weighed_by_the_prior(folder: Path) -> None:
    model = MaskedModel(folder)
    values = [told("Anna")] * 3 + [told("rome")]
    even = fill_in(values, model, {"anna": 0.5, "rome": 0.5})
    assert (even.successes, even.trials, even.prior) == (3, 4, 0.75)
    swayed = fill_in(values, model, {"anna": 0.01, "rome": 0.99})
    assert (swayed.successes, swayed.prior) == (1, 0.25)
    low, high = even.interval
    assert low < 0.75 < high


def test_values_of_several_pieces_and_values_that_are_no_candidates(folder: Path) -> None:
    model = MaskedModel(folder)
    assert len(model.pieces("new york")) == 2
    assert len(model.scores("call", "now", 2)) == 2
    found = fill_in([told("lee"), told("new york")], model, {"new york": 1.0})
    assert found.successes == 1


def test_a_context_longer_than_the_model_reads_is_refused(folder: Path) -> None:
    model = MaskedModel(folder)
    with pytest.raises(InvalidInput, match=f"at most {LONGEST}"):
        model.scores("call " * LONGEST, "now", 1)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="folder"):
        MaskedModel(tmp_path / "nothing")


def test_nothing_to_guess_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="hidden values"):
        fill_in([], MaskedModel(folder), {"anna": 1.0})
