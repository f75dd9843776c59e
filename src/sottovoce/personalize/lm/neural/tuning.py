"""Private fine-tuning of a causal language model by LoRA, saved as a PEFT adapter.

Only the adapter is trained, with exact per-example (or per-user) clipping; the model itself stays
as it is, so the guarantee is about the adapter.
"""

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sottovoce import _validate
from sottovoce._model_folders import LOCAL, check_size
from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import Guarantee, Unit
from sottovoce.privacy.ledger import Ledger
from sottovoce.training import Plan, PrivateTraining
from sottovoce.training.losses import IGNORED, causal_lm_losses

ADAPTER, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


@dataclass(frozen=True, kw_only=True)
class TuningOptions:
    """`population` is the public, declared number of examples or users."""

    epsilon: float
    delta: float
    population: int
    unit: Unit = Unit.EXAMPLE
    epochs: int = 3
    batch_size: int = 64
    virtual_batch: int = 16
    learning_rate: float = 1e-3
    clip_norm: float = 0.1
    rank: int = 8
    longest: int = 128
    examples_per_user: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        _validate.parse_choices(self)
        for name in ("rank", "longest"):
            _validate.at_least_one(name, getattr(self, name))

    def plan(self) -> Plan:
        return Plan(
            population=self.population,
            batch_size=min(self.batch_size, self.population),
            virtual_batch=self.virtual_batch,
            epochs=self.epochs,
            delta=self.delta,
            unit=self.unit,
            clip_norm=self.clip_norm,
            examples_per_user=self.examples_per_user,
        ).calibrate(epsilon=self.epsilon)


@dataclass(frozen=True)
class Tuned:
    """What a private fine-tuning leaves: an adapter in a folder, and what it cost."""

    folder: Path
    guarantee: Guarantee
    ledger: Ledger


def load_causal(folder: Path | str) -> tuple[Any, Any]:
    """The model and the tokenizer of a folder, or of an adapter, merged into its model.

    Nothing is downloaded, no code of the folder is executed, and weights are safetensors only.
    """
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as problem:
        raise InvalidInput(
            f"Expected transformers for {folder}, not installed: pip install 'sottovoce[lm]'."
        ) from problem
    folder = Path(folder)
    base = base_of(folder) if (folder / ADAPTER).is_file() else folder
    try:
        check_size(AutoModelForCausalLM, base)
        tokenizer = AutoTokenizer.from_pretrained(str(base), **LOCAL)
        model = AutoModelForCausalLM.from_pretrained(
            str(base), use_safetensors=True, dtype=torch.float32, **LOCAL
        )
    except (OSError, ValueError, KeyError, ImportError) as problem:
        first = str(problem).strip().splitlines()[0]
        raise InvalidInput(f"Expected a causal model in {base}: {first}") from problem
    return (model if base == folder else _merged(model, folder)), tokenizer


def base_of(adapter: Path) -> Path:
    """The folder of the model that an adapter belongs to: as named in it, or beside it."""
    try:
        named = json.loads((adapter / ADAPTER).read_bytes())["base_model_name_or_path"]
        candidates = [Path(named), adapter.parent / Path(named).name]
    except (ValueError, KeyError, TypeError) as problem:
        raise InvalidInput(f"Expected {adapter / ADAPTER} to name a model.") from problem
    for candidate in candidates:
        if (candidate / "config.json").is_file():
            return candidate
    raise InvalidInput(
        f"Expected the model of the adapter {adapter} in {candidates[0]}, found none there."
    )


def _merged(model: Any, adapter: Path) -> Any:
    peft = _peft()
    if not (adapter / WEIGHTS).is_file():
        raise InvalidInput(f"Expected {WEIGHTS} in {adapter}: other formats can run code.")
    try:
        return peft.PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
    except (OSError, ValueError, KeyError, RuntimeError, TypeError) as problem:
        first = str(problem).strip().splitlines()[0]
        raise InvalidInput(f"Expected an adapter in {adapter}: {first}") from problem


def _peft() -> Any:
    try:
        import peft
    except ImportError as problem:
        raise InvalidInput(
            "Expected the package peft, not installed: pip install 'sottovoce[lm]'."
        ) from problem
    return peft


