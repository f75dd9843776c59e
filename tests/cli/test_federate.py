"""`sottovoce federate`: claimed beside guarantee, and files that say the same."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import RunCli

from sottovoce.cli import main
from sottovoce.io.run import Run
from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.formats import write_nbest
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.privacy.ledger import Ledger

WORDS = Vocabulary.from_text(["call mum dad", "hang up now", "call"], size=20)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    verbs = {**main.VERBS, "federate": "sottovoce.cli.federate:federate"}
    monkeypatch.setattr(main, "VERBS", verbs)


@pytest.fixture
def given(tmp_path: Path) -> list[object]:
    lists = [
        NBest(f"u{i}", (Hypothesis("call mum"), Hypothesis("call mom")), client=f"c{i % 40}")
        for i in range(400)
    ]
    write_nbest(tmp_path / "heard.jsonl", lists)
    WORDS.save(tmp_path / "vocabulary.json")
    out = tmp_path / "out"
    start = ["federate", tmp_path / "heard.jsonl", "--vocabulary", tmp_path, "-o", out]
    # Flower's own simulation takes half a minute to start.
    return [*start, "--runner", "in-process"]


def rounds_of(folder: Path) -> list[dict[str, Any]]:
    """The private record of each round."""
    rounds: list[dict[str, Any]] = Run(folder).private_part()["metrics"]["rounds"]
    return rounds


def test_help_has_an_example(run_cli: RunCli) -> None:
    result = run_cli("federate", "--help")
    assert result.exit_code == 0
    assert "sottovoce federate " in result.stdout.split("Example", 1)[1]


@pytest.mark.parametrize(
    "options",
    [
        ["--epsilon", "1"],
        ["--epsilon", "1", "--noise", "laplace", "--sampling-rate", "0.5"],
        ["--epsilon", "2", "--noise", "gaussian", "--delta", "1e-6"],
        ["--epsilon", "4", "--unit", "user", "--mass-cap", "20", "--word-cap", "5"],
    ],
)
def test_the_guarantee_is_what_was_asked_for(
    run_cli: RunCli, given: list[object], tmp_path: Path, options: list[str]
) -> None:
    result = run_cli(*given, *options, "--rounds", "3", "--json")
    assert result.exit_code == 0, result.stderr
    run = json.loads(result.stdout)
    assert run == json.loads((tmp_path / "out/run.json").read_text())
    epsilon = run["guarantee"]["epsilon"]
    assert 0.99 * float(options[1]) < epsilon <= float(options[1])
    assert run["claimed"]["epsilon"] < epsilon
    replayed = Ledger.from_json(run["ledger"]).guarantee(run["guarantee"]["delta"])
    assert replayed.epsilon == pytest.approx(epsilon)
    assert [report["refused"] for report in rounds_of(tmp_path / "out")] == [{}, {}, {}]


def test_much_data_and_little_noise_find_the_words(
    run_cli: RunCli, given: list[object], tmp_path: Path
) -> None:
    result = run_cli(*given, "--scale", "0.1", "--rounds", "2", "--seed", "1")
    assert result.exit_code == 0
    assert "seeded" in result.stdout
    told = Marginals.load(tmp_path / "out/marginals.json")
    q = dict(zip(told.words, told.q_bar, strict=True))
    assert q["call"] == pytest.approx(0.5, abs=0.02)
    assert q["mum"] == pytest.approx(0.31, abs=0.02)


def test_without_noise_there_is_no_guarantee(run_cli: RunCli, given: list[object]) -> None:
    result = run_cli(*given, "--noise", "none")
    assert result.exit_code == 0
    assert "No guarantee can be given" in result.stdout


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "exactly one of --epsilon and --scale"),
        (["--epsilon", "1", "--scale", "1"], "exactly one of --epsilon and --scale"),
        (["--epsilon", "1", "--noise", "none"], "--noise none"),
        (["--epsilon", "1", "--unit", "user"], "a mass cap"),
        (["--epsilon", "1", "--mass-cap", "3"], "no caps"),
        (["--epsilon", "1", "--noise", "gaussian"], "needs delta > 0"),
        (["--epsilon", "0"], "epsilon > 0"),
        (["--scale", "1", "--rounds", "0"], "rounds >= 1"),
        (["--scale", "1", "--sampling-rate", "0"], "sampling_rate in"),
    ],
)
def test_bad_options(run_cli: RunCli, given: list[object], options: list[str], reason: str) -> None:
    result = run_cli(*given, *options)
    assert result.exit_code == 2
    assert reason in result.stderr


def test_flower_gives_the_same_words(
    run_cli: RunCli, given: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with warnings.catch_warnings():
        # Flower's command line uses a deprecated part of click.
        warnings.simplefilter("ignore", DeprecationWarning)
        pytest.importorskip("flwr.app", reason="Flower is not installed (extra `flower`)")
    from tests.personalize.flower.loop import LoopGrid, honest

    from sottovoce.personalize.flower import running, server_app

    # Flower's own simulation takes half a minute to start; the loop runs the same two apps.
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(f"flwr.supercore.task_identity.TaskIdentity.{name}", 1)
    monkeypatch.setattr(
        running,
        "simulate",
        lambda settings, clients, on_round: server_app.federate(
            LoopGrid(clients, honest),  # type: ignore[arg-type]
            settings,
            on_round,
        ),
    )
    monkeypatch.setattr(running, "installed", lambda: True)
    result = run_cli(*given[:-2], "--scale", "0.1", "--rounds", "2", "--json")
    assert result.exit_code == 0, result.stderr
    assert "Starting Flower's simulation" in result.stderr
    run = json.loads(result.stdout)
    assert run["configuration"]["runner"] == "flower"
    # Private text does not stay next to the public output.
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert left == {"ledger.jsonl", "marginals.json", "run.json", "private"}
    assert {path.name for path in (tmp_path / "out/private").glob("[!.]*")} == {"lock", "run.json"}
    assert all(r["accepted"] == 40 and r["released"] for r in rounds_of(tmp_path / "out"))
    assert run["guarantee"]["verdict"] == "holds"
    told = Marginals.load(tmp_path / "out/marginals.json")
    assert dict(zip(told.words, told.q_bar, strict=True))["call"] == pytest.approx(0.5, abs=0.02)
    pairs = ["--pairs-of", tmp_path / "out", "--pair-words", "4", "-o", tmp_path / "pairs"]
    result = run_cli(*given[:-2], *pairs, "--scale", "0.1", "--rounds", "1", "--json")
    assert result.exit_code == 0, result.stderr
    both = json.loads(result.stdout)
    assert both["guarantee"]["epsilon"] == pytest.approx(2 * run["guarantee"]["epsilon"], rel=1e-3)
    told = Marginals.load(tmp_path / "pairs/marginals.json")
    assert dict(zip(told.words, told.q_bar, strict=True))["<s> call"] > 0.2


def test_in_process_where_flower_is_not(
    run_cli: RunCli, given: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sottovoce.personalize.flower import running

    monkeypatch.setattr(running, "installed", lambda: False)
    plain = run_cli(*given[:-2], "--scale", "1", "--rounds", "1", "--json")
    assert plain.exit_code == 0
    assert plain.stderr == (
        "Flower is not installed (extra `flower`): running in process.\n"
        "Round 1: 40 asked, 40 accepted, 0 refused.\n"
    )
    assert json.loads(plain.stdout)["configuration"]["runner"] == "in-process"
    for options, reason in (
        (["--runner", "flower"], "Flower to be installed"),
        (["--secure-aggregation"], "--runner flower with --secure-aggregation"),
    ):
        result = run_cli(*given[:-2], "--scale", "1", *options)
        assert result.exit_code == 2
        assert reason in result.stderr


def test_marginals_over_another_vocabulary(tmp_path: Path) -> None:
    told = Marginals(("a", "b", "<unk>"), np.array([0.6, 0.3, 0.1]))
    told.save(tmp_path / "m.json")
    back = Marginals.load(tmp_path / "m.json")
    assert np.array_equal(back.over(Vocabulary(told.words, np.full(3, 1 / 3))), told.q_bar)
    other = back.over(Vocabulary(("b", "a", "c", "<unk>"), np.full(4, 0.25)))
    assert other.sum() == pytest.approx(1)
    assert other[1] > other[0]
    for text in ("[]", "{}", '{"words": ["a"], "q_bar": [0.5], "about": {}}', "x"):
        (tmp_path / "m.json").write_text(text)
        with pytest.raises(ValueError, match="Expected"):
            Marginals.load(tmp_path / "m.json")


@pytest.fixture
def pairs(given: list[object], tmp_path: Path) -> list[object]:
    """The same lists, after a release of words in `out`."""
    of = [tmp_path / "pairs" if each == tmp_path / "out" else each for each in given]
    return [*of, "--pairs-of", tmp_path / "out", "--pair-words", "4"]


def test_pairs_add_to_what_words_have_cost(
    run_cli: RunCli, given: list[object], pairs: list[object], tmp_path: Path
) -> None:
    words = json.loads(run_cli(*given, "--epsilon", "1", "--rounds", "2", "--json").stdout)
    result = run_cli(*pairs, "--epsilon", "2", "--rounds", "2", "--json")
    assert result.exit_code == 0, result.stderr
    run = json.loads(result.stdout)
    assert run["guarantee"]["epsilon"] == pytest.approx(3, rel=1e-3)
    assert len(run["ledger"]["records"]) > len(words["ledger"]["records"])
    assert run["claimed"]["epsilon"] > words["claimed"]["epsilon"]
    told = Marginals.load(tmp_path / "pairs/marginals.json")
    q = dict(zip(told.words, told.q_bar, strict=True))
    assert "<s> call" in q
    assert q["<s> call"] > 0.2
    assert q["<s> mum"] == 0  # nobody says it, so it is not believed
    assert told.about["guarantee"] == run["guarantee"]


def test_pairs_of_words_without_a_guarantee_have_none(
    run_cli: RunCli, given: list[object], pairs: list[object]
) -> None:
    assert run_cli(*given, "--noise", "none").exit_code == 0
    result = run_cli(*pairs, "--epsilon", "1", "--rounds", "1")
    assert result.exit_code == 0
    assert "No guarantee" in result.stdout.replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--epsilon", "1", "--pair-words", "99"], "words to make pairs of"),
        (["--epsilon", "1", "--unit", "user", "--mass-cap", "5"], "to protect one user"),
        (["--epsilon", "1", "--release", "cumulative"], "increments where pairs"),
        (["--epsilon", "1", "--pairs-of", "nowhere"], "a run of federate in nowhere"),
    ],
)
def test_bad_options_of_pairs(
    run_cli: RunCli,
    given: list[object],
    pairs: list[object],
    options: list[str],
    reason: str,
) -> None:
    assert run_cli(*given, "--scale", "1", "--rounds", "1").exit_code == 0
    result = run_cli(*pairs, *options)
    assert result.exit_code == 2
    assert reason in result.stderr
    same = run_cli(*given, "--scale", "1", "--pairs-of", pairs[pairs.index("--pairs-of") + 1])
    assert same.exit_code == 2
    assert "another folder" in same.stderr


def test_pairs_of_pairs_are_refused(
    run_cli: RunCli, given: list[object], pairs: list[object], tmp_path: Path
) -> None:
    assert run_cli(*given, "--scale", "1", "--rounds", "1").exit_code == 0
    assert run_cli(*pairs, "--scale", "1", "--rounds", "1").exit_code == 0
    again = [tmp_path / "again" if each == tmp_path / "pairs" else each for each in pairs]
    result = run_cli(*again, "--pairs-of", tmp_path / "pairs", "--scale", "1", "--rounds", "1")
    assert result.exit_code == 2
    assert "got one of pairs" in result.stderr
    assert not (tmp_path / "again").exists()


def test_too_few_clients_publish_nothing_and_fail(
    run_cli: RunCli, given: list[object], tmp_path: Path
) -> None:
    few = [NBest(f"u{i}", (Hypothesis("call mum"),), client=f"c{i % 4}") for i in range(40)]
    write_nbest(tmp_path / "heard.jsonl", few)
    result = run_cli(*given, "--epsilon", "1", "--rounds", "2")
    assert result.exit_code == 2
    assert "Round 1: 4 asked, 4 accepted, 0 refused; nothing was released." in result.stderr
    assert "nothing was released or published" in result.stderr
    assert not (tmp_path / "out/marginals.json").exists()
    # The stated minimum decides; the folder can be used again.
    assert run_cli(*given, "--epsilon", "1", "--min-clients", "4").exit_code == 0


def test_refusals_are_shown_by_reason(run_cli: RunCli, given: list[object], tmp_path: Path) -> None:
    lists = [NBest(f"u{i}", (Hypothesis("call mum"),), client=f"c{i % 40}") for i in range(80)]
    lists += [NBest(f"x{i}", (Hypothesis("hang up"),), client="greedy") for i in range(30)]
    write_nbest(tmp_path / "heard.jsonl", lists)
    options = ["--scale", "1", "--rounds", "1", "--plausible-mass", "50"]
    result = run_cli(*given, *options)
    assert result.exit_code == 0
    assert "Round 1: 41 asked, 40 accepted, 1 refused (too-large: 1)." in result.stderr
