"""Read stages from run folders, run files, audits and results of rescoring.

A folder with a run.json is one run; other folders are searched for runs. The private/ part of a run
is included unless it is disabled, and the page says so. The report reads only these files, so it
needs neither the models nor torch.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sottovoce.audit.result import FILE as AUDIT
from sottovoce.audit.result import AuditResult
from sottovoce.errors import InvalidInput
from sottovoce.io.allowed import join
from sottovoce.io.run import NOTICE, PRIVATE, RUN, SUFFIX, Run
from sottovoce.report.derivation import verified
from sottovoce.report.evidence import Doubt, Kind
from sottovoce.report.stage import Stage, in_a_sentence, stage_of

ATTACK = ".attack.json"
"""Ends the name of what `deid attack` writes beside the release."""

_PARTS = ("guarantee", "guarantees", "ledger", "metrics")
_RESCORED = ("first_pass", "background", "adapted")


def collect(
    paths: Iterable[str | Path], *, private: bool = True, references: Iterable[str | Path] = ()
) -> list[Stage]:
    """The stages of these paths, in the given order, without duplicates, with unique names.

    Without `private`, only the public parts of runs are read. `references` are shown for comparison
    and are not released.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "run.json").write_text('{"verb": "train", "metrics": {}}')
    ...     [stage.verb for stage in collect([folder, folder])]
    ['train']
    """
    found = dict.fromkeys(path.resolve() for given in paths for path in run_files(given))
    aside = dict.fromkeys(path.resolve() for given in references for path in run_files(given))
    attacks = {path: _json(path) for path in found if path.name.endswith(ATTACK)}
    stages = [
        replace(_read_stage(path, private=private), reference=path in aside)
        for path in dict.fromkeys((*found, *aside))
        if path not in attacks
    ]
    return _with_unique_names(_with_attacks(stages, attacks))


def run_files(path: str | Path) -> list[Path]:
    """The run files at a path: the file itself, the one in the folder, or all below it."""
    path = Path(path)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InvalidInput(f"Expected a run folder or a run file, found nothing at {path}.")
    for name in (RUN, AUDIT):
        if (path / name).is_file():
            return [path / name]
    below = [each for each in sorted(path.iterdir()) if each.is_dir() and not _is_private(each)]
    inner = [run for folder in below for run in _runs_below(folder)]
    found = [*sorted(path.glob(f"*{SUFFIX}")), *inner]
    if not found:
        raise InvalidInput(f"Expected runs (run.json, OUT.run.json or audit.json) in {path}.")
    return found


def _is_private(folder: Path) -> bool:
    """Whether the folder is the private part of a run, not a run called private."""
    return folder.name == PRIVATE and (folder / NOTICE).is_file()


def _runs_below(folder: Path) -> list[Path]:
    try:
        return run_files(folder)
    except InvalidInput:
        return []  # A folder without runs.


def _with_attacks(stages: list[Stage], attacks: Mapping[Path, Mapping[str, Any]]) -> list[Stage]:
    """Give every `deid attack` to the release that it attacked; refuse one of something else."""
    found = list(stages)
    for path, content in attacks.items():
        target = [
            place
            for place, stage in enumerate(found)
            if stage.verb == "deid" and _output_hash(stage.run) == _attacked(content)
        ]
        if not target:
            raise InvalidInput(
                f"Expected the release that {path.name} attacked among the runs: name its "
                "OUT.run.json too, or attack the release that is there."
            )
        for place in target:
            found[place] = replace(found[place], attack=content)
    return found


def _beside(stage: Stage) -> Stage:
    """The stage with the attack that lies beside its release."""
    path = stage.path.with_name(stage.path.name.removesuffix(SUFFIX) + ATTACK)
    if stage.verb != "deid" or stage.path.name == RUN or not path.is_file():
        return stage
    content = _json(path)
    if _attacked(content) != _output_hash(stage.run):
        stale = Doubt(Kind.AUDIT, f"{path.name} attacked another text than the released one.")
        return replace(stage, doubts=(*stage.doubts, stale))
    return replace(stage, attack=content)


def _attacked(content: Mapping[str, Any]) -> str:
    released = content.get("released")
    return str(released.get("sha256")) if isinstance(released, Mapping) else ""


def _output_hash(run: Mapping[str, Any]) -> str | None:
    output = run.get("output")
    found = output.get("sha256") if isinstance(output, Mapping) else None
    return found if isinstance(found, str) else None


def _read_stage(path: Path, *, private: bool = True) -> Stage:
    """The stage of one file; whatever is in it, a file that is no run is refused in a sentence."""
    with in_a_sentence(str(path)):
        return read_stage(path, private=private)


def read_stage(path: Path, *, private: bool = True) -> Stage:
    """The stage of one file, with the private part and the audit of its run."""
    content = _json(path)
    folder = _folder(path)
    kept = folder.private_part() if private and folder is not None else {}
    hidden = tuple(kept)
    content = join(content, kept)
    name = _name(path)
    if content.get("audit") is not None and "verb" not in content:
        return stage_of({"verb": "audit"}, path, name, _audit(path, content))
    if all(isinstance(content.get(key), Mapping) for key in _RESCORED):
        content = {
            "verb": "rescore",
            "metrics": content,
            "timings": {"seconds": content.get("seconds")},
            **{key: content[key] for key in ("guarantee", "claimed") if key in content},
        }
    if not isinstance(content.get("verb"), str) or not any(key in content for key in _PARTS):
        raise InvalidInput(
            f"Expected {path} to be a run.json, an audit.json or the result of `rescore --json`, "
            "got other JSON."
        )
    audit = None
    if path.name == RUN:
        inside = path.parent / PRIVATE / AUDIT
        if private and inside.is_file():
            audit = _audit(inside, _json(inside))
            hidden = (*hidden, "audit")
        elif path.with_name(AUDIT).is_file():
            audit = _audit(path.with_name(AUDIT), _json(path.with_name(AUDIT)))
    return _beside(replace(verified(stage_of(content, path, name, audit)), private=hidden))


def _folder(path: Path) -> Run | None:
    if path.name == RUN:
        return Run(path.parent)
    if path.name.endswith(SUFFIX):
        return Run.beside(path.with_name(path.name.removesuffix(SUFFIX)))
    return None


def one_stage(path: str | Path, stages: Sequence[Stage], *, private: bool = True) -> Stage:
    """The single run at this path, taken from `stages` or read now."""
    files = run_files(path)
    if len(files) != 1:
        raise InvalidInput(f"Expected one run to compare at {path}, found {len(files)}.")
    wanted = files[0].resolve()
    known = next((each for each in stages if each.path == wanted), None)
    return known or _read_stage(wanted, private=private)


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(f"Expected JSON in {path}, got: {problem}.") from problem
    if not isinstance(content, dict):
        raise InvalidInput(f"Expected a JSON object in {path}, got a {type(content).__name__}.")
    return content


def _audit(path: Path, content: Mapping[str, Any]) -> AuditResult:
    try:
        return AuditResult.from_json(content)
    except (ValueError, AttributeError) as problem:
        raise InvalidInput(f"{path}: {problem}") from problem


def _name(path: Path) -> str:
    if path.name in (RUN, AUDIT):
        return path.parent.name or path.stem
    return path.name.removesuffix(SUFFIX).removesuffix(".json")


def _with_unique_names(stages: list[Stage]) -> list[Stage]:
    """Make equal names unique: prefix the folder, then add a number."""
    for make in (_with_folder, lambda stage, place: f"{stage.name} ({place})"):
        counts = Counter(stage.name for stage in stages)
        seen: Counter[str] = Counter()
        renamed = []
        for stage in stages:
            seen[stage.name] += 1
            again = counts[stage.name] > 1
            name = make(stage, seen[stage.name]) if again else stage.name
            renamed.append(replace(stage, name=name))
        stages = renamed
    return stages


def _with_folder(stage: Stage, _: int) -> str:
    above = stage.path.parent
    return f"{(above.parent if stage.path.name in (RUN, AUDIT) else above).name}/{stage.name}"
