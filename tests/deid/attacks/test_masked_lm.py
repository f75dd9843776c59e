"""A tiny BERT with random weights, made here: nothing is downloaded."""

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import RunCli

from sottovoce.corpora import Utterance, write
from sottovoce.deid.attacks.masked_lm import MaskedModel, fill_in
from sottovoce.deid.attacks.pairing import ReplacedValue
from sottovoce.errors import InvalidInput

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="needs the extra `bert`")

WORDS = ("call", "in", "now", "anna", "rome", "lee", "new", "york")
LONGEST = 16


def bert(path: Path) -> Any:
    """The shape of a tiny BERT; its tokenizer is written to the folder."""
    vocabulary = path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
    transformers.BertTokenizer(str(vocabulary)).save_pretrained(path)
    return transformers.BertConfig(
        vocab_size=5 + len(WORDS),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=LONGEST,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bert")
    config = bert(path)
    model = transformers.BertForMaskedLM(config)
    # The bias alone decides: anna is ten times likelier than rome.
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


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without a head, as MiniLM is."""
    path = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(0)
    transformers.BertModel(bert(path)).save_pretrained(path)
    return path


def told(value: str, before: str = "call") -> ReplacedValue:
    return ReplacedValue(type="PER", value=value, output="x", before=before, after="now")


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
    found = fill_in([told("lee"), told("new york")], model, {"new york": 1.0})
    assert found.successes == 1
    # Likelihoods e^4 e^1.7 / 71^2 and 1 / 71: the first is 4.2 times the second.
    for share, guessed in ((0.18, "lee"), (0.21, "anna rome")):
        one = fill_in([told(guessed)], model, {"anna rome": share, "lee": 1 - share})
        assert one.successes == 1


def test_a_long_text_is_truncated_to_the_nearest_context(folder: Path) -> None:
    model = MaskedModel(folder)
    [call], [now], [rome] = map(model.pieces, ("call", "now", "rome"))
    long = ReplacedValue(
        type="PER", value="x", output="x", before="rome " * 99 + "call", after="now" + " rome" * 99
    )
    ids, first = model._masked(long, 2)
    assert len(ids) == LONGEST
    assert ids[first - 1] == call
    assert ids[first + 2] == now
    assert ids.count(rome) == LONGEST - 6
    ids, first = model._masked(told("x", "rome " * 99 + "call"), 2)
    assert (len(ids), ids[first - 1], ids[first + 2]) == (LONGEST, call, now)


def test_an_encoder_without_a_head_learns_one_from_what_is_known(encoder: Path) -> None:
    """The preceding word reveals the name and the place."""
    model = MaskedModel(encoder)
    assert not model.has_lm_head
    known = [told("anna"), told("rome", "in"), told("new york", "lee")] * 10
    prior = {"anna": 0.4, "rome": 0.3, "new york": 0.3}
    found = fill_in(known[:6], model, prior, known)
    assert (found.successes, found.trials) == (6, 6)
    # The twin: with swapped contexts, the probe learns the wrong values.
    wrong = [told("anna", "in"), told("rome")]
    assert fill_in(wrong, model, {"anna": 0.5, "rome": 0.5}, known).successes == 0
    with pytest.raises(InvalidInput, match="known values"):
        fill_in(known, model, prior)


def test_the_command_prints_one_line(
    run_cli: RunCli, tmp_path: Path, encoder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    calls, out = tmp_path / "calls.jsonl", tmp_path / "out.jsonl"
    pairs = (("call", "anna"), ("in", "rome")) * 20
    labels = ("O", "B-contact", "O")
    write(calls, [Utterance(tokens=(word, name, "now"), slots=labels) for word, name in pairs])
    gold = ("--detector", "gold", "--labels", "communication")
    assert run_cli("deid", calls, "-o", out, *gold, "--strategy", "typed").exit_code == 0
    result = run_cli("deid", "attack", calls, out, *gold, "--masked-lm", encoder)
    assert result.exit_code == 0, result.stderr
    assert "masked language model:  1.000 (0.832 to 1.000), blind 0.500" in result.stdout
    assert "weights" not in (result.stderr + capfd.readouterr().err).lower()


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="folder"):
        MaskedModel(tmp_path / "nothing")
    with pytest.raises(InvalidInput, match="cannot be loaded"):
        MaskedModel(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    bert(tmp_path).save_pretrained(tmp_path)
    with pytest.raises(InvalidInput, match="cannot be loaded"):
        MaskedModel(tmp_path)


def test_an_encoder_with_missing_weights_is_refused(tmp_path: Path) -> None:
    network = transformers.BertModel(bert(tmp_path))
    state = {k: v for k, v in network.state_dict().items() if "layer.0.output" not in k}
    network.save_pretrained(tmp_path, state_dict=state)
    with pytest.raises(InvalidInput, match="got only some"):
        MaskedModel(tmp_path)


def test_nothing_to_guess_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="hidden values"):
        fill_in([], MaskedModel(folder), {"anna": 1.0})
