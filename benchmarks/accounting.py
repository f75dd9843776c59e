"""How long the accountant takes for the paper's decaying schedules, beside dp-accounting itself.

Both account the same Poisson-sampled schedule (z0 = 1, linear decay 0.1, 140 steps an epoch,
q = 0.007, delta = 5e-4) in interleaved rounds; the peer composes with its default grid of 1e-4
(10 epochs) or 1e-2 (100 epochs), the choice that its memory allows.
"""

import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version

from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from rich.console import Console
from rich.table import Table

from helpers.options import options_of, parser_of, tell, write
from sottovoce.privacy.recipes import Decay, Method, TrainingRecipe

# (epochs, grid of the peer, seconds we promise)
CASES = ((10, 1e-4, 2.0), (100, 1e-2, 15.0))


def recipe(epochs: int) -> TrainingRecipe:
    return TrainingRecipe(
        method=Method.DP_SGD,
        noise_multiplier=1.0,
        decay=Decay.LINEAR,
        tau=0.1,
        epochs=epochs,
        steps_per_epoch=140,
        sampling_rate=0.007,
        delta=5e-4,
    )


def ours(epochs: int) -> float:
    return recipe(epochs).guarantee().epsilon


def theirs(epochs: int, grid: float) -> float:
    accountant = PLDAccountant(value_discretization_interval=grid)
    for noise in recipe(epochs).noise_multipliers():
        step = dp_event.PoissonSampledDpEvent(0.007, dp_event.GaussianDpEvent(noise))
        accountant.compose(step, 140)
    return float(accountant.get_epsilon(5e-4))


def timed(compute: Callable[[], float]) -> tuple[float, float]:
    start = time.process_time()
    value = compute()
    return value, time.process_time() - start


def race(epochs: int, grid: float, promised: float, rounds: int) -> dict[str, float]:
    own_times, peer_times = [], []
    for _ in range(rounds):
        own, seconds = timed(lambda: ours(epochs))
        own_times.append(seconds)
        peer, seconds = timed(lambda: theirs(epochs, grid))
        peer_times.append(seconds)
    own_seconds, peer_seconds = statistics.median(own_times), statistics.median(peer_times)
    return {
        "epochs": epochs,
        "epsilon_ours": own,
        "epsilon_peer": peer,
        "peer_grid": grid,
        "seconds_ours": own_seconds,
        "seconds_peer": peer_seconds,
        "ours_over_peer": own_seconds / peer_seconds,
        "seconds_promised": promised,
    }


def main() -> None:
    parser = parser_of(__file__, __doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds the medians are taken over")
    given = options_of(parser, quick={"rounds": 1})
    cases = CASES[:1] if given.quick else CASES
    results = [race(*case, rounds=given.rounds) for case in cases]
    table = Table(title="Accounting a decaying schedule of 140 steps an epoch (CPU time)")
    for heading in ("epochs", "ours", "epsilon", "dp-accounting", "epsilon", "ratio", "promised"):
        table.add_column(heading, justify="right")
    for found in results:
        table.add_row(
            f"{found['epochs']}",
            f"{found['seconds_ours']:.2f} s",
            f"{found['epsilon_ours']:.5g}",
            f"{found['seconds_peer']:.2f} s",
            f"{found['epsilon_peer']:.5g}",
            f"{found['ours_over_peer']:.2f}",
            f"< {found['seconds_promised']:g} s",
        )
    Console().print(table)
    report = {
        "cases": results,
        "python": platform.python_version(),
        "dp-accounting": version("dp-accounting"),
    }
    write(given.output, report)
    tell(given.output)


if __name__ == "__main__":
    main()
