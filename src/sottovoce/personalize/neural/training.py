"""Training the Transformer on public text: batches of whole sentences, Adam, checkpoints.

Nothing here is private: the background model is made from public text, and only its output is
adapted to people. An interrupted run continues from its checkpoint with the same batches.
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
from sottovoce.corpora.atomic import output
from sottovoce.errors import InvalidInput
from sottovoce.personalize.neural.model import TransformerLM

_IGNORED = -100


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How to train; a batch holds at most `batch_words` words, padding included."""

    epochs: int = 3
    batch_words: int = 2048
    learning_rate: float = 1e-3
    warm_up: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_words", "warm_up"):
            _validate.at_least_one(name, getattr(self, name))
        _validate.positive("learning_rate", self.learning_rate)


@dataclass(frozen=True)
class Progress:
    """Where training stands after an epoch."""

    epoch: int
    train_loss: float
    valid_perplexity: float


def train_transformer(
    model: TransformerLM,
    train: Sequence[str],
    valid: Sequence[str],
    options: TrainingOptions | None = None,
    *,
    checkpoint: Path | None = None,
    on_words: Callable[[int], None] = lambda _: None,
) -> Generator[Progress, None, None]:
    """Train and report after each epoch; with a `checkpoint` file, continue where it stopped."""
    options = options or TrainingOptions()
    encoded = [model.encode(line.split()) for line in train if line.strip()]
    if not encoded:
        raise InvalidInput("Expected public text to train on, got none.")
    optimiser = torch.optim.AdamW(model.parameters(), lr=options.learning_rate, weight_decay=0.01)
    done = _resume(model, optimiser, options, checkpoint)
    for epoch in range(done + 1, options.epochs + 1):
        # Every epoch has its own seed, so a resumed run sees the batches it would have seen.
        torch.manual_seed(options.seed * 1_000_003 + epoch)
        loss = _one_epoch(model, optimiser, encoded, options, epoch, on_words)
        report = Progress(epoch, loss, perplexity(model, valid))
        if checkpoint is not None:
            _save(model, optimiser, options, epoch, checkpoint)
        yield report


@torch.inference_mode()
def perplexity(model: TransformerLM, lines: Sequence[str], batch_words: int = 4096) -> float:
    """e to the mean negative log probability a word, ends of sentences included."""
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


def _one_epoch(
    model: TransformerLM,
    optimiser: torch.optim.Optimizer,
    encoded: list[list[int]],
    options: TrainingOptions,
    epoch: int,
    on_words: Callable[[int], None],
) -> float:
    rng = np.random.default_rng([options.seed, epoch])
    batches = list(_batches(encoded, options.batch_words, rng.permutation(len(encoded))))
    lost, seen = 0.0, 0
    model.train()
    for number in rng.permutation(len(batches)):
        inputs, targets = _padded(model, batches[number])
        optimiser.zero_grad()
        loss = _loss(model, inputs, targets, "mean")
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        step = _steps(optimiser) + 1
        for group in optimiser.param_groups:
            group["lr"] = options.learning_rate * min(1.0, step / options.warm_up)
        optimiser.step()
        words = int((targets != _IGNORED).sum())
        lost, seen = lost + float(loss.detach()) * words, seen + words
        on_words(seen)
    return lost / seen


def _batches(
    encoded: list[list[int]], batch_words: int, order: np.ndarray
) -> Iterator[list[list[int]]]:
    """Sentences of like length together, so that little is padded."""
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
    # Padding comes last and attention is causal, so no real word ever looks at it.
    positions = torch.arange(inputs.shape[1]).expand_as(inputs)
    kept = targets != _IGNORED
    states = model.states(inputs, positions)[kept]
    return functional.cross_entropy(model.logits(states), targets[kept], reduction=reduction)


def _steps(optimiser: torch.optim.Optimizer) -> int:
    for state in optimiser.state.values():
        return int(state["step"])
    return 0


def _save(
    model: TransformerLM,
    optimiser: torch.optim.Optimizer,
    options: TrainingOptions,
    epoch: int,
    path: Path,
) -> None:
    state: dict[str, Any] = {
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
        "options": asdict(options),
        "epoch": epoch,
    }
    with output(path) as stream:
        torch.save(state, stream)


def _resume(
    model: TransformerLM,
    optimiser: torch.optim.Optimizer,
    options: TrainingOptions,
    path: Path | None,
) -> int:
    if path is None or not path.exists():
        return 0
    try:
        # Tensors and plain values only: a checkpoint cannot run code.
        state = torch.load(path, weights_only=True)
        same = {**state["options"], "epochs": options.epochs} == asdict(options)
        if not same:
            raise InvalidInput(
                f"Expected the options of the checkpoint {path}, {state['options']}; start in "
                "another folder to train otherwise."
            )
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
    except (KeyError, RuntimeError, EOFError, OSError, UnpicklingError) as problem:
        raise InvalidInput(f"Expected a checkpoint of this model in {path}: {problem}") from problem
    return int(state["epoch"])
