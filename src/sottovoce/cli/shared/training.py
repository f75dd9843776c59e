"""Training on the command line: options of `train` and `tune`, settings, progress and Ctrl-C."""

import json
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from sottovoce.cli.shared.console import lines
from sottovoce.cli.shared.options import Named
from sottovoce.errors import InvalidInput

if TYPE_CHECKING:
    from sottovoce.corpora.splits import Parts, Split
    from sottovoce.nlu.fit.loop import Progress
    from sottovoce.nlu.fit.settings import Settings
    from sottovoce.nlu.runs.in_progress import SearchCost

Command = TypeVar("Command", bound=Callable[..., Any])

BY_RECIPE = " [default: set by the recipe]"
FILE = "settings_file"
CONVERT = (
    "`sottovoce corpus convert` has the options --lenient and --text-column and writes a file that "
    "can be trained on."
)

# Choices are repeated here, because the modules that define them import torch or numpy, and
# `--help` must not.
_OPTIONS: dict[str, dict[str, Any]] = {
    "model": {
        "type": Named("sottovoce.nlu.encoders:ENCODERS"),
        "default": "bert",
        "help": "Model architecture; bert and clc are those of the paper.",
    },
    "encoder": {
        "default": "adapted-minilm",
        "envvar": "SOTTOVOCE_ENCODER",
        "show_envvar": True,
        "help": "For bert: adapted-minilm (with the shipped adapter), minilm, paper (4 layers of "
        "width 312, untrained), a folder, or an adapter file.",
    },
    "samples": {
        "type": click.Path(exists=True),
        "help": "Public sample utterances to start from: a grammar (.toml), a folder of them, or a "
        "labelled corpus.",
    },
    "tuning": {
        "metavar": "HOW",
        "help": "For bert, which encoder weights to train: frozen, last-K, bias, lora, lora-RANK, "
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
        "help": "Epsilon of a dp vocabulary [default: a tenth of epsilon].",
    },
    "hidden": {"type": int, "help": "For clc: LSTM width [default: 384, as in the paper]."},
    "layers": {"type": int, "help": "For clc: LSTM layers [default: 2, as in the paper]."},
    "word-width": {
        "type": int,
        "help": "For clc without vectors: width of word embeddings [default: 300].",
    },
    "method": {
        "type": click.Choice(["sgd", "dp-sgd", "textbook", "edp-sgd"]),
        "help": "Training method; textbook is dp-sgd in a slow loop over examples [default: dp-sgd "
        "with an epsilon or a noise multiplier, sgd (no privacy) without].",
    },
    "as-printed": {"is_flag": True, "help": "Run edp-sgd exactly as the paper prints it."},
    "epsilon": {"type": float, "help": "Calibrate the noise to this epsilon."},
    "noise-multiplier": {"type": float, "help": "Noise scale over clip norm, z [default: 1]."},
    "delta": {"type": float, "help": "[default: a tenth of one over the population]"},
    "unit": {
        "type": click.Choice(["example", "user"]),
        "default": "example",
        "help": "Unit of privacy.",
    },
    "population": {
        "type": int,
        "help": "Declared number of units, an upper bound on the true number [default: counted].",
    },
    "max-examples-per-user": {
        "type": int,
        "help": "Also state the guarantee for users with up to this many examples; users with more "
        "are an error.",
    },
    "decay": {
        "type": click.Choice(["none", "linear", "exponential"]),
        "default": "none",
        "help": "How the noise decays from epoch to epoch.",
    },
    "tau": {"type": float, "default": 0.1, "help": "Strength of the decay."},
    "workers": {"type": int, "default": 1, "help": "Number of workers, for edp-sgd or torchrun."},
    "batch-size": {"type": int, "help": f"Expected units per step{BY_RECIPE}."},
    "epochs": {"type": int, "help": f"Passes over the data{BY_RECIPE}."},
    "clip-norm": {"type": float, "help": f"Clip norm, C{BY_RECIPE}."},
    "clipping": {
        "type": click.Choice(["flat", "automatic", "per-layer"]),
        "help": f"How gradients are clipped{BY_RECIPE}.",
    },
    "learning-rate": {"type": float, "help": f"Initial learning rate{BY_RECIPE}."},
    "encoder-rate": {"type": float, "help": f"Learning rate factor of encoder weights{BY_RECIPE}."},
    "optimizer": {
        "type": click.Choice(["adam", "sgd"]),
        "help": f"Optimizer{BY_RECIPE}.",
    },
    "schedule": {
        "type": click.Choice(["constant", "linear", "cosine"]),
        "help": f"Learning rate schedule{BY_RECIPE}.",
    },
    "averaged": {"type": float, "help": f"Fraction of final steps to average over{BY_RECIPE}."},
    "virtual-batch": {
        "type": int,
        "default": 64,
        "help": "Examples per forward and backward pass.",
    },
    "seed": {"type": int, "help": "For tests: no guarantee against anyone who knows the seed."},
}


