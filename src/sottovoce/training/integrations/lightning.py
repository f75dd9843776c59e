"""A Lightning module whose training is private.

    from sottovoce.training.integrations.lightning import Privacy, PrivateModule

    class Classifier(PrivateModule):                        # was LightningModule
        def losses(self, batch):                            # was training_step; one per example
            x, y = batch
            return functional.cross_entropy(self(x), y, reduction="none")

    module = Classifier()
    steps = module.private(Privacy(epsilon=8, delta=1e-6, population=60_000), dataset,
                           batch_size=64, epochs=3)
    L.Trainer(max_epochs=3).fit(module, steps)
    print(module.guarantee())

Optimisers and schedulers come from `configure_optimizers`, evaluation, loggers, callbacks,
checkpoints and resuming work as usual. The epsilon so far is logged as `epsilon`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import Tensor
from torch.utils.data import IterableDataset, default_collate

from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.training.integrations.settings import Privacy, mean_of
from sottovoce.training.loader import Loader
from sottovoce.training.optimizers import Follower
from sottovoce.training.plan import Plan
from sottovoce.training.private import PrivateTraining
from sottovoce.training.step import Step

__all__ = ["Privacy", "PrivateModule"]
KEY = "sottovoce"


class PrivateModule(lightning.LightningModule):
    """A module that defines `losses(batch)`, one loss per example, in place of `training_step`."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self._prepared: _Steps | None = None
        self._training: PrivateTraining | None = None
        self._saved: dict[str, Any] | None = None

    def losses(self, batch: Any) -> Tensor:
        raise NotImplementedError("Define losses(batch): one loss for each example.")

    def private(
        self,
        privacy: Privacy,
        dataset: Any,
        *,
        batch_size: int,
        epochs: int,
        virtual_batch: int = 64,
        collate_fn: Callable[[list[Any]], Any] = default_collate,
        num_workers: int = 0,
    ) -> "_Steps":
        """What `Trainer.fit` takes in place of a data loader: Poisson batches of the dataset."""
        plan = privacy.plan(
            batch_size=batch_size, virtual_batch=min(virtual_batch, batch_size), epochs=epochs
        )
        loader = Loader(dataset, collate_fn, num_workers)
        self._prepared = _Steps(self, privacy, plan, loader)
        return self._prepared

    def guarantee(self) -> Guarantee:
        """The guarantee for everything released so far."""
        return self.training_run.guarantee()

    @property
    def training_run(self) -> PrivateTraining:
        if self._training is None:
            raise InvalidInput("Expected training to have begun, got none: call fit first.")
        return self._training

    def on_fit_start(self) -> None:
        steps = self._steps()
        _refuse(self.trainer, steps.privacy)
        optimizers = self.optimizers()
        if isinstance(optimizers, list):
            raise InvalidInput(
                f"Expected one optimiser, got {len(optimizers)}: return "
                "sottovoce.training.Together(...) of them from configure_optimizers."
            )
        follower = optimizers.optimizer
        assert isinstance(follower, Follower)
        self._training = steps.privacy.begin(steps.plan, self, follower.real, len(steps.loader))
        if self._saved is not None:
            self._training.restore(self._saved)
        steps.remaining = self._training.steps()

    def training_step(self, batch: Any, batch_idx: int) -> None:
        """One private step: clipping, noise and the optimiser's step."""
        del batch_idx
        prepared, step = self._steps(), batch["step"]
        seen: list[Tensor] = []
        for examples in prepared.loader(step):
            losses = self.losses(self.transfer_batch_to_device(examples, self.device, 0))
            step.backward(losses)
            if prepared.privacy.log_losses:
                seen.append(losses.detach())
        taken: Any = self.optimizers()
        taken.step()  # the step was taken: this one is counted by Lightning
        schedulers = self.lr_schedulers() or []
        for scheduler in schedulers if isinstance(schedulers, list) else [schedulers]:
            if isinstance(scheduler, torch.optim.lr_scheduler.LRScheduler):
                scheduler.step()
        self.log("epsilon", self.training_run.epsilon, prog_bar=True, batch_size=1)
        if seen:
            self.log("loss", mean_of(seen), prog_bar=True, batch_size=1)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if self._training is not None:
            checkpoint[KEY] = self._training.state()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self._saved = checkpoint.get(KEY)

    def _steps(self) -> "_Steps":
        if self._prepared is None:
            raise InvalidInput(
                "Expected private batches, got another data loader: "
                "trainer.fit(module, module.private(privacy, dataset, ...))."
            )
        return self._prepared

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "training_step" in vars(cls):
            raise InvalidInput(
                f"Expected losses(batch) in {cls.__name__}, got training_step: return one loss per "
                "example; the step is taken privately."
            )
        configure = vars(cls).get("configure_optimizers")
        if configure is not None:
            cls.configure_optimizers = _following(configure)  # type: ignore[assignment, method-assign]


