"""Real devices behind Flower nodes: own lists, logs and budgets, and no file of the server."""

import os
import sys
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
with warnings.catch_warnings():
    # Flower's command line uses a deprecated part of click.
    warnings.simplefilter("ignore", DeprecationWarning)
    pytest.importorskip("flwr.app", reason="Flower is not installed (extra `flower`)")

from flwr.app import Message
from tests.personalize.flower.loop import LoopGrid, honest

from sottovoce.personalize.federated.counting import Caps, Counting
from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.rounds import RoundReport
from sottovoce.personalize.federated.server import NobodyJoined
from sottovoce.personalize.flower import device, running
from sottovoce.personalize.flower.server_app import federate
from sottovoce.personalize.flower.settings import FederationSettings
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.formats import write_nbest
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.privacy.facts import Noise
from sottovoce.privacy.guarantee import Unit
from sottovoce.privacy.ledger import Ledger

WORDS = Vocabulary.from_text(["call mum dad", "hang up now"], size=9)
COUNTING = Counting(sigma=1.0, integer=True, max_words=5)
PLAN = ReleasePlan(counting=COUNTING, noise=Noise.DISCRETE_LAPLACE).calibrated(
    epsilon=1.0, rounds=3
)
NODES = 5


@pytest.fixture(autouse=True)
def inside_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(f"flwr.supercore.task_identity.TaskIdentity.{name}", 1)


def heard(first: int, last: int) -> list[NBest]:
    return [NBest(f"u{i}", (Hypothesis("call mum"),)) for i in range(first, last)]


@pytest.fixture
def settings(tmp_path: Path) -> FederationSettings:
    (tmp_path / "server").mkdir()
    WORDS.save(tmp_path / "server/vocabulary.json")
    return FederationSettings(
        vocabulary=str(tmp_path / "server/vocabulary.json"),
        output=str(tmp_path / "server/out"),
        plan=PLAN.to_json(),
        rounds=2,
        nodes=NODES,
        minimum_clients=NODES - 1,
    )


class Devices(LoopGrid):
    """Nodes with lists of their own; notes what they send."""

    def __init__(self, folder: Path, epsilon: float | None = 1.0, **config: Any) -> None:
        super().__init__(NODES, honest)
        self.sent: list[float] = []
        self.messages: list[str] = []
        self.tamper = self.note
        self.dead: set[int] = set()
        self.lists = []
        for node, context in self.contexts.items():
            home = folder / f"home {node}"
            home.mkdir(exist_ok=True)
            path = home / "mine.jsonl"
            if not path.exists():
                write_nbest(path, heard(0, 3))
            self.lists.append(path)
            context.node_config.clear()
            context.node_config.update(nbest=str(path), **config)
            if epsilon is not None:
                context.node_config["epsilon"] = epsilon

    def get_node_ids(self) -> Iterable[int]:
        return [node for node in self.contexts if node not in self.dead]

    def note(self, node: int, reply: Message) -> Message | None:
        self.messages.append(repr(self.calls[node].content))
        if not reply.has_error() and "counts" in reply.content:
            self.sent.append(float(reply.content["counts"]["counts"].numpy().sum()) / 64)  # type: ignore[union-attr]
        return reply


def run(grid: Any, settings: FederationSettings) -> list[RoundReport]:
    return federate(grid, settings)


def test_devices_see_no_file_of_the_server(settings: FederationSettings, tmp_path: Path) -> None:
    grid = Devices(tmp_path)
    listed = grid.get_node_ids

    def hidden() -> Iterable[int]:
        # From here on the server's vocabulary is out of reach.
        Path(settings.vocabulary).unlink(missing_ok=True)
        return listed()

    grid.get_node_ids = hidden  # type: ignore[method-assign]
    reports = run(grid, settings)
    assert [report.accepted for report in reports] == [NODES, 0]
    assert reports[1].refused == {"declined": NODES}  # nothing new
    assert not any(str(tmp_path / "server") in message for message in grid.messages)
    # What was released is on the devices.
    config = grid.contexts[0].node_config
    loaded = device._load(config, device._state(config))
    told = Marginals.load(Path(settings.output, "marginals.json"))
    assert loaded._received.words is not None
    assert np.allclose(loaded._received.words, told.q_bar)


def test_every_utterance_is_sent_once_over_runs_and_servers(
    settings: FederationSettings, tmp_path: Path
) -> None:
    first = Devices(tmp_path)
    run(first, settings)
    assert sum(first.sent) == NODES * 3 * 2  # words
    again = Devices(tmp_path)
    other = replace(settings, output=f"{settings.output} 2", server="another")
    with pytest.raises(NobodyJoined, match=f"declined: {NODES}"):
        run(again, other)
    assert not again.sent
    # Tomorrow's utterances go on, with the ledger of yesterday.
    for path in again.lists:
        write_nbest(path, heard(0, 5))
    ledger = str(Path(settings.output, "ledger.jsonl"))
    run(again, replace(other, ledger=ledger))
    assert sum(again.sent) == NODES * 2 * 2
    assert Ledger.read(ledger).guarantee(0.0).epsilon == pytest.approx(2.0, rel=1e-3)


