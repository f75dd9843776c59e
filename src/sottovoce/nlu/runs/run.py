"""A run folder: a trained model with everything needed to use and to assess it.

| file | holds |
|---|---|
| model.safetensors | weights; never pickled |
| config.json | the architecture, and the hash of the weights |
| labels.json | the schema |
| tokenizer.json or words.json | the encoder's vocabulary |
| run.json | configuration, guarantee and cost of the training |
| ledger.jsonl | the privacy ledger, as it was written during training |
| README.md | the model card |
| private/ | exact counts, times, losses, scores, audits: not covered by any guarantee |

Everything but `private/` may be shared (see `sottovoce.io.run`). Saving is atomic (see
`sottovoce.io.atomic`): if it is interrupted, the old run stays intact.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor

from sottovoce import __version__
from sottovoce._model_folders import bounded
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import find, write_together
from sottovoce.io.run import PRIVATE, Run
from sottovoce.nlu.encoders.tuning import merged_state
from sottovoce.nlu.model import JointModel
from sottovoce.nlu.runs.card import AUDIT, CARD, CONFIG, RUN, model_card, published
from sottovoce.nlu.schema import FILE as LABELS
from sottovoce.nlu.schema import Schema
from sottovoce.privacy.ledger import Ledger

WEIGHTS, LEDGER = "model.safetensors", "ledger.jsonl"
EARLIER_AUDIT = "audit-of-earlier-weights.json"
FORMAT = 1
_ENCODER = "encoder."


@dataclass(frozen=True)
class LoadedRun:
    """A loaded run, with its model in evaluation mode; `run` is the part that may be shared."""

    model: JointModel
    schema: Schema
    run: dict[str, Any]


def save_run(
    folder: str | Path,
    model: JointModel,
    run: Mapping[str, Any],
    *,
    ledger: str | Path | None = None,
    self_contained: bool = True,
) -> None:
    """Write a run; LoRA is merged into plain weights, and `model` is not changed.

    Scores go to `private/` unless the guarantee lists them as published and not covered. `ledger`
    is copied into the folder if it is not already there; without one, the ledger in `run` is
    written. Without `self_contained`, weights that equal those of the public encoder are replaced
    by a reference with a hash.
    """
    folder = Path(folder)
    state = {name: x.detach().cpu().clone() for name, x in merged_state(model).items()}
    reference = None
    if not self_contained:
        reference = _leave_out_public(model, state)
    content = _encoded(state)
    digest = hashlib.sha256(content).hexdigest()
    vocabulary = model.encoder.files()
    config = {
        "sottovoce": __version__,
        "format": FORMAT,
        "model": model.to_json(),
        "weights": {"sha256": digest, "reference": reference},
        "files": sorted(vocabulary),
    }
    stored = json.loads(json.dumps(_finite(dict(run)), allow_nan=False))
    stored["weights"] = digest
    where = Run(folder)
    public, private = where.split(stored, publish=published(stored))
    audit = _audit_of(folder, config)
    files = {
        WEIGHTS: content,
        CONFIG: _json(config),
        LABELS: _json(model.schema.to_json()),
        RUN: _json(public),
        CARD: model_card(public, config, model.schema.to_json(), audit).encode(),
        **vocabulary,
    }
    if ledger is not None and Path(ledger).resolve() != (folder / LEDGER).resolve():
        files[LEDGER] = Path(ledger).read_bytes()
    elif ledger is None and "ledger" in stored and not (folder / LEDGER).exists():
        with TemporaryDirectory() as place:
            Ledger.from_json(stored["ledger"]).save(Path(place) / LEDGER)
            files[LEDGER] = (Path(place) / LEDGER).read_bytes()
    for name in files:
        where.public(name)
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"Expected a folder to write to, got the file {folder}.")
    if private:
        where.write_private(RUN, private)
    earlier = not _of_these_weights(folder, config)
    write_together(folder, files)
    if earlier:
        for found in (folder / AUDIT, folder / PRIVATE / AUDIT):
            if found.is_file():
                found.replace(where.private(EARLIER_AUDIT))


def load_run(folder: str | Path) -> LoadedRun:
    """Load a run; a damaged folder, or one that is not a run, is refused."""
    folder = Path(folder)
    if not find(folder, CONFIG).is_file():
        raise InvalidInput(f"Expected a run folder with {CONFIG} at {folder}, found none.")
    config = _read_json(find(folder, CONFIG))
    if not isinstance(config, dict) or "sottovoce" not in config or "model" not in config:
        raise InvalidInput(
            f"Expected a run of sottovoce in {folder}, but its {CONFIG} has another format."
        )
    if config.get("format") != FORMAT:
        raise InvalidInput(
            f"Expected a run in format {FORMAT} in {folder}, got {config.get('format')!r}, written "
            f"by sottovoce {config['sottovoce']}: use that version."
        )
    schema = Schema.from_json(_read_json(find(folder, LABELS)))
    run = _read_json(find(folder, RUN))
    if not isinstance(run, dict):
        raise InvalidInput(f"Expected an object in {folder / RUN}.")
    model = _model(folder, config, schema)
    model.eval()
    return LoadedRun(model=model, schema=schema, run=run)


def weights_hash(folder: str | Path) -> str:
    """The hash of the weights in a run folder."""
    return hashlib.sha256(_read(find(Path(folder), WEIGHTS))).hexdigest()


def _audit_of(folder: Path, config: Mapping[str, Any]) -> Any:
    """The published audit in the folder, if it is of the same weights."""
    if not (folder / AUDIT).is_file() or not _of_these_weights(folder, config):
        return None
    return _read_json(folder / AUDIT)


def _of_these_weights(folder: Path, config: Mapping[str, Any]) -> bool:
    if not find(folder, CONFIG).is_file():
        return False
    before = _read_json(find(folder, CONFIG))
    return isinstance(before, dict) and before.get("weights") == config["weights"]


def _model(folder: Path, config: dict[str, Any], schema: Schema) -> JointModel:
    weights = _read(find(folder, WEIGHTS))
    try:
        if hashlib.sha256(weights).hexdigest() != config["weights"]["sha256"]:
            raise InvalidInput(
                f"Expected the weights whose hash is in {folder / CONFIG}, got other or incomplete "
                f"weights in {WEIGHTS}: save the run again."
            )
        vocabulary = {name: _read(find(folder, name)) for name in map(_plain, config["files"])}
        state = _decoded(weights)
        if config["weights"]["reference"] is not None:
            state |= _public(config["weights"]["reference"], state)
        with bounded(sum(x.numel() for x in state.values()), folder):
            model = JointModel.from_json(config["model"], schema, vocabulary)
        model.load_state_dict(state)
    except InvalidInput:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as problem:
        reason = " ".join(str(problem).split())[:200]
        raise InvalidInput(
            f"Expected a complete run in {folder}, but it cannot be loaded: {reason}"
        ) from problem
    return model


def _leave_out_public(model: JointModel, state: dict[str, Tensor]) -> dict[str, Any]:
    """Remove the weights of the public encoder from the state; return a reference to them."""
    source = getattr(model.encoder, "source", None)
    if source is None:
        raise InvalidInput(
            "Expected an encoder loaded from a folder or the hub, to refer to, got another: save "
            "the run self-contained."
        )
    public = _public_state(source)
    same = sorted(
        name
        for name in state
        if name in public and state[name].shape == public[name].shape
        and bool((state[name] == public[name]).all())
    )  # fmt: skip
    left_out = {name: state.pop(name) for name in same}
    return {"source": source, "names": same, "sha256": _fingerprint(left_out)}


def _public(reference: Mapping[str, Any], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    from sottovoce.nlu.encoders.bert import MINILM

    source = str(reference["source"])
    # The run names it, and a run may come from a stranger: nothing is downloaded.
    if source != MINILM and not Path(source).is_dir():
        raise InvalidInput(
            f"Expected the folder of the public encoder {source}, which the run refers to; it is "
            "not on this machine. Ask for a self-contained run."
        )
    public = _public_state(source)
    names = [name for name in reference["names"] if name not in state]
    found = {name: public[name] for name in names if name in public}
    if _fingerprint(found) != reference["sha256"]:
        raise InvalidInput(
            f"Expected the public encoder {reference['source']} as it was when the run was saved, "
            "got other weights: install that version of it."
        )
    return found


def _public_state(source: str) -> dict[str, Tensor]:
    from sottovoce.nlu.encoders.adapter import load_encoder

    return {f"{_ENCODER}{name}": x for name, x in load_encoder(source).state_dict().items()}


def _fingerprint(state: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(state):
        x = state[name].contiguous()
        digest.update(f"{name} {x.dtype} {list(x.shape)}\n".encode())
        digest.update(x.numpy().tobytes())
    return digest.hexdigest()


def _encoded(state: Mapping[str, Tensor]) -> bytes:
    from safetensors.torch import save

    content: bytes = save({name: x.contiguous() for name, x in state.items()}, {"format": "pt"})
    return content


def _decoded(content: bytes) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        state: dict[str, Tensor] = load(content)
    except SafetensorError as problem:
        raise InvalidInput(f"Expected safetensors in {WEIGHTS}, but {problem}.") from problem
    return state


def _plain(name: str) -> str:
    """Refuse a name in config.json that points outside the folder."""
    if Path(name).name != name:
        raise InvalidInput(f"Expected names of files in the run folder, got {name!r}.")
    return name


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InvalidInput(f"Expected {path.name} in the run {path.parent}, found none.") from None


def _read_json(path: Path) -> Any:
    try:
        return json.loads(_read(path))
    except (json.JSONDecodeError, UnicodeDecodeError) as problem:
        raise InvalidInput(f"Expected JSON in {path}, but {problem}.") from problem


def _json(data: object) -> bytes:
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def _finite(value: Any) -> Any:
    """Replace numbers that are not finite, which JSON cannot represent, by their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
