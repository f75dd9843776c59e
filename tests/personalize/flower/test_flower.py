"""The Flower app gives the numbers of the in-process runner, and survives bad nodes."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import warnings
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.errors import InvalidInput
from sottovoce.io.run import Run
from sottovoce.personalize.federated.counting import Counting
from sottovoce.personalize.federated.federation import clients_of, ledger_for, server_for
from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.rounds import run_rounds
from sottovoce.personalize.federated.server import NobodyJoined
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.formats import write_nbest
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.privacy.facts import Noise
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.noise import NoiseSource

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
with warnings.catch_warnings():
    # Flower's command line uses a deprecated part of click.
    warnings.simplefilter("ignore", DeprecationWarning)
    pytest.importorskip("flwr.app", reason="Flower is not installed (extra `flower`)")

from flwr.app import Array, ArrayRecord, Error, Message
from tests.personalize.flower.loop import LoopGrid, honest

from sottovoce.personalize.flower.running import QUIET, write_app
from sottovoce.personalize.flower.server_app import federate
from sottovoce.personalize.flower.settings import FederationSettings

WORDS = Vocabulary.from_text(["call mum dad", "hang up now"], size=9)
LISTS = [
    NBest(f"u{i}", (Hypothesis("call mum"), Hypothesis("hang dad")), client=f"c{i % 4}")
    for i in range(48)
]
PLAN = ReleasePlan(
    counting=Counting(sigma=1.0, integer=True), noise=Noise.DISCRETE_LAPLACE, scale=2.0
)


@pytest.fixture
def settings(tmp_path: Path) -> FederationSettings:
    write_nbest(tmp_path / "heard.jsonl", LISTS)
    WORDS.save(tmp_path / "vocabulary.json")
    return FederationSettings(
        vocabulary=str(tmp_path / "vocabulary.json"),
        nbest=str(tmp_path / "heard.jsonl"),
        output=str(tmp_path / "out"),
        plan=PLAN.to_json(),
        nodes=4,
        rounds=3,
        seed=5,
    )


@pytest.fixture(autouse=True)
def inside_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages need a run id; in an app Flower sets it."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(f"flwr.supercore.task_identity.TaskIdentity.{name}", 1)


def in_process(settings: FederationSettings) -> list[Any]:
    plan = settings.release_plan()
    server = server_for(
        WORDS, plan, ledger=ledger_for(plan), source=NoiseSource.seeded(settings.seed or 0)
    )
    clients = clients_of(LISTS, WORDS, plan, rounds=settings.rounds, key=settings.assignment())
    return list(run_rounds(clients, server, rounds=settings.rounds))


def test_the_numbers_of_the_in_process_runner(settings: FederationSettings) -> None:
    reports = federate(LoopGrid(4, honest), settings)  # type: ignore[arg-type]
    for ours, theirs in zip(in_process(settings), reports, strict=True):
        assert np.array_equal(ours.q_bar, theirs.q_bar)
        assert (ours.sampled, ours.accepted) == (theirs.sampled, theirs.accepted) == (4, 4)
    told = Marginals.load(Path(settings.output, "marginals.json"))
    assert np.array_equal(told.q_bar, reports[-1].q_bar)
    run = json.loads(Path(settings.output, "run.json").read_text())
    assert Ledger.from_json(run["ledger"]).guarantee(0.0).holds


def test_nodes_that_were_not_sampled_catch_up(settings: FederationSettings) -> None:
    # One node is sampled in the last round only, and sends its counts of all three.
    grid = LoopGrid(4, honest)
    sent: list[float] = []

    def watch(node: int, reply: Message) -> Message:
        record = reply.content["counts"]
        assert isinstance(record, ArrayRecord)
        sent.append(float(record["counts"].numpy().sum()))
        return reply

    grid.tamper = watch
    federate(grid, replace(settings, sampling_rate=0.5, seed=1))  # type: ignore[arg-type]
    whole = sum(PLAN.counting.weights(2)) * 2 * len(LISTS)
    assert 0 < sum(sent) <= whole


@pytest.mark.parametrize(
    ("reason", "values"),
    [
        ("wrong-length", [1.0, 2.0]),
        ("not-finite", [np.nan] * 7),
        ("negative", [-1.0] * 7),
        ("too-large", [1e15] * 7),
        ("not-whole", [0.5] * 7),
    ],
)
def test_garbage_is_refused_and_the_round_goes_on(
    settings: FederationSettings, reason: str, values: list[float]
) -> None:
    def tamper(node: int, reply: Message) -> Message:
        if node == 2:
            reply.content["counts"] = ArrayRecord({"counts": Array(np.array(values))})
        return reply

    assert len(WORDS) == 7
    reports = federate(LoopGrid(4, tamper), settings)  # type: ignore[arg-type]
    assert [report.refused for report in reports] == [{reason: 1}] * 3
    assert [report.accepted for report in reports] == [3] * 3


def test_silent_failing_and_empty_nodes(settings: FederationSettings) -> None:
    def tamper(node: int, reply: Message) -> Message | None:
        if node == 0:
            return None
        if node == 1:
            return Message(Error(code=1, reason="battery empty"), reply_to=grid.calls[1])
        if node == 2:
            del reply.content["counts"]
        return reply

    grid = LoopGrid(4, tamper)
    reports = federate(grid, settings)  # type: ignore[arg-type]
    assert reports[0].refused == {"late": 1, "failed": 1, "wrong-length": 1}
    assert reports[0].accepted == 1


def test_bad_settings(settings: FederationSettings) -> None:
    wrongs: list[dict[str, Any]] = [
        {"rounds": 0}, {"nodes": 0}, {"timeout": 0.0}, {"round_key": "00"}, {"sampling_rate": 0.0},
    ]  # fmt: skip
    for wrong in wrongs:
        with pytest.raises(InvalidInput, match="Expected"):
            replace(settings, **wrong)
    for text in ("{}", "[", '{"colour": 1}'):
        with pytest.raises(InvalidInput, match="settings of a federation"):
            FederationSettings.from_text(text)
    assert FederationSettings.from_text(settings.to_text()) == settings
    with pytest.raises(InvalidInput, match="Expected 4 nodes"):
        federate(LoopGrid(2, honest), replace(settings, timeout=0.01))  # type: ignore[arg-type]
    claimed = {**PLAN.to_json(), "sampling_rate": 0.5}
    with pytest.raises(InvalidInput, match="plan's sampling rate"):
        federate(LoopGrid(4, honest), replace(settings, plan=claimed))  # type: ignore[arg-type]


def test_a_secure_sum_is_the_plain_sum(settings: FederationSettings) -> None:
    plain = federate(LoopGrid(4, honest), settings)  # type: ignore[arg-type]
    sent: list[Message] = []

    def watch(_node: int, reply: Message) -> Message:
        sent.append(reply)
        return reply

    secure = replace(settings, secure=True, output=f"{settings.output} of sums")
    reports = federate(LoopGrid(4, watch), secure)  # type: ignore[arg-type]
    for one, other in zip(plain, reports, strict=True):
        assert np.array_equal(one.q_bar, other.q_bar)
        assert (other.accepted, other.refused) == (4, {})
    # Five stages per round (who is there, then four of SecAgg+), none with an unmasked array.
    assert len(sent) == 3 * 5 * 4
    assert not any(record for reply in sent for record in reply.content.array_records.values())
    run = json.loads(Path(secure.output, "run.json").read_text())
    told = Ledger.from_json(run["ledger"]).guarantee(0.0)
    assert told.holds
    for words in (
        "adds the noise to that sum",
        "follows the protocol",
        "32-bit seeds",
        "false counts",
    ):
        assert any(words in sentence for sentence in told.assumptions)


def test_a_node_that_leaves_a_secure_round(settings: FederationSettings) -> None:
    # Node 1 has contributed, but its masked counts never arrive.
    def tamper(node: int, reply: Message) -> Message | None:
        stage: Any = {} if reply.has_error() else reply.content.get("secaggplus_configs", {})
        masked = "masked_params" in stage
        return None if node == 1 and masked else reply

    secure = replace(settings, secure=True, noiseless=True)
    reports = federate(LoopGrid(4, tamper), secure)  # type: ignore[arg-type]
    assert [report.refused for report in reports] == [{"failed": 1}] * 3
    without = [each for each in LISTS if each.client != "c1"]
    plan = settings.release_plan()
    server = server_for(WORDS, None, ledger=ledger_for(plan))
    clients = clients_of(without, WORDS, plan, rounds=3, key=settings.assignment())
    alone = list(run_rounds(clients, server, rounds=3))
    # Rounds of the other three do not depend on who is absent.
    assert np.array_equal(alone[-1].q_bar, reports[-1].q_bar)


def test_secure_rounds_that_cannot_be_summed(settings: FederationSettings) -> None:
    def garbage(node: int, reply: Message) -> Message:
        record = reply.content.config_records.get("secaggplus_configs")
        if node == 2 and record is not None and "masked_params" in record:
            record["masked_params"] = [b"nonsense"]
        return reply

    def leaving(node: int, reply: Message) -> Message | None:
        return None if node and "secaggplus_configs" in reply.content else reply

    def silent(node: int, reply: Message) -> Message | None:
        return None if node else reply

    secure = replace(settings, secure=True)
    outcomes = ((garbage, "halted: 4"), (leaving, "halted: 4"), (silent, "dead: 3, too-few: 1"))
    for tamper, reasons in outcomes:
        with pytest.raises(NobodyJoined, match=rf"Round 3: .*{reasons}"):
            federate(LoopGrid(4, tamper), secure)  # type: ignore[arg-type]
    few = replace(secure, nodes=2)
    with pytest.raises(NobodyJoined, match="too-few: 2"):
        federate(LoopGrid(2, honest), few)  # type: ignore[arg-type]
    # A federation without contributions has nothing to publish.
    assert not Path(settings.output, "marginals.json").exists()
    with pytest.raises(InvalidInput, match="integer counting"):
        federate(LoopGrid(4, honest), replace(secure, plan=ReleasePlan().to_json()))  # type: ignore[arg-type]


def test_a_device_may_insist_on_masks_and_counts_a_round_once(settings: FederationSettings) -> None:
    grid = LoopGrid(4, honest)
    grid.contexts[3].node_config["secure"] = True
    reports = federate(grid, replace(settings, rounds=1))  # type: ignore[arg-type]
    assert reports[0].refused == {"failed": 1}
    again = replace(settings, rounds=1, output=f"{settings.output} again")
    with pytest.raises(NobodyJoined, match="failed: 4"):
        federate(grid, again)  # type: ignore[arg-type]
    # A count above the range is not clipped: nothing of that client is sent.
    small = replace(again, rounds=3, secure=True, plausible_mass=2.0, noiseless=True)
    with pytest.raises(NobodyJoined, match="halted: 4"):
        federate(LoopGrid(4, honest), small)  # type: ignore[arg-type]


def test_a_real_simulation_with_secure_aggregation(settings: FederationSettings) -> None:
    pytest.importorskip("ray", reason="Ray is not installed (extra `flower`)")
    script = (
        "import sys; from sottovoce.personalize.flower import running, settings\n"
        "given = settings.FederationSettings.load(sys.argv[1])\n"
        "running.simulate(given, clients=given.nodes)"
    )
    app = write_app(Path(settings.output), replace(settings, secure=True))
    done = subprocess.run(
        [sys.executable, "-c", script, str(app / "settings.json")],
        env={**os.environ, **QUIET}, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = Marginals.load(app / "marginals.json")
    # To the last bit: the sum is exact, and the noise is seeded.
    assert np.array_equal(told.q_bar, in_process(settings)[-1].q_bar)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def wait_for_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("Flower's SuperLink did not start within two minutes")


def hidden(folder: Path) -> list[str]:
    """A command prefix under which the folder is empty, or nothing where that is not allowed."""
    tool = shutil.which("unshare")
    hide = [tool or "", "--mount", "--map-root-user", "--", "sh", "-c"]
    script = 'mount -t tmpfs none "$0" && exec "$@"'
    tried = [*hide, script, str(folder), "true"]
    if tool is None or subprocess.run(tried, capture_output=True, check=False).returncode:
        return []
    return [*hide, script, str(folder)]


def test_five_devices_on_a_real_superlink(tmp_path: Path) -> None:
    # Every device has a home of its own, and nobody but the server sees the server's folder.
    tools = {
        name: shutil.which(name, path=str(Path(sys.executable).parent))
        for name in ("flower-superlink", "flower-supernode", "flwr")
    }
    if not all(tools.values()):
        pytest.skip("the commands of Flower are not beside this Python")
    place = tmp_path / "server"
    place.mkdir()
    WORDS.save(place / "vocabulary.json")
    plan = PLAN.calibrated(epsilon=1.0, rounds=1)
    settings = FederationSettings(
        vocabulary=str(place / "vocabulary.json"),
        output=str(place / "out"),
        plan=plan.to_json(),
        nodes=5,
        rounds=1,
        minimum_clients=5,
        timeout=240,
    )
    port, *node_ports = free_ports(6)
    environment = {
        **os.environ, **QUIET, "FLWR_HOME": str(place / "home"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }  # fmt: skip
    (place / "home").mkdir()
    (place / "home/config.toml").write_text(
        '[superlink]\ndefault = "lo"\n[superlink.lo]\n'
        f'address = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    app = write_app(place / "app", settings)
    prefix = hidden(place)
    with ExitStack() as stack:

        def start(*command: object, home: Path) -> "subprocess.Popen[bytes]":
            log = stack.enter_context((home / "log").open("ab"))
            process = subprocess.Popen(
                list(map(str, command)),
                env={**environment, "FLWR_HOME": str(home), "HOME": str(home)},
                stdout=log,
                stderr=log,
                cwd=home,
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process

        link = start(
            tools["flower-superlink"], "--insecure", "--disable-runtime-dependency-installation",
            "--host", "127.0.0.1", "--port", port, home=place / "home",
        )  # fmt: skip
        wait_for_port(port, link)
        for number, node_port in enumerate(node_ports):
            home = tmp_path / f"device {number}"
            home.mkdir()
            write_nbest(home / "mine.jsonl", LISTS[number::5])
            start(
                *prefix, tools["flower-supernode"], "--insecure", "--superlink",
                f"127.0.0.1:{port}", "--port", node_port,
                "--node-config", f'nbest="{home}/mine.jsonl" epsilon=1.0', home=home,
            )  # fmt: skip
        told = subprocess.run(
            [str(tools["flwr"]), "run", str(app), "lo"],
            env=environment, cwd=place, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert told.returncode == 0, told.stdout + told.stderr
        result = Path(settings.output, "run.json")
        until = time.monotonic() + 300  # a loaded machine starts its tasks late
        while not result.exists() and time.monotonic() < until:
            time.sleep(0.2)
        logs = [path.read_text()[-2000:] for path in tmp_path.glob("*/**/log") if path.is_file()]
        assert result.exists(), "\n".join(logs)
    assert "metrics" not in json.loads(result.read_text())
    rounds = Run(settings.output).private_part()["metrics"]["rounds"]
    assert rounds == [{"sampled": 5, "accepted": 5, "refused": {}, "released": True}]
    # Every device has its own encrypted log.
    assert len(list(tmp_path.glob("device */mine.jsonl.device"))) == 5
