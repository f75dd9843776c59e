"""A Flower deployment on this machine: one SuperLink, two SuperNodes, word counts with noise.

    python examples/flower_deployment.py

Each node reads the N-best lists of one user from a file and sends counts; the server adds noise and
publishes marginals with a ledger. A real deployment uses the same commands with other addresses,
and certificates instead of `--insecure`. Nothing leaves this machine. Extra: `flower`.
"""

import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from sottovoce.io.run import Run
from sottovoce.personalize import Counting, Hypothesis, NBest, ReleasePlan, Vocabulary, write_nbest
from sottovoce.personalize.flower.running import QUIET, write_app
from sottovoce.personalize.flower.settings import FederationSettings
from sottovoce.privacy.facts import Noise
from sottovoce.privacy.ledger import Ledger

HEARD = {"ann": ("call mum", "play jazz", "call mum now"), "bob": ("hang up", "call dad")}
BIN, SECONDS = Path(sys.executable).parent, 300


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(ready: Callable[[], bool], log: Path) -> None:
    until = time.monotonic() + SECONDS
    while not ready():
        if time.monotonic() > until:
            sys.exit(f"Timed out after {SECONDS} seconds:\n{log.read_text()[-2000:]}")
        time.sleep(0.2)


with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
    folder, port, log = Path(name), free_port(), Path(name, "log")
    address = f"127.0.0.1:{port}"
    public = Vocabulary.from_text(["call mum dad now", "hang up", "play jazz"], size=20)
    public.save(folder / "words.json")
    counting = Counting(sigma=0.1, nbest=1, max_words=5, integer=True)
    plan = ReleasePlan(counting=counting, noise=Noise.DISCRETE_LAPLACE)
    promised = plan.calibrated(epsilon=2.0, rounds=2).to_json()
    files = {"vocabulary": str(folder / "words.json"), "output": str(folder / "out")}
    settings = FederationSettings(**files, plan=promised, nodes=2, rounds=2, timeout=SECONDS)
    (folder / "config.toml").write_text(f'[superlink.lo]\naddress = "{address}"\ninsecure = true')
    path = os.pathsep.join([str(BIN), os.environ.get("PATH", "")])
    quiet = {**os.environ, **QUIET, "FLWR_HOME": str(folder), "PATH": path}

    out = stack.enter_context(log.open("ab"))

    def start(command: str) -> subprocess.Popen[bytes]:
        name, *words = shlex.split(command)
        process = subprocess.Popen(
            [str(BIN / name), *words], env=quiet, cwd=folder, stdout=out, stderr=out
        )
        return stack.enter_context(process)

    here = f"--host 127.0.0.1 --port {port} --disable-runtime-dependency-installation"
    stack.callback(start(f"flower-superlink --insecure {here}").terminate)
    wait_until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, log)
    for who, texts in HEARD.items():
        mine = [NBest(f"{who}{i}", (Hypothesis(text),)) for i, text in enumerate(texts)]
        write_nbest(folder / f"{who}.jsonl", mine)
        # The device keeps its own log, and never spends more than this.
        own = shlex.quote(f'nbest="{folder / who}.jsonl" epsilon=2.0')
        node = f"--port {free_port()} --node-config {own}"
        stack.callback(start(f"flower-supernode --insecure --superlink {address} {node}").terminate)
    app = shlex.quote(str(write_app(folder / "app", settings)))
    if start(f"flwr run {app} lo").wait():
        sys.exit(log.read_text()[-2000:])
    wait_until((folder / "out/run.json").exists, log)
    run = Run(folder / "out").read_run(private=True)
    for number, done in enumerate(run["metrics"]["rounds"], 1):
        print(f"round {number}: {done['accepted']} of {done['sampled']} nodes contributed")
    print(Ledger.from_json(run["ledger"]).guarantee(0.0))
