"""Ten thousand simulated clients, ten rounds, ten thousand words, on one machine.

    python benchmarks/federation.py [--clients N] [--rounds N] [--words N]

Every client says fifty words a round by Zipf's law, capped for user-level privacy. Time, peak
memory, and the bytes that a real network would carry are written to results/federation.json.
"""

import json
import platform
import resource
import time

import numpy as np

from helpers.options import options_of, parser_of, tell, write
from sottovoce.personalize.federated.counting import Caps, Counting
from sottovoce.personalize.federated.federation import ledger_for, server_for
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.rounds import run_rounds
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector, Vocabulary
from sottovoce.privacy.facts import Noise
from sottovoce.privacy.guarantee import Unit

SAID = 50
UNIT = 64


class ZipfClient:
    """Says the same in every run; keeps nothing, so that memory is the runner's own."""

    def __init__(self, place: int, cumulative: Vector) -> None:
        self.name, self._place, self._cumulative = f"c{place}", place, cumulative

    def contribute(self, number: int, *, cumulative: bool) -> Vector:
        rng = np.random.default_rng([self._place, number])
        words = np.searchsorted(self._cumulative, rng.random(SAID))
        return np.bincount(words, minlength=len(self._cumulative)).astype(np.float64) * UNIT

    def skip(self, number: int) -> None:
        pass


def main() -> None:
    parser = parser_of(__file__, __doc__)
    for name, default in (("clients", 10_000), ("rounds", 10), ("words", 10_000)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"how many {name}")
    given = options_of(parser, quick={"clients": 100, "rounds": 2, "words": 1000})
    zipf = 1 / np.arange(1, given.words + 1)
    unigram = zipf / zipf.sum()
    names = (*(f"w{i}" for i in range(given.words - 1)), UNKNOWN)
    vocabulary = Vocabulary(names, unigram)
    plan = ReleasePlan(
        counting=Counting(integer=True),
        noise=Noise.DISCRETE_LAPLACE,
        unit=Unit.USER,
        caps=Caps(float(SAID * given.rounds)),
    ).calibrated(epsilon=8.0, rounds=given.rounds)
    ledger = ledger_for(plan)
    server = server_for(vocabulary, plan, ledger=ledger, minimum_clients=5)
    cumulative = np.cumsum(unigram)
    clients = [ZipfClient(place, cumulative) for place in range(given.clients)]
    start = time.perf_counter()
    reports = list(run_rounds(clients, server, rounds=given.rounds))
    seconds = time.perf_counter() - start
    assert all(report.accepted == given.clients for report in reports)
    found = {
        "machine": platform.machine(),
        "clients": given.clients,
        "rounds": given.rounds,
        "words": given.words,
        "seconds": round(seconds, 1),
        "contributions_a_second": round(given.clients * given.rounds / seconds),
        "peak_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "bytes_a_contribution": given.words * 8,
        "epsilon": round(ledger.guarantee(0.0).epsilon, 3),
        "unit": "user",
        "noise_scale_in_counts": round(plan.scale, 2),
        "total_variation_from_truth": round(0.5 * float(np.abs(server.q_bar - unigram).sum()), 4),
    }
    print(json.dumps(found, indent=1))
    write(given.output, found, indent=1)
    tell(given.output)


if __name__ == "__main__":
    main()
