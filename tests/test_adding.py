"""What users add from outside the package works like what is in it, and is stated honestly."""

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import RunCli

from sottovoce import _registry
from sottovoce._registry import Registry
from sottovoce.audit import audit_model
from sottovoce.audit._checks import Scores
from sottovoce.audit.attacks import ATTACKS as MEMBERSHIP
from sottovoce.audit.attacks import MembershipAttack, ReferenceScores, membership_attacks
from sottovoce.audit.duplicates import Candidates
from sottovoce.corpora import FORMATS, Utterance, read, write
from sottovoce.corpora.splits import Parts
from sottovoce.deid import (
    DETECTORS,
    SOURCES,
    STRATEGIES,
    Deidentifier,
    Resources,
    Setting,
    detector,
    evaluate,
    mapping,
)
from sottovoce.deid.attacks.run import ATTACKS as READERS
from sottovoce.deid.detect import Combination
from sottovoce.deid.detect.forms import Form
from sottovoce.deid.detect.languages import LANGUAGES, Language
from sottovoce.deid.replace import Cost, Kernel, Surrogates, public_surrogates
from sottovoce.deid.replace.sources import SourceRequest, surrogates_from
from sottovoce.deid.replace.strategies import mechanism_for
from sottovoce.deid.replace.third_party import ThirdParty
from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders import ENCODERS, encoder_from_json
from sottovoce.nlu.metrics import METRICS, count, intervals, paired_change
from sottovoce.personalize.nbest.formats import FORMATS as NBEST
from sottovoce.personalize.nbest.formats import read_nbest, write_nbest
from sottovoce.privacy.facts import SurrogateSource

ROOT = Path(__file__).parents[1]
TABLES: tuple[Registry[object], ...] = (
    DETECTORS, LANGUAGES, STRATEGIES, SOURCES, METRICS, ENCODERS, MEMBERSHIP, READERS, FORMATS,
    NBEST,
)  # type: ignore[assignment]  # fmt: skip

PLUGIN = '''
"""Everything that can be added, once."""
import re
from sottovoce.audit.attacks import ATTACKS as MEMBERSHIP
from sottovoce.corpora import FORMATS, Span, Utterance
from sottovoce.corpora.formats import Format
from sottovoce.deid import DETECTORS, SOURCES, STRATEGIES
from sottovoce.deid.attacks.reader import Attack
from sottovoce.deid.attacks.run import ATTACKS as READERS
from sottovoce.deid.replace import Cost, uniform
from sottovoce.nlu.metrics import METRICS
from sottovoce.personalize.nbest.formats import FORMATS as NBEST, NBestFormat
from sottovoce.personalize.nbest.lists import Hypothesis, NBest

@DETECTORS.register("badges")
class Badges:
    name = "badges"
    types = ("ID",)
    def __init__(self, labels=None):
        pass
    def find(self, batch):
        return [[Span(m.start(), m.end(), "ID") for m in re.finditer(r"\\\\bb\\\\d+\\\\b", u.text)]
                for u in batch]
    def to_json(self):
        return {"detector": self.name}

class Stars:
    def __init__(self, cost):
        self._cost = cost
    def replace(self, values, scopes, source):
        return ["*" * 3 for _ in values]
    def cost(self):
        return self._cost

@STRATEGIES.register("stars")
def stars(kind, setting, resources):
    return Stars(Cost(epsilon=0.0))

@STRATEGIES.register("silent")
def silent(kind, setting, resources):
    return Stars(Cost())

@SOURCES.register("planets")
def planets(request):
    return {"LOC": uniform(["mars", "venus", "saturn"])}

@SOURCES.register("sly")
def sly(request):
    utterances, found = request.corpus()
    for _ in utterances:
        pass
    return {"LOC": uniform(["mars", "venus"])}

@METRICS.register("first_label")
def first_label(right, guess):
    return float(right.slots[0] == guess.slots[0]), 1.0

@MEMBERSHIP.register("contrary")
def contrary(target, references):
    return -target

@READERS.register("parrot")
def parrot(evidence):
    return Attack(name="parrot", trials=len(evidence.pairs),
                  successes=sum(a == b for a, b in evidence.pairs), prior=0.0)

def read_pipes(stream, problems, reading):
    for number, line in enumerate(stream, 1):
        tokens = tuple(line.decode().strip().split("|"))
        if tokens == ("",):
            problems.reject(number, "Expected words, got an empty line.")
            continue
        yield Utterance(tokens=tokens, slots=("O",) * len(tokens))

def write_pipes(stream, utterances, columns):
    return sum(bool(stream.write("|".join(u.tokens).encode() + b"\\\\n")) for u in utterances)

FORMATS.register("pipes", Format(read=read_pipes, write=write_pipes, suffixes=(".pipes",)))

def read_tabs(path, problems, options):
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            texts = line.rstrip("\\\\n").split("\\\\t")
            yield NBest(id=f"u{number}", hypotheses=tuple(
                Hypothesis(text=text, score=-float(rank)) for rank, text in enumerate(texts)))

def write_tabs(stream, lists):
    for each in lists:
        stream.write("\\\\t".join(h.text for h in each.hypotheses).encode() + b"\\\\n")

NBEST.register("tabs", NBestFormat(read=read_tabs, write=write_tabs))
'''.replace("\\\\", "\\")

