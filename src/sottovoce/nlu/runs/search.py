"""Search for settings on validation data: a grid of trials, each kept, and what choosing cost.

Every trial is a whole training on the private data. Its model is thrown away, but which trial was
best is told, so the search is either charged (all trials in one ledger, which the training with
the best settings continues) or listed as not covered.
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
from sottovoce.nlu.fit.settings import PAID, Settings
from sottovoce.nlu.runs.experiment import train
from sottovoce.nlu.runs.searched import VALID_READ, Searched
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
"""The paper names the ends of this range only."""
TAUS = {
    Decay.NONE: (),
    Decay.LINEAR: (0.02, 0.05, 0.07, 0.1, 0.3, 0.5, 0.7, 0.9),
    Decay.EXPONENTIAL: (0.01, 0.02, 0.05, 0.08, 0.1, 0.2, 0.35, 0.5),
}
RATE_FACTORS = (0.3, 1.0, 3.0)
"""Times the recipe's learning rate, of which the paper says nothing."""

GRID_FIXED = "the grid of {count} trials was fixed without a look at the private data"


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Values to try; an empty one leaves the setting as it is."""

    clip_norm: tuple[float, ...] = ()
    noise_multiplier: tuple[float, ...] = ()
    tau: tuple[float, ...] = ()
    learning_rate: tuple[float, ...] = ()

    @classmethod
    def of_paper(cls, settings: Settings) -> Self:
        """The paper's grids, as far as the settings leave them open.

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
        """Settings for every combination; those that contradict each other are refused."""
        axes = {name: values for name, values in vars(self).items() if values}
        if "tau" in axes and settings.decay is Decay.NONE:
            raise InvalidInput("Expected a decay to try values of tau with, got none.")
        return [
            replace(settings, **dict(zip(axes, values, strict=True)))
            for values in product(*axes.values())
        ]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A training that was tried: its settings, its scores on the valid part, its cost."""

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
        """Read a trial back; one that cannot be read is not silently tried again."""
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
                f"Expected a finished trial in {path}, but it cannot be read: delete it to train "
                "it again."
            ) from problem


def chosen(trials: Sequence[Settings], limit: int | None) -> list[Settings]:
    """All trials, or so many of them, drawn uniformly and kept in order."""
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
    """Train every trial and score it on the valid part alone; finished ones are read from disk."""
    if not parts.valid:
        raise InvalidInput(f"Expected a valid part in {parts.name} to choose by, found none.")
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


def searched(trials: Sequence[Trial], *, charge: bool) -> Searched:
    """What a search did to the data; with `charge` all trials are in one ledger."""
    if not charge:
        return Searched(trials=len(trials), ledger=None)
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
    return Searched(trials=len(trials), ledger=ledger)


def guarantee_of_choice(
    search: Searched, best: Trial, *, population: int | None = None
) -> Guarantee:
    """What holds for a model that is trained with the best settings, its own training included.

    That training will do what the trial did, so a charged search is that ledger and one more trial.
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
        # A vocabulary is paid for in a ledger, which needs a place.
        place = Path(folder) if settings.vocabulary == PAID else None
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
