"""Grid search for settings on validation data, and its privacy cost.

Every trial is a complete training on the private data. Its model is discarded, but the best
settings are released, so the search is either charged (all trials in one ledger, which is added to
that of the final training) or listed as not covered.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from sottovoce.corpora.splits import Parts
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.nlu.fit.recipes import default_recipe
from sottovoce.nlu.fit.settings import DP, Settings
from sottovoce.nlu.runs.experiment import train
from sottovoce.nlu.runs.in_progress import VALID_READ, SearchCost
from sottovoce.nlu.schema import Schema
from sottovoce.privacy.accounting import account, several_runs
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.recipes import Decay
from sottovoce.training import Method
from sottovoce.training.private import NOT_CHARGED

CLIP_NORMS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
NOISE_MULTIPLIERS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
"""The paper states only the ends of this range."""
TAUS = {
    Decay.NONE: (),
    Decay.LINEAR: (0.02, 0.05, 0.07, 0.1, 0.3, 0.5, 0.7, 0.9),
    Decay.EXPONENTIAL: (0.01, 0.02, 0.05, 0.08, 0.1, 0.2, 0.35, 0.5),
}
RATE_FACTORS = (0.3, 1.0, 3.0)
"""Multiples of the recipe's learning rate; the paper does not state its own."""

GRID_FIXED = "the grid of {count} trials was fixed without a look at the private data"


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Values to try for each setting; an empty tuple keeps the setting."""

    clip_norm: tuple[float, ...] = ()
    noise_multiplier: tuple[float, ...] = ()
    tau: tuple[float, ...] = ()
    learning_rate: tuple[float, ...] = ()

    @classmethod
    def of_paper(cls, settings: Settings) -> Self:
        """The paper's grid for the settings that are not fixed.

        >>> len(Grid.of_paper(Settings(method=Method.EDP_SGD, decay=Decay.LINEAR)).around(
        ...     Settings(method=Method.EDP_SGD, decay=Decay.LINEAR)))
        1008
        """
        rate = default_recipe(settings.model, settings.method)["learning_rate"]
        rates = tuple(float(f"{rate * factor:.3g}") for factor in RATE_FACTORS)
        if settings.method is Method.SGD:
            return cls(learning_rate=rates)
        given = settings.epsilon is not None or settings.noise_multiplier is not None
        return cls(
            clip_norm=CLIP_NORMS,
            noise_multiplier=() if given else NOISE_MULTIPLIERS,
            tau=TAUS[settings.decay],
            learning_rate=rates,
        )

    def around(self, settings: Settings) -> list[Settings]:
        """Settings for every combination of values."""
        axes = {name: values for name, values in vars(self).items() if values}
        if "tau" in axes and settings.decay is Decay.NONE:
            raise InvalidInput("Expected a decay with values of tau to try, got none: set decay.")
        return [
            replace(settings, **dict(zip(axes, values, strict=True)))
            for values in product(*axes.values())
        ]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A finished trial: settings, scores on the valid part, and cost."""

    settings: Settings
    scores: dict[str, Any]
    guarantee: Guarantee
    ledger: Ledger
    seconds: float

    @property
    def ser(self) -> float:
        return float(self.scores["ser"]["value"])

    def to_json(self) -> dict[str, Any]:
        return {
            "settings": self.settings.to_json(),
            "scores": self.scores,
            "guarantee": self.guarantee.to_json(),
            "ledger": self.ledger.to_json(),
            "seconds": self.seconds,
        }

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a finished trial; an unreadable file is an error, and the trial is not repeated."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                settings=Settings.from_json(data["settings"]),
                scores=data["scores"],
                guarantee=Guarantee.from_json(data["guarantee"]),
                ledger=Ledger.from_json(data["ledger"]),
                seconds=data["seconds"],
            )
        except (ValueError, KeyError, TypeError, AttributeError, InvalidInput) as problem:
            raise InvalidInput(
                f"Expected a finished trial in {path}, but it cannot be read: delete the file to "
                "repeat the trial."
            ) from problem


def chosen(trials: Sequence[Settings], limit: int | None) -> list[Settings]:
    """All trials, or a uniform sample of `limit` of them, in order."""
    if limit is None or limit >= len(trials):
        return list(trials)
    places = NoiseSource().words(len(trials)).argsort(kind="stable")[:limit]
    return [trials[place] for place in sorted(places.tolist())]


def run_trials(
    trials: Sequence[Settings],
    parts: Parts,
    schema: Schema,
    folder: Path,
    *,
    on_trial: Callable[[int, Trial], None] = lambda *_: None,
) -> list[Trial]:
    """Train each trial and score it on the valid part; finished trials are read from disk."""
    if not parts.valid:
        raise InvalidInput(
            f"Expected a valid part in {parts.name} to compare settings on, found none."
        )
    folder.mkdir(parents=True, exist_ok=True)
    done = []
    for number, settings in enumerate(trials, 1):
        path = folder / f"{_name(settings)}.json"
        if path.exists():
            trial = Trial.read(path)
        else:
            trial = _run(settings, replace(parts, test=()), schema)
            with text_output(path, mode=0o600) as stream:
                json.dump(trial.to_json(), stream, indent=2, allow_nan=False)
                stream.write("\n")
        done.append(trial)
        on_trial(number, trial)
    return done


def search_cost(trials: Sequence[Trial], *, charge: bool) -> SearchCost:
    """The privacy cost of a search; with `charge`, all trials are in one ledger."""
    if not charge:
        return SearchCost(trials=len(trials), ledger=None)
    first = trials[0].ledger
    ledger = Ledger.of(
        several_runs(trial.ledger.entries for trial in trials),
        unit=first.unit,
        relation=first.relation,
        assumptions=[
            *(sentence for trial in trials for sentence in trial.ledger.assumptions),
            GRID_FIXED.format(count=len(trials)),
        ],
        not_covered=[
            *(
                sentence
                for trial in trials
                for sentence in trial.ledger.not_covered
                if sentence != NOT_CHARGED
            ),
            VALID_READ,
        ],
    )
    return SearchCost(trials=len(trials), ledger=ledger)


def guarantee_of_choice(
    search: SearchCost, best: Trial, *, population: int | None = None
) -> Guarantee:
    """The guarantee of a model trained with the best settings, including the final training.

    The final training costs as much as the best trial, so a charged search is its ledger plus one
    more trial.
    """
    own = best.guarantee
    if search.ledger is None:
        return own.qualified(not_covered=search.uncovered)
    return account(
        several_runs([search.ledger.entries, best.ledger.entries]),
        unit=own.unit,
        relation=own.relation,
        delta=own.delta,
        population=population,
        assumptions=search.ledger.assumptions,
        not_covered=(*search.ledger.not_covered, NOT_CHARGED),
    )


def _run(settings: Settings, parts: Parts, schema: Schema) -> Trial:
    with TemporaryDirectory() as folder:
        # A private vocabulary is charged to a ledger on disk.
        place = Path(folder) if settings.vocabulary == DP else None
        trained = train(settings, parts, schema, folder=place)
    return Trial(
        settings=settings,
        scores=trained.run["metrics"]["valid"],
        guarantee=trained.fitted.guarantee,
        ledger=trained.fitted.ledger,
        seconds=round(trained.fitted.seconds, 2),
    )


def _name(settings: Settings) -> str:
    content = json.dumps(settings.to_json(), sort_keys=True).encode()
    return hashlib.blake2b(content, digest_size=8).hexdigest()