def _following(configure: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`configure_optimizers` with optimisers whose steps Lightning may call."""

    def configured(module: Any) -> Any:
        found = configure(module)
        known: dict[int, Follower] = {}

        def follow(value: Any) -> Any:
            if isinstance(value, Follower):
                return value
            if isinstance(value, torch.optim.Optimizer):
                return known.setdefault(id(value), Follower(value))
            if isinstance(value, dict):
                return {name: follow(each) for name, each in value.items()}
            if isinstance(value, list | tuple):
                return type(value)(map(follow, value))
            return value

        followed = follow(found)
        for scheduler in _schedulers(followed):
            scheduler.optimizer = known.get(id(scheduler.optimizer), scheduler.optimizer)
        return followed

    return configured


def _schedulers(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.optim.lr_scheduler.LRScheduler):
        yield value
    elif isinstance(value, dict):
        yield from (each for inner in value.values() for each in _schedulers(inner))
    elif isinstance(value, list | tuple):
        yield from (each for inner in value for each in _schedulers(inner))


def _refuse(trainer: lightning.Trainer, privacy: Privacy) -> None:
    if trainer.gradient_clip_val:
        raise InvalidInput(
            "Expected no gradient_clip_val in private training: gradients are clipped per example "
            "by Privacy(clip_norm=...)."
        )
    if str(trainer.precision).startswith(("16", "bf16-mixed")):
        raise InvalidInput(
            f"Expected precision 32-true, 64-true or bf16-true, got {trainer.precision}: loss "
            "scaling and autocast change gradients before they are clipped."
        )
    if trainer.accumulate_grad_batches != 1:
        raise InvalidInput(
            "Expected accumulate_grad_batches=1: a step is split into pieces of virtual_batch."
        )
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        best = isinstance(callback, ModelCheckpoint) and callback.monitor is not None
        if (isinstance(callback, EarlyStopping) or best) and not privacy.public_evaluation:
            raise InvalidInput(
                "Expected nothing that chooses a model by evaluation data, got "
                f"{type(callback).__name__}: the choice is not covered by the guarantee. If that "
                "data is public, declare Privacy(public_evaluation=True)."
            )


class _Steps(IterableDataset[dict[str, Step]]):
    """Looks like a data loader: an epoch of steps, from one training for all epochs."""

    def __init__(self, module: PrivateModule, privacy: Privacy, plan: Plan, loader: Loader) -> None:
        self.module, self.privacy, self.plan, self.loader = module, privacy, plan, loader
        self.remaining: Iterator[Step] | None = None

    def __len__(self) -> int:
        return self.plan.steps_per_epoch

    def __iter__(self) -> Iterator[dict[str, Step]]:
        training = self.module.training_run
        assert self.remaining is not None
        for _ in range(len(self) - training.step % len(self)):
            step = next(self.remaining, None)
            if step is None:
                return
            yield {"step": step}
