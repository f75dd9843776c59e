"""What exact norms and the weighted sum cost, beside the plain gradient of the same batch.

    python benchmarks/training_layers.py --models bert clc --batches 32 128 256 --rounds 9

Each way has a process of its own, and they make steps in turns, on one thread. Time is the median
of CPU time; memory is the peak above what the process held before its first step.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertModel

from sottovoce.training.bookkeeping import BookKeeper
from sottovoce.training.clipping import FlatClipping

INTENTS, SLOTS, WORDS, CHARACTERS = 32, 72, 10_000, 100
Batch = tuple[tuple[Tensor, ...], Tensor, Tensor]


class BertTagger(nn.Module):
    """BERT 4x312 with an intent and a slot head."""

    vocabulary = 30_522

    def __init__(self) -> None:
        super().__init__()
        config = BertConfig(
            vocab_size=self.vocabulary,
            hidden_size=312,
            num_hidden_layers=4,
            num_attention_heads=12,
            intermediate_size=1200,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        self.bert = BertModel(config, add_pooling_layer=False)  # type: ignore[no-untyped-call]
        self.intent, self.slot = nn.Linear(312, INTENTS), nn.Linear(312, SLOTS)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.bert(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        return self.intent(hidden[:, 0]), self.slot(hidden)


class CharacterTagger(nn.Module):
    """Words and folded characters into a BiLSTM 2x384, with an intent and a slot head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.characters = nn.Embedding(WORDS, 300), nn.Embedding(CHARACTERS, 16)
        self.convolution = nn.Conv1d(16, 50, 3, padding=1)
        self.lstm = nn.LSTM(350, 384, num_layers=2, bidirectional=True, batch_first=True)
        self.intent, self.slot = nn.Linear(768, INTENTS), nn.Linear(768, SLOTS)

    def forward(self, ids: Tensor, characters: Tensor) -> tuple[Tensor, Tensor]:
        examples, words, _ = characters.shape
        spelt = self.characters(characters.flatten(0, 1)).transpose(1, 2)
        spelt = self.convolution(spelt).amax(-1).unflatten(0, (examples, words))
        hidden, _ = self.lstm(torch.cat([self.words(ids), spelt], -1))
        return self.intent(hidden.mean(1)), self.slot(hidden)


def make(kind: str, examples: int, words: int = 32) -> tuple[nn.Module, Batch]:
    torch.manual_seed(0)
    labels = torch.randint(INTENTS, (examples,)), torch.randint(SLOTS, (examples, words))
    if kind == "bert":
        return BertTagger(), ((torch.randint(5, 30_522, (examples, words)),), *labels)
    inputs = torch.randint(WORDS, (examples, words)), torch.randint(100, (examples, words, 10))
    return CharacterTagger(), (inputs, *labels)


def losses(model: nn.Module, batch: Batch) -> Tensor:
    inputs, intents, slots = batch
    intent, slot = model(*inputs)
    by_word = functional.cross_entropy(slot.transpose(1, 2), slots, reduction="none")
    return functional.cross_entropy(intent, intents, reduction="none") + by_word.mean(1)


def plain_step(model: nn.Module, batch: Batch) -> Callable[[], None]:
    def step() -> None:
        model.zero_grad()
        losses(model, batch).sum().backward()  # type: ignore[no-untyped-call]

    return step


def exact_step(model: nn.Module, batch: Batch) -> Callable[[], None]:
    keeper, clipping = BookKeeper(model), FlatClipping(clip_norm=1.0)

    def step() -> None:
        model.zero_grad()
        with keeper.record():
            keeper.backward(losses(model, batch))
        keeper.accumulate(clipping.weights(keeper.squared_norms_by_layer()))

    return step


STEPS = {"plain": plain_step, "exact": exact_step}
WARM_UP = 3


class Worker:
    """A process of its own for one way of making a step, so that neither inherits the other's heap.

    It makes one step for each line it reads, and answers with the CPU seconds it took and the
    peak of its memory in megabytes, above what it held before the first step.
    """

    def __init__(self, kind: str, examples: int, way: str) -> None:
        command = [sys.executable, __file__, "--serve", kind, str(examples), way]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.seconds: list[float] = []
        self.megabytes = 0.0

    def step(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print("step", file=self._process.stdin, flush=True)
        taken, self.megabytes = map(float, self._process.stdout.readline().split())
        self.seconds.append(taken)

    def median(self) -> float:
        return statistics.median(self.seconds[WARM_UP:])

    def close(self) -> None:
        self._process.communicate()


def serve(kind: str, examples: int, way: str) -> None:
    step = STEPS[way](*make(kind, examples))
    before = kilobytes("VmRSS")
    for _ in sys.stdin:
        start = time.process_time()
        step()
        taken = time.process_time() - start
        print(taken, (kilobytes("VmHWM") - before) / 1024, flush=True)


def kilobytes(field: str) -> int:
    """Of this process now (VmRSS) or at its peak (VmHWM), as Linux reports it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def race(kind: str, examples: int, rounds: int) -> str:
    plain, exact = (Worker(kind, examples, way) for way in ("plain", "exact"))
    for _ in range(WARM_UP + rounds):
        plain.step()
        exact.step()
    plain.close()
    exact.close()
    return (
        f"{kind:5} {examples:5} {plain.median():9.3f} {exact.median():9.3f}"
        f"   x{exact.median() / plain.median():.3f} {plain.megabytes:10.0f} {exact.megabytes:10.0f}"
        f"   x{exact.megabytes / plain.megabytes:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["bert", "clc"])
    parser.add_argument("--batches", nargs="+", type=int, default=[32, 128, 256])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.serve:
        kind, examples, way = arguments.serve
        serve(kind, int(examples), way)
        return
    print("model batch   plain s   exact s   time    plain MB   exact MB   memory")
    for kind in arguments.models:
        for examples in arguments.batches:
            print(race(kind, examples, arguments.rounds), flush=True)


if __name__ == "__main__":
    main()
