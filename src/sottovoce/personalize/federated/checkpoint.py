"""Checkpoints of a federation, so that a killed server resumes where it was.

After every round the state of the server is written to the private part of the output folder. The
key that assigns utterances to rounds and the id of the run are there before anything is released:
a resumed run spends in the pools of the same run, because every utterance stays in its round. A
round that was cut off is run again. Its noise had not been seen by anybody, and devices repeat the
answer that they have logged.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sottovoce.errors import InvalidInput
from sottovoce.io.run import Run
from sottovoce.personalize.federated.rounds import RoundReport
from sottovoce.personalize.federated.server import Server
from sottovoce.privacy.sampling import SamplingKey

CHECKPOINT = "checkpoint.json"


class Checkpoint:
    """The progress of one federation in its folder; the caller holds the folder's lock.

    `asked` is what determines the result. Another run cannot take over the checkpoint.
    """

    def __init__(self, folder: Run, asked: Mapping[str, Any], key: SamplingKey) -> None:
        self._folder, self._asked = folder, json.loads(json.dumps(asked))
        self.key = key
        self.run: str | None = None
        self.reports: list[RoundReport] = []
        self._saved_reports: list[dict[str, Any]] = []
        self._state: dict[str, Any] | None = None
        self._path = folder.find_private(CHECKPOINT)
        if self._path.exists():
            self._read()
        else:
            self._write()

    @property
    def done(self) -> int:
        """The number of finished rounds."""
        return len(self.reports)

    def begin(self, server: Server) -> None:
        """Restore the server, or store the run that it begins."""
        if self._state is not None:
            server.restore(self._state)
            self.reports = [
                RoundReport(q_bar=server.q_bar, **report) for report in self._saved_reports
            ]
        self.run = None if server.release is None else server.release.run
        self._write()

    def add(self, report: RoundReport, server: Server) -> None:
        """Store a finished round."""
        self.reports.append(report)
        self._state = server.state()
        self._write()

    def remove(self) -> None:
        """After publication."""
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        reports = [report.to_json() | {"number": report.number} for report in self.reports]
        self._folder.write_private(
            CHECKPOINT,
            {
                "asked": self._asked,
                "key": self.key.secret.hex(),
                "run": self.run,
                "state": self._state,
                "reports": reports,
            },
        )

    def _read(self) -> None:
        data = read_checkpoint(self._folder)
        assert data is not None
        if not data["reports"] and data["asked"] != self._asked:
            return  # nothing was released: the run may be another one
        if data["asked"] != self._asked:
            other = sorted(
                name
                for name in {*data["asked"], *self._asked}
                if data["asked"].get(name) != self._asked.get(name)
            )
            raise InvalidInput(
                f"Expected the settings of the interrupted run in {self._folder.path}, got another "
                f"{', '.join(other)}: repeat the command as it was, or name another folder."
            )
        self.key = SamplingKey(bytes.fromhex(data["key"]), seeded=self.key.seeded)
        self.run, self._state = data["run"], data["state"]
        self._saved_reports = data["reports"]


def read_checkpoint(folder: Run) -> dict[str, Any] | None:
    """The checkpoint of an interrupted run in the folder, if there is one."""
    path = folder.find_private(CHECKPOINT)
    if not path.exists():
        return None
    try:
        data: dict[str, Any] = json.loads(Path(path).read_bytes())
        for name in ("asked", "key", "run", "state", "reports"):
            data[name]
    except (ValueError, LookupError, TypeError) as problem:
        raise InvalidInput(f"Expected a checkpoint in {path}, but {problem!r}.") from problem
    return data


def round_key(folder: Run, fresh: SamplingKey) -> SamplingKey:
    """The key of the interrupted run in the folder, or a `fresh` one."""
    saved = read_checkpoint(folder)
    return fresh if saved is None else SamplingKey(bytes.fromhex(saved["key"]), fresh.seeded)