def test_without_its_log_a_device_would_send_again(
    settings: FederationSettings, tmp_path: Path
) -> None:
    run(Devices(tmp_path), settings)
    for path in tmp_path.glob("home */mine.jsonl.*"):
        path.unlink()
    again = Devices(tmp_path)
    run(again, replace(settings, output=f"{settings.output} 2"))
    assert sum(again.sent) == NODES * 3 * 2


def test_lifetime_caps_last_longer_than_a_run(settings: FederationSettings, tmp_path: Path) -> None:
    plan = ReleasePlan(
        counting=COUNTING, noise=Noise.DISCRETE_LAPLACE, unit=Unit.USER, caps=Caps(4.0, 2.0)
    ).calibrated(epsilon=1.0, rounds=2)
    first, second = Devices(tmp_path), Devices(tmp_path)
    run(first, replace(settings, plan=plan.to_json()))
    assert sum(first.sent) == NODES * 4
    for path in second.lists:
        write_nbest(path, heard(0, 9))
    with pytest.raises(NobodyJoined, match="declined"):
        run(second, replace(settings, plan=plan.to_json(), output=f"{settings.output} 2"))
    assert not second.sent


@pytest.mark.parametrize("epsilon", [None, 0.5])
def test_the_owner_decides(
    settings: FederationSettings, tmp_path: Path, epsilon: float | None
) -> None:
    grid = Devices(tmp_path, epsilon)
    with pytest.raises(NobodyJoined, match="declined: 5"):
        run(grid, settings)
    assert not grid.sent
    assert not Path(settings.output, "marginals.json").exists()


def test_a_killed_server_loses_nothing_and_pays_once(
    settings: FederationSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sottovoce.personalize.federated.server import Server

    grid = Devices(tmp_path)
    with monkeypatch.context() as patch:
        # All devices have answered and logged it, and the server dies.
        patch.setattr(Server, "finish_round", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(grid, settings)
    lost = sum(grid.sent)
    grid.sent.clear()
    assert lost == NODES * 3 * 2
    reports = run(grid, settings)
    # The same round gets the same answers.
    assert sum(grid.sent) == lost
    assert reports[0].accepted == NODES
    ledger = Ledger.read(Path(settings.output, "ledger.jsonl"))
    assert ledger.guarantee(0.0).epsilon == pytest.approx(1.0, rel=1e-3)
    assert sum(entry.count for entry in ledger.entries) == 1


@pytest.mark.parametrize("listed", [True, False], ids=["still listed", "no longer listed"])
def test_a_dead_node_does_not_halt_secure_aggregation(
    settings: FederationSettings, tmp_path: Path, listed: bool
) -> None:
    grid = Devices(tmp_path)
    write_nbest(grid.lists[0], heard(0, 40))

    def tamper(node: int, reply: Message) -> Message | None:
        return None if node == 2 and dead else reply

    dead = True
    grid.tamper = tamper
    if not listed:
        grid.dead.add(2)
    secure = replace(settings, secure=True, nodes=NODES - 1, rounds=1)
    report = run(grid, secure)[0]
    assert report.accepted == NODES - 1
    assert report.refused == ({"dead": 1} if listed else {})


def test_nodes_are_listed_for_every_round(settings: FederationSettings, tmp_path: Path) -> None:
    grid = Devices(tmp_path)
    grid.dead = {4}
    asked = []

    def on_round(report: RoundReport) -> None:
        asked.append(report.sampled)
        grid.dead = {1, 2}

    federate(grid, replace(settings, nodes=4), on_round)  # type: ignore[arg-type]
    assert asked == [4, 3]


def test_a_node_without_lists_says_what_it_needs(
    settings: FederationSettings, tmp_path: Path
) -> None:
    grid = Devices(tmp_path)
    for context in grid.contexts.values():
        context.node_config.pop("nbest")
    with pytest.raises(NobodyJoined, match="failed: 5"):
        run(grid, settings)


def test_an_interpreter_in_a_folder_with_a_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path(sys.executable)
    (tmp_path / "my env").symlink_to(real.parent.parent, target_is_directory=True)
    inside = tmp_path / "my env" / real.parent.name / real.name
    monkeypatch.setattr(sys, "executable", str(inside))
    tried: list[str] = []
    monkeypatch.setattr(running, "_check_starts", tried.append)
    with running.ready_for_ray() as place:
        assert " " not in sys.executable + str(place)
        assert Path(sys.executable).samefile(real)
    assert len(tried) == 1
    assert sys.executable == str(inside)
