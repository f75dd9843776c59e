"""`sottovoce lm tune` and `lm sample`, with a tiny Llama of random weights."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import RunCli

torch = pytest.importorskip("torch", reason="needs the extra `train`")
transformers: Any = pytest.importorskip("transformers", reason="needs the extra `lm`")
pytest.importorskip("peft", reason="needs the extra `lm`")
tokenizers: Any = pytest.importorskip("tokenizers", reason="needs the extra `lm`")

pytestmark = pytest.mark.filterwarnings("ignore")  # of other packages
TEXTS = ["call mum", "call dad now", "hang up", "play some jazz", "stop the music"] * 8
NUMBERS = ("--epsilon", 8, "--delta", 1e-3, "--population", 40, "--epochs", 2, "--batch-size", 20)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with a tokenizer of words, and a public vocabulary."""
    folder = tmp_path_factory.mktemp("models") / "llama"
    words = sorted({word for text in TEXTS for word in text.split()})
    known = {word: number for number, word in enumerate(["<s>", "</s>", "<unk>", *words])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(known), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, intermediate_size=24, max_position_embeddings=32,
        bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "calls.jsonl"
    rows = [
        {"tokens": text.split(), "slots": ["O"] * len(text.split()), "user": f"user {i % 20}",
         "id": str(i)}
        for i, text in enumerate(TEXTS)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_an_adapter_is_tuned_scored_and_sampled(
    run_cli: RunCli, llama: Path, data: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "adapter"
    result = run_cli("lm", "tune", data, "--lm", llama, "-o", folder, *NUMBERS, "--json")
    assert result.exit_code == 0, result.stderr
    assert 7 < json.loads(result.stdout)["guarantee"]["epsilon"] <= 8
    assert (folder / "adapter_model.safetensors").is_file()
    run = json.loads((folder / "run.json").read_text())
    assert run["guarantee"]["unit"] == "example"
    assert "train" not in run["data"]  # the exact number is private
    public = tmp_path / "public.txt"
    public.write_text("\n".join(TEXTS))
    assert run_cli("lm", "train", public, "-o", tmp_path / "words", "--order", 2).exit_code == 0
    words = ("--vocabulary", tmp_path / "words")
    scores = [run_cli("lm", "score", m, public, *words).stdout for m in (llama, folder)]
    assert scores[0] != scores[1]
    drawn = run_cli("lm", "sample", folder, "--count", 3, "--prompt", "call", "--seed", 1, "--json")
    assert drawn.exit_code == 0, drawn.stderr
    assert [text.split()[0] for text in json.loads(drawn.stdout)] == ["call"] * 3


def test_users(run_cli: RunCli, llama: Path, data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    given = ("--epsilon", 8, "--delta", 1e-3, "--population", 20, "--epochs", 1)
    result = run_cli(
        "lm", "tune", data, "--lm", llama, "-o", folder, *given, "--batch-size", 10,
        "--unit", "user", "--examples-per-user", 1,
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert "any one user" in result.stdout
    again = run_cli("lm", "tune", data, "--lm", llama, "-o", folder, *NUMBERS)
    assert again.exit_code == 2


def test_what_is_refused(run_cli: RunCli, data: Path, tmp_path: Path) -> None:
    missing = run_cli("lm", "tune", data, "--lm", tmp_path, "-o", tmp_path / "a", *NUMBERS)
    assert missing.exit_code == 2
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text('{"base_model_name_or_path": "nowhere"}')
    assert "found none there" in run_cli("lm", "sample", adapter).stderr
    broken = tmp_path / "model.gguf"
    broken.write_bytes(b"GGUF?")
    for path in (broken, data):
        result = run_cli("lm", "convert", path, "-o", tmp_path / "converted")
        assert result.exit_code == 2
        assert "GGUF" in result.stderr
