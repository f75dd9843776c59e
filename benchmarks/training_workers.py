"""Two real processes: a step of eDP-SGD beside a step of plain DistributedDataParallel.

    python benchmarks/training_workers.py

Both train the same model in the same two processes (gloo on loopback), in turns, one thread each;
the ratio is of the CPU time of both processes together, and of the wall time of the slower one.
The measured sum of gradients also gives the point for the cost model of docs/how-to/scale.md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from rich.console import Console
from rich.table import Table
from torch.nn.parallel import DistributedDataParallel

from helpers.options import options_of, parser_of, tell, write
from helpers.taggers import KINDS, make, rows
from sottovoce.privacy.facts import Sampling
from sottovoce.training.distributed import join_workers, leave_workers
from sottovoce.training.plan import Method, Plan
from sottovoce.training.private import PrivateTraining

WARM_UP = 2


def plain(kind: str, examples: int) -> Callable[[], None]:
    model, batch = make(kind, examples)
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        parallel(*batch).mean().backward()
        optimizer.step()

    return step


def private(kind: str, examples: int, workers: int) -> Callable[[], None]:
    model, batch = make(kind, examples * workers)
    plan = Plan(
        method=Method.EDP_SGD, workers=workers, population=examples * workers,
        batch_size=examples * workers, virtual_batch=examples * workers, epochs=10**6,
        delta=1e-5, sampling=Sampling.SHUFFLE,
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    steps = PrivateTraining(plan, model, optimizer, owners=examples * workers).steps()

    def one() -> None:
        step = next(steps)
        for chosen in step:
            step.backward(model(*rows(batch, chosen)))

    return one


def summing(kind: str) -> Callable[[], None]:
    model, _ = make(kind, 1)
    flat = torch.zeros(sum(p.numel() for p in model.parameters()))
    return lambda: dist.all_reduce(flat)


def work(kind: str, examples: int, rounds: int) -> None:
    torch.set_num_threads(1)
    worker = join_workers()
    ways = {
        "ddp": plain(kind, examples),
        "edp-sgd": private(kind, examples, worker.count),
        "sum": summing(kind),
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(WARM_UP + rounds):
        for name, step in ways.items():
            dist.barrier()
            wall, cpu = time.perf_counter(), time.process_time()
            step()
            taken[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    # DistributedDataParallel holds the group. If it were the last to do so, it would wait for the
    # group's threads at a moment when these may have to wait for Python.
    ways.clear()
    told = worker.gather(taken=taken)
    leave_workers()
    if worker.rank == 0:
        print(json.dumps(summary(kind, examples, told)), flush=True)


def summary(kind: str, examples: int, told: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {"model": kind, "batch_per_worker": examples, "workers": len(told)}
    for name in told[0]["taken"]:
        by_rank = [each["taken"][name][WARM_UP:] for each in told]
        steps = list(zip(*by_rank, strict=True))
        found[name] = {
            "wall": statistics.median(max(wall for wall, _ in step) for step in steps),
            "cpu": statistics.median(sum(cpu for _, cpu in step) for step in steps),
        }
    for measure in ("wall", "cpu"):
        found[f"{measure}_ratio"] = found["edp-sgd"][measure] / found["ddp"][measure]
    return found


def main() -> None:
    parser = parser_of(__file__, __doc__)
    parser.add_argument(
        "--kinds", nargs="+", default=["bert+crf", "clc+crf"], choices=list(KINDS), help="models"
    )
    parser.add_argument(
        "--batches", nargs="+", type=int, default=[32, 128], help="examples of a worker"
    )
    parser.add_argument("--rounds", type=int, default=9, help="steps that count")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    options = options_of(parser, quick={"kinds": ["clc+crf"], "batches": [4], "rounds": 1})
    if options.work:
        work(options.work[0], int(options.work[1]), options.rounds)
        return
    results = []
    for kind in options.kinds:
        for examples in options.batches:
            command = [
                sys.executable, "-m", "torch.distributed.run", "--standalone",
                "--nproc-per-node=2", __file__, "--rounds", str(options.rounds),
                "--work", kind, str(examples),
            ]  # fmt: skip
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            if done.returncode:
                sys.exit(done.stderr)
            results.append(json.loads(done.stdout.splitlines()[-1]))
            write(options.output, {"results": results})
    table = Table(title="Two processes: a step of eDP-SGD / a step of DDP")
    for heading in ("model", "batch a worker", "ddp", "edp-sgd", "CPU ratio", "wall ratio", "sum"):
        table.add_column(heading, justify="right")
    for found in results:
        table.add_row(
            found["model"],
            str(found["batch_per_worker"]),
            f"{found['ddp']['wall']:.2f} s",
            f"{found['edp-sgd']['wall']:.2f} s",
            f"{found['cpu_ratio']:.3f}",
            f"{found['wall_ratio']:.3f}",
            f"{1000 * found['sum']['wall']:.0f} ms",
        )
    Console().print(table)
    tell(options.output)


if __name__ == "__main__":
    main()
