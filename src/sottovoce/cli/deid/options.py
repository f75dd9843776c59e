"""Options that several commands of `sottovoce deid` share: the detector and the labels."""

from collections.abc import Callable
from typing import Any

import click

from sottovoce.deid import MAPPINGS, LabelMap, mapping, read_labels
from sottovoce.deid.detect import DETECTORS

Command = Callable[..., Any]


def labels_option(command: Command) -> Command:
    """The option `--labels`, for `chosen_labels`."""
    return click.option(
        "--labels",
        default="standard",
        show_default=True,
        help=f"Mapping of labels to types: {', '.join(MAPPINGS)}, or a JSON file.",
    )(command)


def chosen_labels(name: str) -> LabelMap:
    """A mapping of this package, or the one in a file."""
    return mapping(name) if name in MAPPINGS else read_labels(name)


def detector_options(command: Command) -> Command:
    """The options `--detector` and `--caution`, for `sottovoce.deid.detector`."""
    command = click.option(
        "--caution",
        type=float,
        help="Least probability of being public that a tagger has to give a word it lets pass "
        "[default: the tagger's own].",
    )(command)
    return click.option(
        "--detector",
        "detector_name",
        default="tagger",
        show_default=True,
        help=f"{', '.join(DETECTORS)} (joined by +), or the file of a tagger or gazetteer.",
    )(command)
