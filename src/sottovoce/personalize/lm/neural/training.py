"""Trains the Transformer on public text: batches of whole sentences, Adam, checkpoints.

Nothing here is private: the background model is trained on public text, and only its output is
adapted to users. An interrupted run resumes from its checkpoint with the same batches, also within
an epoch. The learning rate warms up, then decays linearly to a tenth.
"""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output
from sottovoce.personalize.lm.neural.model import TransformerLM

_IGNORED = -100
_LAST_RATE = 0.1


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Training options; a batch holds at most `batch_words` words, including padding.

    A checkpoint is written after every epoch and every `save_every` batches.
    """

    epochs: int = 3
    batch_words: int = 2048
    learning_rate: float = 1e-3
    warm_up: int = 200
    save_every: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_words", "warm_up", "save_every"):
            _validate.at_least_one(name, getattr(self, name))
        _validate.positive("learning_rate", self.learning_rate)


@dataclass(frozen=True)
class Progress:
    """Training metrics after an epoch."""

    epoch: int
    train_loss: float
    valid_perplexity: float


@dataclass
class _Place:
    """The position of training: the current epoch, and its progress."""

    epoch: int = 1
    batch: int = 0
    lost: float = 0.0
    words: int = 0


def train_transformer(
    model: TransformerLM,
    train: Sequence[str],
    valid: Sequence[str],
    options: TrainingOptions | None = None,
    *,
    checkpoint: Path | None = None,
    on_words: Callable[[int], None] = lambda _: None,
) -> Generator[Progress, None, None]:
    """Train and report after each epoch; with a `checkpoint` file, resume from it."""
    options = options or TrainingOptions()
    encoded = [model.encode(line.split()) for line in train if line.strip()]
    if not encoded:
        raise InvalidInput("Expected public text to train on, got none.")
    optimiser = torch.optim.AdamW(model.parameters(), lr=options.learning_rate, weight_decay=0.01)
    place = _resume(model, optimiser, options, checkpoint)
    while place.epoch <= options.epochs:
        for _ in _rest_of_epoch(model, optimiser, encoded, options, place):
            on_words(place.words)
            if checkpoint is not None and place.batch % options.save_every == 0:
                _save(model, optimiser, options, place, checkpoint)
        loss = place.lost / place.words
        report = Progress(place.epoch, loss, perplexity(model, valid))
        place = _Place(place.epoch + 1)
        if checkpoint is not None:
            _save(model, optimiser, options, place, checkpoint)
        yield report


@torch.inference_mode()
def perplexity(model: TransformerLM, lines: Sequence[str], batch_words: int = 4096) -> float:
    """exp of the mean negative log probability per word, including sentence ends."""
    encoded = [model.encode(line.split()) for line in lines if line.strip()]
    if not encoded:
        raise InvalidInput("Expected text to measure perplexity on, got none.")
    model.eval()
    lost = words = 0.0
    for batch in _batches(encoded, batch_words, np.arange(len(encoded))):
        inputs, targets = _padded(model, batch)
        lost += float(_loss(model, inputs, targets, "sum"))
        words += float((targets != _IGNORED).sum())
    return math.exp(lost / words)


def _rest_of_epoch(
    model: TransformerLM,
    optimiser: torch.optim.Optimizer,
    encoded: list[list[int]],
    options: TrainingOptions,
    place: _Place,
) -> Iterator[None]:
    """Train on the remaining batches of an epoch, updating `place`."""
    rng = np.random.default_rng([options.seed, place.epoch])
    batches = list(_batches(encoded, options.batch_words, rng.permutation(len(encoded))))
    model.train()
    for number in rng.permutation(len(batches))[place.batch :]:
        step = (place.epoch - 1) * len(batches) + place.batch
        # A seed per batch, so that a resumed run has the same dropout.
        torch.manual_seed(options.seed * 1_000_003 + step)
        rate = learning_rate(options, step + 1, len(batches) * options.epochs)
        for group in optimiser.param_groups:
            group["lr"] = rate
        inputs, targets = _padded(model, batches[number])
        optimiser.zero_grad()
        loss = _loss(model, inputs, targets, "mean")
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        words = int((targets != _IGNORED).sum())
        place.lost += float(loss.detach()) * words
        place.words += words
        place.batch += 1
        yield


def learning_rate(options: TrainingOptions, step: int, steps: int) -> float:
    """The learning rate of a step: linear warm-up times linear decay to a tenth.

    >>> options = TrainingOptions(learning_rate=1.0, warm_up=2)
    >>> [round(learning_rate(options, step, 10), 2) for step in (1, 2, 10)]
    [0.46, 0.82, 0.1]
    """
    fallen = 1 - (1 - _LAST_RATE) * step / steps
    return options.learning_rate * min(1.0, step / options.warm_up) * fallen


def _batches(
    encoded: list[list[int]], batch_words: int, order: np.ndarray
) -> Iterator[list[list[int]]]:
    """Group sentences of similar length, to reduce padding."""
    ranked = sorted(order.tolist(), key=lambda place: len(encoded[place]))
    batch: list[list[int]] = []
    for place in ranked:
        if batch and (len(encoded[place]) + 1) * (len(batch) + 1) > batch_words:
            yield batch
            batch = []
        batch.append(encoded[place])
    if batch:
        yield batch


def _padded(model: TransformerLM, batch: list[list[int]]) -> tuple[Tensor, Tensor]:
    longest = max(map(len, batch)) + 1
    inputs = torch.full((len(batch), longest), model.boundary)
    targets = torch.full((len(batch), longest), _IGNORED)
    for row, sentence in enumerate(batch):
        inputs[row, 1 : len(sentence) + 1] = torch.tensor(sentence, dtype=torch.long)
        targets[row, : len(sentence) + 1] = torch.tensor([*sentence, model.boundary])
    return inputs, targets


def _loss(model: TransformerLM, inputs: Tensor, targets: Tensor, reduction: str) -> Tensor:
    # Padding comes last and attention is causal, so no word attends to it.
    positions = torch.arange(inputs.shape[1]).expand_as(inputs)
    kept = targets != _IGNORED
    states = model.states(inputs, positions)[kept]
    return functional.cross_entropy(model.logits(states), targets[kept], reduction=reduction)


def _save(
    model: TransformerLM,
    optimiser: torch.optim.Optimizer,
    options: TrainingOptions,
    place: _Place,
    path: Path,
) -> None:
    state: dict[str, Any] = {
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
        "options": asdict(options),
        "place": asdict(place),
    }
    with output(path) as stream:
        torch.save(state, stream)


def _resume(
    model: TransformerLM,
    optimiser: torch.optim.Optimizer,
    options: TrainingOptions,
    path: Path | None,
) -> _Place:
    if path is None or not path.exists():
        return _Place()
    try:
        # Tensors and plain values only: a checkpoint cannot run code.
        state = torch.load(path, weights_only=True)
        same = {**state["options"], "epochs": options.epochs} == asdict(options)
        if not same:
            raise InvalidInput(
                f"Expected the options of the checkpoint {path}, {state['options']}, got others: "
                "use another folder to train with those."
            )
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        return _Place(**state["place"])
    except (KeyError, TypeError, RuntimeError, EOFError, OSError, UnpicklingError) as problem:
        raise InvalidInput(f"Expected a checkpoint of this model in {path}: {problem}") from problem