def settings_options(*, without: Collection[str] = ()) -> Callable[[Command], Command]:
    """Add all options of `settings_from`, except those that the verb defines itself."""

    def decorate(command: Command) -> Command:
        for name, details in reversed(_OPTIONS.items()):
            if name not in without:
                shown = "default" in details
                command = click.option(f"--{name}", **details, show_default=shown)(command)
        return click.option(
            "--settings",
            FILE,
            type=click.Path(exists=True, dir_okay=False),
            help="Settings in JSON, such as best.json of tune; command-line options override them.",
        )(command)

    return decorate


def load_data(
    data: str, *, split: "Split | None" = None, valid: str | None = None, test: str | None = None
) -> "Parts":
    """The parts of DATA; what cannot be read is named with the verb that can repair it."""
    from sottovoce.corpora.splits import load_parts

    try:
        return load_parts(data, split=split, valid=valid, test=test)
    except InvalidInput as problem:
        if any(hint in str(problem) for hint in ("leniently", "column")):
            raise InvalidInput(f"{problem} {CONVERT}") from problem
        raise


def settings_from(options: dict[str, Any]) -> "Settings":
    """Validated settings from options and settings file; `quick` starts from a small model."""
    from sottovoce.nlu.fit.recipes import QUICK
    from sottovoce.nlu.fit.settings import Settings

    given = {name: value for name, value in options.items() if name not in (FILE, "quick")}
    path = options.get(FILE)
    if path is None and not options.get("quick"):
        return Settings.from_json(_with_method(given))
    # Only options given on the command line override the file; defaults do not.
    context = click.get_current_context()
    typed = {
        name: value
        for name, value in given.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    start = QUICK if options.get("quick") else {}
    found = {} if path is None else _read(Path(path))
    return Settings.from_json(_with_method({**start, **found.get("settings", found), **typed}))


def _with_method(given: dict[str, Any]) -> dict[str, Any]:
    """An epsilon or a noise multiplier asks for private training, if no method is named."""
    if given.get("method") is not None:
        return given
    private = any(given.get(name) is not None for name in ("epsilon", "noise_multiplier"))
    return given | {"method": "dp-sgd" if private else "sgd"}


def search_cost_from(options: dict[str, Any]) -> "SearchCost | None":
    """The search that found the settings in the file, so that its cost is charged to the run."""
    from sottovoce.nlu.runs.in_progress import SearchCost

    path = options.get(FILE)
    return None if path is None else SearchCost.from_json(_read(Path(path)))


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as problem:
        raise InvalidInput(f"Expected JSON in {path}, got: {problem}.") from problem
    if not isinstance(data, dict) or not isinstance(data.get("settings", data), dict):
        raise InvalidInput(f"Expected the settings of a training run in {path}.")
    return data


@contextmanager
def stopping(*, alone: bool = True) -> Iterator[Callable[[], bool]]:
    """Ctrl-C stops after the current step; a second Ctrl-C stops at once.

    Yields a function that returns whether to stop. torchrun stops several workers itself; they
    resume from their last checkpoints.
    """
    if not alone or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    requested = False

    def request(*_: object) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True
        click.echo("Stopping after this step (Ctrl-C again to stop at once).", err=True)

    previous = signal.signal(signal.SIGINT, request)
    try:
        yield lambda: requested
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def steps_bar(title: str, *, quiet: bool = False) -> "Iterator[Callable[[Progress], None]]":
    """A progress bar with steps, loss, epsilon spent (private training only) and time left.

    Without a terminal, a line now and then.
    """
    if quiet:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        say = lines()
        yield lambda now: say(lambda: f"{title}: {now}")
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn(title),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("", total=None, state="preparing")

    def update(now: "Progress") -> None:
        bar.update(task, completed=now.step, total=now.steps, state=str(now))

    with bar:
        yield update
