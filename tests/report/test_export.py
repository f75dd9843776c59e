"""The report in the form of others: valid where there is a schema, blanks marked."""

import json
from pathlib import Path

import pytest
from tests.conftest import RunCli
from tests.report.test_decision import audited, user_run

SCHEMA = Path(__file__).parents[3] / "shared" / "registry" / "deployments-schema.yaml"


def exported(run_cli: RunCli, tmp_path: Path, form: str) -> dict[str, object]:
    folder = audited(tmp_path / "run", user_run(30.0))
    out = tmp_path / "entry.json"
    result = run_cli("report", folder, "-o", out, "--for", form, "--policy", "strict")
    assert result.exit_code == 0, result.stderr
    content: dict[str, object] = json.loads(out.read_text())
    return content


def test_an_entry_of_the_registry_is_valid(run_cli: RunCli, tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    if not SCHEMA.is_file():
        pytest.skip("the schema of the registry is not here")
    schema = yaml.safe_load(SCHEMA.read_text())
    entry = exported(run_cli, tmp_path, "registry")
    jsonschema.validate(entry, schema)
    with pytest.raises(jsonschema.ValidationError):  # the twin
        jsonschema.validate(entry | {"tier": 4}, schema)


def test_what_the_ledger_knows_is_filled_in_and_the_rest_is_marked(
    run_cli: RunCli, tmp_path: Path
) -> None:
    text = json.dumps(exported(run_cli, tmp_path, "registry"))
    assert '"privacy_unit": "user"' in text
    assert '"epsilon": 0.4' in text
    assert "Gaussian noise on a sum" in text
    assert "You must say" in text


def test_a_statement_as_nist_asks_for(run_cli: RunCli, tmp_path: Path) -> None:
    said = exported(run_cli, tmp_path, "nist")
    assert said["unit of privacy"] == "user"
    assert said["trust model"] == "You must say"
    assert said["composition"] == "analytic Gaussian"
