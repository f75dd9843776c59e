"""Training of the adapter: MiniLM stays as it is, small matrices beside its own are learned.

Plain, without privacy: the text is public. bfloat16 where the processor has it, one thread, fixed
seeds, so that the same kind of machine makes the same file.
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from sottovoce.corpora import OUTSIDE, Utterance, spans_of
from sottovoce.deid.detect.crf.tagger import labels_for
from sottovoce.deid.detect.minilm.network import Network, Shape, base_weights
from sottovoce.deid.detect.minilm.pieces import CASES, CORE, Pieces, Read
from sottovoce.deid.detect.words import words_of

_IGNORED = -100


@dataclass(frozen=True, kw_only=True)
class AdapterTraining:
    """How an adapter is trained."""

    rank: int = 20
    rounds: int = 3
    pieces: int = 1_600
    """In a batch."""
    learning_rate: float = 1.5e-3
    dropout: float = 0.1
    weight_decay: float = 0.01
    seed: int = 18


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
        self._dropout, self._draws = options.dropout, draws
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

    def dropped(self, values: Tensor) -> Tensor:
        return functional.dropout(values, self._dropout)


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
    progress: Callable[[str], None] | None = None,
) -> Iterator[dict[str, Tensor]]:
    """The tensors of an adapter after every round. `rounds` gives what each round shows."""
    torch.manual_seed(options.seed)
    shape, pieces, labels = Shape.of(folder), Pieces(folder), label_names(types)
    network = Trainable(base_weights(folder), shape, len(labels), options)
    matrices = [
        v for n, v in network.learned.items() if n.endswith((".down", ".up", "head.weight"))
    ]
    others = [
        v for n, v in network.learned.items() if not n.endswith((".down", ".up", "head.weight"))
    ]
    optimizer = torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": options.weight_decay},
            {"params": others, "weight_decay": 0.0, "lr": options.learning_rate / 3},
        ],
        lr=options.learning_rate,
        betas=(0.9, 0.98),
    )
    step, done = 0, 0
    for number in range(options.rounds):
        batches = _batches(list(examples_of(rounds(number), pieces, labels)), options, number)
        every = len(batches) * options.rounds
        if not number:
            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, partial(_share, every=every))
        for batch in batches:
            loss = _loss(network, batch)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.learned.values(), 1.0)
            optimizer.step()
            schedule.step()
            step, done = step + 1, done + sum(len(each.ids) for each in batch)
            if progress is not None and step % 50 == 0:
                progress(f"step {step} of {every}, {done} pieces, loss {loss.item():.4f}")
        yield {name: value.detach().clone() for name, value in network.learned.items()}


def _share(step: int, every: int) -> float:
    """Of the learning rate: it rises for a while, then falls to nothing."""
    rise = max(1, every // 20)
    return min((step + 1) / rise, max(0.0, (every - step) / (every - rise)))


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
