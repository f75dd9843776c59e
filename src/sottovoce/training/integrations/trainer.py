"""A Hugging Face `Trainer` whose training is private.

    from sottovoce.training.integrations.trainer import PrivateTrainer, Privacy

    args = TrainingArguments(..., max_grad_norm=0)
    privacy = Privacy(epsilon=8, delta=1e-6, population=60_000)
    trainer = PrivateTrainer(model, args, train_dataset=data, privacy=privacy)
    trainer.train()
    print(trainer.guarantee())

A batch has `per_device_train_batch_size` x `gradient_accumulation_steps` x processes examples on
average, drawn by Poisson sampling; the first factor is how many go through the model at once.
Evaluation, schedulers, checkpoints, resuming and `report_to` work as usual. Training losses are
not logged unless `log_losses` is set; the epsilon so far is.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from transformers import EarlyStoppingCallback, Trainer
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.trainer_utils import SaveStrategy

from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.training.integrations.settings import Privacy, mean_of
from sottovoce.training.loader import Loader
from sottovoce.training.losses import causal_lm_losses, class_losses, span_losses, token_losses
from sottovoce.training.optimizers import Follower
from sottovoce.training.plan import Plan
from sottovoce.training.private import PrivateTraining
from sottovoce.training.step import Step

__all__ = ["Privacy", "PrivateTrainer"]
FILE = "private_training.pt"
Losses = Callable[[nn.Module, dict[str, Any]], Tensor]


class PrivateTrainer(Trainer):
    """`Trainer` with a `privacy`, and with `losses(model, inputs)` for unusual models.

    `losses` returns one loss for each example of a batch. Without it, the usual models of
    transformers are known: language models, classifiers of tokens and sequences, and question
    answering.
    """

    def __init__(
        self, *args: Any, privacy: Privacy, losses: Losses | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.privacy = privacy
        self._losses = losses or self._usual_losses
        self._refuse()
        # The loop of the base class sees one batch per step; what follows is up to the plan.
        self._virtual = self.args.per_device_train_batch_size
        self._accumulated = self.args.gradient_accumulation_steps
        self.args.gradient_accumulation_steps = 1
        self.args.ignore_data_skip = True
        self._training: PrivateTraining | None = None
        self._steps: Iterator[Step] | None = None

    @property
    def training(self) -> PrivateTraining:
        if self._training is None:
            raise InvalidInput("Expected training to have begun, got none: call train() first.")
        return self._training

    @property
    def _unwrapped(self) -> nn.Module:
        """The model itself: what wraps it for several processes reduces gradients of its own."""
        assert self.model is not None
        return self.model

    def guarantee(self) -> Guarantee:
        """The guarantee for everything released so far."""
        return self.training.guarantee()

    def plan(self) -> Plan:
        """The plan that follows from the arguments and the privacy."""
        batch = self._virtual * self._accumulated * max(1, self.args.world_size)
        per_epoch = max(1, round(self.privacy.population / batch))
        epochs = math.ceil(self.args.num_train_epochs)
        if self.args.max_steps > 0:
            epochs = math.ceil(self.args.max_steps / per_epoch)
        return self.privacy.plan(batch_size=batch, virtual_batch=self._virtual, epochs=epochs)

    def _refuse(self) -> None:
        """What would break the guarantee, or would look as if it had an effect."""
        args = self.args
        early = [
            name
            for name, is_set in {
                "EarlyStoppingCallback": any(
                    isinstance(each, EarlyStoppingCallback)
                    for each in self.callback_handler.callbacks
                ),
                "load_best_model_at_end": args.load_best_model_at_end,
                "save_strategy='best'": args.save_strategy == SaveStrategy.BEST,
            }.items()
            if is_set
        ]
        if early and not self.privacy.public_evaluation:
            raise InvalidInput(
                "Expected nothing that chooses a model by evaluation data, got "
                f"{', '.join(early)}: the choice is not covered by the guarantee. If that data is "
                "public, declare Privacy(public_evaluation=True)."
            )
        refused = {
            "max_grad_norm": (
                args.max_grad_norm,
                "set max_grad_norm=0; gradients are clipped per example by Privacy(clip_norm=...)",
            ),
            "fp16": (
                args.fp16,
                "its loss scaling changes gradients before they are clipped; use bf16 weights",
            ),
            "bf16": (args.bf16, "convert the model with model.to(torch.bfloat16) instead"),
            "torch_compile": (args.torch_compile, "rules cannot see compiled code"),
            "auto_find_batch_size": (args.auto_find_batch_size, "set the batch size"),
            "label_smoothing_factor": (args.label_smoothing_factor, "use losses=..."),
            "compute_loss_func": (self.compute_loss_func, "use losses=..., one per example"),
            "deepspeed": (args.deepspeed, "it takes steps of its own"),
            "fsdp": (args.fsdp, "it takes steps of its own"),
            "train_sampling_strategy": (
                getattr(args, "train_sampling_strategy", "random") != "random",
                "examples are drawn by Poisson sampling",
            ),
            "several GPUs in one process": (args.n_gpu > 1, "start one process per GPU"),
        }
        for name, (value, remedy) in refused.items():
            if value:
                raise InvalidInput(f"Expected no {name} in private training: {remedy}.")
        own = type(self)._get_train_sampler is not Trainer._get_train_sampler
        if own or type(self).compute_loss is not Trainer.compute_loss:
            raise InvalidInput(
                "Expected the sampler and the loss of private training, got a subclass with "
                f"{'_get_train_sampler' if own else 'compute_loss'}: batches are drawn by Poisson "
                "sampling, and losses are one per example (losses=...)."
            )

    def get_train_dataloader(self) -> Any:
        """The steps of an epoch, in place of batches."""
        if self.train_dataset is None:
            raise InvalidInput("Expected a train_dataset, got none.")
        dataset, collate = self.train_dataset, self.data_collator
        if hasattr(dataset, "remove_columns"):
            dataset = self._remove_unused_columns(dataset, description="training")
        else:
            collate = self._get_collator_with_removed_columns(collate, description="training")
        self._loader = Loader(dataset, collate, self.args.dataloader_num_workers)
        self._planned = self.plan()
        return _Epochs(self, self._planned.steps_per_epoch)

    def num_examples(self, dataloader: Any) -> int:
        """The declared population: the real number is private."""
        del dataloader
        return self.privacy.population

    def create_optimizer(self, model: Any = None) -> Any:
        found = super().create_optimizer(model)
        if not isinstance(found, Follower):
            self.optimizer = Follower(found)
        return self.optimizer

    def _prepare_for_training(self, max_steps: int, train_dataloader: Any, resume: Any) -> Any:
        prepared = super()._prepare_for_training(  # type: ignore[no-untyped-call]
            max_steps, train_dataloader, resume
        )
        follower: Any = getattr(self.optimizer, "optimizer", self.optimizer)
        self._training = self.privacy.begin(
            self._planned, self._unwrapped, follower.real, len(self._loader)
        )
        if resume is not None:
            self._training.resume(Path(resume, FILE))
            self.state.global_step = self._training.step
        self._steps = self._training.steps()
        return prepared

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """One private step: clipping, noise and the optimiser's step."""
        del model, num_items_in_batch  # the unwrapped model, and one loss per example
        step: Step = inputs["step"]
        self._unwrapped.train()
        seen: list[Tensor] = []
        for batch in self._loader(step):
            losses = self._losses(self._unwrapped, self._prepare_inputs(batch))
            step.backward(losses)
            if self.privacy.log_losses:
                seen.append(losses.detach())
        return mean_of(seen).to(self.args.device)

    def _usual_losses(self, model: nn.Module, inputs: dict[str, Any]) -> Tensor:
        labels = inputs.get("labels")
        if labels is None and "start_positions" in inputs:
            start, end = inputs.pop("start_positions"), inputs.pop("end_positions")
            outputs = model(**inputs)
            return span_losses(outputs.start_logits, outputs.end_logits, start, end)
        if labels is None:
            raise InvalidInput(
                f"Expected labels in a batch, got {', '.join(inputs)}: give losses=... to "
                "PrivateTrainer, a function of the model and a batch with one loss per example."
            )
        base = getattr(model, "get_base_model", lambda: model)()
        if not getattr(base.config, "is_encoder_decoder", False):  # it derives inputs from labels
            inputs = {name: value for name, value in inputs.items() if name != "labels"}
        logits = model(**inputs).logits
        if logits.dim() == 2:
            return class_losses(logits, labels)
        causal = type(base).__name__ in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()
        return causal_lm_losses(logits, labels) if causal else token_losses(logits, labels)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if not self.privacy.log_losses:
            logs = {name: v for name, v in logs.items() if name not in ("loss", "train_loss")}
        if self._training is not None and "learning_rate" in logs:
            logs["epsilon"] = self._training.epsilon
        super().log(logs, start_time)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        folder = Path(self._get_output_dir(trial=trial), f"checkpoint-{self.state.global_step}")
        if folder.is_dir():
            self.training.save(folder / FILE)

    def floating_point_ops(self, inputs: Any) -> int:  # would count private tokens
        del inputs
        return 0


class _Epochs:
    """Looks like a data loader: an epoch of steps, from one training for all epochs."""

    def __init__(self, trainer: PrivateTrainer, steps: int) -> None:
        self._trainer, self._steps = trainer, steps

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[dict[str, Step]]:
        training, steps = self._trainer.training, self._trainer._steps
        assert steps is not None
        left = self._steps - training.step % self._steps
        for _ in range(left):
            step = next(steps, None)
            if step is None:
                return
            yield {"step": step}
