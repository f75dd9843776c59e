"""Running the app: in simulation on one machine, or as a folder for `flwr run`.

Neither needs a network beyond the machine itself. Telemetry of Flower and of Ray is switched off.

Ray starts its workers by a shell command in which the path of the interpreter is not quoted: in a
folder such as "My project (1)" no worker ever starts, every node is late, and nobody is told why.
So the interpreter is lent a name without such letters. Ray keeps sockets in a temporary folder,
whose path has to be plain as well, and short.
"""

import importlib.util
import json
import logging
import os
import shlex
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.personalize.federated.rounds import RoundReport, check_released
from sottovoce.personalize.flower.settings import FederationSettings

# A socket's path has at most 107 bytes; Ray puts some 80 after the folder.
_LONGEST = 25
_PLACES = ("/tmp", "/var/tmp", "/dev/shm")


@contextmanager
def ready_for_ray() -> Iterator[Path]:
    """A temporary folder for Ray, while `sys.executable` is a path that Ray can start."""
    with tempfile.TemporaryDirectory(prefix="sv-", dir=_place(), ignore_cleanup_errors=True) as own:
        real = Path(sys.executable)
        lent = str(real)
        if shlex.quote(lent) != lent:
            # The whole environment is linked: Python looks for its packages beside its own name.
            link = Path(own, "env")
            link.symlink_to(real.parent.parent, target_is_directory=True)
            lent = str(link / real.parent.name / real.name)
        _check_starts(lent)
        sys.executable = lent
        try:
            yield Path(own)
        finally:
            sys.executable = str(real)


def _place() -> str:
    """A folder whose path is plain and short: that for temporary files, or another."""
    for place in (tempfile.gettempdir(), *_PLACES):
        if shlex.quote(place) == place and len(place) <= _LONGEST and Path(place).is_dir():
            try:
                with tempfile.TemporaryFile(dir=place):
                    return place
            except OSError:
                continue
    raise InvalidInput(
        f"Expected a writable folder for temporary files with a short path without spaces, got "
        f"{tempfile.gettempdir()}: set TMPDIR to one, or use --runner in-process."
    )


def _check_starts(interpreter: str) -> None:
    """Start the interpreter as Ray does, and refuse before anything else is started."""
    code = shlex.quote("import ray")
    done = subprocess.run(
        ["bash", "-c", f"exec {interpreter} -c {code}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise InvalidInput(
            f"Expected a Python at {sys.executable} that Ray can start, but: {why}. Use --runner "
            "in-process, or an environment in a folder without spaces."
        )


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
