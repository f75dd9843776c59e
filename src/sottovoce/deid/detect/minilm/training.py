"""Training of the adapter: MiniLM stays as it is, small matrices beside its own are learned.

Plain, without privacy: the text is public. bfloat16 where the processor has it, one thread, fixed
seeds, so that the same kind of machine makes the same file.
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import Tensor
from torch.nn import functional

from sottovoce.corpora import OUTSIDE, Utterance, spans_of
from sottovoce.deid.detect.crf.tagger import labels_for
from sottovoce.deid.detect.minilm.network import Network, Shape, base_weights
from sottovoce.deid.detect.minilm.pieces import CASES, CORE, Pieces, Read
from sottovoce.deid.detect.words import words_of
from sottovoce.io.atomic import output

_IGNORED = -100


@dataclass(frozen=True, kw_only=True)
class AdapterTraining:
    """How an adapter is trained. The learning rate rises, stays, and falls in the last steps."""

    rank: int = 20
    steps: int = 1000
    pieces: int = 1_100
    """In a batch."""
    learning_rate: float = 1.5e-3
    rise: int = 25
    fall: float = 0.35
    """The share of the steps in which the learning rate falls to nothing."""
    weight_decay: float = 0.01
    seed: int = 18

    def share(self, step: int) -> float:
        """Of the learning rate at a step."""
        falling = (self.steps - step) / max(1.0, self.fall * self.steps)
        return min(1.0, (step + 1) / self.rise, falling)


class Trainable(Network):
    """MiniLM with small matrices that are learned."""

    def __init__(
        self, base: Mapping[str, Tensor], shape: Shape, labels: int, options: AdapterTraining
    ) -> None:
        draws = torch.Generator().manual_seed(options.seed)
        self.learned: dict[str, Tensor] = {}
        for name in shape.matrices():
            rows, columns = base[f"{name}.weight"].shape
            down = torch.randn(options.rank, columns, generator=draws) / math.sqrt(columns)
            self.learned[f"{name}.down"] = down
            self.learned[f"{name}.up"] = torch.zeros(rows, options.rank)
        for name in shape.vectors():
            self.learned[name] = base[name].clone()
        self.learned["cases"] = torch.zeros(CASES, shape.width)
        self.learned["head.weight"] = 0.02 * torch.randn(labels, shape.width, generator=draws)
        self.learned["head.bias"] = torch.zeros(labels)
        for value in self.learned.values():
            value.requires_grad_()
        self._frozen = {
            f"{name}.weight": base[f"{name}.weight"].bfloat16() for name in shape.matrices()
        }
        super().__init__({**base, **self.learned}, shape)

    def linear(self, name: str, inputs: Tensor) -> Tensor:
        inputs = inputs.bfloat16()
        bias = self.learned[f"{name}.bias"].bfloat16()
        whole = functional.linear(inputs, self._frozen[f"{name}.weight"], bias)
        low = functional.linear(inputs, self.learned[f"{name}.down"].bfloat16())
        return whole + functional.linear(low, self.learned[f"{name}.up"].bfloat16())

    def attention(self, query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None) -> Tensor:
        # Texts are short: torch's kernel for long ones takes four times as long backwards.
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        if seen is not None:
            scores = scores.masked_fill(~seen, -1e4)
        return scores.softmax(-1) @ value


@dataclass(frozen=True, slots=True)
class Example:
    """Pieces with a label each; those that no word begins with have none."""

    ids: list[int]
    cases: list[int]
    labels: list[int]


def label_names(types: Sequence[str]) -> list[str]:
    """Outside, then the beginning and the inside of every type.

    >>> label_names(["PER"])
    ['O', 'B-PER', 'I-PER']
    """
    return [OUTSIDE, *(f"{mark}-{kind}" for kind in types for mark in "BI")]


def examples_of(
    utterances: Iterable[Utterance], pieces: Pieces, labels: Sequence[str]
) -> Iterator[Example]:
    """What the network reads of utterances; long ones are cut."""
    numbers = {label: number for number, label in enumerate(labels)}
    chosen = [each for each in utterances if each.text.strip()]
    for utterance, read in zip(chosen, pieces.read([each.text for each in chosen]), strict=True):
        marks = labels_for(words_of(utterance.text), spans_of(utterance))
        told = _labelled(read, [numbers[mark] for mark in marks])
        for first in range(0, len(read.ids), CORE):
            part = slice(first, first + CORE)
            yield Example(
                [pieces.start, *read.ids[part], pieces.end],
                [0, *read.cases[part], 0],
                [_IGNORED, *told[part], _IGNORED],
            )


def _labelled(read: Read, marks: Sequence[int]) -> list[int]:
    told = [_IGNORED] * len(read.ids)
    for first, mark in zip(read.firsts, marks, strict=True):
        if first >= 0:
            told[first] = mark
    return told


def train(
    folder: Path,
    rounds: Callable[[int], Iterable[Utterance]],
    types: Sequence[str],
    options: AdapterTraining,
    *,
    checkpoint: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Tensor]:
    """The tensors of an adapter. `rounds` gives what each pass over the text shows.

    A `checkpoint` is written every few steps until the learning rate falls; training with the same
    options, or with more steps, goes on from there.
    """
    torch.manual_seed(options.seed)
    shape, pieces, labels = Shape.of(folder), Pieces(folder), label_names(types)
    network = Trainable(base_weights(folder), shape, len(labels), options)
    state = _Adam(network.learned, options)
    first = state.load(checkpoint) if checkpoint is not None and checkpoint.exists() else 0
    batches = _all_batches(rounds, pieces, labels, options)
    for step, batch in enumerate(islice(batches, options.steps)):
        if step < first:
            continue
        loss = _loss(network, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        state.update(step)
        if step % 20 == 19:
            if progress is not None:
                progress(f"step {step + 1} of {options.steps}, loss {loss.item():.4f}")
            if checkpoint is not None and step < options.steps * (1 - options.fall):
                state.save(checkpoint, step + 1)
    return {name: value.detach() for name, value in network.learned.items()}


class _Adam:
    """AdamW with a state that is kept in a file of tensors."""

    def __init__(self, learned: Mapping[str, Tensor], options: AdapterTraining) -> None:
        self._learned, self._options = learned, options
        self._means = {name: torch.zeros_like(value) for name, value in learned.items()}
        self._squares = {name: torch.zeros_like(value) for name, value in learned.items()}

    def update(self, step: int) -> None:
        """One step down the gradients, whose norm is at most 1."""
        options = self._options
        torch.nn.utils.clip_grad_norm_(self._learned.values(), 1.0)
        rate = options.learning_rate * options.share(step)
        with torch.no_grad():
            for name, value in self._learned.items():
                is_matrix = name.endswith((".down", ".up", "head.weight"))
                own = rate if is_matrix else rate / 3
                gradient = value.grad
                if gradient is None:
                    continue
                mean = self._means[name].lerp_(gradient, 0.1)
                square = self._squares[name].lerp_(gradient.square(), 0.02)
                if is_matrix:
                    value.mul_(1 - own * options.weight_decay)
                size = (square / (1 - 0.98 ** (step + 1))).sqrt_().add_(1e-8)
                value.addcdiv_(mean, size, value=-own / (1 - 0.9 ** (step + 1)))
                value.grad = None

    def save(self, path: Path, step: int) -> None:
        """Write the state, whole or not at all."""
        tensors = {
            f"{kind} {name}": values[name].detach()
            for kind, values in self._kinds()
            for name in values
        }
        with output(path) as stream:
            stream.write(save({**tensors, "step": torch.tensor([step])}))

    def load(self, path: Path) -> int:
        """Read the state; the number of steps that were made."""
        tensors = load_file(path)
        with torch.no_grad():
            for kind, values in self._kinds():
                for name, value in values.items():
                    value.copy_(tensors[f"{kind} {name}"])
        return int(tensors["step"].item())

    def _kinds(self) -> Sequence[tuple[str, Mapping[str, Tensor]]]:
        return (("value", self._learned), ("mean", self._means), ("square", self._squares))


def _all_batches(
    rounds: Callable[[int], Iterable[Utterance]],
    pieces: Pieces,
    labels: Sequence[str],
    options: AdapterTraining,
) -> Iterator[list[Example]]:
    for number in count():
        yield from _batches(list(examples_of(rounds(number), pieces, labels)), options, number)


def _batches(examples: list[Example], options: AdapterTraining, number: int) -> list[list[Example]]:
    """Examples of similar length together, in random order."""
    draws = random.Random(options.seed * 1000 + number)
    draws.shuffle(examples)
    examples.sort(key=lambda example: len(example.ids) // 4)
    found: list[list[Example]] = [[]]
    for example in examples:
        if found[-1] and (len(found[-1]) + 1) * (len(example.ids) + 3) > options.pieces:
            found.append([])
        found[-1].append(example)
    draws.shuffle(found)
    return found


def _loss(network: Network, batch: Sequence[Example]) -> Tensor:
    ids, cases, labels = (
        _padded([getattr(each, name) for each in batch], value)
        for name, value in (("ids", 0), ("cases", 0), ("labels", _IGNORED))
    )
    lengths = torch.tensor([len(each.ids) for each in batch])
    mask = torch.arange(ids.shape[1])[None] < lengths[:, None]
    logits = network.logits(ids, cases, None if bool(mask.all()) else mask)
    return functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def _padded(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])
