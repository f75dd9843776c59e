"""What a script of another package adds to become private."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import Unit
from sottovoce.privacy.ledger import Budget
from sottovoce.training.plan import ClippingStyle, Plan
from sottovoce.training.private import PrivateTraining

LOGGED_LOSSES = "training losses that were logged: they are numbers about private examples"
PUBLIC_EVALUATION = "the evaluation data, by which a checkpoint or a stop was chosen, is public"


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """The privacy of a fine-tuning script; batch sizes and epochs come from the script.

    `epsilon` determines the noise, unless `noise_multiplier` is given. `population` is the public,
    declared number of examples (or users); it need not be exact. `owners` are the ids of the
    examples, or their users if the unit is user. `public_evaluation=True` declares that the
    evaluation data is public, so that it may decide which checkpoint is kept. With `log_losses`,
    training losses go to the loggers, and the guarantee lists them as not covered.

    >>> Privacy(epsilon=8, delta=1e-6, population=1000).plan(batch_size=50, virtual_batch=10,
    ...     epochs=3).guarantee().epsilon <= 8
    True
    """

    population: int
    delta: float
    epsilon: float | None = None
    noise_multiplier: float | None = None
    clip_norm: float = 1.0
    clipping: ClippingStyle = ClippingStyle.FLAT
    unit: Unit = Unit.EXAMPLE
    owners: Sequence[str] | None = None
    ledger: str | None = None
    budget: Budget | None = None
    seed: int | None = None
    public_evaluation: bool = False
    log_losses: bool = False

    def __post_init__(self) -> None:
        _validate.parse_choices(self)
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise InvalidInput(
                "Expected either epsilon or noise_multiplier, got "
                f"{'neither' if self.epsilon is None else 'both'}."
            )
        if self.unit is Unit.USER and self.owners is None:
            raise InvalidInput("Expected owners, the user of every example, with the unit user.")

    def plan(self, *, batch_size: int, virtual_batch: int, epochs: int) -> Plan:
        plan = Plan(
            population=self.population,
            batch_size=batch_size,
            virtual_batch=virtual_batch,
            epochs=epochs,
            delta=self.delta,
            clip_norm=self.clip_norm,
            clipping=self.clipping,
            unit=self.unit,
            noise_multiplier=1.0 if self.noise_multiplier is None else self.noise_multiplier,
        )
        return plan if self.epsilon is None else plan.calibrate(epsilon=self.epsilon)

    def begin(
        self, plan: Plan, model: nn.Module, optimizer: Optimizer, examples: int
    ) -> PrivateTraining:
        owners: Sequence[str] | int = examples if self.owners is None else self.owners
        if not isinstance(owners, int) and len(owners) != examples:
            raise InvalidInput(
                f"Expected one owner for each of the examples, got {len(owners)} owners for "
                f"{examples} examples."
            )
        training = PrivateTraining(
            plan,
            model,
            optimizer,
            owners=owners,
            ledger=self.ledger,
            budget=self.budget,
            seed=self.seed,
        )
        if self.log_losses:
            training.leave_uncovered(LOGGED_LOSSES)
        if self.public_evaluation:
            training.assume(PUBLIC_EVALUATION)
        return training


def mean_of(losses: list[Tensor]) -> Tensor:
    """The mean loss of a step, for loggers."""
    return torch.cat(losses).mean() if losses else torch.zeros(())
