"""Train, use, evaluate, save and load an intent and slot model.

>>> import tempfile
>>> from sottovoce import nlu
>>> from sottovoce.corpora.synthetic import generate
>>> utterances = list(generate("communication", size=260, seed=1))
>>> model = nlu.train(utterances[:200], epsilon=3, quick=True)
>>> parse = model("call my sister")
>>> parse.text, parse.intent in model.labels.intents
('call my sister', True)
>>> print(model.guarantee)
Adding or removing any one example changes the probability of any outcome by a factor of at most
e^3, except with probability at most 0.0005 ...
>>> list(model.evaluate(utterances[200:]))
['ser', 'intent_accuracy', 'slot_f1', 'exact_match']
>>> with tempfile.TemporaryDirectory() as folder:
...     model.save(f"{folder}/run")
...     nlu.load(f"{folder}/run")("call my sister") == parse
True
"""

import difflib
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, overload

from sottovoce.corpora import Columns, Utterance
from sottovoce.corpora.memory import read_parts, read_utterances
from sottovoce.corpora.splits import By, Split, parse_ratios
from sottovoce.errors import InvalidInput
from sottovoce.io.run import LOCK, PRIVATE, RUN, Run
from sottovoce.nlu.fit.loop import Progress
from sottovoce.nlu.fit.recipes import QUICK, QUICK_NOTE, is_quick
from sottovoce.nlu.fit.settings import Settings
from sottovoce.nlu.metrics.scores import Evaluation
from sottovoce.nlu.model import JointModel
from sottovoce.nlu.parses import Parse, parse_of, utterance_of
from sottovoce.nlu.runs.checks import check_samples, check_trainable
from sottovoce.nlu.runs.experiment import evaluate
from sottovoce.nlu.runs.in_progress import CANARIES, train_into
from sottovoce.nlu.runs.run import load_run, save_run
from sottovoce.nlu.schema import Schema
from sottovoce.privacy.guarantee import Guarantee, rounded_up
from sottovoce.privacy.ledger import Ledger


class Assistant:
    """A trained intent and slot model, with the record of its training. Thread-safe.

    Created by `train` and `load`. `run` is the run.json of the training, including the private
    part if it is available.
    """

    def __init__(
        self,
        model: JointModel,
        run: Mapping[str, Any],
        *,
        folder: Path | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """`folder` is the run folder; without one, `files` holds the files written by training.

        Paths in `files` are relative to the run folder.
        """
        self.model = model.eval()
        self.run = dict(run)
        self._folder = folder
        self._files = dict(files or {})
        self._lock = threading.Lock()

    @overload
    def __call__(self, texts: str) -> Parse: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, texts: Iterable[str]) -> list[Parse]: ...

    def __call__(self, texts: str | Iterable[str]) -> Parse | list[Parse]:
        """The parse of one text, or of each text of a list."""
        if isinstance(texts, str):
            return self._parse([utterance_of(texts)])[0]
        return self._parse([utterance_of(text) for text in texts])

    def _parse(self, utterances: list[Utterance]) -> list[Parse]:
        with self._lock:
            found = self.model.predict([utterance.tokens for utterance in utterances])
        return [parse_of(*pair) for pair in zip(utterances, found, strict=True)]

    def evaluate(
        self, data: Any, *, columns: Columns | Mapping[str, str] | None = None
    ) -> Evaluation:
        """Scores on labelled data, with 95 % intervals. No guarantee covers private data here."""
        utterances = read_utterances(data, columns=columns)
        if not any(utterance.intent for utterance in utterances):
            raise InvalidInput(
                f"Expected utterances with intents to evaluate on, got {len(utterances):,} "
                "without intents: add them."
            )
        with self._lock:
            return Evaluation(evaluate(self.model, utterances))

    @property
    def labels(self) -> Schema:
        """Intents and slot types of the model."""
        return self.model.schema

    @cached_property
    def guarantee(self) -> Guarantee:
        """The privacy guarantee of the training, derived from its ledger."""
        return Guarantee.from_json(self.run["guarantee"])

    @cached_property
    def ledger(self) -> Ledger:
        """The privacy ledger of the training."""
        return Ledger.from_json(self.run["ledger"])

    @property
    def metrics(self) -> dict[str, Evaluation]:
        """Scores on the valid and test parts, measured at the end of training."""
        return {part: Evaluation(found) for part, found in self.run.get("metrics", {}).items()}

    @property
    def quick(self) -> bool:
        """Whether the model was trained with `quick=True`."""
        return is_quick(self.run["asked"])

    def save(self, folder: str | Path) -> None:
        """Write the run to a new folder, as `sottovoce train -o FOLDER` does.

        Its `private/` folder holds counts, times and scores, which no guarantee covers: do not
        share it.
        """
        folder = Path(folder)
        if self._folder is not None and folder.resolve() == self._folder.resolve():
            return
        Run(folder).check(resume=False, before_steps=(CANARIES,))
        if self._folder is not None:
            shutil.copytree(self._folder, folder, dirs_exist_ok=True)
        else:
            for name, content in self._files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
            save_run(folder, self.model, self.run)
        if (folder / PRIVATE).is_dir():
            Run(folder).protect()

    def __repr__(self) -> str:
        labels = f"{len(self.labels.intents)} intents, {len(self.labels.slot_types)} slot types"
        asked = self.run["asked"]
        cost = "no guarantee"
        if self.guarantee.holds:
            cost = f"epsilon {rounded_up(self.guarantee.epsilon)} for one {self.guarantee.unit}"
        note = f"; {QUICK_NOTE}" if self.quick else ""
        return f"<Assistant: {asked['model']}, {labels}, {asked['method']}, {cost}{note}>"