ENCODER = '''
"""An encoder that looks up the length of every word."""
import torch
from torch import nn
from sottovoce.nlu.encoders import ENCODERS, Encoded, Encoder
from sottovoce.nlu.encoders.base import padded, prefix_mask

@ENCODERS.register("lengths")
class Lengths(Encoder):
    kind = "lengths"
    def __init__(self, width):
        super().__init__()
        self.width = self.summary_width = width
        self.table = nn.Embedding(10, width)
    def prepare(self, tokens):
        return {"words": torch.tensor([min(len(token), 9) for token in tokens])}
    def collate(self, prepared):
        lengths = torch.tensor([len(one["words"]) for one in prepared])
        return {"words": padded([one["words"] for one in prepared]), "lengths": lengths}
    def forward(self, inputs):
        mask = prefix_mask(inputs["lengths"], inputs["words"].shape[1])
        vectors = self.table(inputs["words"]) * mask[..., None]
        return Encoded(vectors, vectors.sum(1) / inputs["lengths"][:, None], mask)
    def to_json(self):
        return {"kind": self.kind, "width": self.width}
    @classmethod
    def from_settings(cls, settings):
        return cls(settings.hidden or 4)
    @classmethod
    def from_json(cls, data, files):
        return cls(data["width"])
'''


@pytest.fixture(autouse=True)
def clean_tables() -> Iterator[None]:
    """What a test registers is gone after it."""
    before = {id(table): table.names(installed=False) for table in TABLES}
    yield
    for table in TABLES:
        for name in {*table.names(installed=False)} - {*before[id(table)]}:
            table.remove(name)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module outside the package that registers one thing of every kind, not imported yet."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "toy_plugin.py").write_text(PLUGIN)
    (folder / "toy_encoder.py").write_text(ENCODER)
    monkeypatch.syspath_prepend(str(folder))
    for name in ("toy_plugin", "toy_encoder"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "toy_plugin"


@pytest.fixture
def loaded(plugin: str) -> str:
    __import__(plugin)
    return plugin


def said(text: str, slots: str = "", **rest: Any) -> Utterance:
    tokens = tuple(text.split())
    return Utterance(tokens=tokens, slots=tuple(slots.split()) or ("O",) * len(tokens), **rest)


# The table itself


def test_a_name_is_taken_once() -> None:
    table: Registry[int] = Registry("number", {"one": 1}, group="none")
    table.register("two", 2)
    with pytest.raises(InvalidInput, match="replace=True replaces it"):
        table.register("two", 3)
    table.register("two", 3, replace=True)
    assert table.get("two") == 3
    table.remove("two")
    assert "two" not in table


@pytest.mark.parametrize("replace", [True, False])
def test_names_of_the_package_stay_what_they_are(replace: bool) -> None:
    with pytest.raises(InvalidInput, match="which is a built-in detector"):
        DETECTORS.register("patterns", lambda labels: [], replace=replace)
    with pytest.raises(InvalidInput, match="to remove"):
        DETECTORS.remove("patterns")
    with pytest.raises(InvalidInput, match="which is a built-in metric"):
        METRICS.register("ser", lambda right, guess: (0, 1), replace=replace)


@pytest.mark.parametrize("name", ["a.tsv", "a/b", "a+b", "", "A", 3])
def test_a_name_can_be_neither_a_file_nor_a_combination(name: str) -> None:
    with pytest.raises(InvalidInput, match="Expected a name of lower-case letters"):
        DETECTORS.register(name, lambda labels: [])


def test_an_unknown_name_is_answered_with_the_choices() -> None:
    with pytest.raises(InvalidInput, match=r"one of jsonl, .*, got 'jsnl'; did you mean 'jsonl'"):
        read("calls", "jsnl")


def test_installed_packages_are_found_by_their_entry_points_and_loaded_when_named(
    plugin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [
        EntryPoint("installed", f"{plugin}:Badges", "sottovoce.detectors"),
        EntryPoint("patterns", f"{plugin}:Badges", "sottovoce.detectors"),
    ]
    monkeypatch.setattr(
        "importlib.metadata.entry_points",
        lambda group: [point for point in points if point.group == group],
    )
    _registry._installed.cache_clear()
    try:
        assert DETECTORS.names()[-1] == "installed"
        assert "installed" not in DETECTORS.names(installed=False)
        assert detector("patterns").name == "patterns"
        assert plugin not in sys.modules
        assert detector("installed").name == "badges"
        assert DETECTORS.origin("installed") == plugin
    finally:
        _registry._installed.cache_clear()


def test_what_cannot_be_imported_is_one_sentence() -> None:
    DETECTORS.register("absent", "no_such_module:Thing")
    with pytest.raises(InvalidInput, match="the detector absent at no_such_module:Thing, but"):
        detector("absent")
    DETECTORS.register("absent", "json:Thing", replace=True)
    with pytest.raises(InvalidInput, match="has no attribute 'Thing'"):
        detector("absent")


# Detectors


def test_a_detector_is_used_and_combined_by_its_name(loaded: str) -> None:
    deid = Deidentifier(detector="badges+patterns", setting=Setting(strategy="typed"))
    assert deid.release("b42 came at half past three").text == "[ID] came at [TIME]"


def test_the_recall_of_a_detector_from_outside_is_not_known_until_it_is_evaluated(
    loaded: str,
) -> None:
    deid = Deidentifier(detector="badges", setting=Setting(strategy="typed"))
    deid.release("b42 came")
    statement = deid.statement()
    assert statement.recall == "How many private values badges misses was not measured."
    assert "private values that badges misses" in statement.guarantees["token"].not_covered
    labels = mapping("standard")
    found = evaluate(detector("badges"), [said("b42 came", "B-ID O")] * 50, labels)
    measured = Deidentifier(
        detector="badges", setting=Setting(strategy="typed"), evaluation=found, delta=1e-3
    )
    measured.release("b42 came")
    assert "missed with probability at most" in measured.statement().recall


def test_nobody_elses_detector_is_called_gold(loaded: str) -> None:
    badges: Any = detector("badges").detectors[0]
    badges.name = "gold"
    with pytest.raises(InvalidInput, match="the name of the annotations"):
        Combination([badges])


# Strategies


def test_a_strategy_states_its_own_cost_and_the_guarantee_says_so(loaded: str) -> None:
    deid = Deidentifier(detector="badges", setting=Setting(strategy="stars"))
    assert deid.release("b42 came", user="ann").text == "*** came"
    statement = deid.statement()
    claim = f"the strategy stars of {loaded} is as private as it says"
    for guarantee in (*statement.guarantees.values(), statement.types["ID"].guarantee):
        assert guarantee.holds
        assert claim in guarantee.assumptions
    assert claim in "\n".join(statement.lines())
    assert deid.to_json()["mechanisms"]["ID"] == {"mechanism": "stars", "module": loaded}


def test_a_strategy_that_states_no_epsilon_has_no_guarantee(loaded: str) -> None:
    deid = Deidentifier(detector="badges", setting=Setting(strategy="silent"))
    deid.release("b42 came", user="ann")
    for guarantee in deid.statement().guarantees.values():
        assert not guarantee.holds
        assert f"the strategy silent of {loaded} states no epsilon" in guarantee.reasons


class Copies:
    """A mechanism with nothing but `replace`."""

    def replace(self, values: list[str], *_: object) -> list[str]:
        return values


def test_a_mechanism_without_a_cost_has_no_guarantee() -> None:
    STRATEGIES.register("copies", lambda kind, setting, resources: Copies())
    deid = Deidentifier(detector="patterns", setting=Setting(strategy="copies"))
    assert deid.release("at half past three").text == "at half past three"
    assert not deid.statement().guarantees["token"].holds


def test_without_the_mark_the_claim_of_a_strategy_would_be_a_silent_guarantee(
    loaded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: what the statement would be if claims were taken as facts."""
    monkeypatch.setattr(ThirdParty, "cost", lambda self: self.mechanism.cost())
    deid = Deidentifier(detector="badges", setting=Setting(strategy="silent"))
    deid.release("b42 came", user="ann")
    assert deid.statement().guarantees["token"].epsilon == 0
    assert loaded not in str(deid.statement().guarantees["token"])


def test_a_claim_stays_a_claim_when_a_record_is_absorbed(loaded: str) -> None:
    first = Deidentifier(detector="badges", setting=Setting(strategy="stars"))
    first.release("b42 came", user="ann", id="1")
    second = Deidentifier(detector="badges", setting=Setting(strategy="typed"))
    second.absorb(json.loads(json.dumps(first.record())))
    second.release("b42 came", user="ann", id="1")
    assert any(loaded in each for each in second.statement().guarantees["token"].assumptions)


def test_a_strategy_may_not_cost_more_than_was_asked_for() -> None:
    listed = public_surrogates("PER")
    assert listed is not None
    STRATEGIES.register("loose", lambda kind, setting, resources: Kernel(surrogates=listed, p=0.5))
    with pytest.raises(InvalidInput, match="Expected a mechanism of epsilon 1 from the strategy"):
        mechanism_for("PER", Setting(strategy="loose", epsilon=1.0), Resources())
    made = mechanism_for("PER", Setting(strategy="loose"), Resources())
    assert made.cost().log_ratio == Kernel(surrogates=listed, p=0.5).cost().log_ratio


def test_a_strategy_has_to_answer_for_every_value() -> None:
    class Forgetful:
        def replace(self, values: list[str], *_: object) -> list[str]:
            return values[1:]

        def cost(self) -> Cost:
            return Cost(epsilon=0.0)

    STRATEGIES.register("forgetful", lambda kind, setting, resources: Forgetful())
    deid = Deidentifier(detector="patterns", setting=Setting(strategy="forgetful"))
    with pytest.raises(InvalidInput, match="Expected a text for each of 1 values"):
        deid.release("at half past three")


# Surrogate sources


def test_a_source_of_surrogates_is_an_assumption(loaded: str) -> None:
    lists = surrogates_from("planets")
    deid = Deidentifier(
        detector="gazetteer", setting=Setting(epsilon=1.0), resources=Resources(surrogates=lists)
    )
    planets = ("mars", "venus", "saturn")
    assert deid.release("fly to london", user="ann").text.split()[-1] in planets
    guarantee = deid.statement().guarantees["token"]
    claim = f"nothing private went into the surrogate source planets of {loaded}"
    assert guarantee.holds
    assert claim in guarantee.assumptions


def test_a_source_that_looked_at_the_corpus_cannot_call_its_lists_public(loaded: str) -> None:
    request = SourceRequest(utterances=[said("fly to london")], detector=detector("gazetteer"))
    lists = surrogates_from("sly", request)
    assert lists["LOC"].origin is SurrogateSource.SAME_CORPUS
    deid = Deidentifier(detector="gazetteer", resources=Resources(surrogates=lists))
    deid.release("fly to london")
    assert not deid.statement().guarantees["token"].holds


def test_a_source_has_to_give_lists_of_surrogates() -> None:
    SOURCES.register("wrong", lambda request: {"LOC": ["mars", "venus"]})
    with pytest.raises(InvalidInput, match="Expected Surrogates of LOC"):
        surrogates_from("wrong")
    SOURCES.register("right", lambda request: {"LOC": Surrogates(("mars", "venus"))})
    assert surrogates_from("right")["LOC"].values == ("mars", "venus")


# Metrics


def test_a_metric_has_a_score_an_interval_and_a_change(loaded: str) -> None:
    right = [said("call mum", "B-x B-who")] * 4
    guess = [said("call mum", "O B-who")] * 2 + right[:2]
    counts = count(right, guess, metrics=["first_label", "slot_precision", "slot_recall"])
    assert counts.to_json()["first_label"] == 0.5
    assert counts.to_json()["slot_precision"] == 1.0
    assert counts.to_json()["slot_recall"] == 0.75
    low, high = intervals(counts)["first_label"]
    assert low < 0.5 < high
    assert intervals(counts)["ser"] == intervals(count(right, guess))["ser"]
    best = count(right, right, metrics=["first_label", "slot_precision", "slot_recall"])
    assert paired_change(best, counts)["first_label"].difference == 0.5


def test_a_metric_has_to_return_finite_numbers() -> None:
    METRICS.register("broken", lambda right, guess: (float("nan"), 1.0))
    with pytest.raises(InvalidInput, match="from the metric broken"):
        count([said("a")], [said("a")], metrics=["broken"])


# Attacks


def test_a_membership_attack_runs_with_the_others(loaded: str) -> None:
    tried = Candidates(
        members=tuple(said(word) for word in "abc"), non_members=tuple(said(w) for w in "def")
    )
    result = audit_model(lambda records: [-ord(r.text) / 100 for r in records], tried)
    by_name = {outcome.attack: outcome.auc for outcome in result.attacks}
    assert by_name == {"loss threshold": 1.0, "contrary": 0.0}
    alone = audit_model(lambda records: [-1.0] * len(records), tried, attacks=["contrary"])
    assert [outcome.attack for outcome in alone.attacks] == ["loss threshold", "contrary"]
    with pytest.raises(InvalidInput, match="Expected attack to be one of loss"):
        audit_model(lambda records: [-1.0] * len(records), tried, attacks=["contrarian"])


def test_a_membership_attack_that_needs_references_says_so() -> None:
    def mean(target: Scores, references: ReferenceScores | None) -> Scores:
        assert references is not None
        found: Scores = target - references.scores.mean(0)
        return found

    MEMBERSHIP.register("mean", MembershipAttack(mean, needs_references=True))
    tried = Candidates(members=(said("a"),), non_members=(said("b"),))
    with pytest.raises(InvalidInput, match="the inputs of the attack mean"):
        audit_model(lambda records: [-1.0], tried, attacks=["mean"])
    result = audit_model(
        lambda records: [-1.0] * len(records), tried, attacks=["mean"], models=2,
        train=lambda records, index: lambda asked: np.full(len(asked), -2.0),
    )  # fmt: skip
    assert {outcome.attack for outcome in result.attacks} == {"loss threshold", "mean"}


def test_a_membership_attack_has_to_score_every_record() -> None:
    MEMBERSHIP.register("short", lambda target, references: target[1:])
    with pytest.raises(InvalidInput, match="Expected 2 numbers in the scores of short"):
        membership_attacks(lambda records: [-1.0], [1], [2], attacks=["short"])


# Formats


def test_a_corpus_format_is_known_by_its_name_and_the_end_of_names(
    loaded: str, tmp_path: Path
) -> None:
    assert write(tmp_path / "calls.pipes.gz", [said("call mum"), said("stop")]) == 2
    found = [each.tokens for each in read(tmp_path / "calls.pipes.gz")]
    assert found == [("call", "mum"), ("stop",)]
    (tmp_path / "bad").write_text("a|b\n\nc\n")
    lenient = read(tmp_path / "bad", "pipes", on_error="lenient")
    assert len(list(lenient)) == 2
    assert lenient.rejected == 1


def test_the_ends_of_names_belong_to_one_format(loaded: str) -> None:
    made = sys.modules[loaded]
    taken = made.Format(read=made.read_pipes, write=made.write_pipes, suffixes=(".csv",))
    with pytest.raises(InvalidInput, match=r"no other format uses, got '\.csv'"):
        FORMATS.register("mine", taken)
    assert "mine" not in FORMATS


def test_an_nbest_format_is_read_and_written(loaded: str, tmp_path: Path) -> None:
    (tmp_path / "heard.tabs").write_text("call mom\tcall mum\n")
    lists = list(read_nbest(tmp_path / "heard.tabs", "tabs"))
    assert lists[0].best.text == "call mom"
    assert write_nbest(tmp_path / "again.tabs", lists, "tabs") == 1
    assert (tmp_path / "again.tabs").read_bytes() == (tmp_path / "heard.tabs").read_bytes()
    with pytest.raises(InvalidInput, match="Expected a file with the format tabs"):
        read_nbest(tmp_path, "tabs")


# Languages


def test_a_language_is_chosen_by_its_code() -> None:
    lists = {"first": ("Sanne",), "last": ("Bakker",), "place": ("Utrecht",)}
    dutch = Language(
        code="nl", name="Dutch", titles=frozenset({"mevrouw"}), ordinary=frozenset(), words=lists,
        forms=(Form("ADDRESS", "postcode", re.compile(r"\b\d{4} ?[a-z]{2}\b")),),
    )  # fmt: skip
    with pytest.raises(InvalidInput, match="Expected language to be one of en, de, es, got 'nl'"):
        detector("fast", language="nl")
    LANGUAGES.register("nl", dutch)
    deid = Deidentifier(detector=detector("fast", language="nl"), setting=Setting(strategy="typed"))
    released = deid.release("mevrouw Bakker en Sanne wonen in Utrecht, 3511 ab").text
    assert released == "mevrouw [PER] en [PER] wonen in [LOC], [ADDRESS]"
    with pytest.raises(InvalidInput, match="built-in language"):
        LANGUAGES.register("de", dutch)


# Encoders


def test_an_encoder_is_trained_saved_and_loaded_by_its_name(
    plugin: str, run_cli: RunCli, tmp_path: Path
) -> None:
    from sottovoce.nlu.runs.run import load_run

    calls = [said("call mum", "O B-who", intent="call", id=str(n)) for n in range(30)]
    stops = [said("stop", intent="stop", id=str(30 + n)) for n in range(30)]
    write(tmp_path / "calls.jsonl", [*calls, *stops])
    run = tmp_path / "run"
    result = run_cli(
        "--plugin", "toy_encoder", "train", tmp_path / "calls.jsonl", "-o", run,
        "--model", "lengths", "--hidden", 3, "--method", "dp-sgd", "--epsilon", 3, "--epochs", 1,
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    loaded = load_run(run)
    assert loaded.model.encoder.kind == "lengths"
    claim = "nothing private went into the encoder lengths of toy_encoder"
    assert claim in loaded.run["guarantee"]["assumptions"]
    predicted = run_cli("predict", run, "--text", "call mum")
    assert predicted.exit_code == 0, predicted.stderr
    ENCODERS.remove("lengths")
    assert "--plugin MODULE" in run_cli("predict", run, "--text", "call mum").stderr


def test_an_encoder_cannot_bring_files_that_a_run_has_itself(plugin: str) -> None:
    made: Any = __import__("toy_encoder")
    from sottovoce.nlu.fit.settings import Settings
    from sottovoce.nlu.runs.experiment import train

    made.Lengths.files = lambda self: {"ledger.jsonl": b""}
    calls = tuple(said("call mum", "O B-who", intent="call", id=str(n)) for n in range(9))
    with pytest.raises(InvalidInput, match=r"got 'ledger\.jsonl'"):
        train(Settings(model="lengths", epochs=1), Parts(name="calls", train=calls))


def test_a_model_folder_does_not_decide_what_is_imported(
    plugin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint("lengths", "toy_encoder:Lengths", "sottovoce.encoders")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    _registry._installed.cache_clear()
    try:
        for kind in ("lengths", "toy_encoder:Lengths"):
            with pytest.raises(InvalidInput, match="Expected an encoder of kind clc, bert"):
                encoder_from_json({"kind": kind}, {})
        assert "toy_encoder" not in sys.modules
    finally:
        _registry._installed.cache_clear()


def test_an_encoder_is_registered_under_the_name_it_is_saved_by() -> None:
    from sottovoce.nlu.encoders import Encoder

    with pytest.raises(InvalidInput, match="whose kind is its registered name"):
        ENCODERS.register("other", Encoder)


# The command line


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "calls.jsonl"
    lines = [said(f"b{n} flew to london", id=str(n), user=f"u{n % 5}") for n in range(20)]
    write(path, lines)
    return path


def test_the_command_line_imports_what_it_is_told_to(
    plugin: str, run_cli: RunCli, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.pipes"
    result = run_cli(
        "--plugin", plugin, "deid", corpus, "-o", out, "--to", "pipes",
        "--detector", "badges+gazetteer", "--strategy", "stars",
        "--type", "LOC=entity:epsilon=3", "--surrogates", "planets",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert re.fullmatch(r"\*\*\*\|flew\|to\|(mars|venus|saturn)", out.read_text().splitlines()[0])
    assert f"the strategy stars of {plugin} is as private as it says" in result.stdout
    assert f"the surrogate source planets of {plugin}" in result.stdout
    assert run_cli("deid", "verify", out).exit_code == 0


def test_registered_attacks_run_from_the_command_line(
    plugin: str, run_cli: RunCli, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    made = ("--detector", "gazetteer")
    released = run_cli("deid", corpus, "-o", out, *made, "--id", "keep", "--user", "keep")
    assert released.exit_code == 0, released.stderr
    args = ("deid", "attack", corpus, out, *made, "--attack", "parrot", "--json")
    assert run_cli(*args).exit_code == 2
    without = run_cli("deid", "attack", corpus, out, *made, "--attack", "masked-lm")
    assert "Expected a masked language model" in without.stderr
    result = run_cli("--plugin", plugin, *args)
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)["types"]["LOC"]["attacks"]
    assert [each["attack"] for each in found] == ["prior to posterior", "kept values", "parrot"]


def test_a_reader_without_the_plug_in_can_attack_a_release_of_its_strategy(
    plugin: str, run_cli: RunCli, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    released = run_cli(
        "--plugin", plugin, "deid", corpus, "-o", out, "--detector", "gazetteer",
        "--strategy", "stars",
    )  # fmt: skip
    assert released.exit_code == 0, released.stderr
    STRATEGIES.remove("stars")
    result = run_cli("deid", "attack", corpus, out, "--detector", "gazetteer", "--json")
    assert result.exit_code == 0, result.stderr
    assert not json.loads(result.stdout)["types"]["LOC"]["knows_the_mechanism"]


def test_plug_ins_may_be_named_by_the_environment(
    plugin: str, run_cli: RunCli, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = ("evaluate", corpus, corpus, "--metric", "first_label", "--json")
    assert "Expected metric to be one of slot_precision" in run_cli(*args).stderr
    monkeypatch.setenv("SOTTOVOCE_PLUGINS", f"{plugin} toy_encoder")
    result = run_cli(*args)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["first_label"] == 1.0
    assert "first label" in run_cli(*args[:-1]).stdout
    assert "lengths" in run_cli("train", "--help").stdout
    assert "contrary" in run_cli("audit", "run", "--help").stdout
    assert "tabs" in run_cli("rescore", "--help").stdout


def test_a_plug_in_that_cannot_be_imported_is_one_sentence(run_cli: RunCli) -> None:
    result = run_cli("--plugin", "no_such_plugin", "corpus", "--help")
    assert result.exit_code == 2
    assert "Expected a plug-in module that can be imported, got 'no_such_plugin'" in (result.stderr)


def test_the_working_directory_is_not_a_place_for_plug_ins(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lying_about.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    assert run_cli("--plugin", "lying_about", "corpus", "--help").exit_code == 2


# The page


def test_the_table_of_the_page_names_what_is_there() -> None:
    page = (ROOT / "docs" / "how-to" / "adding.md").read_text()
    rows = re.findall(
        r"^\| \w.*\| `([\w/]+/)` \| `([A-Z_]+)` in `([\w/.]+)` \|", page, re.MULTILINE
    )
    assert len(rows) == len(TABLES) + 1  # and the rules of layers
    source = ROOT / "src" / "sottovoce"
    for folder, table, file in rows:
        assert (source / folder).is_dir(), folder
        assert re.search(rf"^{table}\b", (source / file).read_text(), re.MULTILINE), file
        assert (source / file).is_relative_to(source / folder), f"{file} is not in {folder}"


def test_the_page_names_every_entry_point_group() -> None:
    page = (ROOT / "docs" / "how-to" / "adding.md").read_text()
    for table in TABLES:
        assert f"`{table.group}`" in page, table.group
