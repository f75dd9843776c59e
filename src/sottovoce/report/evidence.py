"""What the files around a run say about it: is the evidence whole, and about what is released?

A colleague who wants a release can edit any file of a run. Each check here names one way of doing
so. Numbers are compared with the ledger in `derivation`; this module compares the files.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from sottovoce import _validate
from sottovoce.audit.result import AuditResult
from sottovoce.errors import InvalidInput, SottovoceError
from sottovoce.io.run import RUN, SUFFIX
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.ledger import Ledger

LEDGERS, CONFIG, WEIGHTS, MARGINALS = (
    "ledger*.jsonl", "config.json", "model.safetensors", "marginals.json",
)  # fmt: skip
_WRITE_LEDGERS = ("train", "federate")
_CHUNK = 1 << 20


class Kind(StrEnum):
    """What is wrong with the evidence."""

    EPSILON = "epsilon differs from the ledger"
    ASSUMPTIONS = "assumptions were removed"
    GAPS = "items that are not covered were removed"
    NO_LEDGER = "ledger is missing"
    TRUNCATED = "ledger is truncated"
    LEDGER = "ledger was altered"
    MODEL = "model was swapped"
    RELEASED = "released file was altered"
    AUDIT = "audit is of something else"
    UNTIED = "nothing ties the numbers to a file"


@dataclass(frozen=True)
class Doubt:
    """One reason not to believe a run. What is only missing is not `fatal`: a person may know."""

    kind: Kind
    sentence: str
    fatal: bool = True

    def __post_init__(self) -> None:
        _validate.parse_choices(self)


def sha256(path: Path) -> str:
    """The hash of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def files_of(path: Path, verb: str) -> dict[str, Path]:
    """The files that a run speaks about, by what they are; only those that exist."""
    folder = path.parent
    found = {"run": path}
    if path.name == RUN:
        found |= {"model": folder / WEIGHTS, "configuration": folder / CONFIG}
        found |= {f"ledger {each.name}": each for each in sorted(folder.glob(LEDGERS))}
        if verb == "federate":
            found["released"] = folder / MARGINALS
    elif path.name.endswith(SUFFIX):
        found["released"] = folder / path.name.removesuffix(SUFFIX)
    return {name: each for name, each in found.items() if each.is_file()}


def doubts_of(
    run: Mapping[str, Any], path: Path, ledgers: Mapping[str, Ledger], audit: AuditResult | None
) -> tuple[Doubt, ...]:
    """Everything that speaks against the files of a run."""
    verb = str(run["verb"])
    found: list[Doubt] = []
    if verb in _WRITE_LEDGERS and path.name == RUN and run.get("guarantee"):
        found += _ledger_doubts(path.parent, ledgers, may_go_on=verb == "federate")
    if verb == "train" and path.name == RUN:
        found += _model_doubts(run, path.parent)
    if verb == "federate" and path.name == RUN:
        found += _marginals_doubts(path.parent, ledgers)
    if verb == "deid":
        found += _release_doubts(run, path)
    if audit is not None and verb == "train":
        found += _audit_doubts(run, path.parent, audit)
    return tuple(found)


def _ledger_doubts(
    folder: Path, ledgers: Mapping[str, Ledger], *, may_go_on: bool
) -> Iterator[Doubt]:
    """Compare the ledger files with the copy in run.json."""
    if not ledgers:
        yield Doubt(Kind.NO_LEDGER, "The ledger was removed from run.json.")
    paths = sorted(folder.glob(LEDGERS))
    if not paths:
        if not may_go_on:  # a federation may continue a ledger that lies elsewhere
            yield Doubt(Kind.NO_LEDGER, f"The ledger file is missing from {folder.name}.")
        return
    for path in paths:
        try:
            kept = Ledger.read(path)
        except (SottovoceError, OSError) as problem:
            yield Doubt(Kind.LEDGER, f"{path.name} is damaged: {problem}")
            continue
        if not kept.sealed:
            yield Doubt(
                Kind.TRUNCATED,
                f"{path.name} was not closed: records at its end were cut off or never written.",
            )
        copies = [each for each in ledgers.values() if each.id == kept.id]
        for copy in copies:
            if not kept.includes(copy):
                yield Doubt(
                    Kind.TRUNCATED, f"{path.name} lacks releases that its copy in run.json has."
                )
            elif not may_go_on and not copy.includes(kept):
                yield Doubt(
                    Kind.LEDGER, f"The ledger in run.json lacks releases that {path.name} has."
                )
            if {*kept.assumptions} - {*copy.assumptions}:
                yield Doubt(Kind.ASSUMPTIONS, "The ledger in run.json lacks assumptions.")
            if {*kept.not_covered} - {*copy.not_covered}:
                yield Doubt(Kind.GAPS, "The ledger in run.json lacks items that are not covered.")
        if ledgers and not copies and len(paths) == 1:
            yield Doubt(Kind.LEDGER, f"{path.name} is another ledger than the one in run.json.")