def train(
    data: Any,
    *,
    epsilon: float | None = None,
    unit: str = "example",
    method: str = "dp-sgd",
    output: str | Path | None = None,
    valid: Any = None,
    test: Any = None,
    split: str | None = None,
    columns: Columns | Mapping[str, str] | None = None,
    labels: Schema | str | Path | None = None,
    public_labels: bool = False,
    publish_metrics: bool = False,
    quick: bool = False,
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    **settings: Any,
) -> Assistant:
    """Train an intent and slot model, as `sottovoce train` does with the same settings.

    `data` is a file or a folder with train, valid and test; a list of `Utterance` or of dicts; a
    pandas, polars or Arrow table; a Hugging Face dataset; or a mapping of train, valid and test to
    any of these. `split` gives the ratios to split it by, such as "80:10:10"; `columns` names the
    columns of a table.

    `epsilon` is the privacy budget per `unit` (example or user); `method="sgd"` trains without
    privacy. `labels` declares the intents and slots (a `Schema`, a labels.json, or a run); without
    it they are taken from the training data, which no guarantee covers. With `output` the run is
    written to that folder during training; `resume=True` continues an interrupted run.
    `quick=True` trains a small model for a first look. `on_progress=print` shows progress. Other
    settings are those of `Settings`.

    >>> train([{"text": "play some jazz", "intent": "play"}], epsilon=3, epoch=2)
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected settings among as_printed, averaged, batch_size, ...,
    got 'epoch': did you mean epochs?
    """
    chosen = _settings(settings, epsilon=epsilon, unit=unit, method=method, quick=quick)
    if labels is not None and public_labels:
        raise InvalidInput("Expected labels or public_labels, got both: pass one of them.")
    if resume and output is None:
        raise InvalidInput(
            "Expected the output folder of the run to resume, got none: pass output."
        )
    if isinstance(data, str | Path):
        check_samples(chosen, data)
    by: By = "user" if chosen.unit == "user" else "id"
    rule = None if split is None else Split(ratios=parse_ratios(split), by=by)
    parts = read_parts(data, split=rule, valid=valid, test=test, columns=columns)
    check_trainable(chosen, parts.train)
    if isinstance(labels, Schema):
        schema = labels
    elif labels is not None:
        schema = Schema.load(labels)
    else:
        schema = Schema.of(parts.train, declared=public_labels)
    source = {
        "data": _path(data),
        "valid": _path(valid),
        "test": _path(test),
        "split": split,
        "labels": _path(labels),
        "public_labels": public_labels,
        "canaries": None,
        "publish_metrics": publish_metrics,
        "search": None,
    }

    def into(folder: Path) -> JointModel:
        return train_into(
            folder,
            chosen,
            parts,
            schema,
            source=source,
            resume=resume,
            publish_metrics=publish_metrics,
            on_step=on_progress,
        ).model

    if output is not None:
        folder = Path(output)
        return Assistant(into(folder), Run(folder).read_run(private=True), folder=folder)
    with TemporaryDirectory(prefix="sottovoce-") as place:
        folder = Path(place) / "run"
        model = into(folder)
        run = Run(folder).read_run(private=True)
        return Assistant(model, run, files=_written(folder))


def load(folder: str | Path) -> Assistant:
    """Load a model written by `Assistant.save`, `train(output=...)` or `sottovoce train`."""
    folder = Path(folder)
    loaded = load_run(folder)
    run = Run(folder).read_run(private=True)
    if not {"asked", "guarantee", "ledger"} <= run.keys():
        raise InvalidInput(f"Expected a training run in {folder}, got a run of another command.")
    return Assistant(loaded.model, run, folder=folder)


def _settings(
    given: Mapping[str, Any], *, epsilon: float | None, unit: str, method: str, quick: bool
) -> Settings:
    known = sorted({field.name for field in fields(Settings)} - {"epsilon", "unit", "method"})
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f": did you mean {close[0]}?" if close else "."
            raise InvalidInput(f"Expected settings among {', '.join(known)}, got {name!r}{hint}")
    if epsilon is None and given.get("noise_multiplier") is None and method != "sgd":
        raise InvalidInput(
            f"Expected an epsilon for {method}, such as epsilon=3, got none: smaller values are "
            'more private; method="sgd" trains without privacy.'
        )
    start = QUICK if quick else {}
    return Settings.from_json(
        {**start, **given, "epsilon": epsilon, "unit": unit, "method": method}
    )


def _path(data: Any) -> str | None:
    return str(data) if isinstance(data, str | Path) else None


def _written(folder: Path) -> dict[str, bytes]:
    """Files that training wrote besides the model: the ledger and the private files."""
    kept = [folder / "ledger.jsonl", *(folder / PRIVATE).iterdir()]
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in kept
        if path.name not in (LOCK, RUN)
    }
