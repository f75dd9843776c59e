"""Our CRF against pytorch-crf: one forward and backward pass, and decoding.

72 tags, sentences of 32 words or of 3 to 32, one thread. The contestants take turns, round after
round, so that a busy machine slows both; the figures are medians of process CPU time. "exact" is
ours while a keeper records the gradient of every sentence for exact clipping, the weighted sum
included. Losses and gradients of both are compared before anything is timed.

    python benchmarks/crf.py
"""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torchcrf import CRF

from helpers.machine import cpu_name, versions
from helpers.options import options_of, parser_of, tell, write
from noise import cpu_name
from sottovoce.nlu.crf.linear_chain import Crf
from sottovoce.nlu.crf.viterbi import decode
from sottovoce.training.clipping.bookkeeping import BookKeeper

TAGS, WORDS, SHORTEST = 72, 32, 3

Turn = Callable[[], object]


class Race:
    """One batch, and both CRFs with the same parameters."""

    def __init__(self, batch: int, *, mixed: bool) -> None:
        torch.manual_seed(0)
        self.batch, self.lengths = batch, "3 to 32" if mixed else "32"
        lengths = torch.randint(SHORTEST, WORDS + 1, (batch,)) if mixed else torch.tensor(WORDS)
        lengths = lengths.expand(batch).clone()
        lengths[0] = WORDS
        self.mask = torch.arange(WORDS) < lengths[:, None]
        self.emissions = torch.randn(batch, WORDS, TAGS, requires_grad=True)
        self.tags = torch.randint(TAGS, (batch, WORDS))
        self.theirs, self.ours = CRF(TAGS, batch_first=True), Crf(TAGS)
        self.ours.load_state_dict(
            {
                "start": self.theirs.start_transitions,
                "end": self.theirs.end_transitions,
                "transitions": self.theirs.transitions,
            }
        )
        self.keeper = BookKeeper(self.ours)
        self.check()

    def turns(self) -> dict[str, Turn]:
        return {
            "pytorch_crf": self.train_theirs,
            "ours": self.train_ours,
            "exact": self.train_exactly,
            "pytorch_crf_decode": lambda: self.theirs.decode(self.emissions.detach(), self.mask),
            "ours_decode": lambda: decode(self.ours, self.emissions.detach(), self.mask),
        }

    def train_theirs(self) -> Tensor:
        self.forget()
        losses: Tensor = -self.theirs(self.emissions, self.tags, self.mask, reduction="none")
        losses.sum().backward()  # type: ignore[no-untyped-call]
        return losses

    def train_ours(self) -> Tensor:
        self.forget()
        losses: Tensor = self.ours(self.emissions, self.tags, self.mask)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        return losses

    def train_exactly(self) -> None:
        self.forget()
        with self.keeper.record(count=self.batch):
            self.keeper.backward(self.ours(self.emissions, self.tags, self.mask))
        self.keeper.accumulate(self.keeper.squared_norms().rsqrt().clamp(max=1))

    def forget(self) -> None:
        self.theirs.zero_grad()
        self.ours.zero_grad()
        self.emissions.grad = None

    def check(self) -> None:
        theirs = [self.train_theirs(), self.emissions.grad, self.theirs.transitions.grad]
        ours = [self.train_ours(), self.emissions.grad, self.ours.transitions.grad]
        for one, other in zip(ours, theirs, strict=True):
            assert one is not None
            assert other is not None
            assert torch.allclose(one, other, rtol=1e-4, atol=1e-3)
        best = decode(self.ours, self.emissions.detach(), self.mask).tags
        assert best == self.theirs.decode(self.emissions.detach(), self.mask)


def run(rounds: int) -> list[dict[str, Any]]:
    return [
        _race(Race(batch, mixed=mixed), rounds) for batch in (32, 128) for mixed in (False, True)
    ]


def _race(race: Race, rounds: int) -> dict[str, Any]:
    times: dict[str, list[float]] = defaultdict(list)
    for turn in range(rounds + 1):
        for who, take in race.turns().items():
            start = time.process_time()
            take()
            if turn:  # the first round only warms up
                times[who].append(1e3 * (time.process_time() - start))
    median = {who: statistics.median(taken) for who, taken in times.items()}
    return {
        "batch": race.batch,
        "words": race.lengths,
        **{f"{who}_ms": round(taken, 3) for who, taken in median.items()},
        "times_faster": round(median["pytorch_crf"] / median["ours"], 1),
        "times_faster_exact": round(median["pytorch_crf"] / median["exact"], 1),
        "times_faster_decode": round(median["pytorch_crf_decode"] / median["ours_decode"], 1),
    }


def show(results: list[dict[str, Any]], rounds: int) -> None:
    table = Table(title=f"{TAGS} tags, median of {rounds} rounds, CPU ms")
    columns = {
        "batch": "batch",
        "words": "words",
        "pytorch-crf": "pytorch_crf_ms",
        "ours": "ours_ms",
        "faster": "times_faster",
        "exact": "exact_ms",
        "faster ": "times_faster_exact",
        "decode": "ours_decode_ms",
        " faster": "times_faster_decode",
    }
    for title in columns:
        table.add_column(title, justify="right")
    for row in results:
        table.add_row(*(str(row[key]) for key in columns.values()))
    Console().print(table)


def main() -> None:
    parser = parser_of(__file__, __doc__)
    parser.add_argument("--rounds", type=int, default=21, help="rounds the medians are taken over")
    given = options_of(parser, quick={"rounds": 1})

    torch.set_num_threads(1)
    results = run(given.rounds)
    show(results, given.rounds)
    report = {
        "tags": TAGS,
        "rounds": given.rounds,
        "clock": "process CPU time",
        "cpu": cpu_name(),
        "versions": versions("sottovoce", "torch", "pytorch-crf"),
        "results": results,
    }
    write(given.output, report)
    tell(given.output)


if __name__ == "__main__":
    main()
