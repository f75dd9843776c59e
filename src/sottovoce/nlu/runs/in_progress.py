"""A run folder during training: created once, resumed with the same settings, saved at the end.

`sottovoce train` and `sottovoce.nlu.train` both call `train_into`, so they write the same files.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.errors import InvalidInput
from sottovoce.io.run_folder import KEY, LOCK, NOTICE, PRIVATE, RUN, RunFolder

if TYPE_CHECKING:
    from sottovoce.corpora import Utterance
    from sottovoce.corpora.splits import Parts
    from sottovoce.nlu.fit.loop import Progress
    from sottovoce.nlu.fit.settings import Settings
    from sottovoce.nlu.runs.experiment import Trained
    from sottovoce.nlu.runs.search_cost import SearchCost
    from sottovoce.nlu.schema import Schema
    from sottovoce.privacy.ledger import Ledger

BEGUN, LEDGER, CANARIES = "settings.json", "ledger.jsonl", "canaries.jsonl"
_WRITTEN_BEFORE_STEPS = {BEGUN, CANARIES, KEY, LOCK, NOTICE}
"""Files in private/ of a training that was refused before its first step: nothing was spent."""


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
            check_folder(folder, resume=resume)
            held.enter_context(RunFolder(folder).lock())
            hashes = {
                "training data": hash_records(folder, parts.train),
                "labels": hash_schema(folder, schema),
            }
            begin(folder, settings.to_json(), source, hashes, resume=resume)
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
            RunFolder(folder).protect()
    return trained


def begin(
    folder: Path,
    settings: Mapping[str, Any],
    source: Mapping[str, Any],
    hashes: Mapping[str, str],
    *,
    resume: bool,
) -> None:
    """Record settings and data in the folder, or check that they match the run to resume.

    `hashes` are keyed hashes (see `hash_records`) of the training data and the labels.
    """
    asked = {"settings": dict(settings), "source": dict(source), "hashes": dict(hashes)}
    check_folder(folder, resume=resume)
    if resume:
        _check_unchanged(folder, asked)
        return
    RunFolder(folder).write_private(BEGUN, asked)


def check_folder(folder: Path, *, resume: bool) -> None:
    """Refuse a folder that is not empty, because a ledger must not be restarted.

    With `resume`, refuse a folder without an interrupted run.
    """
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"Expected a folder to write to, got the file {folder}.")
    if resume:
        if (folder / RUN).exists():
            raise InvalidInput(f"Expected an interrupted run in {folder}, got a finished one.")
        if not (folder / PRIVATE / BEGUN).is_file():
            raise InvalidInput(f"Expected an interrupted run in {folder}, found none.")
        return
    if not folder.exists():
        return
    others = sorted({path.name for path in folder.iterdir()} - {PRIVATE})
    if (folder / PRIVATE).is_dir():
        kept = {path.name for path in (folder / PRIVATE).iterdir()} - _WRITTEN_BEFORE_STEPS
        others += sorted(f"{PRIVATE}/{name}" for name in kept)
    if not others:
        return
    if RUN in others:
        raise InvalidInput(
            f"Expected an empty folder, got a finished run in {folder}: name another folder."
        )
    if (folder / PRIVATE / BEGUN).exists():
        raise InvalidInput(
            f"Expected an empty folder, got an interrupted run in {folder}: name another "
            "folder, or add --resume."
        )
    raise InvalidInput(f"Expected an empty folder, got {others[0]} in {folder}.")


def hash_records(folder: Path, utterances: "Iterable[Utterance]") -> str:
    """A keyed hash of training records in order, to detect changes on resuming."""
    return RunFolder(folder).keyed_hash_of(
        json.dumps([u.tokens, u.slots, u.intent, u.user], ensure_ascii=True).encode() + b"\n"
        for u in utterances
    )


def hash_schema(folder: Path, schema: "Schema") -> str:
    """A keyed hash of the labels."""
    return RunFolder(folder).keyed_hash_of([json.dumps(schema.to_json(), sort_keys=True).encode()])


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


def _check_unchanged(folder: Path, asked: Mapping[str, Any]) -> None:
    path = folder / PRIVATE / BEGUN
    try:
        begun = json.loads(path.read_text(encoding="utf-8"))
        kept = {**begun["settings"], **begun["source"]}
        hashes = dict(begun["hashes"])
    except (ValueError, KeyError, TypeError) as problem:
        raise InvalidInput(
            f"Expected the settings of the interrupted run in {path}, but they cannot be read."
        ) from problem
    now = {**asked["settings"], **asked["source"]}
    for name in sorted(kept.keys() | now.keys()):
        if kept.get(name) != now.get(name):
            raise InvalidInput(
                f"Expected the settings of the interrupted run, which are in {path}, got another "
                f"{name.replace('_', ' ')}: {now.get(name)} instead of {kept.get(name)}."
            )
    for name in sorted(hashes.keys() | asked["hashes"].keys()):
        if hashes.get(name) != asked["hashes"].get(name):
            raise InvalidInput(
                f"Expected the {name} of the interrupted run in {folder}, got others: the ledger "
                "covers the steps on the old ones, so restore them, or train in another folder."
            )
