"""Runs the app: in simulation on one machine, or as a folder for `flwr run`.

Neither needs a network beyond the local machine. Telemetry of Flower and Ray is disabled.

Ray starts its workers by a shell command with the interpreter's path unquoted: in a folder such as
"My project (1)" no worker starts, every node times out, and no error is reported. So the
interpreter is run through a symlink without special characters. Ray keeps sockets in a temporary
folder, whose path must have no special characters either, and be short.
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

# Socket paths are limited to 107 bytes; Ray appends about 80 to the folder.
_MAX_PATH = 25
_TEMP_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")


@contextmanager
def ready_for_ray() -> Iterator[Path]:
    """A temporary folder for Ray; meanwhile `sys.executable` is a path that Ray can start."""
    with tempfile.TemporaryDirectory(prefix="sv-", dir=_place(), ignore_cleanup_errors=True) as own:
        real = Path(sys.executable)
        executable = str(real)
        if shlex.quote(executable) != executable:
            # Link the whole environment: Python finds its packages relative to its own path.
            link = Path(own, "env")
            link.symlink_to(real.parent.parent, target_is_directory=True)
            executable = str(link / real.parent.name / real.name)
        _check_starts(executable)
        sys.executable = executable
        try:
            yield Path(own)
        finally:
            sys.executable = str(real)


def _place() -> str:
    """A folder for temporary files whose path is short and needs no quoting."""
    for place in (tempfile.gettempdir(), *_TEMP_FOLDERS):
        if shlex.quote(place) == place and len(place) <= _MAX_PATH and Path(place).is_dir():
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
    """Start the interpreter the way Ray does, to fail early."""
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
    # Silences a Ray warning about GPUs.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
LOOPBACK = "127.0.0.1"
PATIENCE = 900.0
"""Timeout of a simulated round in seconds; it includes the start of Ray, which can be slow."""

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
    """Whether Flower and Ray are installed; neither is imported."""
    return all(importlib.util.find_spec(name) is not None for name in ("flwr", "ray"))


def simulate(
    settings: FederationSettings,
    *,
    clients: int,
    cores_a_client: float = 1.0,
    on_round: Callable[[RoundReport], None] = lambda _: None,
) -> None:
    """Run all rounds with `clients` simulated nodes; the results are in the output folder.

    Fails without publishing as soon as no node answers in a round: whatever prevents simulated
    nodes from answering will not go away.
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
        # Flower's command line uses a deprecated part of click.
        warnings.simplefilter("ignore", DeprecationWarning)
        from flwr.simulation import run_simulation

        from sottovoce.personalize.flower.client_app import client_app
        from sottovoce.personalize.flower.server_app import server_app

    # Users can act on errors, not on Flower's deprecation warnings.
    logging.getLogger("flwr").setLevel(logging.ERROR)
    patient = replace(settings, timeout=max(settings.timeout, PATIENCE))

    def watched(report: RoundReport) -> None:
        on_round(report)
        # An empty or too small sample is chance; no answers at all is a failure.
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
    """Write a folder for `flwr run FOLDER`, with its settings."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = (folder / "settings.json").resolve()
    with text_output(path) as stream:
        stream.write(settings.to_text())
    with text_output(folder / "pyproject.toml") as stream:
        stream.write(_PROJECT.format(settings=json.dumps(str(path))))
    return folder