def _model_doubts(run: Mapping[str, Any], folder: Path) -> Iterator[Doubt]:
    weights, stated = folder / WEIGHTS, weights_of(folder)
    if not weights.is_file() or stated is None:
        yield Doubt(
            Kind.UNTIED,
            f"The model of {folder.name} is not here, so nothing ties these numbers to a model.",
            fatal=False,
        )
        return
    if sha256(weights) != stated:
        yield Doubt(Kind.MODEL, f"{WEIGHTS} is not the model that {CONFIG} describes.")
    recorded = run.get("weights")
    if recorded is not None and recorded != stated:
        yield Doubt(Kind.MODEL, f"{CONFIG} describes another model than the one of run.json.")


def weights_of(folder: Path) -> str | None:
    """The hash of the weights that config.json states."""
    try:
        found = json.loads((folder / CONFIG).read_bytes())["weights"]["sha256"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def _marginals_doubts(folder: Path, ledgers: Mapping[str, Ledger]) -> Iterator[Doubt]:
    from sottovoce.personalize.federated.marginals import Marginals

    path = folder / MARGINALS
    if not path.is_file():
        yield Doubt(Kind.UNTIED, f"{MARGINALS} is not beside run.json.", fatal=False)
        return
    try:
        released = Marginals.load(path)
        own = Ledger.from_json(released.about["ledger"])
    except (SottovoceError, LookupError, TypeError) as problem:
        yield Doubt(Kind.RELEASED, f"{MARGINALS} has no ledger: {problem}.")
        return
    if released.about.get("of") != released.digest:
        yield Doubt(Kind.RELEASED, f"{MARGINALS} holds other numbers than those of its ledger.")
    if not any(each.id == own.id and each.includes(own) for each in ledgers.values()):
        yield Doubt(Kind.RELEASED, f"{MARGINALS} was released by another ledger than run.json's.")


def _release_doubts(run: Mapping[str, Any], path: Path) -> Iterator[Doubt]:
    """A released text against its manifest: its hash, and the keyed seal where it is kept."""
    from sottovoce.deid.files.manifest import verify

    if path.name == RUN:
        shards = run.get("shards")
        outputs = [path.parent / Path(str(name)).name for name in shards] if shards else []
    else:
        outputs = [path.with_name(path.name.removesuffix(SUFFIX))]
    for output in outputs:
        if not output.is_file():
            yield Doubt(
                Kind.UNTIED, f"{output.name} is not beside its manifest: not compared.", fatal=False
            )
            continue
        try:
            verify(output)
        except (SottovoceError, OSError) as problem:
            yield Doubt(Kind.RELEASED, str(problem))


def _audit_doubts(run: Mapping[str, Any], folder: Path, audit: AuditResult) -> Iterator[Doubt]:
    if audit.model is None:
        yield Doubt(
            Kind.UNTIED, "The audit does not say which model was attacked: audit it again.",
            fatal=False,
        )  # fmt: skip
    elif audit.model != weights_of(folder):
        yield Doubt(Kind.AUDIT, "The audit attacked another model than the one that is released.")
    try:
        stated = Guarantee.from_json(run["guarantee"])
    except (InvalidInput, LookupError):
        return
    judged = audit.guarantee
    if judged is not None and (judged.epsilon, judged.delta, judged.unit) != (
        stated.epsilon, stated.delta, stated.unit,
    ):  # fmt: skip
        yield Doubt(Kind.AUDIT, "The audit was held against another guarantee than the run's.")
