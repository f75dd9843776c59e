"""Running the app: in simulation on one machine, or as a folder for `flwr run`.

Neither needs a network beyond the machine itself. Telemetry of Flower and of Ray is switched off.
"""

import importlib.util
import json
import logging
import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sottovoce import _validate
from sottovoce.io.atomic import text_output
from sottovoce.personalize.federated.rounds import RoundReport, check_released
from sottovoce.personalize.flower.interpreter import ready_for_ray
from sottovoce.personalize.flower.settings import FederationSettings

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Without it Ray warns about graphics cards that nobody asked for.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
LOOPBACK = "127.0.0.1"
PATIENCE = 900.0
"""Seconds for a simulated round: the server asks before Ray has started, which can be slow."""

_BROKEN = {"late", "failed", "halted"}

_PROJECT = """\
[project]
name = "sottovoce-federation"
version = "1.0.0"
description = "Federated word marginals"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "sottovoce"

[tool.flwr.app.components]
serverapp = "sottovoce.personalize.flower.server_app:app"
clientapp = "sottovoce.personalize.flower.client_app:app"

[tool.flwr.app.config]
settings = {settings}
"""


def installed() -> bool:
    """Whether Flower and Ray, its simulator, are there; neither is loaded to find out."""
    return all(importlib.util.find_spec(name) is not None for name in ("flwr", "ray"))


def simulate(
    settings: FederationSettings,
    *,
    clients: int,
    cores_a_client: float = 1.0,
    on_round: Callable[[RoundReport], None] = lambda _: None,
) -> None:
    """Run all rounds with so many simulated nodes; results are in the output folder.

    It ends with an error, and publishes nothing, as soon as nobody joins a round: whatever keeps
    simulated nodes from answering will not go away.
    """
    _validate.at_least_one("clients", clients)
    os.environ.update(QUIET)
    with ready_for_ray() as place:
        _simulate(settings, clients, cores_a_client, on_round, place)


def _simulate(
    settings: FederationSettings,
    clients: int,
    cores_a_client: float,
    on_round: Callable[[RoundReport], None],
    place: Path,
) -> None:
    with warnings.catch_warnings():
        # Flower's command line, which comes along, uses a corner of click that is going to move.
        warnings.simplefilter("ignore", DeprecationWarning)
        from flwr.simulation import run_simulation

        from sottovoce.personalize.flower.client_app import client_app
        from sottovoce.personalize.flower.server_app import server_app

    # What a user can act on comes as an error; that a function will move one day does not.
    logging.getLogger("flwr").setLevel(logging.ERROR)
    patient = replace(settings, timeout=max(settings.timeout, PATIENCE))

    def watched(report: RoundReport) -> None:
        on_round(report)
        # Nobody sampled, or too few for a secure sum, is chance; nobody answering is not.
        if report.sampled and report.accepted == 0 and report.refused.keys() <= _BROKEN:
            check_released([report])

    run_simulation(
        server_app=server_app(patient, watched),
        client_app=client_app(),
        num_supernodes=clients,
        backend_config={
            "client_resources": {"num_cpus": cores_a_client, "num_gpus": 0.0},
            "init_args": {
                "include_dashboard": False,
                "log_to_driver": False,
                "logging_level": logging.ERROR,
                "_node_ip_address": LOOPBACK,
                "_temp_dir": str(place),
            },
        },
    )


def write_app(folder: Path | str, settings: FederationSettings) -> Path:
    """A folder that `flwr run FOLDER` understands, with its settings beside it."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = (folder / "settings.json").resolve()
    with text_output(path) as stream:
        stream.write(settings.to_text())
    with text_output(folder / "pyproject.toml") as stream:
        stream.write(_PROJECT.format(settings=json.dumps(str(path))))
    return folder
