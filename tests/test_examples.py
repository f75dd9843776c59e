"""Every example runs as it stands, on its own, and says what its page says."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"

# What the script needs beyond sottovoce, and what it has to print.
EXAMPLES = {
    "finetune_encoder.py": (
        ("transformers",),
        r"encoder: .*\naccuracy on 60 utterances: [01]\.\d\d \(guessing: 0\.33\)\n"
        r"Adding or removing any one example .* at most e\^8, .*",
    ),
    "user_level_training.py": (
        (),
        r"3000 utterances of \d+ users, 18 intents\n"
        r"epsilon 4 for every example: accuracy .*\nepsilon 4 for every user: accuracy .*",
    ),
    "deidentify_csv.py": (
        (),
        r"- my name is Maria Lopez .*\n\+ my name is .* and my number is \[PHONE\]\n(.*\n)*"
        r"Replacing any one user changes .* at most e\^6 (.*\n)*.*was not measured\.",
    ),
    "audit_any_model.py": (
        (),
        r"\d+ members, \d+ non-members\nloss threshold: AUC .*\nLiRA, online: .*\n"
        r"LiRA, offline: .*\nRMIA: .*\nWith 95 % confidence epsilon is at least \d.*\n"
        r"shadow did not run: no shadow model was given",
    ),
    "flower_deployment.py": (
        ("flwr", "ray"),
        r"round 1: 2 of 2 nodes contributed\nround 2: 0 of 2 nodes contributed\n"
        r"Adding or removing any one utterance .* at most e\^2 .*",
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_runs_and_says_what_it_should(name: str, tmp_path: Path) -> None:
    needs, expected = EXAMPLES[name]
    for package in needs:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    done = subprocess.run(
        [sys.executable, str(FOLDER / name)],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(expected, done.stdout.strip()), done.stdout
    assert not list(tmp_path.iterdir())  # no files are left behind


def test_no_example_is_forgotten() -> None:
    scripts = {path.name for path in FOLDER.glob("*.py")}
    assert scripts >= set(EXAMPLES)
    listed = (FOLDER / "README.md").read_text()
    for name in scripts:
        assert f"({name})" in listed
    shown = (FOLDER.parent / "docs" / "how-to" / "examples.md").read_text()
    for name in EXAMPLES:
        assert f'--8<-- "examples/{name}"' in shown
        assert len((FOLDER / name).read_text().splitlines()) <= 90
