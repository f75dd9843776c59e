"""A run folder during training: created once, resumed with the same settings, saved at the end.

`sottovoce train` and `sottovoce.nlu.train` both call `train_into`, so they write the same files.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sottovoce.errors import InvalidInput
from sottovoce.io.run import PRIVATE, Run

if TYPE_CHECKING:
    from sottovoce.corpora import Utterance
    from sottovoce.corpora.splits import Parts
    from sottovoce.nlu.fit.loop import Progress
    from sottovoce.nlu.fit.settings import Settings
    from sottovoce.nlu.runs.experiment import Trained
    from sottovoce.nlu.schema import Schema
    from sottovoce.privacy.ledger import Ledger

LEDGER, CANARIES = "ledger.jsonl", "canaries.jsonl"


def train_into(
    folder: Path,
    settings: "Settings",
    parts: "Parts",
    schema: "Schema",
    *,
    source: Mapping[str, Any],
    plant: "Callable[[Parts], Parts] | None" = None,
    resume: bool = False,
    publish_metrics: bool = False,
    search: "SearchCost | None" = None,
    on_step: "Callable[[Progress], None] | None" = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> "Trained":
    """Train a model and save it as a run in `folder`; a stopped run can be resumed.

    `source` describes the origin of the data; it is stored in private/. `plant` adds canaries to
    the parts after the folder was created. Under torchrun every rank calls this and rank 0 writes.
    """
    from sottovoce.nlu.runs.experiment import train
    from sottovoce.nlu.runs.run import save_run
    from sottovoce.training import Worker, leave_workers

    leads = Worker.this().rank == 0
    with ExitStack() as held:
        if leads:
            run = Run(folder)
            run.check(resume=resume, before_steps=(CANARIES,))
            held.enter_context(run.lock())
            hashes = {
                "training data": hash_records(folder, parts.train),
                "labels": hash_schema(folder, schema),
            }
            asked = {**settings.to_json(), **source}
            run.begin(asked, hashes, resume=resume, before_steps=(CANARIES,))
        if plant is not None:
            parts = plant(parts)
        trained = train(
            settings,
            parts,
            schema,
            folder=folder,
            resume=resume,
            publish_metrics=publish_metrics,
            search=search,
            on_step=on_step,
            should_stop=should_stop,
        )
        leave_workers()
        if leads and not trained.fitted.stopped:
            trained.run["source"] = dict(source)
            ledger = merged(trained.fitted.ledger, folder)
            save_run(folder, trained.model, trained.run, ledger=ledger)
            clear(folder)
            Run(folder).protect()
    return trained


def hash_records(folder: Path, utterances: "Iterable[Utterance]") -> str:
    """A keyed hash of training records in order, to detect changes on resuming."""
    return Run(folder).keyed_hash_of(
        json.dumps([u.tokens, u.slots, u.intent, u.user], ensure_ascii=True).encode() + b"\n"
        for u in utterances
    )


def hash_schema(folder: Path, schema: "Schema") -> str:
    """A keyed hash of the labels."""
    return Run(folder).keyed_hash_of([json.dumps(schema.to_json(), sort_keys=True).encode()])


def merged(ledger: "Ledger", folder: Path) -> Path | None:
    """Write the merged ledger of several workers to one file; None if the file exists."""
    if (folder / LEDGER).exists():
        return None
    ledger.save(folder / LEDGER)
    return folder / LEDGER


def clear(folder: Path) -> None:
    """Remove the files that only an unfinished run needs."""
    for pattern in ("checkpoint*.pt", "vocabulary.json"):
        for path in (folder / PRIVATE).glob(pattern):
            path.unlink()


UNCHARGED = "choosing among {count} trials by their scores on the valid part is not charged"
VALID_READ = "the records of the valid part, by whose scores the settings were chosen"


@dataclass(frozen=True, kw_only=True)
class SearchCost:
    """The privacy cost of a search for settings: its trials, and their joint ledger if charged.

    It is stored with the best settings, so that a training with them is charged for the search, or
    lists it as not covered.
    """

    trials: int
    ledger: "Ledger | None"

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Statements for the guarantee of a model that is trained with the best settings."""
        return () if self.ledger is not None else (UNCHARGED.format(count=self.trials),)

    def to_json(self) -> dict[str, Any]:
        return {
            "trials": self.trials,
            "charged": self.ledger is not None,
            "ledger": None if self.ledger is None else self.ledger.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self | None:
        """The search recorded in a file of best settings; None if there is none.

        >>> SearchCost.from_json({"settings": {}}) is None
        True
        >>> SearchCost.from_json({"settings": {}, "trials": 3, "charged": False}).uncovered
        ('choosing among 3 trials by their scores on the valid part is not charged',)
        """
        from sottovoce.privacy.ledger import Ledger  # `train --help` loads no numpy

        if not data.keys() & {"trials", "charged", "ledger"}:
            return None
        trials, charged, ledger = (data.get(key) for key in ("trials", "charged", "ledger"))
        if not isinstance(trials, int) or not isinstance(charged, bool):
            raise InvalidInput(
                "Expected the number of trials behind these settings and whether they are charged, "
                f"got {trials!r} and {charged!r}: tune again."
            )
        if charged and not isinstance(ledger, Mapping):
            raise InvalidInput(
                "Expected the ledger of the trials with settings whose search is charged, found "
                "none: run tune --charge again, which reuses the finished trials."
            )
        return cls(
            trials=trials, ledger=Ledger.from_json(ledger) if isinstance(ledger, Mapping) else None
        )
