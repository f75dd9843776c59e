"""`sottovoce rescore`: personal words come back, weights are tuned elsewhere and saved."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import RunCli

from sottovoce.cli import main
from sottovoce.io.run import Run
from sottovoce.personalize.federated.counting import Counting
from sottovoce.personalize.federated.federation import ledger_for
from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.release import CountRelease
from sottovoce.personalize.lm.language_model import save_ngram
from sottovoce.personalize.lm.ngram.files import write_arpa
from sottovoce.personalize.lm.ngram.training import train_ngram
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.formats import write_nbest
from sottovoce.personalize.nbest.lists import Hypothesis, NBest

NAMES = ["mum", "mom", "dan", "ann", "eve", "bob"]
TEXT = [f"{verb} {name}" for verb in ("call", "ring") for name in NAMES] * 3


def said(client: int, turn: int) -> NBest:
    """Every client calls one person; sometimes the recogniser outputs another name."""
    mine, other = NAMES[client % 6], NAMES[(client + 1) % 6]
    heard = [other, mine] if turn % 3 == 2 else [mine, other]
    rows = tuple(
        Hypothesis(f"call {name}", am=-1.0 - 0.05 * rank) for rank, name in enumerate(heard)
    )
    return NBest(f"{client}-{turn}", rows, f"call {mine}", f"c{client}", turn)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    verbs = {**main.VERBS, "rescore": "sottovoce.cli.rescore:rescore_verb"}
    monkeypatch.setattr(main, "VERBS", verbs)


@pytest.fixture
def given(tmp_path: Path) -> list[object]:
    lists = [said(client, turn) for client in range(20) for turn in range(9)]
    write_nbest(tmp_path / "heard.jsonl", lists)
    save_ngram(tmp_path / "lm", train_ngram(TEXT, Vocabulary.from_text(TEXT, 20), 2))
    return ["rescore", tmp_path / "heard.jsonl", "--lm", tmp_path / "lm"]


def test_help_has_an_example(run_cli: RunCli) -> None:
    result = run_cli("rescore", "--help")
    assert result.exit_code == 0
    assert "sottovoce rescore " in result.stdout.split("Example", 1)[1]


def test_two_models_are_mixed(run_cli: RunCli, given: list[object], tmp_path: Path) -> None:
    other = ["ring ann", "call zoe"]
    save_ngram(tmp_path / "other", train_ngram(other, Vocabulary.from_text(other, 9), 1))
    result = run_cli(*given, "--lm", tmp_path / "other", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["adapted"]["wer"] < found["first_pass"]["wer"] / 3


def paid(epsilon: float, after: dict[str, Any] | None = None) -> dict[str, Any]:
    """The `about` of marginals: the ledger of a release, possibly after an earlier one."""
    plan = ReleasePlan(counting=Counting(order=1 if after is None else 2))
    ledger = ledger_for(plan, after["ledger"] if after else None)
    release = CountRelease(plan.calibrated(epsilon=epsilon, rounds=1), ledger)
    release(np.zeros(3))
    claimed = release.plan.claim().to_json()
    return {"ledger": ledger.to_json(), "delta": 0.0, "claimed": claimed}


def test_pairs_are_mixed_in_and_their_guarantee_is_kept(
    run_cli: RunCli, given: list[object], tmp_path: Path
) -> None:
    words = Marginals(("call", "<unk>"), np.array([0.9, 0.1]), paid(1.0))
    words.save(tmp_path / "words.json")
    about = {**paid(1.0, words.about), "words_from": words.digest}
    shares = np.array([0.5, 0.4, 0.1])
    Marginals(("<s> call", "call mum", "<unk>"), shares, about).save(tmp_path / "pairs.json")
    options = ["--marginals", tmp_path / "words.json", "--pairs", tmp_path / "pairs.json"]
    result = run_cli(*given, *options, "-o", tmp_path / "run", "--json")
    assert result.exit_code == 0, result.stderr
    run = Run(tmp_path / "run").read_run(private=True)
    # Shared entries are not counted twice.
    assert run["guarantee"]["epsilon"] == pytest.approx(2.0, rel=1e-3)
    without = json.loads(run_cli(*given, *options[:2], "--json").stdout)
    assert run["tuned"] != without["tuned"]
    assert run["metrics"]["background"] == without["background"]


def test_pairs_that_are_not_used_still_cost_what_they_cost(
    run_cli: RunCli, given: list[object], tmp_path: Path
) -> None:
    words = Marginals(("call", "<unk>"), np.array([0.9, 0.1]), paid(1.0))
    words.save(tmp_path / "words.json")
    about = {**paid(2.0, words.about), "words_from": words.digest}
    Marginals(("call mum", "<unk>"), np.array([0.0, 1.0]), about).save(tmp_path / "pairs.json")
    options = ["--marginals", tmp_path / "words.json", "--pairs", tmp_path / "pairs.json"]
    result = run_cli(*given, *options, "-o", tmp_path / "run")
    assert result.exit_code == 0, result.stderr
    run = json.loads((tmp_path / "run/run.json").read_text())
    assert run["guarantee"]["epsilon"] == pytest.approx(3.0, rel=1e-3)


def test_pairs_whose_ledger_forgot_the_words_are_added_to_them(
    run_cli: RunCli, given: list[object], tmp_path: Path
) -> None:
    words = Marginals(("call", "<unk>"), np.array([0.9, 0.1]), paid(1.0))
    words.save(tmp_path / "words.json")
    about = {**paid(2.0), "words_from": words.digest}
    Marginals(("call mum", "<unk>"), np.array([0.5, 0.5]), about).save(tmp_path / "pairs.json")
    options = ["--marginals", tmp_path / "words.json", "--pairs", tmp_path / "pairs.json"]
    assert run_cli(*given, *options, "-o", tmp_path / "run").exit_code == 0
    run = json.loads((tmp_path / "run/run.json").read_text())
    assert run["guarantee"]["epsilon"] == pytest.approx(3.0, rel=1e-3)


def test_marginals_without_a_ledger_are_used_and_said_to_be_unprotected(
    run_cli: RunCli, given: list[object], tmp_path: Path
) -> None:
    stated = {"guarantee": {"epsilon": 1.0, "verdict": "holds"}}
    Marginals(("call", "<unk>"), np.array([0.9, 0.1]), stated).save(tmp_path / "words.json")
    result = run_cli(*given, "--marginals", tmp_path / "words.json", "-o", tmp_path / "run")
    assert result.exit_code == 0
    assert "No guarantee can be given" in result.stderr
    assert "without the ledger" in result.stderr
    run = json.loads((tmp_path / "run/run.json").read_text())
    assert run["guarantee"]["verdict"] == "no-guarantee"
    # The public part has neither texts nor error rates.
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"run.json", "private"}
    assert "metrics" not in run
    assert "test" not in run["data"]


def test_pairs_of_other_marginals_are_refused(
    run_cli: RunCli, given: list[object], tmp_path: Path
) -> None:
    Marginals(("call", "<unk>"), np.array([0.9, 0.1])).save(tmp_path / "words.json")
    about = {"words_from": "others"}
    Marginals(("a b", "<unk>"), np.array([0.5, 0.5]), about).save(tmp_path / "pairs.json")
    options = ["--marginals", tmp_path / "words.json", "--pairs", tmp_path / "pairs.json"]
    result = run_cli(*given, *options)
    assert result.exit_code == 2
    assert "were made of" in result.stderr


@pytest.mark.parametrize("options", [["--paper"], ["--unnormalised"], ["--clip", "3"]])
def test_personal_words_are_recovered(
    run_cli: RunCli, given: list[object], tmp_path: Path, options: list[str]
) -> None:
    saved, chosen = tmp_path / "weights.json", tmp_path / "chosen.jsonl"
    result = run_cli(*given, *options, "--save-weights", saved, "-o", chosen, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["first_pass"]["wer"] > 10
    assert found["adapted"]["wer"] == found["oracle"]["wer"] == 0
    assert found["background"]["wer"] > 5
    assert found["change_from_background"]["relative"] == -100
    # The default is more careful: it waits until the history of a client has proved itself.
    careful = json.loads(run_cli(*given, "--json").stdout)
    assert careful["background"]["wer"] > 5
    assert careful["change_from_background"]["relative"] < -30
    assert found["rare_words"]["adapted_errors"] == 0
    rows = [json.loads(line) for line in chosen.read_text().splitlines()]
    assert len(rows) == found["utterances"]
    # Tuning clients are not evaluated; with saved weights all clients are.
    assert found["clients"] < 20
    again = json.loads(run_cli(*given, *options, "--weights", saved, "--json").stdout)
    assert again["clients"] == 20
    assert again["tuned"] == found["tuned"]


def test_a_folder_that_the_report_can_read(
    run_cli: RunCli, given: list[object], tmp_path: Path
) -> None:
    from sottovoce.personalize.federated.marginals import Marginals

    words = Vocabulary.from_text(TEXT, 20)
    about = paid(1.0)
    Marginals(words.words, words.unigram, about).save(tmp_path / "m.json")
    options = ["--marginals", tmp_path / "m.json", "--trust", "2", "-o"]
    printed = json.loads(run_cli(*given, *options, tmp_path / "out", "--json").stdout)
    run = Run(tmp_path / "out").read_run(private=True)
    assert run["verb"] == "rescore"
    for name in ("first_pass", "background", "adapted", "rare_words", "other_words"):
        assert run["metrics"][name] == printed[name]
    assert run["guarantee"]["epsilon"] == pytest.approx(1.0, rel=1e-3)
    assert run["claimed"] == about["claimed"]
    assert run["configuration"]["trust"] == 2
    assert run["data"] == {"name": "heard.jsonl", "test": printed["utterances"]}
    texts = (tmp_path / "out/private/chosen.jsonl").read_text().splitlines()
    assert len(texts) == printed["utterances"]
    run_cli(*given, "-o", tmp_path / "alone.jsonl")
    assert json.loads((tmp_path / "alone.jsonl.run.json").read_text())["guarantee"] is None


def test_models_of_others(run_cli: RunCli, given: list[object], tmp_path: Path) -> None:
    pytest.importorskip("kenlm", reason="KenLM is not installed (extra `kenlm`)")
    words = Vocabulary.from_text(TEXT, 20)
    write_arpa(tmp_path / "model.arpa", train_ngram(TEXT, words, 2))
    words.save(tmp_path / "vocabulary.json")
    options = ["--lm", tmp_path / "model.arpa", "--kenlm", "--vocabulary", tmp_path, "--json"]
    result = run_cli(*given[:2], *options)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["adapted"]["wer"] == 0
    wrong = run_cli(*given, "--vocabulary", tmp_path)
    assert wrong.exit_code == 2
    assert "has its own" in wrong.stderr


def test_the_printed_report(run_cli: RunCli, given: list[object]) -> None:
    result = run_cli(*given)
    assert result.exit_code == 0
    for words in ("first pass", "background", "adapted", "oracle", "Rare words", "-33.3 %"):
        assert words in result.stdout


def test_marginals_join_in(run_cli: RunCli, given: list[object], tmp_path: Path) -> None:
    from sottovoce.personalize.federated.marginals import Marginals

    words = Vocabulary.from_text(TEXT, 20)
    Marginals(words.words, words.unigram).save(tmp_path / "m.json")
    result = run_cli(*given, "--marginals", tmp_path / "m.json", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["adapted"]["wer"] < 12


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--dev-share", "0"], "Expected dev_share in"),
        (["--dev-share", "1"], "on both sides"),
        (["--alpha", "0.9", "--beta", "0.9"], "alpha + beta"),
        (["--trust", "0"], "trust > 0"),
        (["--weights", "{bad}"], "tuned weights"),
        (["--marginals", "{bad}"], "Expected marginals"),
    ],
)
def test_bad_options(
    run_cli: RunCli, given: list[object], tmp_path: Path, options: list[str], reason: str
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    result = run_cli(*given, *(option.format(bad=bad) for option in options))
    assert result.exit_code == 2
    assert reason in result.stderr


@pytest.fixture
def bare(given: list[object], tmp_path: Path) -> list[object]:
    """The same lists without clients and references, which are in files of their own."""
    lists = [said(client, turn) for client in range(20) for turn in range(9)]
    write_nbest(
        tmp_path / "bare.jsonl",
        [NBest(each.id, each.hypotheses, order=each.order) for each in lists],
    )
    for name, values in (
        ("text", {each.id: each.reference for each in lists}),
        ("utt2spk", {each.id: each.client for each in lists}),
    ):
        lines = [f"{key} {value}\n" for key, value in values.items()]
        (tmp_path / name).write_text("".join(lines))
    return ["rescore", tmp_path / "bare.jsonl", *given[2:]]


def test_lists_without_references_are_rescored_with_given_weights(
    run_cli: RunCli, given: list[object], bare: list[object], tmp_path: Path
) -> None:
    saved, clients = tmp_path / "w.json", ["--utt2spk", tmp_path / "utt2spk"]
    assert run_cli(*given, "--save-weights", saved).exit_code == 0
    refused = run_cli(*bare, *clients)
    assert refused.exit_code == 2
    assert "--weights FILE" in refused.stderr
    result = run_cli(*bare, *clients, "--weights", saved)
    assert result.exit_code == 0, result.stderr
    texts = {row["id"]: row["text"] for row in map(json.loads, result.stdout.splitlines())}
    assert len(texts) == 180
    # The first pass is wrong here, and the history of the client is right.
    assert texts["3-8"] == said(3, 8).reference != said(3, 8).best.text
    for output, place in (("o.jsonl", "o.jsonl"), ("o", "o/private/chosen.jsonl")):
        again = run_cli(*bare, *clients, "--weights", saved, "-o", tmp_path / output)
        assert again.exit_code == 0, again.stderr
        rows = map(json.loads, (tmp_path / place).read_text().splitlines())
        assert {row["id"]: row["text"] for row in rows} == texts


def test_clients_and_references_from_other_files(
    run_cli: RunCli, given: list[object], bare: list[object], tmp_path: Path
) -> None:
    whole = json.loads(run_cli(*given, "--json").stdout)
    for clients, references in (("--clients", "--references"), ("--utt2spk", "--text")):
        files = [clients, tmp_path / "utt2spk", references, tmp_path / "text"]
        result = run_cli(*bare, *files, "--json")
        assert result.exit_code == 0, result.stderr
        assert not result.stderr
        assert json.loads(result.stdout)["adapted"] == whole["adapted"]
    # A column of the records names the clients as well.
    rows = [json.loads(line) for line in (tmp_path / "heard.jsonl").read_text().splitlines()]
    for number, row in enumerate(rows):
        row["speaker"] = number // 9
        del row["client"]
    (tmp_path / "column.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    start = ["rescore", tmp_path / "column.jsonl", *given[2:], "--json"]
    named = run_cli(*start, "--clients", "speaker")
    assert json.loads(named.stdout)["clients"] == 14
    unnamed = run_cli(*start)
    assert "180 of 180 lists have no client" in unnamed.stderr
    wrongs: list[tuple[list[object], str]] = [
        (["--clients", "colour"], "the column colour"),
        (["--utt2spk", "nowhere"], "no such file"),
        (["--clients", tmp_path / "utt2spk", "--utt2spk", tmp_path / "utt2spk"], "got both"),
        (["--references", tmp_path / "utt2spk", "--text", tmp_path / "text"], "got both"),
    ]
    for options, reason in wrongs:
        result = run_cli(*start, *options)
        assert result.exit_code == 2
        assert reason in result.stderr


def test_every_format_leads_to_a_result(
    run_cli: RunCli, given: list[object], bare: list[object], tmp_path: Path
) -> None:
    lists = [said(client, turn) for client in range(20) for turn in range(9)]
    scored = [
        NBest(each.id, tuple(Hypothesis(h.text, h.am, 0.0, h.am) for h in each.hypotheses))
        for each in lists
    ]
    whole = json.loads(run_cli(*given, "--json").stdout)
    attached = ["--utt2spk", tmp_path / "utt2spk", "--text", tmp_path / "text", "--json"]
    for format in ("kaldi", "espnet", "flashlight", "srilm"):
        write_nbest(tmp_path / format, scored, format)
        result = run_cli(*bare[:1], tmp_path / format, *bare[2:], "--from", format, *attached)
        assert result.exit_code == 0, (format, result.stderr)
        assert json.loads(result.stdout)["adapted"]["wer"] == whole["adapted"]["wer"]
    # NeMo has no ids: its utterances are numbered, and its manifest has the references.
    write_nbest(tmp_path / "beams.tsv", scored, "nemo")
    (tmp_path / "manifest.json").write_text(
        "".join(json.dumps({"text": each.reference}) + "\n" for each in lists)
    )
    (tmp_path / "numbered").write_text(
        "".join(f"utterance-{place} {each.client}\n" for place, each in enumerate(lists, 1))
    )
    nemo: list[object] = ["--from", "nemo", "--utt2spk", tmp_path / "numbered", "--json"]
    nemo += ["--references", tmp_path / "manifest.json"]
    result = run_cli(*bare[:1], tmp_path / "beams.tsv", *bare[2:], *nemo, "--beam-size", "2")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["adapted"]["wer"] == whole["adapted"]["wer"]
    missing = run_cli(*bare[:1], tmp_path / "beams.tsv", *bare[2:], *nemo)
    assert missing.exit_code == 2
    assert "--beam-size" in missing.stderr


def test_the_development_part_has_the_share_that_was_asked_for(
    run_cli: RunCli, given: list[object]
) -> None:
    for share, left in (("0.3", 14), ("0.5", 10), ("0.05", 19)):
        assert json.loads(run_cli(*given, "--dev-share", share, "--json").stdout)["clients"] == left
