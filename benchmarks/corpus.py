"""How fast, and in how much memory, the built-in corpora stream to disk.

    python benchmarks/corpus.py            one million utterances a domain
    python benchmarks/corpus.py --size N   so many

Each corpus is written in a fresh process, so that its peak memory is its own. A tenth of the size
with the same number of users is written too: if memory is constant, the two peaks are equal.
"""

import multiprocessing
import platform
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from helpers.options import options_of, parser_of, tell, write
from sottovoce.corpora.synthetic import DOMAINS, generate, write_jsonl

SAMPLE = 100_000  # utterances among which distinct sentences are counted
TARGET = 50_000  # utterances a second

Figures = dict[str, float | int | str]


def measure(domain: str, size: int, users: int) -> Figures:
    """Write one corpus; the time includes loading the lists and compiling the grammar."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "corpus.jsonl")
        wall, cpu = time.perf_counter(), time.process_time()
        write_jsonl(path, domain, size=size, users=users)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        written = path.stat().st_size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "domain": domain,
        "utterances": size,
        "users": users,
        "cpu_seconds": round(cpu, 2),
        "wall_seconds": round(wall, 2),
        "utterances_per_cpu_second": round(size / cpu),
        "utterances_per_wall_second": round(size / wall),
        "bytes": written,
        "peak_mebibytes": round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1),
    }


def distinct_share(domain: str, sample: int) -> float:
    return len({utterance.text for utterance in generate(domain, size=sample)}) / sample


def run(size: int, sample: int) -> list[Figures]:
    context = multiprocessing.get_context("spawn")
    users = max(20, round(size**0.6))
    small = max(size // 10, users)
    rows = []
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as fresh:
        for domain in DOMAINS:
            row = fresh.submit(measure, domain, size, users).result()
            tenth = fresh.submit(measure, domain, small, users).result()
            row["peak_mebibytes_for_a_tenth"] = tenth["peak_mebibytes"]
            row["distinct_share_of_100000"] = fresh.submit(distinct_share, domain, sample).result()
            rows.append(row)
    return rows


def show(rows: list[Figures]) -> None:
    table = Table(
        title="Built-in corpora to disk, one process",
        caption="utterances a second; peak memory, also for a tenth of the size; "
        "distinct sentences in a sample",
    )
    table.add_column("domain")
    for heading in ("per cpu s", "per wall s", "MB", "peak MiB", "at 1/10"):
        table.add_column(heading, justify="right")
    table.add_column("distinct", justify="right")
    for row in rows:
        table.add_row(
            str(row["domain"]),
            f"{row['utterances_per_cpu_second']:,}",
            f"{row['utterances_per_wall_second']:,}",
            f"{float(row['bytes']) / 1e6:.0f}",
            str(row["peak_mebibytes"]),
            str(row["peak_mebibytes_for_a_tenth"]),
            f"{float(row['distinct_share_of_100000']):.1%}",
        )
    Console().print(table)


def main() -> int:
    parser = parser_of(__file__, __doc__)
    parser.add_argument("--size", type=int, default=1_000_000, help="utterances a domain")
    given = options_of(parser, quick={"size": 5000})
    rows = run(given.size, given.size if given.quick else SAMPLE)
    show(rows)
    report = {
        "benchmark": "corpus",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "target_utterances_per_second": TARGET,
        "domains": rows,
    }
    write(given.output, report)
    tell(given.output)
    slow = [row["domain"] for row in rows if float(row["utterances_per_cpu_second"]) < TARGET]
    if slow and not given.quick:  # loading the lists takes most of a quick run
        print(f"below {TARGET:,} utterances a second: {', '.join(map(str, slow))}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