def tune(
    base: Path | str,
    texts: Sequence[str],
    options: TuningOptions,
    output: Path | str,
    *,
    users: Sequence[str] | None = None,
    on_step: Callable[[int], None] = lambda _: None,
) -> Tuned:
    """Fine-tune the model of a folder on private texts; `users` has the user of each."""
    if (Path(base) / ADAPTER).is_file():
        raise InvalidInput(f"Expected a model in {base}, got an adapter: name its model.")
    if options.unit is Unit.USER and (users is None or not all(users)):
        raise InvalidInput("Expected the user of every text with the unit user, got some without.")
    model, tokenizer = load_causal(base)
    peft = _peft()
    adapter = peft.LoraConfig(
        r=options.rank,
        lora_alpha=2 * options.rank,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    if options.seed is not None:
        torch.manual_seed(options.seed)
    tuned = peft.get_peft_model(model, adapter)
    tuned.peft_config["default"].base_model_name_or_path = str(base)
    encoded = [_encoded(tokenizer, text, options.longest) for text in texts]
    trained = [parameter for parameter in tuned.parameters() if parameter.requires_grad]
    training = PrivateTraining(
        options.plan(),
        tuned,
        torch.optim.Adam(trained, lr=options.learning_rate),
        owners=list(users or ()) if options.unit is Unit.USER else len(texts),
        seed=options.seed,
    )
    tuned.train()
    for step in training.steps():
        for batch in step:
            ids, labels = _padded([encoded[example] for example in batch.tolist()])
            mask = (labels != IGNORED).long()
            logits = tuned(input_ids=ids, attention_mask=mask, use_cache=False).logits
            step.backward(causal_lm_losses(logits, labels))
        on_step(step.number + 1)
    tuned.save_pretrained(str(output))
    result = Tuned(Path(output), training.guarantee(), training.ledger())
    training.close()
    return result


def _encoded(tokenizer: Any, text: str, longest: int) -> list[int]:
    ids = [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    start = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    return [start, *ids][: longest + 1]


def _padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
    labels = torch.tensor([[*row, *[IGNORED] * (longest - len(row))] for row in rows])
    return ids, labels


@torch.no_grad()
def sample(
    folder: Path | str, count: int, *, prompt: str = "", longest: int = 40, seed: int | None = None
) -> list[str]:
    """Draw texts from a model or an adapter, from its whole distribution."""
    model, tokenizer = load_causal(folder)
    if seed is not None:
        torch.manual_seed(seed)
    start = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    ids = [start, *tokenizer(prompt, add_special_tokens=False)["input_ids"]]
    drawn = model.eval().generate(
        input_ids=torch.tensor([ids] * count),
        attention_mask=torch.ones(count, len(ids), dtype=torch.long),
        do_sample=True,
        top_k=0,
        max_new_tokens=longest,
        pad_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return [tokenizer.decode(row[1:], skip_special_tokens=True).strip() for row in drawn]


def convert_gguf(path: Path | str, folder: Path | str) -> int:
    """Write a GGUF model as a folder with safetensors; return the number of its weights."""
    path, folder = Path(path), Path(folder)
    if not path.is_file() or path.suffix != ".gguf":
        raise InvalidInput(f"Expected a GGUF file, got {path}.")
    if folder.exists() and any(folder.iterdir()):
        raise InvalidInput(f"Expected an empty folder, got {folder}: name another.")
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        where = {"gguf_file": path.name, **LOCAL}
        tokenizer = AutoTokenizer.from_pretrained(str(path.parent), **where)
        model = AutoModelForCausalLM.from_pretrained(str(path.parent), dtype=torch.float32, **where)
    except ImportError as problem:
        raise InvalidInput(
            f"Expected the packages transformers, accelerate and gguf for {path}: "
            "pip install 'sottovoce[lm]' gguf."
        ) from problem
    except (OSError, ValueError, LookupError, RuntimeError, struct.error) as problem:
        first = (str(problem).strip().splitlines() or [""])[0]
        raise InvalidInput(f"Expected a GGUF language model in {path}: {first}") from problem
    tokenizer.save_pretrained(str(folder))
    # A model that came from a quantised file refuses to be saved, although its weights are not.
    config = type(model.config).from_dict(
        {name: v for name, v in model.config.to_dict().items() if name != "quantization_config"}
    )
    plain: Any = type(model)(config)
    plain.load_state_dict(model.state_dict())
    plain.save_pretrained(str(folder))
    return sum(parameter.numel() for parameter in plain.parameters())
