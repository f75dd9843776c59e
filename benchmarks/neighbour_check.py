"""What the neighbour check adds to private training: CPU time with it, over the same without it.

    python benchmarks/neighbour_check.py                                 small models
    python benchmarks/neighbour_check.py --kinds bert-paper -o FILE      BERT of 4 layers x 312

While it trains, sottovoce hands some examples to the loop again and measures how far one of them
moves the clipped sum (src/sottovoce/training/checks). Here two trainings take turns, step by step,
in one process and on one thread: one with the check, and one in which the check sees nothing
and tries nothing. Both draw Poisson batches of about 64 utterances of a built-in corpus, for a
small BERT and for the character and word LSTM (CLC), both with intent and CRF heads. Measured in
steps, a check costs small models more than large ones. The figures are ratios of process CPU time
after 200 and after 2,000 steps, with the median of several runs.

Such a small difference drowns in noise, so the time inside the check is measured as well:
`share_inside` is that time over all time of the same training, and `ratio_inside` is what follows
from it, 1 / (1 - share_inside).
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from rich.console import Console
from rich.table import Table

from helpers.machine import cpu_name, versions
from helpers.options import options_of, parser_of, tell, write
from sottovoce.corpora import Utterance
from sottovoce.corpora.synthetic import DOMAINS, generate
from sottovoce.nlu.encoders.base import Encoder
from sottovoce.nlu.encoders.bert import Bert
from sottovoce.nlu.encoders.clc import Clc, ClcShape
from sottovoce.nlu.encoders.words import Words
from sottovoce.nlu.fit.data import Encodings
from sottovoce.nlu.model import JointModel
from sottovoce.nlu.schema import Schema
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.sampling import SamplingKey
from sottovoce.training import Method, Plan, PrivateTraining, private
from sottovoce.training.batches import Piece
from sottovoce.training.checks.neighbours import NeighbourCheck
from sottovoce.training.checks.sensitivity import Trial
from sottovoce.training.step import Step

BATCH, UTTERANCES = 64, 6400
SMALL_BERT = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
}
SMALL_CLC = ClcShape(word_width=50, filters=20, hidden=48, layers=1)
KINDS: dict[str, Callable[[], Encoder]] = {
    "bert": lambda: Bert.untrained(shape=SMALL_BERT),
    "clc": lambda: Clc(Words.hashed(2000), SMALL_CLC),
    "bert-paper": Bert.untrained,
    "clc-paper": lambda: Clc(Words.hashed(10_000), ClcShape()),
}
SMALL = ["bert", "clc"]
STEPS = [200, 2000]

Figures = dict[str, Any]


@dataclass
class Clock:
    """CPU seconds inside the check, and how often it ran."""

    seconds: float = 0.0
    checks: int = 0
    passes: int = 0


@dataclass
class Runner:
    """One training, step by step, and the CPU seconds it took."""

    model: JointModel
    encodings: Encodings
    steps: Iterator[Step]
    seconds: float = 0.0
    inside: Clock = field(default_factory=Clock)

    @classmethod
    def of(cls, kind: str, utterances: list[Utterance], steps: int, seed: int) -> "Runner":
        torch.manual_seed(seed)
        schema = Schema.of(utterances, declared=True)
        model = JointModel(schema, KINDS[kind]())
        plan = Plan(
            method=Method.DP_SGD,
            population=len(utterances),
            batch_size=min(BATCH, len(utterances) // 2),
            # A few more than are made, so that nothing comes to an end.
            epochs=2 + steps * BATCH // len(utterances),
            delta=1e-5,
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        # Both trainings draw the same batches. Everything else is as for users: a seed for all of
        # it would keep the noise from its compiled kernel, and make steps slow.
        drawn = (NoiseSource(), SamplingKey.from_seed(seed))
        with patch.object(private, "_randomness", lambda *_: drawn):
            training = PrivateTraining(plan, model, optimizer, owners=len(utterances))
        return cls(model, Encodings(model, utterances), training.steps())

    def step(self) -> None:
        began = time.process_time()
        step = next(self.steps)
        for examples in step:
            step.backward(self.model.losses(self.encodings.batch(examples)))
        self.seconds += time.process_time() - began


@contextmanager
def without_check() -> Iterator[None]:
    """The check neither looks at pieces nor asks for passes."""
    with (
        patch.object(NeighbourCheck, "saw", lambda _, piece: None),
        patch.object(NeighbourCheck, "trials", lambda _: iter(())),
    ):
        yield


@contextmanager
def timed_check(clock: Clock) -> Iterator[None]:
    """The check as it is, with a clock around it.

    The loop makes the passes of a trial while the generator waits, so they are counted too.
    """
    saw, trials = NeighbourCheck.saw, NeighbourCheck.trials

    def timed_saw(self: NeighbourCheck, piece: Piece) -> None:
        began = time.process_time()
        saw(self, piece)
        clock.seconds += time.process_time() - began

    def timed_trials(self: NeighbourCheck) -> Iterator[Trial]:
        began, passes = time.process_time(), 0
        for trial in trials(self):
            passes += 1
            yield trial
        clock.seconds += time.process_time() - began
        clock.checks, clock.passes = clock.checks + bool(passes), clock.passes + passes

    with (
        patch.object(NeighbourCheck, "saw", timed_saw),
        patch.object(NeighbourCheck, "trials", timed_trials),
    ):
        yield


def race(kind: str, marks: list[int], seed: int, utterances: list[Utterance]) -> list[Figures]:
    """Both trainings in turns, with the figures after each number of steps in `marks`."""
    checked, unchecked = (Runner.of(kind, utterances, max(marks), seed) for _ in range(2))
    found = []
    for number in range(max(marks)):
        # Who goes first changes, in case the second finds a warmer cache.
        for runner in (checked, unchecked)[:: 1 if number % 2 else -1]:
            if runner is checked:
                with timed_check(checked.inside):
                    checked.step()
            else:
                with without_check():
                    unchecked.step()
        if number + 1 in marks:
            share = checked.inside.seconds / checked.seconds
            found.append(
                {
                    "model": kind,
                    "steps": number + 1,
                    "seed": seed,
                    "seconds_with": round(checked.seconds, 3),
                    "seconds_without": round(unchecked.seconds, 3),
                    "seconds_inside": round(checked.inside.seconds, 4),
                    "ratio": round(checked.seconds / unchecked.seconds, 5),
                    "share_inside": round(share, 5),
                    "ratio_inside": round(1 / (1 - share), 5),
                    "steps_checked": checked.inside.checks,
                    "passes": checked.inside.passes,
                }
            )
    return found


def medians(runs: list[Figures]) -> list[Figures]:
    """One row a model and number of steps."""
    keys = dict.fromkeys((run["model"], run["steps"]) for run in runs)
    rows = []
    for kind, steps in keys:
        own = [run for run in runs if (run["model"], run["steps"]) == (kind, steps)]
        row = {"model": kind, "steps": steps, "runs": len(own)}
        for name in ("ratio", "ratio_inside", "share_inside", "steps_checked"):
            row[name] = round(statistics.median(run[name] for run in own), 5)
        row["ratios"] = [run["ratio"] for run in own]
        row["ratios_inside"] = [run["ratio_inside"] for run in own]
        row["milliseconds_a_step"] = round(
            1000 * statistics.median(run["seconds_without"] / steps for run in own), 2
        )
        rows.append(row)
    return rows


def show(rows: list[Figures]) -> None:
    table = Table(title="CPU time of private training with the neighbour check / without it")
    headings = {
        "model": "model",
        "steps": "steps",
        "runs": "runs",
        "milliseconds_a_step": "ms a step",
        "ratio": "ratio",
        "ratio_inside": "ratio by time inside",
        "steps_checked": "steps checked",
    }
    for heading in headings.values():
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*(str("" if row[key] is None else row[key]) for key in headings))
    Console().print(table)


def main() -> None:
    parser = parser_of(__file__, __doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=SMALL, help="models")
    parser.add_argument("--steps", nargs="+", type=int, default=STEPS, help="steps")
    parser.add_argument("--runs", type=int, default=5, help="runs that medians are taken of")
    parser.add_argument("--utterances", type=int, default=UTTERANCES, help="utterances to train on")
    given = options_of(parser, quick={"steps": [5, 10], "runs": 1, "utterances": 300})
    torch.set_num_threads(1)
    utterances = list(generate(DOMAINS[0], size=given.utterances, seed=1))
    runs: list[Figures] = []
    for seed in range(given.runs):
        for kind in given.kinds:
            runs += race(kind, given.steps, seed, utterances)
            report = {
                "clock": "process CPU time, one thread",
                "cpu": cpu_name(),
                "versions": versions("sottovoce", "torch", "transformers"),
                "batch": BATCH,
                "medians": medians(runs),
                "runs": runs,
            }
            write(given.output, report)
    show(report["medians"])  # type: ignore[arg-type]
    tell(given.output)


if __name__ == "__main__":
    main()
