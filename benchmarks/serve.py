"""The service under load: a thousand requests, fifty at a time, against a real process.

    python benchmarks/serve.py               1,000 requests at 50 at a time
    python benchmarks/serve.py --requests N  so many

`sottovoce serve` runs in a process of its own on a free port of this machine. A round to warm up is
not counted. Then come the requests, most of them to /deidentify with utterances of the built-in
corpus, and after them the same number again: memory is bounded if the second thousand adds nothing.
"""

import asyncio
import json
import platform
import re
import subprocess
import sys
import time
from collections import Counter
from itertools import islice
from pathlib import Path

import fastapi
import httpx
import numpy as np
import uvicorn
from rich.console import Console
from rich.table import Table

from helpers.options import options_of, parser_of, tell, write
from sottovoce.corpora.synthetic import generate

STRATEGIES = ("entity", "word", "typed", "redact", "named")
GROWTH = 32.0  # mebibytes that the second round may add; a leak of 32 KiB a request would show

Figures = dict[str, float | int]


def bodies(count: int) -> list[tuple[str, dict[str, object]]]:
    """Requests: nine of ten release an utterance, the tenth asks for the epsilon of a recipe."""
    texts = (utterance.text for utterance in generate("communication", size=count))
    made: list[tuple[str, dict[str, object]]] = []
    for number, text in enumerate(islice(texts, count)):
        if number % 10 == 9:
            recipe = {"recipe": "deid", "strategy": "word", "p": 0.9, "pi_min": 0.01, "tokens": 3}
            made.append(("/epsilon", dict(recipe)))
        else:
            strategy = STRATEGIES[number % len(STRATEGIES)]
            made.append(("/deidentify", {"text": text, "strategy": strategy, "p": 0.9}))
    return made


async def storm(url: str, asked: list[tuple[str, dict[str, object]]], at_once: int) -> Figures:
    """Send them all, so many at a time; latency is measured by whoever waits."""
    waiting = iter(asked)
    seconds: list[float] = []
    statuses: Counter[int] = Counter()
    limits = httpx.Limits(max_connections=at_once)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=120) as client:

        async def caller() -> None:
            for path, body in waiting:
                started = time.perf_counter()
                try:
                    answer = await client.post(path, json=body)
                    statuses[answer.status_code] += 1
                except httpx.HTTPError:
                    statuses[0] += 1
                seconds.append(time.perf_counter() - started)

        started = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(at_once)))
        wall = time.perf_counter() - started
    half, most, nearly_all = np.percentile(seconds, [50, 95, 99])
    return {
        "requests": len(seconds),
        "at_once": at_once,
        "errors": len(seconds) - statuses[200],
        "requests_per_second": round(len(seconds) / wall, 1),
        "p50_milliseconds": round(1000 * float(half), 1),
        "p95_milliseconds": round(1000 * float(most), 1),
        "p99_milliseconds": round(1000 * float(nearly_all), 1),
        "max_milliseconds": round(1000 * max(seconds), 1),
    }


def resident(process: int) -> float:
    """Mebibytes of memory that a process holds now (Linux)."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found
    return round(int(found[1]) / 1024, 1)


def run(requests: int, at_once: int) -> list[Figures]:
    command = [sys.executable, "-m", "sottovoce", "serve", "--port", "0", "--json"]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )  # fmt: skip
    try:
        assert server.stdout is not None
        told = "".join(iter(server.stdout.readline, "}\n")) + "}"
        url = json.loads(told)["url"]
        asyncio.run(storm(url, bodies(100), at_once))
        rounds = []
        for _ in range(2):
            before = resident(server.pid)
            figures = asyncio.run(storm(url, bodies(requests), at_once))
            after = resident(server.pid)
            rounds.append(figures | {"rss_before_mebibytes": before, "rss_after_mebibytes": after})
    finally:
        server.terminate()
        server.wait()
    return rounds


def show(rounds: list[Figures]) -> None:
    table = Table(title="sottovoce serve under load, one process")
    for heading in rounds[0]:
        table.add_column(heading.replace("_", " "), justify="right")
    for figures in rounds:
        table.add_row(*(f"{value:,}" for value in figures.values()))
    Console().print(table)


def main() -> int:
    parser = parser_of(__file__, __doc__)
    parser.add_argument("--requests", type=int, default=1000, help="requests a round")
    parser.add_argument("--at-once", type=int, default=50, help="requests at a time")
    given = options_of(parser, quick={"requests": 50, "at_once": 10})
    rounds = run(given.requests, given.at_once)
    show(rounds)
    report = {
        "benchmark": "serve",
        "python": platform.python_version(),
        "fastapi": fastapi.__version__,
        "uvicorn": uvicorn.__version__,
        "machine": platform.machine(),
        "largest_growth_mebibytes": GROWTH,
        "rounds": rounds,
    }
    write(given.output, report)
    tell(given.output)
    errors = sum(figures["errors"] for figures in rounds)
    growth = rounds[1]["rss_after_mebibytes"] - rounds[1]["rss_before_mebibytes"]
    if errors:
        print(f"{errors} requests failed", file=sys.stderr)
    if growth > GROWTH:
        print(f"the second round added {growth:.0f} MiB", file=sys.stderr)
    return 1 if errors or growth > GROWTH else 0


if __name__ == "__main__":
    sys.exit(main())
