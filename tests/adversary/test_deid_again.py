"""The same words released again in other spellings, and records altered afterwards."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sottovoce.corpora import Reader, Utterance, read, write
from sottovoce.deid import Deidentifier, Fields, Setting, Vault
from sottovoce.deid import deidentifier as deidentifiers
from sottovoce.deid.detect import Gazetteer, Gold
from sottovoce.deid.files import corpus_file as files
from sottovoce.deid.files import manifest as manifests
from sottovoce.deid.files import shards
from sottovoce.deid.files.manifest import verify, with_hash
from sottovoce.deid.replace import PrivateHistogram, Surrogates, read_surrogates
from sottovoce.deid.replace.strategies import Resources
from sottovoce.deid.replace.surrogates import uniform, write_surrogates
from sottovoce.deid.statement.unit_counts import random_numbers
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

CALL = Utterance(tokens=("call", "maria"), slots=("O", "O"), user="ann", id="1")
SPELLINGS = ("call maria", "call  maria", "Call Maria", " call maria ", "call\tmaria", "CALL MARIA")


def made(**options: Any) -> Deidentifier:
    return Deidentifier(
        detector=Gazetteer({"PER": ["maria"]}), setting=Setting(epsilon=1.0), **options
    )


def stated(deid: Deidentifier, unit: str = "utterance") -> float:
    return deid.statement().guarantees[unit].epsilon


def test_a_text_spelt_differently_is_the_same_text() -> None:
    deid = made()
    for text in SPELLINGS:
        deid.release(text)
    assert stated(deid) == pytest.approx(len(SPELLINGS))


def test_code_points_of_one_letter_are_the_same_letter() -> None:
    deid = made()
    for text in ("call maria, jos\u00e9", "call maria, jose\u0301", "\uff43all maria, jos\u00c9"):
        deid.release(text)
    assert stated(deid) == pytest.approx(3)


def test_by_their_characters_they_would_be_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deidentifiers, "_same_words", lambda text: text)
    deid = made()
    for text in SPELLINGS:
        deid.release(text)
    assert stated(deid) == pytest.approx(1)


def test_what_equal_texts_of_one_call_are_taken_for_is_said() -> None:
    deid = made()
    list(deid.release_texts(["call maria"] * 40))
    said = deid.statement().guarantees["utterance"].assumptions
    assert any("equal texts of one release are different utterances" in each for each in said)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fields", Fields(user="drop")),
        ("detector", Gold()),
        ("setting", Setting(strategy="typed")),
        ("evaluation", None),
        ("delta", 0.05),
        ("resources", Resources()),
    ],
)
def test_a_statement_cannot_be_made_for_another_configuration(name: str, value: object) -> None:
    deid = made(fields=Fields(user="keep"))
    list(deid.release_all([CALL]))
    with pytest.raises(InvalidInput, match="make another de-identifier"):
        setattr(deid, name, value)
    with pytest.raises(TypeError):
        deid.per_type["PER"] = Setting(strategy="typed")  # type: ignore[index]
    assert any("user" in each for each in deid.statement().guarantees["token"].not_covered)


def test_if_its_configuration_could_change_the_statement_would_be_wrong() -> None:
    """The twin: user names were released unchanged, and the statement does not say so."""
    deid = made(fields=Fields(user="keep"))
    list(deid.release_all([CALL]))
    object.__setattr__(deid, "fields", Fields(user="drop"))
    said = deid.statement().guarantees["token"].not_covered
    assert not any("fields released as they are" in each for each in said)


def test_what_another_detector_missed_stays_in_the_statement() -> None:
    first, second = made(), Deidentifier(detector=Gold(), setting=Setting(epsilon=1.0))
    list(first.release_all([CALL]))
    second.absorb(first.record())
    assert any("gazetteer misses" in s for s in second.statement().guarantees["token"].not_covered)


def test_a_user_list_is_assumed_to_be_public() -> None:
    for listed in (uniform(["maria", "anna"]), Surrogates(("maria", "anna"), (3.0, 1.0))):
        deid = made(resources=Resources(surrogates={"PER": listed}))
        list(deid.release_all([CALL]))
        said = deid.statement().guarantees["token"].assumptions
        assert any("nothing private went into the list of surrogates" in each for each in said)
    shipped = made()
    list(shipped.release_all([CALL]))
    said = shipped.statement().guarantees["token"].assumptions
    assert not any("nothing private went" in each for each in said)


@pytest.mark.parametrize(
    "weights",
    [(0.0, 1.0), (float("nan"), 1.0), (-1.0, 1.0), (float("inf"), 1.0), ("1", 1.0), (1.0,)],
)
def test_invalid_weights_are_refused(weights: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidInput):
        Surrogates(("maria", "anna"), weights)


@pytest.mark.parametrize("values", [("maria",), ("maria", "maria"), ("maria", "Maria"), ("", "a")])
def test_lists_with_nothing_to_choose_are_refused(values: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput):
        Surrogates(values)


def histogram(folder: Path) -> Path:
    """A list from a private histogram, in a file."""
    counted = PrivateHistogram(epsilon=1.0, delta=1e-6)
    for number in range(200):
        counted.add(f"user {number}", "maria" if number % 2 else "anna")
    path = folder / "names.tsv"
    write_surrogates(path, {"PER": counted.release(NoiseSource(), "PER")})
    return path


def test_a_list_that_was_paid_for_carries_its_cost_into_every_run(tmp_path: Path) -> None:
    path = histogram(tmp_path)
    runs = [made(resources=Resources(surrogates=read_surrogates(path))) for _ in range(2)]
    for each in runs:
        list(each.release_all([CALL]))
        assert stated(each) == pytest.approx(3)
    runs[1].absorb(runs[0].record())
    # Drawn from the same list twice: the list is charged once, the draws twice.
    assert stated(runs[1]) == pytest.approx(4)


def test_two_histograms_are_paid_twice(tmp_path: Path) -> None:
    runs = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        lists = read_surrogates(histogram(tmp_path / name))
        runs.append(made(resources=Resources(surrogates=lists)))
        list(runs[-1].release_all([CALL]))
    runs[1].absorb(runs[0].record())
    assert stated(runs[1]) == pytest.approx(6)


def test_without_its_first_line_the_list_is_stated_as_an_assumption(tmp_path: Path) -> None:
    """The twin: with the first line removed the cost is gone, but not the assumption."""
    path = histogram(tmp_path)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    deid = made(resources=Resources(surrogates=read_surrogates(path)))
    list(deid.release_all([CALL]))
    assert stated(deid) == pytest.approx(1)
    said = deid.statement().guarantees["utterance"].assumptions
    assert "nothing private went into the list of surrogates names.tsv" in said


def parts(folder: Path, count: int = 4) -> list[Reader]:
    (folder / "in").mkdir()
    for number in range(count):
        write(folder / "in" / f"part{number}.jsonl", [CALL])
    return [read(folder / "in" / f"part{number}.jsonl") for number in range(count)]


def test_an_utterance_in_four_shards_costs_four_times(tmp_path: Path) -> None:
    content = shards.release_shards(made, parts(tmp_path), tmp_path / "out")
    for unit in ("token", "utterance", "user"):
        assert content["guarantees"][unit]["epsilon"] == pytest.approx(4)


def test_if_ids_were_ignored_the_shards_would_cost_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deidentifiers, "key_of", lambda *parts: random_numbers(1)[0])
    content = shards.release_shards(made, parts(tmp_path), tmp_path / "out")
    assert content["guarantees"]["utterance"]["epsilon"] == pytest.approx(1)


def test_shards_under_other_names_are_still_counted(tmp_path: Path) -> None:
    shards.release_shards(made, parts(tmp_path, 1), tmp_path / "out")
    (tmp_path / "in" / "part0.jsonl").rename(tmp_path / "in" / "other.jsonl")
    again = [read(tmp_path / "in" / "other.jsonl")]
    content = shards.release_shards(made, again, tmp_path / "out")
    assert content["guarantees"]["utterance"]["epsilon"] == pytest.approx(2)


def released(folder: Path) -> Path:
    write(folder / "calls.jsonl", [CALL])
    files.release_file(made(), read(folder / "calls.jsonl"), folder / "out.jsonl")
    return folder / "out.jsonl"


def test_a_release_that_was_deleted_still_counts(tmp_path: Path) -> None:
    out = released(tmp_path)
    for times in (2, 3):
        out.unlink()
        content = files.release_file(made(), read(tmp_path / "calls.jsonl"), out)
        assert content["guarantee"]["epsilon"] == pytest.approx(times)


def test_without_its_record_nothing_is_released_again(tmp_path: Path) -> None:
    out = released(tmp_path)
    out.unlink()
    (tmp_path / "private" / "out.jsonl.record.json").unlink()
    with pytest.raises(InvalidInput, match="cost of that release is unknown"):
        files.release_file(made(), read(tmp_path / "calls.jsonl"), out)
    assert not out.exists()


def smaller(content: Any) -> None:
    content["guarantee"]["epsilon"] = 0.01


def smaller_everywhere(content: Any) -> None:
    content["guarantee"]["epsilon"] = 0.01
    for each in content["release"]["guarantees"].values():
        each["epsilon"] = 0.01


def without_ledgers(content: Any) -> None:
    smaller(content)
    content["release"]["ledgers"] = {}
    content["release"]["guarantees"] = {}


def without_a_ledger(content: Any) -> None:
    smaller_everywhere(content)
    del content["release"]["ledgers"]["user"]


def another_unit(content: Any) -> None:
    content["guarantee"] = content["release"]["guarantees"]["token"]


@pytest.mark.parametrize("with_private", [True, False])
@pytest.mark.parametrize(
    "forge", [smaller, smaller_everywhere, without_ledgers, without_a_ledger, another_unit]
)
def test_a_forged_manifest_is_refused_though_its_hash_fits(
    tmp_path: Path, forge: Callable[[Any], None], with_private: bool
) -> None:
    out = released(tmp_path)
    path = Path(f"{out}.run.json")
    content = json.loads(path.read_text())
    forge(content)
    path.write_text(json.dumps(with_hash(content)))
    if not with_private:
        (tmp_path / "private").rename(tmp_path / "kept")
    with pytest.raises(InvalidInput):
        verify(out)


def test_a_manifest_of_another_release_is_noticed_by_its_owner(tmp_path: Path) -> None:
    """Self-consistent, with its own ledger: only the key reveals the forgery."""
    out = released(tmp_path)
    (tmp_path / "other").mkdir()
    forged = Deidentifier(
        detector=Gazetteer({"PER": ["maria"]}), setting=Setting(strategy="redact")
    )
    write(tmp_path / "other" / "calls.jsonl", [CALL])
    other = tmp_path / "other" / "out.jsonl"
    files.release_file(forged, read(tmp_path / "other" / "calls.jsonl"), other)
    content = json.loads(Path(f"{other}.run.json").read_text())
    content["output"] = manifests.describe_file(out)
    Path(f"{out}.run.json").write_text(json.dumps(with_hash(content)))
    with pytest.raises(InvalidInput, match="sealed with"):
        verify(out)
    # The twin: without the private folder the manifest looks valid.
    (tmp_path / "private").rename(tmp_path / "kept")
    assert verify(out)["guarantee"]["epsilon"] == 0


def test_renaming_is_not_stated_of_what_another_run_drew_at_random() -> None:
    """Consistent surrogates hide a renamed value; an earlier release that kept some does not."""

    def consistent() -> Deidentifier:
        return Deidentifier(
            detector=Gazetteer({"PER": ["maria"]}),
            setting=Setting(strategy="consistent"),
            resources=Resources(vault=Vault.fresh(within="corpus")),
        )

    first, second = made(), consistent()
    for each in (first, second):
        list(each.release_all([CALL]))
    alone = second.statement().renaming
    assert alone is not None
    assert any("other releases of the same text" in each for each in alone.not_covered)
    assert any("one value of PER" in each for each in alone.assumptions)
    second.absorb(first.record())
    assert second.statement().renaming is None
