"""Publication of a federation: marginals, ledger and run file, public and private parts.

A folder holds one federation. A second one would overwrite the statement of the first, so it is
refused; it may continue the first one's ledger, and then its statement covers both. A federation
that was interrupted is resumed by the same command (see `checkpoint`).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.io.run import RUN, Run, header
from sottovoce.personalize.federated.checkpoint import Checkpoint, read_checkpoint
from sottovoce.personalize.federated.federation import continued
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.rounds import RoundReport, check_released
from sottovoce.personalize.federated.server import NobodyJoined, Server
from sottovoce.privacy.guarantee import SEEDED_STAMP, Claim, Relation
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.sampling import SamplingKey

LEDGER, MARGINALS = "ledger.jsonl", "marginals.json"


@contextmanager
def federation_folder(
    path: Path | str,
    plan: ReleasePlan,
    *,
    asked: Mapping[str, Any],
    key: SamplingKey,
    ledger: Path | str | None = None,
    earlier: Mapping[str, Any] | None = None,
) -> Iterator[tuple[Run, Ledger, Checkpoint]]:
    """A new folder or that of an interrupted run, locked, with its ledger and its checkpoint.

    The ledger is in the folder, or a given one.
    """
    folder = Run(path)
    folder.path.mkdir(parents=True, exist_ok=True)
    with folder.lock():
        check_unused(folder)
        with Ledger.open(
            ledger or folder.public(LEDGER), unit=plan.unit, relation=Relation.ADD_OR_REMOVE
        ) as opened:
            if earlier is not None:
                continued(opened, earlier)
            checkpoint = Checkpoint(folder, asked, key)
            try:
                yield folder, opened, checkpoint
            except NobodyJoined:
                # Nothing was released, so there is nothing to resume.
                checkpoint.remove()
                raise
            checkpoint.remove()


def check_unused(folder: Run) -> None:
    """Reject a folder with a finished run, or with a ledger that has entries."""
    if read_checkpoint(folder) is not None:
        return
    found = [name for name in (MARGINALS, RUN) if (folder.path / name).exists()]
    ledger = folder.path / LEDGER
    if ledger.exists() and Ledger.read(ledger).entries:
        found.append(LEDGER)
    if found:
        raise InvalidInput(
            f"Expected a folder without a run, got {found[0]} in {folder.path}: name another one. "
            f"If both runs are about the same people, add --ledger {ledger} to add up their costs."
        )


@dataclass(frozen=True, kw_only=True)
class Publication:
    """Metadata published with the marginals.

    `configuration` is public as far as `sottovoce.io.allowed` lists its keys, `exact` never is.
    `words_from` names the marginals that selected the words of the pairs, and `claimed_before` is
    the paper's claim for those.
    """

    delta: float = 0.0
    configuration: dict[str, Any] = field(default_factory=dict)
    exact: dict[str, Any] = field(default_factory=dict)
    words_from: str | None = None
    claimed_before: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        _validate.parse_fields(self)
        _validate.delta(self.delta)

    def write(
        self,
        folder: Run,
        server: Server,
        reports: Sequence[RoundReport],
        *,
        seeded: bool,
        started: float,
    ) -> None:
        """Publish the release, unless nothing was released."""
        check_released(reports)
        assert server.ledger is not None
        guarantee = server.ledger.guarantee(self.delta)
        claimed = self._claimed(server.plan)
        stated = {
            "ledger": server.ledger.to_json(),
            "guarantee": guarantee.to_json(),
            "claimed": claimed.to_json() if claimed else None,
        }
        run = {
            **header("federate"),
            "configuration": self.configuration,
            "seed": SEEDED_STAMP if seeded else "keyed by the operating system",
            **stated,
            "metrics": {**self.exact, "rounds": [report.to_json() for report in reports]},
            "timings": {"seconds": round(time.monotonic() - started, 2)},
        }
        about: dict[str, Any] = {**stated, "delta": self.delta}
        if self.words_from is not None:
            about["words_from"] = self.words_from
        replace(server.marginals, about=about).save(folder.public(MARGINALS))
        folder.write_run(run)

    def _claimed(self, plan: ReleasePlan | None) -> Claim | None:
        """In the paper's arithmetic, epsilons of releases add up."""
        if plan is None:
            return None
        claimed = plan.claim(self.delta)
        if self.claimed_before is None:
            return claimed
        before = Claim.from_json(self.claimed_before)
        return Claim.of(
            before.epsilon + claimed.epsilon,
            delta=before.delta + claimed.delta,
            how=f"{claimed.how}; words and pairs",
        )
