"""Options that several `sottovoce deid` commands share, and the objects they stand for."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from sottovoce.cli.shared.options import deprecated_option
from sottovoce.corpora import Reader
from sottovoce.deid import MAPPINGS, LabelMap, Resources, Vault, mapping, read_labels
from sottovoce.deid.detect import DETECTORS, Combination, Evaluation
from sottovoce.deid.replace.sources import SourceRequest, surrogates_from
from sottovoce.deid.replace.strategies import Fit
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

Command = Callable[..., Any]


def labels_option(command: Command) -> Command:
    """Add the option `--labels`, for `chosen_labels`."""
    return click.option(
        "--labels",
        default="standard",
        show_default=True,
        help=f"Mapping from labels to types: {', '.join(MAPPINGS)}, or a JSON file.",
    )(command)


def chosen_labels(name: str) -> LabelMap:
    """A built-in mapping, or one from a file."""
    return mapping(name) if name in MAPPINGS else read_labels(name)


def detector_options(command: Command) -> Command:
    """Add the options `--detector` and `--threshold`, for `sottovoce.deid.detector`."""
    command = deprecated_option(
        "--caution",
        "--threshold",
        parameter="caution",
        hint=lambda caution: f" {threshold_of(caution):g}",
        type=click.FloatRange(0, 1),
    )(command)
    command = click.option(
        "--threshold",
        "caution",
        type=click.FloatRange(0, 1, min_open=True),
        callback=lambda ctx, param, value: None if value is None else caution_of(value),
        help="Also replace words that the tagger gives at least this probability of being private; "
        "lower finds more, 1 adds none [default: the tagger's own].",
    )(command)
    return click.option(
        "--detector",
        "detector_name",
        default="fast",
        show_default=True,
        help=f"{', '.join(DETECTORS)} (join several with +), or the file of a tagger or gazetteer.",
    )(command)


def caution_of(threshold: float) -> float:
    """The tagger's `caution` that marks words with P(private) >= threshold.

    A tagger marks words with P(public) < caution, a strict inequality. So the caution is the
    smallest floating-point number above 1 - threshold; 0 turns marking off.

    >>> caution_of(0.25), caution_of(1.0)
    (0.7500000000000001, 0.0)
    """
    if threshold == 1:
        return 0.0
    largest = 1 - threshold
    if Fraction(largest) > 1 - Fraction(threshold):
        largest = math.nextafter(largest, 0.0)
    return math.nextafter(largest, 1.0)


def threshold_of(caution: float) -> float:
    """The threshold to print for a tagger's `caution`.

    >>> threshold_of(0.98), threshold_of(0.0)
    (0.02, 1.0)
    """
    return float(f"{1 - caution:.12g}")


def resources(
    options: Mapping[str, Any],
    readers: Sequence[Reader],
    found: Combination,
    noise: NoiseSource,
    vault: Vault | None,
) -> Resources:
    named = options["surrogates"]
    if named and any(Path(named).exists() and _is_same(named, reader) for reader in readers):
        raise InvalidInput(
            "Expected a public list of surrogates, got the corpus itself: to draw from its own "
            "values, use same-corpus or dp-histogram."
        )
    twice = len(readers) == 1 and str(readers[0].path) != "-"
    request = SourceRequest(
        utterances=readers[0] if twice else None,
        detector=found,
        epsilon=options["histogram_epsilon"],
        delta=options["histogram_delta"],
        noise=noise,
    )
    surrogates = surrogates_from(named, request) if named else {}
    vectors = None
    if options["vectors"]:
        from sottovoce.corpora.wordvectors import read_word_vectors

        vectors = read_word_vectors(options["vectors"])
    return Resources(
        surrogates=surrogates,
        vectors=vectors,
        vault=vault,
        fit=Fit(options["fit"]),
    )


def _is_same(named: str, reader: Reader) -> bool:
    path = Path(reader.path)
    return path.exists() and path.samefile(named)


def vault_of(options: Mapping[str, Any]) -> Vault | None:
    reversible = options["vault_file"] is not None
    if options["key_file"] is None:
        if reversible:
            raise InvalidInput(
                "Expected --key with --vault, got none: without the key the vault cannot be opened."
            )
        return Vault.fresh(within=options["within"])
    key = Path(options["key_file"]).read_bytes()
    return Vault(key, within=options["within"], reversible=reversible)


def evaluation_of(path: str | None) -> Evaluation | None:
    if path is None:
        return None
    try:
        return Evaluation.from_json(json.loads(Path(path).read_text(encoding="utf-8")))
    except ValueError as problem:
        raise InvalidInput(f"{path}: {problem}") from problem
