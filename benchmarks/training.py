"""The race of training methods: what a private step costs, as a ratio to plain SGD.

    python benchmarks/training.py                      # everything, with plot and JSON
    python benchmarks/training.py --kinds clc --batches 32 --ways sgd dp-sgd --rounds 3

Every way of making a step has a process of its own and they make steps in turns, on one thread, so
none inherits another's heap or a quiet moment. A step is everything from the batch to the updated
weights: forward, backward, clipping, noise from AES, optimiser. Time is the median of CPU time;
memory the peak above what the process held before its first step. Where its memory happens to lie
makes one process up to 15 % faster than its twin, so the race is repeated with new processes, and
what counts is the median over them. Between steps the allocator (glibc's) keeps what it has, for
all ways alike: what it gives back, and when, differs from process to process and costs up to a
tenth of a step. A race takes the place of the one of the same model, batch and optimizer in the
JSON, so the whole can be run in parts.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from helpers.options import options_of, parser_of, tell, write
from helpers.taggers import KINDS, Batch, Tagger, make, rows
from sottovoce.privacy.facts import Sampling
from sottovoce.training.plan import Method, Plan
from sottovoce.training.private import PrivateTraining

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.01),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
}
# Ours go through the model in pieces of `Plan.virtual_batch` examples, and once without.
WHOLE = " in one piece"
WAYS = ("sgd", "dp-sgd", f"dp-sgd{WHOLE}", "edp-sgd", "textbook", "opacus", "opacus-ghost")
# What one would otherwise pay: too slow to be repeated as often, and for every batch.
SLOW = ("textbook", "opacus", "opacus-ghost")
SMALLEST = 32
WARM_UP = 2
# Marks on the logarithmic axis of the plot.
RATIOS = (1, 2, 4, 8)
# The second is where glibc arrives by itself, and has to be named as soon as the first is.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 33), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}


def plain(model: Tagger, batch: Batch, optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    def step() -> None:
        optimizer.zero_grad()
        model(*batch).mean().backward()
        optimizer.step()

    return step


def ours(
    way: str, model: Tagger, batch: Batch, optimizer: torch.optim.Optimizer
) -> Callable[[], None]:
    size = len(batch[1])
    # One shuffled batch that holds everybody: every step sees the same examples as plain SGD.
    plan = Plan(
        method=Method(way.removesuffix(WHOLE)), population=size, batch_size=size, epochs=10**6,
        delta=1e-5, sampling=Sampling.SHUFFLE,
    )  # fmt: skip
    if way.endswith(WHOLE):
        plan = replace(plan, virtual_batch=size)
    steps = PrivateTraining(plan, model, optimizer, owners=size).steps()

    def one() -> None:
        step = next(steps)
        for chosen in step:
            part = batch if len(chosen) == size else rows(batch, chosen)
            step.backward(model(*part))

    return one


def opacus(
    mode: str, model: Tagger, batch: Batch, optimizer: torch.optim.Optimizer
) -> Callable[[], None]:
    """The peer, driven the way its documentation says, without its data loader."""
    from opacus.grad_sample import GradSampleModule
    from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (
        GradSampleModuleFastGradientClipping,
    )
    from opacus.optimizers import DPOptimizer
    from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    size = len(batch[1])
    if mode == "hooks":
        wrapped = GradSampleModule(model)
        private = DPOptimizer(
            optimizer, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=size
        )

        def step() -> None:
            private.zero_grad()
            wrapped(*batch).mean().backward()
            private.step()

        return step

    wrapped_ghost = GradSampleModuleFastGradientClipping(
        model, max_grad_norm=1.0, use_ghost_clipping=True
    )
    ghost = DPOptimizerFastGradientClipping(
        optimizer, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=size
    )

    def identity(losses: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return losses

    identity.reduction = "mean"  # type: ignore[attr-defined]
    criterion = DPLossFastGradientClipping(wrapped_ghost, ghost, identity, loss_reduction="mean")

    def ghost_step() -> None:
        ghost.zero_grad()
        criterion(wrapped_ghost(*batch), batch[1]).backward()
        ghost.step()

    return ghost_step


def step_of(kind: str, examples: int, way: str, optimizer_name: str) -> Callable[[], None]:
    model, batch = make(kind, examples)
    if way.startswith("opacus"):
        from opacus.validators import ModuleValidator

        model = ModuleValidator.fix(model)
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    match way:
        case "sgd":
            return plain(model, batch, optimizer)
        case "opacus":
            return opacus("hooks", model, batch, optimizer)
        case "opacus-ghost":
            return opacus("ghost", model, batch, optimizer)
        case _:
            return ours(way, model, batch, optimizer)


class Runner:
    """A process that makes one step for each line it reads, and answers with time and memory."""

    def __init__(self, kind: str, examples: int, way: str, optimizer: str) -> None:
        command = [sys.executable, __file__, "--serve", kind, str(examples), way, optimizer]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **KEEP_MEMORY},
        )
        self.way = way
        self.seconds: list[float] = []
        self.megabytes = 0.0
        self.failure = ""

    def step(self) -> None:
        if self.failure:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print("step", file=self._process.stdin, flush=True)
            taken, self.megabytes = map(float, self._process.stdout.readline().split())
            self.seconds.append(taken)
        except (BrokenPipeError, ValueError):
            _, error = self._process.communicate()
            self.failure = (error.strip().splitlines() or ["it ended"])[-1][:120]

    def median(self) -> float:
        return statistics.median(self.seconds[WARM_UP:])

    def close(self) -> None:
        if not self.failure:
            self._process.communicate()


def serve(kind: str, examples: int, way: str, optimizer: str) -> None:
    torch.set_num_threads(1)
    step = step_of(kind, examples, way, optimizer)
    before = kilobytes("VmRSS")
    for _ in sys.stdin:
        start = time.process_time()
        step()
        print(time.process_time() - start, (kilobytes("VmHWM") - before) / 1024, flush=True)


def kilobytes(field: str) -> int:
    """Of this process now (VmRSS) or at its peak (VmHWM), as Linux reports it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def heat(kind: str, examples: int, optimizer: str, ways: list[str], rounds: int) -> list[Runner]:
    """New processes, one for each way, that take turns."""
    runners = [Runner(kind, examples, way, optimizer) for way in ways]
    for number in range(WARM_UP + rounds):
        for runner in runners:
            if runner.way not in SLOW or number < WARM_UP + max(1, rounds // 4):
                runner.step()
    for runner in runners:
        runner.close()
    return runners


def race(
    kind: str, examples: int, optimizer: str, ways: list[str], rounds: int, heats: int
) -> dict[str, Any]:
    """Several heats; the slow ways, whose ratios are far from one, run in the first only."""
    fast = [way for way in ways if way not in SLOW]
    runners = heat(kind, examples, optimizer, ways, rounds)
    for _ in range(heats - 1):
        runners += heat(kind, examples, optimizer, fast, rounds)
    found: dict[str, Any] = {"model": kind, "batch": examples, "optimizer": optimizer}
    for way in ways:
        own = [runner for runner in runners if runner.way == way]
        failure = next((runner.failure for runner in own if runner.failure), None)
        if failure is not None:
            found[way] = {"failure": failure}
            continue
        seconds, megabytes = [r.median() for r in own], [r.megabytes for r in own]
        found[way] = {
            "seconds": (typical := statistics.median(seconds)),
            "of_each_process": seconds,
            "megabytes": (peak := statistics.median(megabytes)),
        }
        base = found[ways[0]]
        found[way] |= {
            "time_ratio": typical / base["seconds"],
            "memory_ratio": peak / base["megabytes"],
        }
    return found


def begun(path: Path) -> dict[str, Any]:
    """The races of an earlier run that were run with the same versions, or none yet."""
    versions = {name: version(name) for name in ("torch", "transformers")}
    report = {"results": [], "versions": versions, "python": platform.python_version()}
    earlier = json.loads(path.read_text()) if path.exists() else {}
    same = all(earlier.get(name) == report[name] for name in ("versions", "python"))
    return earlier if same else report


def with_race(results: list[dict[str, Any]], found: dict[str, Any]) -> list[dict[str, Any]]:
    """The results with this race in its place, in the order of the table."""

    def place(race: dict[str, Any]) -> tuple[int, bool, int]:
        return list(KINDS).index(race["model"]), race["optimizer"] != "sgd", race["batch"]

    return sorted([*(r for r in results if place(r) != place(found)), found], key=place)


def show(results: list[dict[str, Any]], ways: list[str]) -> None:
    table = Table(title="A step, as a ratio to plain SGD: CPU time (peak memory)")
    for heading in ("model", "batch", "optimizer", "sgd"):
        table.add_column(heading, justify="right" if heading in ("batch", "sgd") else "left")
    for way in ways[1:]:
        table.add_column(way, justify="right")
    for found in results:
        cells = [
            "" if way not in found
            else "fails" if "failure" in found[way]
            else f"{found[way]['time_ratio']:.2f} ({found[way]['memory_ratio']:.2f})"
            for way in ways[1:]
        ]  # fmt: skip
        base = f"{found['sgd']['seconds']:.2f} s, {found['sgd']['megabytes']:.0f} MB"
        table.add_row(found["model"], str(found["batch"]), found["optimizer"], base, *cells)
    Console(width=140).print(table)


def draw(results: list[dict[str, Any]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    kinds = list(dict.fromkeys(found["model"] for found in results))
    figure, axes = pyplot.subplots(1, len(kinds), figsize=(3.2 * len(kinds), 3.2), sharey=True)
    for axis, kind in zip([axes] if len(kinds) == 1 else axes, kinds, strict=True):
        own = [f for f in results if f["model"] == kind and f["optimizer"] == "sgd"]
        for way in WAYS[1:]:
            points = [
                (f["batch"], f[way]["time_ratio"]) for f in own if "time_ratio" in f.get(way, {})
            ]
            if points:
                axis.plot(*zip(*points, strict=True), marker="o", label=way)
        axis.axhline(1, color="grey", linewidth=0.8)
        axis.set(title=kind, xlabel="batch", yscale="log", xscale="log")
        for place, ticks in (axis.xaxis, sorted({f["batch"] for f in own})), (axis.yaxis, RATIOS):
            place.set_ticks(ticks, labels=[str(tick) for tick in ticks])
            place.set_ticks([], minor=True)
    first = axes if len(kinds) == 1 else axes[0]
    first.set_ylabel("CPU time / plain SGD")
    first.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = parser_of(__file__, __doc__)
    parser.add_argument(
        "--kinds", nargs="+", default=list(KINDS), choices=list(KINDS), help="models"
    )
    parser.add_argument(
        "--batches", nargs="+", type=int, default=[SMALLEST, 128, 256], help="examples of a step"
    )
    parser.add_argument(
        "--optimizers", nargs="+", default=["sgd", "adam"], choices=list(OPTIMIZERS),
        help="optimizers",
    )  # fmt: skip
    parser.add_argument(
        "--ways", nargs="+", default=list(WAYS), choices=WAYS, help="ways to make a step"
    )
    parser.add_argument("--rounds", type=int, default=5, help="steps of a process that count")
    parser.add_argument("--heats", type=int, default=5, help="processes for each way")
    parser.add_argument("--plot", type=Path, help="the plot (default: beside the output, as SVG)")
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    small = {
        "kinds": ["clc"], "batches": [4], "optimizers": ["sgd"], "ways": ["sgd", "dp-sgd"],
        "rounds": 1, "heats": 1,
    }  # fmt: skip
    options = options_of(parser, quick=small)
    if options.serve:
        kind, examples, way, optimizer = options.serve
        serve(kind, int(examples), way, optimizer)
        return
    report = begun(options.output)
    for kind in options.kinds:
        for examples in options.batches:
            for optimizer in options.optimizers:
                # The slow ways once, where they are cheapest; they only get slower.
                affordable = examples == SMALLEST and optimizer == "sgd"
                ways = [
                    way for way in options.ways
                    if (affordable or way not in SLOW)
                    and (not way.endswith(WHOLE) or examples > Plan.virtual_batch)
                ]  # fmt: skip
                found = race(kind, examples, optimizer, ways, options.rounds, options.heats)
                print(json.dumps(found), file=sys.stderr, flush=True)
                report["results"] = with_race(report["results"], found)
                write(options.output, report)
    show(report["results"], options.ways)
    draw(report["results"], options.plot or options.output.with_suffix(".svg"))
    tell(options.output)


if __name__ == "__main__":
    main()
