import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sottovoce.audit import (
    AuditResult,
    LeftOut,
    exact_exposure,
    measure_all,
    one_run_bound,
    one_run_gaussian_bound,
)
from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import Guarantee, Relation, Unit, Verdict

WEAK = one_run_bound(canaries=1000, guesses=100, correct=70, delta=1e-5)
STRONG = one_run_gaussian_bound(canaries=1000, guesses=100, correct=95, delta=1e-5)
RNG = np.random.default_rng(1)
ATTACKS = tuple(
    measure_all(
        {
            "loss threshold": (RNG.normal(0.2, 1, 200), RNG.normal(0, 1, 200)),
            "RMIA": (RNG.normal(2, 1, 200), RNG.normal(0, 1, 200)),
        }
    )
)


def guarantee(epsilon: float) -> Guarantee:
    return Guarantee(
        epsilon=epsilon,
        delta=1e-5,
        unit=Unit.EXAMPLE,
        relation=Relation.ADD_OR_REMOVE,
        accountant="PLD",
    )


def whole(epsilon: float = 2.0) -> AuditResult:
    return AuditResult(
        attacks=ATTACKS,
        bounds=(WEAK, STRONG),
        exposures=(exact_exposure(lambda tried: list(tried), 90, candidates=100),),
        left_out=LeftOut(in_training=3),
        guarantee=guarantee(epsilon),
        notes=("reference models: 4",),
    )


def test_files_both_ways(tmp_path: Path) -> None:
    assert whole().write(tmp_path, publish=True) == tmp_path / "audit.json"
    assert AuditResult.read(tmp_path) == whole()
    assert whole().write(tmp_path) == tmp_path / "private" / "audit.json"
    assert AuditResult.read(tmp_path) == whole()


def test_no_guarantee_travels_too() -> None:
    none = Guarantee(
        epsilon=math.inf,
        delta=1e-5,
        unit=Unit.EXAMPLE,
        relation=Relation.ADD_OR_REMOVE,
        accountant="none",
        verdict=Verdict.NO_GUARANTEE,
        reasons=("no noise",),
    )
    result = AuditResult(bounds=(STRONG,), guarantee=none)
    assert AuditResult.from_json(json.loads(json.dumps(result.to_json()))) == result
    assert result.defects() == []


def test_what_the_report_reads() -> None:
    found = whole().to_json()
    assert found["strongest"] == "RMIA"
    assert len(found["defects"]) == 1
    assert found["left_out"]["in_training"] == 3
    assert [bound["epsilon_lower"] for bound in found["bounds"]] == [WEAK.epsilon, STRONG.epsilon]
    empty = AuditResult()
    assert empty.strongest is None
    assert empty.lower_bound is None
    assert empty.defects() == []
    assert AuditResult.from_json(empty.to_json()) == empty


def test_a_bound_above_the_guarantee_is_a_defect() -> None:
    assert whole().lower_bound == STRONG
    assert whole(epsilon=STRONG.epsilon + 0.1).defects() == []
    (sentence,) = whole().defects()
    assert sentence.startswith("The guarantee of epsilon 2 at delta 1e-05 is contradicted by a low")


def test_what_cannot_be_compared_is_said() -> None:
    other = replace(guarantee(1.0), relation=Relation.REPLACE_ONE)
    result = AuditResult(bounds=(STRONG, WEAK), guarantee=other)
    assert result.defects() == []
    (sentence,) = result.to_json()["not_compared"]
    assert "Expected a guarantee under add-or-remove" in sentence
    assert whole().not_compared() == AuditResult(bounds=(STRONG,)).not_compared() == []


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"audit": 2}', '{"audit": 1}', "\xff{"])
def test_bad_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "audit.json").write_text(text, encoding="latin-1")
    with pytest.raises(InvalidInput, match="Expected"):
        AuditResult.read(tmp_path)


def test_a_guarantee_in_the_file_that_cannot_be_read() -> None:
    data = whole().to_json()
    data["guarantee"]["unit"] = "friend"
    with pytest.raises(InvalidInput, match="Expected unit to be one of"):
        AuditResult.from_json(data)


def test_the_folder_must_exist(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Expected an existing folder"):
        whole().write(tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        AuditResult.read(tmp_path)
