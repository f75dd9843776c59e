"""The service under load: a thousand requests, 50 and 200 at a time, without and with an attacker.

    python benchmarks/serve.py               1,000 requests a round
    python benchmarks/serve.py --requests N  so many

`sottovoce serve` runs in a process of its own on a free port of this machine. A round to warm up is
not counted. Then come rounds of requests, most of them to /deidentify with utterances of the
built-in corpus. Every round is run twice: alone, and with an attacker beside it, who has another
address and sends the most expensive requests that are allowed, twenty at a time. The ratio is what
he does to the others' median latency. Memory is bounded if later rounds add nothing.
"""

import asyncio
import json
import platform
import re
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from itertools import islice
from pathlib import Path

import fastapi
import httpx
import numpy as np
import uvicorn
from rich.console import Console
from rich.table import Table

from helpers.machine import cpu_name
from helpers.options import options_of, parser_of, tell, write
from sottovoce.corpora.synthetic import generate

STRATEGIES = ("entity", "word", "typed", "redact", "named")

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


ATTACKERS = 20
LONG = {"texts": ["call Maria Lopez in London at half past three " * 200] * 20}
ENDLESS = {
    "recipe": "training", "noise_multiplier": 0.05, "epochs": 1000, "steps_per_epoch": 1_000_000,
    "decay": "linear", "tau": 1.0, "sampling_rate": 0.5, "delta": 1e-12,
}  # fmt: skip


async def attack(url: str, until: asyncio.Event) -> None:
    """Send expensive requests from another address until the others are done."""
    transport = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
    async with httpx.AsyncClient(base_url=url, transport=transport, timeout=120) as client:

        async def attacker(number: int) -> None:
            path, body = ("/epsilon", ENDLESS) if number % 2 else ("/deidentify", LONG)
            while not until.is_set():
                with suppress(httpx.HTTPError):
                    await client.post(path, json=body)

        tasks = [asyncio.create_task(attacker(number)) for number in range(ATTACKERS)]
        await until.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def round_of(url: str, requests: int, at_once: int, *, attacked: bool) -> Figures:
    """One round; with an attacker, he begins a moment before."""
    if not attacked:
        return await storm(url, bodies(requests), at_once) | {"attacker": 0}
    until = asyncio.Event()
    attacking = asyncio.create_task(attack(url, until))
    await asyncio.sleep(1)
    figures = await storm(url, bodies(requests), at_once)
    until.set()
    await attacking
    return figures | {"attacker": 1}


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
    """Mebibytes of memory that a process holds now (Linux); none if it has just ended."""
    with suppress(OSError):
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
        return round(int(found[1]) / 1024, 1) if found else 0.0
    return 0.0


def resident_of_all(process: int) -> float:
    """Mebibytes of a server and of the processes that work for it."""
    children: list[str] = []
    with suppress(OSError):
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return resident(process) + sum(map(resident_of_all, map(int, children)))


def run(requests: int, at_once: list[int]) -> list[Figures]:
    command = [sys.executable, "-m", "sottovoce", "serve", "--port", "0", "--json"]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )  # fmt: skip
    try:
        assert server.stdout is not None
        told = "".join(iter(server.stdout.readline, "}\n")) + "}"
        url = json.loads(told)["url"]
        asyncio.run(storm(url, bodies(100), at_once[0]))
        rounds = []
        for many in at_once:
            for attacked in (False, True):
                figures = asyncio.run(round_of(url, requests, many, attacked=attacked))
                figures["rss_mebibytes"] = round(resident_of_all(server.pid), 1)
                rounds.append(figures)
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
    parser.add_argument("--at-once", type=int, nargs="+", default=[50, 200], help="at a time")
    given = options_of(parser, quick={"requests": 50, "at_once": [10]})
    rounds = run(given.requests, given.at_once)
    show(rounds)
    pairs = list(zip(rounds[::2], rounds[1::2], strict=True))
    report = {
        "benchmark": "serve",
        "processor": cpu_name(),
        "python": platform.python_version(),
        "fastapi": fastapi.__version__,
        "uvicorn": uvicorn.__version__,
        "rounds": rounds,
        "attacked_over_alone": {
            str(alone["at_once"]): round(
                attacked["p50_milliseconds"] / alone["p50_milliseconds"], 2
            )
            for alone, attacked in pairs
        },
    }
    write(given.output, report)
    tell(given.output)
    errors = sum(figures["errors"] for figures in rounds)
    if errors:
        print(f"{errors} requests failed", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    raise SystemExit(main())
