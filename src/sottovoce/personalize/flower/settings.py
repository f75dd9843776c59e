"""Settings shared by both sides of the Flower app, as one JSON value.

The server reads them from a file and sends them with every message, so a device needs only its own
utterances.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.publishing import Publication
from sottovoce.personalize.federated.server import PLAUSIBLE_MASS
from sottovoce.privacy.sampling import SamplingKey


@dataclass(frozen=True, kw_only=True)
class FederationSettings:
    """Settings of a federation.

    `nbest` is for simulations, where one file holds the utterances of all clients. `round_key`
    (hexadecimal) decides which round an utterance belongs to; it is not secret. `seed` makes
    sampling and noise repeatable, for tests. With `secure` the server sees only sums, of clients
    that send at most `plausible_mass` words per round each. `ledger` is a file to continue, if it
    is not that of the output folder; `earlier` is a ledger in JSON whose cost is added.
    `publication` holds the metadata published with the marginals (see `Publication`).
    """

    vocabulary: str
    output: str
    plan: dict[str, Any] = field(default_factory=lambda: ReleasePlan().to_json())
    noiseless: bool = False
    rounds: int = 3
    sampling_rate: float = 1.0
    nodes: int = 1
    timeout: float = 60.0
    denoise: str = "project"
    nbest: str = ""
    round_key: str = "00" * 16
    seed: int | None = None
    secure: bool = False
    plausible_mass: float = PLAUSIBLE_MASS
    minimum_clients: int = 1
    ledger: str = ""
    earlier: dict[str, Any] | None = None
    publication: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _validate.parse_fields(self)
        _validate.at_least_one("rounds", self.rounds)
        _validate.at_least_one("nodes", self.nodes)
        _validate.positive("timeout", self.timeout)
        _validate.rate("sampling_rate", self.sampling_rate)
        _validate.positive("plausible_mass", self.plausible_mass)
        _validate.at_least_one("minimum_clients", self.minimum_clients)
        if len(self.assignment().secret) != 16:
            raise InvalidInput(
                "Expected a round_key of 16 bytes in hexadecimal, got another length."
            )

    def release_plan(self) -> ReleasePlan:
        return ReleasePlan.from_json(self.plan)

    def publication_metadata(self) -> Publication:
        try:
            return Publication(**self.publication)
        except TypeError as problem:
            raise InvalidInput(
                f"Expected the publication metadata of a federation, but {problem}."
            ) from problem

    def assignment(self) -> SamplingKey:
        """The key that assigns utterances to rounds."""
        return SamplingKey(bytes.fromhex(self.round_key))

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    def for_devices(self) -> str:
        """The settings for devices, without the seed and the server's paths and ledger."""
        return replace(
            self, output="", ledger="", seed=None, earlier=None, publication={}
        ).to_text()

    @classmethod
    def from_text(cls, text: str | bytes) -> Self:
        try:
            return cls(**json.loads(text))
        except (TypeError, json.JSONDecodeError) as problem:
            raise InvalidInput(f"Expected settings of a federation, but {problem}.") from problem

    @classmethod
    def load(cls, path: Path | str) -> Self:
        return cls.from_text(Path(path).read_bytes())
