"""Fit a joint model by a plan: the loop around private training.

It adds what costs no privacy: a learning-rate schedule that depends on the step only, averaged
iterates, checkpoints, and progress callbacks.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from sottovoce.errors import InvalidInput
from sottovoce.nlu.fit.data import Encodings
from sottovoce.nlu.fit.optimisation import Optimisation
from sottovoce.nlu.model import JointModel
from sottovoce.privacy.facts import NoisySum
from sottovoce.privacy.guarantee import Guarantee, number_to_json, rounded_up
from sottovoce.privacy.ledger import Ledger
from sottovoce.training import Method, Plan, PrivateTraining, TailAverage, Worker

CHECKPOINTS = 20
"""Number of times the guarantee is computed and a checkpoint saved during training."""

LOSS_SHOWN = (
    "the training loss and times that were shown while training; do not publish the screen, or the "
    "private part of the run folder"
)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of training; `epsilon` is spent so far (None without privacy).

    Before the first step, the vectors of all utterances are computed once: then `loss` is NaN and
    the numbers count utterances.
    """

    step: int
    steps: int
    loss: float
    seconds_left: float
    epsilon: float | None = None

    def __str__(self) -> str:
        """One line, for `on_progress=print`.

        >>> print(Progress(step=3, steps=40, loss=1.25, seconds_left=75.0, epsilon=0.5))
        step 3 of 40, loss 1.250, epsilon 0.5 spent, 1:15 left
        >>> print(Progress(step=64, steps=2000, loss=math.nan, seconds_left=9.0))
        vectors of 64 of 2,000 utterances, 0:09 left
        """
        spent = "" if self.epsilon is None else f", epsilon {rounded_up(self.epsilon)} spent"
        minutes, seconds = divmod(round(self.seconds_left), 60)
        left = f"{minutes}:{seconds:02} left"
        if math.isnan(self.loss):
            return f"vectors of {self.step:,} of {self.steps:,} utterances, {left}"
        return f"step {self.step:,} of {self.steps:,}, loss {self.loss:.3f}{spent}, {left}"


