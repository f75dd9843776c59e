"""The options of a training run, shared by `train` and `tune`, and the settings they make.

Choices are written out here: the modules that define them load torch, and `--help` must not.
"""

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from sottovoce.cli.shared.named import Named
from sottovoce.errors import InvalidInput

if TYPE_CHECKING:
    from sottovoce.nlu.fit.settings import Settings
    from sottovoce.nlu.runs.search_cost import SearchCost

Command = TypeVar("Command", bound=Callable[..., Any])

BY_RECIPE = " [default: by the recipe]"
FILE = "settings_file"

_OPTIONS: dict[str, dict[str, Any]] = {
    "model": {
        "type": Named("sottovoce.nlu.encoders.registry:ENCODERS"),
        "default": "bert",
        "help": "The paper's two models.",
    },
    "encoder": {
        "default": "minilm",
        "envvar": "SOTTOVOCE_ENCODER",
        "show_envvar": True,
        "help": "For bert: minilm, paper (4 layers x 312, untrained), or a folder.",
    },
    "samples": {
        "type": click.Path(exists=True),
        "help": "Public sample utterances to start from: a grammar (.toml), a folder of them, or a "
        "labelled corpus.",
    },
    "tuning": {
        "metavar": "HOW",
        "help": "For bert, what of the encoder is trained: frozen, last-K, bias, lora, lora-RANK, "
        f"full{BY_RECIPE}.",
    },
    "vectors": {"type": click.Path(exists=True), "help": "For clc: public word vectors."},
    "vocabulary": {
        "default": "hashed",
        "help": "For clc without vectors: hashed, hashed-BUCKETS, dp, private (not covered), or a "
        "public list.",
    },
    "vocabulary-epsilon": {
        "type": float,
        "help": "What a dp vocabulary may cost [default: a tenth of epsilon].",
    },
    "hidden": {"type": int, "help": "For clc: width of the LSTM [default: 384, as the paper]."},
    "layers": {"type": int, "help": "For clc: layers of the LSTM [default: 2, as the paper]."},
    "word-width": {"type": int, "help": "For clc without vectors: width of a word [default: 300]."},
    "method": {
        "type": click.Choice(["sgd", "dp-sgd", "textbook", "edp-sgd"]),
        "default": "sgd",
        "help": "How steps are made; textbook is dp-sgd in a slow loop.",
    },
    "as-printed": {"is_flag": True, "help": "edp-sgd to the letter of the paper."},
    "epsilon": {"type": float, "help": "Find the noise for this epsilon."},
    "noise-multiplier": {"type": float, "help": "Noise over clip norm, z [default: 1]."},
    "delta": {"type": float, "help": "[default: a tenth of one over the population]"},
    "unit": {
        "type": click.Choice(["example", "user"]),
        "default": "example",
        "help": "Who is protected.",
    },
    "population": {
        "type": int,
        "help": "Declared number of units, not fewer than there are [default: counted].",
    },
    "max-examples-per-user": {
        "type": int,
        "help": "Also tell what holds for a user with so many examples; more are refused.",
    },
    "decay": {
        "type": click.Choice(["none", "linear", "exponential"]),
        "default": "none",
        "help": "How the noise decays by epoch.",
    },
    "tau": {"type": float, "default": 0.1, "help": "The strength of the decay."},
    "workers": {"type": int, "default": 1, "help": "For edp-sgd, or under torchrun."},
    "batch-size": {"type": int, "help": f"Units a step, on average{BY_RECIPE}."},
    "epochs": {"type": int, "help": f"Passes over the data{BY_RECIPE}."},
    "clip-norm": {"type": float, "help": f"C{BY_RECIPE}."},
    "clipping": {
        "type": click.Choice(["flat", "automatic", "per-layer"]),
        "help": f"How gradients are clipped{BY_RECIPE}.",
    },
    "learning-rate": {"type": float, "help": f"Of the first step{BY_RECIPE}."},
    "encoder-rate": {"type": float, "help": f"Factor for the encoder's own weights{BY_RECIPE}."},
    "optimizer": {
        "type": click.Choice(["adam", "sgd"]),
        "help": f"What moves the weights{BY_RECIPE}.",
    },
    "schedule": {
        "type": click.Choice(["constant", "linear", "cosine"]),
        "help": f"How the learning rate falls{BY_RECIPE}.",
    },
    "averaged": {"type": float, "help": f"Last part of the steps to average{BY_RECIPE}."},
    "virtual-batch": {
        "type": int,
        "default": 256,
        "help": "Examples that go through the model at a time.",
    },
    "seed": {"type": int, "help": "For tests: no guarantee for who knows the seed."},
}


def settings_options(*, without: Collection[str] = ()) -> Callable[[Command], Command]:
    """Everything that `settings_from` understands, but for options that a verb has of its own."""

    def decorate(command: Command) -> Command:
        for name, details in reversed(_OPTIONS.items()):
            if name not in without:
                shown = "default" in details
                command = click.option(f"--{name}", **details, show_default=shown)(command)
        return click.option(
            "--settings",
            FILE,
            type=click.Path(exists=True, dir_okay=False),
            help="Settings in JSON, such as the best.json of tune; options given here come first.",
        )(command)

    return decorate


def settings_from(options: dict[str, Any]) -> "Settings":
    """Settings of a file and of the options, each checked; `quick` starts from a small model."""
    from sottovoce.nlu.fit.recipes import QUICK
    from sottovoce.nlu.fit.settings import Settings

    given = {name: value for name, value in options.items() if name not in (FILE, "quick")}
    path = options.get(FILE)
    if path is None and not options.get("quick"):
        return Settings.from_json(given)
    # What was not typed is a default, and gives way to the file.
    context = click.get_current_context()
    typed = {
        name: value
        for name, value in given.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    start = QUICK if options.get("quick") else {}
    found = {} if path is None else _read(Path(path))
    return Settings.from_json({**start, **found.get("settings", found), **typed})


def search_cost_from(options: dict[str, Any]) -> "SearchCost | None":
    """The search that found the settings of a file, for the training to pay for."""
    from sottovoce.nlu.runs.search_cost import SearchCost

    path = options.get(FILE)
    return None if path is None else SearchCost.from_json(_read(Path(path)))


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as problem:
        raise InvalidInput(f"Expected JSON in {path}, but {problem}.") from problem
    if not isinstance(data, dict) or not isinstance(data.get("settings", data), dict):
        raise InvalidInput(f"Expected the settings of a training run in {path}.")
    return data
