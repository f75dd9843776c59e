"""Private training with an ordinary torch loop: sampling, clipping, noise and accounting.

    training = PrivateTraining(plan, model, optimizer, owners=len(data))
    for step in training.steps():
        for batch in step:                      # indices of examples, one piece at a time
            step.backward(losses(model(x[batch]), y[batch]))        # one loss per example
    print(training.guarantee())

After the last piece of a step, noise is added to the clipped sum and the optimiser takes its step.
The step was recorded in the ledger before it began, and the noise that is added is the noise that
was recorded: nothing can change in between.
"""

import json
import math
import os
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.optim import Optimizer

from sottovoce import __version__, _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import Fact, NoisySum, Sampling, ScaleSource, Unprotected
from sottovoce.privacy.guarantee import Guarantee, Relation, Unit, Verdict
from sottovoce.privacy.ledger import Budget, Ledger
from sottovoce.privacy.ledgers.merging import merge_workers
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.recipes import NoiseShape, NoiseSplit
from sottovoce.privacy.sampling import SamplingKey
from sottovoce.training.batches import Batches, numbered
from sottovoce.training.checkpoint import load_checkpoint, save_checkpoint
from sottovoce.training.checks.neighbours import NeighbourCheck
from sottovoce.training.checks.ownership import Ownership
from sottovoce.training.clipping.gradients import (
    ExactGradient,
    Gradient,
    OneByOneGradient,
    PlainGradient,
    dense,
    trainable,
)
from sottovoce.training.clipping.styles import (
    AutomaticClipping,
    Clipping,
    FlatClipping,
    PerLayerClipping,
)
from sottovoce.training.distributed import Part, Worker, digest_of, parts
from sottovoce.training.edpsgd.scale_release import ScaleRelease
from sottovoce.training.edpsgd.scaling import LayerScales
from sottovoce.training.errors import NeighbourCheckFailed, UnsupportedLayer
from sottovoce.training.noise import TensorNoise
from sottovoce.training.plan import ClippingStyle, Method, Plan
from sottovoce.training.step import Step

PRECISIONS = (torch.float32, torch.float64, torch.bfloat16)
SAME_EXAMPLES = "every worker has the same examples in the same order"
NOT_CHARGED = "choosing hyper-parameters, the checkpoint or when to stop by looking at private data"
CHANGED_BETWEEN = (
    "Expected the weights as the last step left them, got others: code between the steps, such as "
    "a second optimiser, has changed them without clipping and noise. Remove it, or, if these "
    "changes are computed without private data, declare PrivateTraining(..., public_updates=True)."
)
PUBLIC_LOSS = "the public loss, whose gradient is added after the noise, uses no private data"
PUBLIC_UPDATES = "changes of the weights between the steps were computed without private data"


