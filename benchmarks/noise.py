"""Secure noise against numpy's and torch's: what does it cost that nobody can predict it?

Ours draws from AES in counter mode, numpy's `Generator` from PCG64, torch from the Mersenne
Twister. All fill the same number of values on one thread; the contestants take turns, round after
round, so that a busy machine slows all of them; the figures are medians of process CPU time. A
source with a seed never uses the compiled kernel, which gives the row "without the kernel".

    python benchmarks/noise.py
"""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from helpers.machine import cpu_name, versions
from helpers.options import options_of, parser_of, tell, write
from sottovoce.privacy.noise import (
    NoiseSource,
    discrete_laplace,
    gaussian_add,
    gaussian_into,
    kernel,
    laplace,
)

SCALE = 10.0

Draw = Callable[[], object]


@dataclass(frozen=True)
class Race:
    """A row of the table: the same noise by each contestant; torch does not have all kinds."""

    noise: str
    ours: Draw
    numpy: Draw
    torch: Draw | None = None

    def contestants(self) -> dict[str, Draw]:
        entries = {"ours": self.ours, "numpy": self.numpy, "torch": self.torch}
        return {who: draw for who, draw in entries.items() if draw is not None}


def races(n: int) -> list[Race]:
    source, seeded, rng = NoiseSource(), NoiseSource.seeded(1), np.random.default_rng()
    singles, doubles = np.empty(n, np.float32), np.empty(n, np.float64)
    single_tensor, double_tensor = torch.from_numpy(singles), torch.from_numpy(doubles)

    def numpy_adds() -> None:
        singles[:] += rng.standard_normal(n, dtype=np.float32)

    # numpy has no discrete Laplace: the difference of two geometric variables is one.
    success = -np.expm1(-1 / SCALE)
    return [
        Race(
            "Gaussian float32",
            lambda: gaussian_into(singles, 1.0, source),
            lambda: rng.standard_normal(out=singles, dtype=np.float32),
            single_tensor.normal_,
        ),
        Race(
            "Gaussian float32, added",
            lambda: gaussian_add(singles, 1.0, source),
            numpy_adds,
            lambda: single_tensor.add_(torch.randn(n)),
        ),
        Race(
            "Gaussian float32, without the kernel",
            lambda: gaussian_into(singles, 1.0, seeded),
            lambda: rng.standard_normal(out=singles, dtype=np.float32),
            single_tensor.normal_,
        ),
        Race(
            "Gaussian float64",
            lambda: gaussian_into(doubles, 1.0, source),
            lambda: rng.standard_normal(out=doubles),
            double_tensor.normal_,
        ),
        Race("Laplace", lambda: laplace(n, SCALE, source), lambda: rng.laplace(0, SCALE, n)),
        Race(
            "discrete Laplace",
            lambda: discrete_laplace(n, SCALE, source),
            lambda: rng.geometric(success, n) - rng.geometric(success, n),
        ),
    ]


def nanoseconds(draw: Callable[[], object], n: int) -> float:
    """Process CPU time for each of n values."""
    start = time.process_time_ns()
    draw()
    return (time.process_time_ns() - start) / n


def run(n: int, rounds: int) -> list[dict[str, Any]]:
    entries = races(n)
    times: dict[str, dict[str, list[float]]] = {race.noise: defaultdict(list) for race in entries}
    for turn in range(rounds + 1):
        for race in entries:
            for who, draw in race.contestants().items():
                taken = nanoseconds(draw, n)
                if turn:  # the first round only warms up
                    times[race.noise][who].append(taken)
    return [
        _row(noise, {who: statistics.median(taken) for who, taken in drawn.items()})
        for noise, drawn in times.items()
    ]


def _row(noise: str, median: dict[str, float]) -> dict[str, Any]:
    others = [who for who in median if who != "ours"]
    return {
        "distribution": noise,
        **{f"{who}_ns_per_value": round(taken, 2) for who, taken in median.items()},
        **{f"ours_over_{who}": round(median["ours"] / median[who], 3) for who in others},
    }


def show(results: list[dict[str, Any]], n: int, rounds: int) -> None:
    table = Table(title=f"{n:,} values, median of {rounds} rounds, CPU ns a value")
    table.add_column("noise")
    columns = {
        "sottovoce": "ours_ns_per_value",
        "numpy": "numpy_ns_per_value",
        "torch": "torch_ns_per_value",
        "ours / numpy": "ours_over_numpy",
        "ours / torch": "ours_over_torch",
    }
    for title in columns:
        table.add_column(title, justify="right")
    for row in results:
        cells = [f"{row[key]:.2f}" if key in row else "" for key in columns.values()]
        table.add_row(row["distribution"], *cells)
    Console().print(table)


def main() -> None:
    parser = parser_of(__file__, __doc__)
    parser.add_argument("--values", type=int, default=10_000_000, help="values a draw")
    parser.add_argument("--rounds", type=int, default=7, help="rounds the medians are taken over")
    given = options_of(parser, quick={"values": 100_000, "rounds": 1})

    torch.set_num_threads(1)
    results = run(given.values, given.rounds)
    show(results, given.values, given.rounds)
    report = {
        "values": given.values,
        "rounds": given.rounds,
        "clock": "process CPU time",
        "cpu": cpu_name(),
        "compiled_kernel": kernel.available(),
        "versions": versions("sottovoce", "numpy", "torch", "cryptography"),
        "results": results,
    }
    write(given.output, report)
    tell(given.output)


if __name__ == "__main__":
    main()
