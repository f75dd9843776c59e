"""Secure noise against numpy's: what does it cost that nobody can predict it?

Ours draws from AES in counter mode, numpy's `Generator` from PCG64. Both fill the same number of
values; the contestants take turns, round after round, so that a busy machine slows both; the
figures are medians of process CPU time.

    python benchmarks/noise.py --json benchmarks/results/noise.json
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from sottovoce.privacy.noise import NoiseSource, discrete_laplace, gaussian_into, laplace

SCALE = 10.0

Race = tuple[str, Callable[[], object], Callable[[], object]]


def races(n: int) -> list[Race]:
    """The rows of the table: a name, our way and numpy's."""
    source, rng = NoiseSource(), np.random.default_rng()
    singles, doubles = np.empty(n, np.float32), np.empty(n, np.float64)
    # numpy has no discrete Laplace: the difference of two geometric variables is one.
    success = -np.expm1(-1 / SCALE)
    return [
        (
            "Gaussian float32",
            lambda: gaussian_into(singles, 1.0, source),
            lambda: rng.standard_normal(out=singles, dtype=np.float32),
        ),
        (
            "Gaussian float64",
            lambda: gaussian_into(doubles, 1.0, source),
            lambda: rng.standard_normal(out=doubles),
        ),
        ("Laplace", lambda: laplace(n, SCALE, source), lambda: rng.laplace(0, SCALE, n)),
        (
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
    times: dict[tuple[str, str], list[float]] = {}
    for turn in range(rounds + 1):
        for name, ours, numpys in entries:
            for who, draw in (("ours", ours), ("numpy", numpys)):
                taken = nanoseconds(draw, n)
                if turn:  # the first round only warms up
                    times.setdefault((name, who), []).append(taken)
    results = []
    for name, _, _ in entries:
        ours_ns, numpy_ns = (statistics.median(times[name, who]) for who in ("ours", "numpy"))
        results.append(
            {
                "distribution": name,
                "ours_ns_per_value": round(ours_ns, 2),
                "numpy_ns_per_value": round(numpy_ns, 2),
                "ours_over_numpy": round(ours_ns / numpy_ns, 3),
            }
        )
    return results


def cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def show(results: list[dict[str, Any]], n: int, rounds: int) -> None:
    table = Table(title=f"{n:,} values, median of {rounds} rounds, CPU ns a value")
    table.add_column("noise")
    for column in ("sottovoce", "numpy", "ours / numpy"):
        table.add_column(column, justify="right")
    for row in results:
        table.add_row(
            row["distribution"],
            f"{row['ours_ns_per_value']:.1f}",
            f"{row['numpy_ns_per_value']:.1f}",
            f"{row['ours_over_numpy']:.2f}",
        )
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="Race secure noise against numpy's.")
    parser.add_argument("--values", type=int, default=10_000_000, help="values a draw")
    parser.add_argument("--rounds", type=int, default=7, help="rounds the medians are taken over")
    default = Path(__file__).parent / "results" / "noise.json"
    parser.add_argument("--json", type=Path, default=default, help="where the result is written")
    options = parser.parse_args()

    results = run(options.values, options.rounds)
    show(results, options.values, options.rounds)
    report = {
        "values": options.values,
        "rounds": options.rounds,
        "clock": "process CPU time",
        "cpu": cpu_name(),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("sottovoce", "numpy", "cryptography")},
        },
        "results": results,
    }
    options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