class PrivateTraining:
    """Executes a plan on a model and accounts for it.

    `owners` gives the unit of every example: unique ids, the users of the examples (with the unit
    user), or only the number of examples. With a `ledger` file the accounting survives a crash.
    Buffers of the model must not change, except those named in `public_buffers`; weights must not
    change between steps, unless `public_updates=True` declares that no private data is used.
    `public_loss()`, of public data only, is called at every step; its gradient is added after the
    noise, at no cost.

    The neighbour check repeats passes, so the loop must do the same thing when it gets the same
    examples again: it may use the global generators of torch, Python and numpy, but state from one
    batch must not affect the next. If the loop uses its own generators, set `own_randomness=True`:
    where its passes cannot be repeated, the guarantee then lists as an assumption that examples
    are processed independently. The check detects mistakes; it is no defence against code written
    to evade it.
    """

    def __init__(
        self,
        plan: Plan,
        model: nn.Module,
        optimizer: Optimizer,
        *,
        owners: Sequence[str] | int,
        ledger: Path | str | None = None,
        budget: Budget | None = None,
        scales: LayerScales | None = None,
        seed: int | None = None,
        public_buffers: Collection[str] = (),
        own_randomness: bool = False,
        public_updates: bool = False,
        public_loss: Callable[[], Tensor] | None = None,
    ) -> None:
        if type(plan) is not Plan:
            raise InvalidInput(f"Expected a Plan, got {type(plan).__name__}.")
        self._planned = replace(plan)  # a private copy, to detect changes
        self._own_randomness = own_randomness is True
        self._public_updates = public_updates is True
        self._public_loss = public_loss
        self._plan, self._model, self._optimizer = plan, model, optimizer
        self._step = 0
        self._process = os.getpid()
        self._failed: str | None = None
        self._told: tuple[object, float] | None = None
        self._closed = False
        self._current: Step | None = None
        self._worker = Worker.this()
        self._check_workers()
        self._parameters = trainable(model)
        _check_shapes(model)
        _check_precision(self._parameters, model)
        self._ownership = Ownership(model, optimizer, public_buffers)
        self._scales = scales or LayerScales.ones(model)
        if plan.alpha_source in (ScaleSource.ONES, ScaleSource.DP, ScaleSource.FIRST_BATCH):
            if scales is not None:
                raise InvalidInput(
                    f"Expected no scales with the source {plan.alpha_source}, got scales."
                )
        elif scales is None:
            raise InvalidInput(f"Expected scales from the source {plan.alpha_source}, got none.")
        elif scales != scales.at_most(plan.max_alpha):
            raise InvalidInput(
                f"Expected scales of at most max_alpha = {plan.max_alpha:g}, which the plan was "
                f"accounted with, got {max(scales.alpha):g}: raise max_alpha, or leave it out."
            )
        elif plan.alpha_source is ScaleSource.SHAPES and scales != LayerScales.from_shapes(model):
            raise InvalidInput(
                "Expected the scales that follow from the model's shapes, got others: use "
                "LayerScales.from_shapes(model), or set the plan's alpha_source to their source."
            )
        names = _names(owners, plan)
        self._worker.agree(
            plan=repr(plan),
            owners=digest_of(names),
            parameters=[[n, list(p.shape), str(p.dtype)] for n, p in model.named_parameters()],
            trainable=[p.requires_grad for p in model.parameters()],
            scales=list(self._scales.alpha),
            optimizer=type(optimizer).__name__,
            seeded=seed is not None,
            own_randomness=self._own_randomness,
        )
        self._source, key = _randomness(seed, self._worker.rank)
        self._worker.check_noise(self._source)
        self._seed = seed
        self._key = self._worker.agree_on_key(key)
        self._owners = names
        self._worker.same_start([p.data for p in self._parameters])
        self._ledger = self._open_ledger(ledger, budget)
        self._ledger.leave_uncovered(NOT_CHARGED)
        if not self._worker.alone:
            self._ledger.assume(SAME_EXAMPLES)
        if public_loss is not None:
            self._ledger.assume(PUBLIC_LOSS)
        self._begin_run()

    @property
    def plan(self) -> Plan:
        return self._plan

    @property
    def model(self) -> nn.Module:
        return self._model

    @property
    def optimizer(self) -> Optimizer:
        return self._optimizer

    @property
    def step(self) -> int:
        """The number of the next step."""
        return self._step

    def steps(self) -> Iterator[Step]:
        """The remaining steps; iterate over all pieces of each."""
        if self.plan.alpha_source in (ScaleSource.DP, ScaleSource.FIRST_BATCH) and self.step == 0:
            yield from self._scale_step()
        while self.step < self.plan.steps:
            self._check_own()
            paid = self._fact()
            self._ledger.spend(paid)
            yield from self._one_step(
                self.step,
                self._gradient,
                partial(self._take, paid),
                self._check,
            )

    def _one_step(
        self,
        number: int,
        gradient: Gradient,
        take: Callable[[Step, list[Tensor]], None],
        check: NeighbourCheck | None = None,
    ) -> Iterator[Step]:
        private = not isinstance(gradient, PlainGradient)
        watch = self._check_after_piece if private else self._check_current
        step = Step(number, self._batches.pieces(number), gradient, take, check, watch)
        self._current = step
        for parameter in self._parameters:
            parameter.grad = None
        if private:
            self._check_between_steps()
        self._ownership.begin_step()
        yield step
        if not step.finished:
            raise InvalidInput(
                f"Expected a loop over all pieces of step {number}, got an incomplete one: noise "
                "is added after the last piece."
            )

    def _check_between_steps(self) -> None:
        if not self._ownership.changed_between_steps:
            return
        if not self._public_updates:
            self._failed = CHANGED_BETWEEN
            raise InvalidInput(CHANGED_BETWEEN)
        self._ledger.assume(PUBLIC_UPDATES)

    def guarantee(self) -> Guarantee:
        """The guarantee for everything released so far by all workers."""
        self._check_buffers()
        guarantee = self.ledger().guarantee(self.plan.delta, population=self.plan.population)
        if self._failed is None:
            return guarantee
        reasons = (self._failed, *guarantee.reasons)
        no = Verdict.NO_GUARANTEE
        return replace(guarantee, epsilon=math.inf, verdict=no, accountant="none", reasons=reasons)

    @property
    def epsilon(self) -> float:
        """The epsilon of everything released so far, for loggers; infinite without a guarantee."""
        if self._told is None or self._told[0] != (self.step, self._failed):
            self._told = (self.step, self._failed), self.guarantee().epsilon
        return self._told[1]

    def _check_buffers(self) -> None:
        """Check the buffers of the current model, even after an earlier refusal."""
        private = self.plan.method is not Method.SGD
        if private and self._failed is None and not self._closed:
            try:
                self._ownership.check_buffers(values=True)
            except InvalidInput as problem:
                self._failed = str(problem)

    def ledger(self) -> Ledger:
        """The merged ledger of all workers; a collective call, so call it on every rank."""
        if self._worker.alone:
            return self._ledger
        ledgers = self._worker.gather(**self._ledger.to_json())
        return merge_workers([Ledger.from_json(data) for data in ledgers])

    def assume(self, sentence: str) -> None:
        """Record an assumption that the guarantee depends on."""
        self._ledger.assume(sentence)

    def leave_uncovered(self, sentence: str) -> None:
        """Record a use of private data that this training does not account for."""
        self._ledger.leave_uncovered(sentence)

    def save(self, path: Path | str, extra: Mapping[str, Any] | None = None) -> None:
        """Write a checkpoint (weights, optimiser, step and ledger) atomically.

        `extra` (tensors, numbers, strings) holds the caller's state; `resume` returns it.
        """
        save_checkpoint(path, self.state(extra))

    def state(self, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The content of a checkpoint, for files of other tools."""
        self._ownership.check_buffers(values=True)
        if self.plan.method is not Method.SGD:
            self._check_between_steps()
        self._ledger.sync()
        return {
            "sottovoce": __version__,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "alpha": list(self._scales.alpha),
            "ledger": json.dumps(self._ledger.to_json()),
            "extra": dict(extra or {}),
        }

    def resume(self, path: Path | str) -> dict[str, Any]:
        """Continue from a checkpoint. Steps recorded after it stay spent and are not repeated.

        All workers resume together, from the same file or from files of the same step.
        """
        return self.restore(load_checkpoint(path))

    def restore(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Continue from a `state`; see `resume`."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._scales = LayerScales(self._scales.names, tuple(state["alpha"]), self._scales.layer_of)
        self._merge_saved_ledger(Ledger.from_json(json.loads(state["ledger"])))
        spent = sum(e.count for e in self._ledger.entries if isinstance(e.fact, NoisySum))
        # At a crash, some workers may have recorded a step that others had not.
        told = self._worker.gather(saved=state["step"], reached=max(state["step"], spent))
        if len({each["saved"] for each in told}) > 1:
            steps = ", ".join(str(each["saved"]) for each in told)
            raise InvalidInput(
                f"Expected a checkpoint of the same step on every worker, got steps {steps}: "
                "resume all of them from the same file."
            )
        self._step = max(each["reached"] for each in told)
        self._ownership.accept_buffers()
        # Never repeat noise: with the same noise on two different gradients, their difference would
        # have none.
        self._source = NoiseSource() if self._seed is None else self._source.derive(_salt())
        self._worker.check_noise(self._source)
        self._key = self._worker.agree_on_key(SamplingKey())
        # Batches use a new key, so an unfinished shuffled epoch starts again.
        self._begin_run()
        extra: dict[str, Any] = state["extra"]
        return extra

    def _merge_saved_ledger(self, saved: Ledger) -> None:
        """Count what either copy has spent: the ledger file may be lost, rolled back or ahead."""
        if self._worker.alone or saved.id == self._ledger.id:
            self._ledger.union(saved)
        elif not self._ledger.entries:
            # The checkpoint of another rank replaces a lost ledger: the noise shares are equal.
            for entry in saved.entries:
                fact = entry.fact
                if isinstance(fact, NoisySum) and fact.rank is not None:
                    fact = replace(fact, rank=self._worker.rank)
                self._ledger.spend(fact, entry.count)

    def close(self) -> None:
        """End the training: close the ledger and release the optimiser."""
        self._check_buffers()
        self._closed = True
        self._ownership.release()
        self._ledger.close()

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            "Expected one PrivateTraining per ledger, got an attempt to copy it: spending of the "
            "copy would not be recorded. Use save and resume."
        )

    def _begin_run(self) -> None:
        """Set up the batches, gradient and checks of a run (until the end or the next resume)."""
        # All workers record the same run id.
        hint = secrets.token_hex(8) if self._seed is None else f"seed {self._seed}"
        self._run = self._ledger.new_run(self._worker.gather(hint=hint)[0]["hint"])
        rank = None if self._worker.alone else self._worker.rank
        self._batches = Batches(self.plan, self._owners, self._key, rank=rank)
        self._current = None
        self._use(self._make_gradient())

    def _use(self, gradient: Gradient) -> None:
        self._gradient = gradient
        self._check = (
            NeighbourCheck(
                self.model,
                gradient,
                self._ledger.assume,
                self._fail,
                seed=self._seed,
                own_randomness=self._own_randomness,
            )
            if isinstance(gradient, ExactGradient | OneByOneGradient)
            else None
        )

    def _fail(self, sentence: str) -> None:
        """The recorded sensitivity does not hold for this program: void the guarantee."""
        self._failed = sentence
        if self.step:  # otherwise nothing was released yet
            self._ledger.void(sentence)

    def _check_own(self) -> None:
        """Check that process, plan, model and optimiser are the ones training began with."""
        if self._failed is not None:
            raise NeighbourCheckFailed(self._failed)
        if os.getpid() != self._process:
            raise InvalidInput(
                "Expected the process that began this training, got a fork, which would release a "
                "step a second time: train in one process, or use join_workers()."
            )
        if self._plan != self._planned:
            raise InvalidInput(
                "Expected the plan that training began with, got a changed one: start a new "
                "PrivateTraining with the same ledger."
            )
        _check_precision(self._parameters, self.model)
        self._ownership.check()

    def _check_after_piece(self, step: Step) -> None:
        """Check after every piece that no other code computed gradients or changed weights."""
        self._check_current(step)
        self._ownership.check_gradients()
        self._check_weights()

    def _check_weights(self) -> None:
        """Void the guarantee if other code changed the weights: the change is in the model."""
        try:
            self._ownership.check_weights()
        except InvalidInput as problem:
            self._failed = str(problem)
            self._ledger.void(self._failed)
            raise

    def _check_workers(self) -> None:
        simulated = self._worker.alone and self.plan.method is Method.EDP_SGD
        if self.plan.workers != self._worker.count and not simulated:
            raise InvalidInput(
                f"Expected {self.plan.workers} workers as planned, got {self._worker.count}: start "
                f"with torchrun --nproc-per-node={self.plan.workers}, or set "
                f"workers={self._worker.count} in the plan."
            )

    def _open_ledger(self, path: Path | str | None, budget: Budget | None) -> Ledger:
        private = self.plan.method is not Method.SGD
        unit = self.plan.unit
        relation = self.plan.neighbours if private else Relation.ADD_OR_REMOVE
        if path is None:
            return Ledger(unit=unit, relation=relation, budget=budget)
        path = Path(path)
        if not self._worker.alone:
            path = path.with_name(f"{path.stem}.rank{self._worker.rank}{path.suffix}")
        # `save` syncs the ledger before it writes a checkpoint, so after a power failure no saved
        # model lacks its records; an fsync at every step is not needed.
        return Ledger.open(path, unit=unit, relation=relation, budget=budget, durable=False)

    def _make_gradient(self) -> Gradient:
        plan = self.plan
        match plan.method:
            case Method.SGD:
                return PlainGradient(self.model, plan.divisor)
            case Method.DP_SGD:
                repeatable = self._seed is not None
                return ExactGradient(
                    self.model, self._clipping(), plan.divisor, repeatable=repeatable
                )
            case Method.TEXTBOOK | Method.EDP_SGD:
                return OneByOneGradient(
                    self.model, self._scales, plan.clip_norm, plan.divisor,
                    mean=plan.method is Method.EDP_SGD,
                )  # fmt: skip

    def _clipping(self) -> Clipping:
        match self.plan.clipping:
            case ClippingStyle.FLAT:
                return FlatClipping(clip_norm=self.plan.clip_norm)
            case ClippingStyle.AUTOMATIC:
                return AutomaticClipping(clip_norm=self.plan.clip_norm)
            case ClippingStyle.PER_LAYER:
                layers = len(LayerScales.ones(self.model).names)
                return PerLayerClipping.equal(self.plan.clip_norm, layers)

    def _share_stds(self) -> tuple[float, ...]:
        """The standard deviation of the noise of one worker, for each layer."""
        plan = self.plan
        std = plan.noise_multiplier_of(self.step // plan.steps_per_epoch) * plan.clip_norm
        paper = plan.noise_split is NoiseSplit.PAPER
        share = std / (plan.workers if paper else math.sqrt(plan.workers))
        scaled = plan.noise_shape is NoiseShape.SCALED
        return tuple(share * alpha if scaled else share for alpha in self._scales.alpha)

    def _drawn_stds(self) -> tuple[float, ...]:
        """The noise of this process: its share, or all shares if workers are simulated."""
        # Variances of independent shares add up, so a single draw has the same distribution.
        simulated = math.sqrt(self.plan.workers) if self._worker.alone else 1.0
        return tuple(share * simulated for share in self._share_stds())

    def _fact(self) -> Fact:
        """The fact about the next step of this process, for the ledger."""
        plan = self.plan
        if plan.method is Method.SGD:
            return Unprotected(
                unit=plan.unit, reason="the model was trained without clipping and without noise"
            )
        epoch = self.step // plan.steps_per_epoch
        shuffled = plan.sampling is Sampling.SHUFFLE
        return NoisySum(
            unit=plan.unit,
            clip_norm=plan.clip_norm,
            scales=self._scales.alpha,
            noise_stds=self._drawn_stds(),
            contribution=plan.contribution,
            assignment=plan.assignment,
            sampling=plan.sampling,
            sampling_rate=None if shuffled else plan.sampling_rate,
            pool=f"{self._run}: epoch {epoch}" if shuffled else None,
            scale_source=plan.alpha_source,
            workers=plan.workers,
            rank=None if self._worker.alone else self._worker.rank,
            seeded=self._seed is not None,
        )

    @torch.no_grad()
    def _take(self, paid: Fact, step: Step, sums: list[Tensor]) -> None:
        """Add the recorded noise, sum over workers, and take the optimiser's step."""
        self._check_own()
        self._check_current(step)
        if isinstance(paid, NoisySum):
            self._check_after_piece(step)
            self._ownership.check_buffers()
        # From here on the step counts as taken, even if it fails: a sum gets noise only once.
        noise = self._noise_of_step()
        self._step, self._current = self._step + 1, None
        self._worker.add_up(self._noisy_parts(sums, paid, noise))
        for parameter, total in zip(self._parameters, sums, strict=True):
            # Rounding to the parameter's precision after the noise is post-processing.
            parameter.grad = total.to(parameter.dtype)
        self._add_public()
        with self._ownership.taking():
            self.optimizer.step()

    def _add_public(self) -> None:
        """Add the gradient of the public loss: after the noise, it costs nothing."""
        if self._public_loss is None:
            return
        with torch.enable_grad():
            loss = self._public_loss()
        found = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        for parameter, gradient in zip(self._parameters, found, strict=True):
            if gradient is not None and parameter.grad is not None:
                parameter.grad += dense(gradient)

    def _check_current(self, step: Step) -> None:
        if step is not self._current:
            raise InvalidInput(
                f"Expected the current step, got step {step.number} again, which was recorded "
                "once: use each step of training.steps() once, in one loop."
            )

    def _noisy_parts(
        self, sums: list[Tensor], paid: Fact, noise: TensorNoise
    ) -> Iterator[list[Tensor]]:
        """Yield the sums in parts, each after its noise was added."""
        drawn = paid.noise_stds if isinstance(paid, NoisySum) else (0.0,) * len(self._scales.names)
        stds = [drawn[layer] / self.plan.divisor for layer in self._scales.layer_of]
        whole = [Part(sums, stds)]
        for part in whole if self._worker.alone else parts(sums, stds):
            if isinstance(paid, NoisySum):
                noise.add(part.tensors, part.stds)
            yield part.tensors

    def _noise_of_step(self, name: str = "step") -> TensorNoise:
        # With a seed every step has its own stream, so that a resumed run repeats no noise.
        source = self._source if self._seed is None else self._source.derive(f"{name} {self.step}")
        return TensorNoise(source)

    def _scale_step(self) -> Iterator[Step]:
        """Learn the layer scales from the first sample, with noise or as printed in the paper."""
        self._check_own()
        noise = self._noise_of_step("scales")
        release = ScaleRelease(self.plan, self.model, self._scales, self._worker, noise)
        for fact in release.facts(seeded=self._seed is not None):
            self._ledger.spend(fact)

        def take(step: Step, _: list[Tensor]) -> None:
            self._check_own()
            self._check_current(step)
            self._check_after_piece(step)
            self._ownership.check_buffers()
            self._current = None
            release.add_noise()

        yield from self._one_step(0, release, take)
        # The plan was accounted with this bound; cutting what was released costs nothing.
        self._scales = release.scales().at_most(self.plan.max_alpha)
        self._use(self._make_gradient())


def _names(owners: Sequence[str] | int, plan: Plan) -> list[str]:
    if isinstance(owners, str | bytes):
        raise InvalidInput(f"Expected a list of owners or a number, got {owners!r}.")
    if not isinstance(owners, int):
        return list(owners)
    if plan.unit is Unit.USER:
        raise InvalidInput(
            "Expected the user of every example in owners, because the unit is user, got the "
            f"number {owners}: each example would count as a separate user."
        )
    return list(numbered(_validate.at_least_one("owners", owners)))


def _check_shapes(model: nn.Module) -> None:
    shapeless = [n for n, p in model.named_parameters() if isinstance(p, UninitializedParameter)]
    if shapeless:
        raise UnsupportedLayer(
            dict.fromkeys(shapeless, "its shape is not initialised: run the model once first")
        )


def _check_precision(parameters: Sequence[nn.Parameter], model: nn.Module) -> None:
    """Reject float16: its gradients need loss scaling, which clipping would undo."""
    for parameter in parameters:
        if parameter.dtype not in PRECISIONS:
            name = next((name for name, p in model.named_parameters() if p is parameter), "one")
            kinds = ", ".join(str(kind).removeprefix("torch.") for kind in PRECISIONS)
            raise InvalidInput(
                f"Expected trainable parameters of {kinds}, got {parameter.dtype} in {name}: "
                "convert the model."
            )


def _salt() -> str:
    return f"resumed {secrets.token_hex(16)}"


def _randomness(seed: int | None, rank: int) -> tuple[NoiseSource, SamplingKey]:
    if seed is None:
        return NoiseSource(), SamplingKey()
    return NoiseSource.seeded(seed).derive(f"worker {rank}"), SamplingKey.from_seed(seed)