def vectors_progress(
    on_step: Callable[[Progress], None] | None, total: int
) -> Callable[[int], None]:
    """A callback for the number of utterances whose vectors are computed."""
    begun = time.monotonic()

    def count(done: int) -> None:
        if on_step is not None:
            left = (time.monotonic() - begun) / done * (total - done)
            on_step(Progress(step=done, steps=total, loss=math.nan, seconds_left=left))

    return count


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Result of a training; `stopped` if it was stopped before its last step."""

    guarantee: Guarantee
    ledger: Ledger
    history: list[dict[str, float | str]]
    steps: int
    examples: int
    seconds: float
    stopped: bool


def fit(
    model: JointModel,
    encodings: Encodings,
    plan: Plan,
    optimisation: Optimisation,
    *,
    owners: Sequence[str] | int,
    ledger: Path | str | None = None,
    checkpoint: Path | str | None = None,
    resume: bool = False,
    seed: int | None = None,
    assumptions: Sequence[str] = (),
    uncovered: Sequence[str] = (),
    on_step: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Fitted:
    """Train `model` on `encodings` by the plan; it ends up with the averaged weights.

    With `checkpoint`, the state is saved regularly and when `should_stop` returns True; `resume`
    continues from there. Under torchrun every rank calls this.
    """
    optimizer = optimisation.optimizer_of(model)
    with ExitStack() as during:
        if encodings.cached:
            during.enter_context(_encoder_aside(model))
        training = PrivateTraining(plan, model, optimizer, owners=owners, ledger=ledger, seed=seed)
        # Closed also after an error, so that the ledger is unlocked for resuming.
        during.enter_context(closing(training))
        for sentence in assumptions:
            training.assume(sentence)
        shown = [LOSS_SHOWN] if plan.method is not Method.SGD else []
        for sentence in (*uncovered, *shown):
            training.leave_uncovered(sentence)
        path = None if checkpoint is None else rank_checkpoint(checkpoint)
        return _fit(
            training, model, encodings, optimisation, path,
            resume=resume, on_step=on_step, should_stop=should_stop,
        )  # fmt: skip


class _Aside(nn.Module):
    """Takes the place of a frozen encoder whose vectors are cached."""

    frozen = True


@contextmanager
def _encoder_aside(model: JointModel) -> Iterator[None]:
    """Train the heads alone: no step uses the encoder, so no step has to check or save it."""
    encoder = model.encoder
    before = [(p, p._version) for p in (*encoder.parameters(), *encoder.buffers())]
    model.encoder = _Aside()  # type: ignore[assignment]
    try:
        yield
    finally:
        model.encoder = encoder
    if any(p._version != version for p, version in before):
        raise InvalidInput(
            "Expected a frozen encoder to stay as it is during training, but it was changed."
        )


def _fit(
    training: PrivateTraining,
    model: JointModel,
    encodings: Encodings,
    optimisation: Optimisation,
    path: Path | None,
    *,
    resume: bool,
    on_step: Callable[[Progress], None] | None,
    should_stop: Callable[[], bool],
) -> Fitted:
    plan, optimizer = training.plan, training.optimizer
    private = plan.method is not Method.SGD
    start = round(plan.steps * (1 - optimisation.averaged))
    average = TailAverage(model.parameters(), start=start)
    epsilon, history = None, list[dict[str, float | str]]()
    examples, earlier = 0, 0.0
    if path is not None and resume and _all_ranks_have(path):
        kept = training.resume(path)
        average.load_state_dict(kept["average"])
        history, examples, earlier = kept["history"], kept["examples"], kept["seconds"]
        _check_same_step(kept["step"], path)
    elif any(isinstance(entry.fact, NoisySum) for entry in training.ledger().entries):
        raise InvalidInput(
            "Expected an unused ledger or a checkpoint to resume from, got a ledger with steps and "
            f"no checkpoint at {path}: use another folder."
        )
    due = _checkpoint_steps(plan.steps)
    begun, first, stopped = time.monotonic(), training.step, False

    def save() -> None:
        if path is not None:
            seconds = earlier + time.monotonic() - begun
            training.save(
                path,
                {
                    "average": average.state_dict(),
                    "history": history,
                    "examples": examples,
                    "seconds": seconds,
                    "step": training.step,
                },
            )

    if training.step == 0:
        save()  # so that a run killed before the first checkpoint can be resumed
    _train_mode(model)
    for step in training.steps():
        optimisation.set_rate(optimizer, step.number, plan.steps)
        total, seen = 0.0, 0
        for indices in step:
            if private:
                losses = model.losses(encodings.batch(indices))
            else:
                losses = _losses_by_length(model, encodings, indices)
            step.backward(losses)
            if seen < step.size:  # later batches belong to the neighbour check
                total += float(losses.detach().sum())
            seen += len(indices)
        average.add(step.number)
        examples += step.size
        stopped = Worker.this().alone and training.step < plan.steps and should_stop()
        if training.step in due or stopped:
            if private:
                epsilon = training.guarantee().epsilon
                history.append({"step": training.step, "epsilon": number_to_json(epsilon)})
            else:
                history.append({"step": training.step, "loss": total / max(1, step.size)})
            save()
        if on_step is not None:
            pace = (time.monotonic() - begun) / max(1, training.step - first)
            on_step(
                Progress(
                    step=training.step,
                    steps=plan.steps,
                    loss=total / max(1, step.size),
                    epsilon=epsilon,
                    seconds_left=pace * (plan.steps - training.step),
                )
            )
        if stopped:
            break
    if optimisation.averaged:
        average.put_in_place()
    model.eval()
    spent = training.ledger()
    return Fitted(
        guarantee=spent.guarantee(plan.delta, population=plan.population),
        ledger=spent,
        history=history,
        steps=training.step,
        examples=examples,
        seconds=earlier + time.monotonic() - begun,
        stopped=stopped,
    )


def _losses_by_length(model: JointModel, encodings: Encodings, indices: Tensor) -> Tensor:
    """The same losses, computed in groups of similar length, so that little of it is padding.

    Only without privacy: exact clipping needs all examples of a piece in one batch.
    """
    groups = encodings.groups_by_length(indices)
    losses = torch.cat([model.losses(encodings.batch(indices[group])) for group in groups])
    return losses[torch.cat(groups).argsort()]


def rank_checkpoint(path: Path | str) -> Path:
    """The checkpoint file of this worker; each worker has its own ledger and checkpoint."""
    path, worker = Path(path), Worker.this()
    return path if worker.alone else path.with_name(f"{path.stem}.rank{worker.rank}{path.suffix}")


def _all_ranks_have(path: Path) -> bool:
    return all(each["there"] for each in Worker.this().gather(there=path.exists()))


def _check_same_step(step: int, path: Path) -> None:
    """Refuse checkpoints of different steps: the workers would train different models."""
    steps = {each["step"] for each in Worker.this().gather(step=step)}
    if len(steps) > 1:
        raise InvalidInput(
            f"Expected checkpoints of the same step from all workers, got steps {min(steps)} and "
            f"{max(steps)} next to {path.name}: use another folder."
        )


def _checkpoint_steps(steps: int) -> set[int]:
    return {round(steps * mark / CHECKPOINTS) for mark in range(1, CHECKPOINTS + 1)} | {steps}


def _train_mode(model: JointModel) -> None:
    model.train()
    if model.encoder.frozen:
        model.encoder.eval()  # cached features must not depend on dropout
