"""The Hugging Face Trainer, made private: training, logs, checkpoints, refusals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

transformers: Any = pytest.importorskip("transformers", reason="needs the extra `lm`")
pytest.importorskip("accelerate", reason="needs the extra `lm`")

from sottovoce.errors import InvalidInput  # noqa: E402
from sottovoce.privacy.guarantee import Unit  # noqa: E402
from sottovoce.training.integrations.trainer import Privacy, PrivateTrainer  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of other packages
POPULATION = 40
LLAMA = {
    "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 1, "intermediate_size": 24, "max_position_embeddings": 32,
    "pad_token_id": 0,
}  # fmt: skip


def sentences() -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randint(1, 50, (4 + i % 3,), generator=generator) for i in range(POPULATION)]
    return [{"input_ids": row.tolist(), "labels": row.tolist()} for row in rows]


def collate(rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    longest = max(len(row["input_ids"]) for row in rows)

    def padded(name: str, value: int) -> Tensor:
        return torch.tensor([row[name] + [value] * (longest - len(row[name])) for row in rows])

    # Without a mask an encoder reads the padding, whose length depends on the other examples; the
    # neighbour check stops such a training.
    words = padded("input_ids", 0)
    return {"input_ids": words, "attention_mask": words != 0, "labels": padded("labels", -100)}


def arguments(folder: Path, **more: Any) -> Any:
    given = {
        "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "num_train_epochs": 2,
        "max_grad_norm": 0, "logging_steps": 1, "save_strategy": "steps", "save_steps": 3,
        "report_to": [], "use_cpu": True, "disable_tqdm": True,
    } | more  # fmt: skip
    return transformers.TrainingArguments(str(folder), **given)


def privacy(**more: Any) -> Privacy:
    return Privacy(**({"epsilon": 8, "delta": 1e-3, "population": POPULATION} | more))


def trainer(folder: Path, settings: Privacy | None = None, **more: Any) -> PrivateTrainer:
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA))
    return PrivateTrainer(
        model,
        arguments(folder, **more),
        train_dataset=sentences(),
        eval_dataset=sentences()[:4],
        data_collator=collate,
        privacy=settings or privacy(),
    )


def test_a_script_becomes_private(tmp_path: Path) -> None:
    told: list[dict[str, float]] = []

    class Telling(transformers.TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            told.append(logs)

    made = trainer(tmp_path, eval_strategy="epoch", lr_scheduler_type="linear")
    made.add_callback(Telling)
    assert made.model is not None
    before = made.model.get_parameter("lm_head.weight").clone()
    made.train()
    assert not torch.equal(before, made.model.get_parameter("lm_head.weight"))
    assert made.state.global_step == made.training.step == 10
    # A batch is what goes through at once times the accumulated ones.
    assert (made.training.plan.batch_size, made.training.plan.virtual_batch) == (8, 4)
    assert 7 < made.guarantee().epsilon <= 8
    logged = [logs["epsilon"] for logs in told if "epsilon" in logs]
    assert logged == sorted(logged)
    assert logged[-1] == made.guarantee().epsilon
    assert not any("loss" in logs or "train_loss" in logs for logs in told)
    assert any("eval_loss" in logs for logs in told)
    # The schedule moved the learning rate of the optimiser that takes the steps.
    assert made.training.optimizer.param_groups[0]["lr"] == 0


def test_resuming_pays_for_every_step_once(tmp_path: Path) -> None:
    trainer(tmp_path, max_steps=10, logging_steps=9).train()
    again = trainer(tmp_path, max_steps=10, logging_steps=9)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-6"))
    assert again.state.global_step == again.training.step == 10
    steps = sum(entry.count for entry in again.training.ledger().entries)
    assert steps == 10
    assert again.guarantee().epsilon <= 8


def test_users_adapters_and_logged_losses(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="needs the extra `lm`")
    model = peft.get_peft_model(
        transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA)),
        peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
    )
    users = [f"user {i % 20}" for i in range(POPULATION)]
    made = PrivateTrainer(
        model,
        arguments(tmp_path, max_steps=2),
        train_dataset=sentences(),
        data_collator=collate,
        privacy=privacy(population=20, unit=Unit.USER, owners=users, log_losses=True),
    )
    made.train()
    guarantee = made.guarantee()
    assert guarantee.unit is Unit.USER
    assert any("losses that were logged" in text for text in guarantee.not_covered)
    assert any("loss" in logs for logs in made.state.log_history)


@pytest.mark.parametrize("kind", ["T5ForConditionalGeneration", "BertForSequenceClassification"])
def test_other_models(kind: str, tmp_path: Path) -> None:
    sizes = {"vocab_size": 50, "num_heads": 2, "d_model": 16, "d_kv": 8, "d_ff": 24}
    layers = {"num_layers": 1, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = getattr(transformers, kind).config_class(
        **sizes, **layers, hidden_size=16, intermediate_size=24, decoder_start_token_id=0
    )
    rows = sentences()
    if kind.startswith("Bert"):
        rows = [{**row, "input_ids": row["input_ids"][:4], "labels": 1} for row in rows]
    made = PrivateTrainer(
        getattr(transformers, kind)(config),
        arguments(tmp_path, max_steps=2, save_strategy="no"),
        train_dataset=rows,
        data_collator=collate if kind.startswith("T5") else transformers.default_data_collator,
        privacy=privacy(),
    )
    made.train()
    assert made.training.step == 2


REFUSED: dict[str, dict[str, Any]] = {
    "max_grad_norm": {"max_grad_norm": 1.0},
    "load_best_model_at_end": {"load_best_model_at_end": True, "eval_strategy": "steps",
                               "eval_steps": 3},
    "label_smoothing": {"label_smoothing_factor": 0.1},
    "train_sampling_strategy": {"train_sampling_strategy": "group_by_length"},
    "auto_find_batch_size": {"auto_find_batch_size": True},
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_breaks_the_guarantee_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=name):
        trainer(tmp_path, **REFUSED[name])


def test_early_stopping_needs_public_evaluation_data(tmp_path: Path) -> None:
    def stopping(settings: Privacy) -> PrivateTrainer:
        return PrivateTrainer(
            nn.Linear(2, 2),
            arguments(tmp_path),
            train_dataset=sentences(),
            callbacks=[transformers.EarlyStoppingCallback()],
            privacy=settings,
        )

    with pytest.raises(InvalidInput, match="EarlyStoppingCallback"):
        stopping(privacy())
    assert stopping(privacy(public_evaluation=True)).privacy.public_evaluation


def test_a_sampler_of_their_own_is_refused(tmp_path: Path) -> None:
    class Sampling(PrivateTrainer):
        def _get_train_sampler(self, train_dataset: Any = None) -> None:
            return None

    with pytest.raises(InvalidInput, match="_get_train_sampler"):
        Sampling(nn.Linear(2, 2), arguments(tmp_path), train_dataset=[], privacy=privacy())


def test_a_privacy_needs_one_of_epsilon_and_noise() -> None:
    for given in ({"epsilon": None}, {"noise_multiplier": 1.0}):
        with pytest.raises(InvalidInput, match="either epsilon or noise_multiplier"):
            privacy(**given)
    with pytest.raises(InvalidInput, match="owners"):
        privacy(unit="user")
