"""The options that choose a detector, shared by all commands that find private values."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from sottovoce.cli.shared.options import deprecated_option
from sottovoce.deid import LabelMap, detector
from sottovoce.deid.detect import DETECTORS, Combination
from sottovoce.deid.detect.forms import COUNTRIES
from sottovoce.deid.detect.languages import ENGLISH, LANGUAGES
from sottovoce.errors import InvalidInput

Command = Callable[..., Any]


@dataclass(frozen=True)
class Detection:
    """What the options ask for."""

    name: str
    caution: float | None
    thresholds: tuple[str, ...]
    allow: str | None
    language: str
    countries: tuple[str, ...]

    def detector(self, labels: LabelMap) -> Combination:
        """The detector, made anew."""
        return detector(
            self.name,
            labels,
            caution=self.caution,
            thresholds=dict(map(_threshold, self.thresholds)),
            allow=_lines(self.allow) if self.allow else (),
            language=self.language,
            countries=self.countries or None,
        )


def detector_options(command: Command) -> Command:
    """Add `--detector` and all that goes with it; the command takes them as `detection`."""

    @functools.wraps(command)
    def gathered(
        *args: Any,
        detector_name: str,
        caution: float | None,
        type_threshold: tuple[str, ...],
        allow: str | None,
        language: str,
        country: tuple[str, ...],
        **rest: Any,
    ) -> Any:
        chosen = Detection(detector_name, caution, type_threshold, allow, language, country)
        return command(*args, detection=chosen, **rest)

    options = [
        click.option(
            "--detector",
            "detector_name",
            default="fast",
            show_default=True,
            help=f"{', '.join(DETECTORS)} (join several with +), or a file: a tagger, a list of "
            "values, or rules in TOML or YAML.",
        ),
        click.option(
            "--threshold",
            "caution",
            type=click.FloatRange(0, 1, min_open=True),
            callback=lambda ctx, param, value: None if value is None else caution_of(value),
            help="Also replace words that the tagger gives at least this probability of being "
            "private; lower finds more, 1 adds none [default: the tagger's own].",
        ),
        deprecated_option(
            "--caution",
            "--threshold",
            parameter="caution",
            hint=lambda caution: f" {threshold_of(caution):g}",
            type=click.FloatRange(0, 1),
        ),
        click.option(
            "--type-threshold",
            multiple=True,
            metavar="TYPE=P",
            help="Replace words of this type from this probability or score on; repeatable.",
        ),
        click.option(
            "--allow", metavar="FILE", help="List of values to leave in the text, one a line."
        ),
        click.option(
            "--language",
            default=ENGLISH,
            show_default=True,
            help=f"Language of the text: {', '.join(LANGUAGES)}.",
        ),
        click.option(
            "--country",
            multiple=True,
            type=click.Choice(COUNTRIES, case_sensitive=False),
            help="Look for national numbers of this country only; repeatable [default: all].",
        ),
    ]
    for option in reversed(options):
        gathered = option(gathered)
    return gathered


def _threshold(given: str) -> tuple[str, float]:
    kind, _, value = given.partition("=")
    try:
        return kind, float(value)
    except ValueError:
        raise InvalidInput(
            f"Expected a type and a probability such as ORG=0.6, got {given!r}."
        ) from None


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidInput(f"{path}: Expected a list of values in UTF-8, got {problem}.") from None


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
