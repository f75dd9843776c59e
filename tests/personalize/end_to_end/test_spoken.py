"""From speech to personal text: the example speaks, listens, federates, rescores and prints."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "recognise_and_personalise.py"
EXPECTED = re.compile(
    r"round 1: 6 of 6 devices contributed\nround 2: 6 of 6 devices contributed\n"
    r"word error rate on (\d+) words of 4 users:\n"
    r"  first pass +([\d.]+) %\n  background +([\d.]+) %\n  adapted +([\d.]+) %\n"
    r"  oracle +([\d.]+) %\nAdding or removing any one utterance .* at most e\^4 .*\n"
)


def run(path: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLE],
        env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_speech_is_recognised_federated_and_rescored() -> None:
    if shutil.which("flite") is None:
        pytest.skip("flite is not installed (Debian package flite)")
    if importlib.util.find_spec("pocketsphinx") is None:
        pytest.skip("pocketsphinx is not installed")
    told = run(os.environ["PATH"])
    found = EXPECTED.fullmatch(told)
    assert found, told
    words, *rates = map(float, found.groups())
    first, background, adapted, oracle = rates
    assert words == 51
    # No choice beats the oracle, and a real recogniser is neither perfect nor useless.
    assert 0 < oracle <= min(first, background, adapted)
    assert max(rates) < 100


def test_without_a_synthesiser_it_says_so(tmp_path: Path) -> None:
    told = run(str(tmp_path))
    assert told.startswith("Nothing to do: this needs flite")
    assert told.count("\n") == 1
