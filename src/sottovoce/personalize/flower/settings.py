"""Settings of the Flower app, and the request that goes to the devices.

The server reads its settings from a file. A device gets none of it: the request of a round carries
the plan and the words, so a device needs only its own utterances, and no path of the server.
"""

import json
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.publishing import Publication
from sottovoce.personalize.federated.server import PLAUSIBLE_MASS
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.privacy.sampling import SamplingKey

# A vocabulary of pairs has tens of thousands of entries; reject anything far larger.
_LARGEST_VOCABULARY = 2**26


@dataclass(frozen=True, kw_only=True)
class FederationSettings:
    """Settings of a federation.

    `nbest` is for simulations, where one file holds the utterances of all clients, and `round_key`
    (hexadecimal) decides which round of a simulation an utterance belongs to; it is not secret.
    `server` is the name under which devices know this server. `nodes` are waited for before the
    first round; later rounds ask whoever is there. Before secure aggregation, nodes that do not
    answer within `patience` seconds are left out. `seed` makes sampling and noise repeatable, for
    tests. With `secure` the server sees only sums, of clients that send at most `plausible_mass`
    words per round each. `ledger` is a file to continue, if it is not that of the output folder;
    `earlier` is a ledger in JSON whose cost is added. `publication` holds the metadata published
    with the marginals (see `Publication`).
    """

    vocabulary: str
    output: str
    plan: dict[str, Any] = field(default_factory=lambda: ReleasePlan().to_json())
    noiseless: bool = False
    rounds: int = 3
    sampling_rate: float = 1.0
    nodes: int = 1
    timeout: float = 60.0
    patience: float = 20.0
    denoise: str = "project"
    nbest: str = ""
    round_key: str = "00" * 16
    server: str = "sottovoce"
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
        _validate.positive("patience", self.patience)
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

    def asked(self, words: Vocabulary) -> dict[str, Any]:
        """What an interrupted run must have in common with the one that resumes it."""
        names = ("plan", "noiseless", "rounds", "sampling_rate", "denoise", "server", "seed",
                 "secure", "plausible_mass", "minimum_clients")  # fmt: skip
        return {"vocabulary": words.digest, **{name: getattr(self, name) for name in names}}

    def simulation(self, done: int) -> str:
        """What simulated nodes need besides the request; empty where devices are real.

        `done` rounds were finished before an interruption, in which simulated nodes lose their
        state.
        """
        if not self.nbest:
            return ""
        return json.dumps(
            {
                "nbest": self.nbest,
                "rounds": self.rounds,
                "round_key": self.round_key,
                "noiseless": self.noiseless,
                "done": done,
            }
        )

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str | bytes) -> Self:
        try:
            return cls(**json.loads(text))
        except (TypeError, json.JSONDecodeError) as problem:
            raise InvalidInput(f"Expected settings of a federation, but {problem}.") from problem

    @classmethod
    def load(cls, path: Path | str) -> Self:
        return cls.from_text(Path(path).read_bytes())


def packed_words(words: Vocabulary) -> bytes:
    """A vocabulary as a message.

    >>> words = Vocabulary(("call", "<unk>"), [0.5, 0.5])
    >>> unpacked_words(packed_words(words)).words
    ('call', '<unk>')
    """
    content = {"words": words.words, "unigram": words.unigram.tolist()}
    return zlib.compress(json.dumps(content).encode())


def unpacked_words(message: bytes) -> Vocabulary:
    """The vocabulary of a message, which may come from anybody."""
    try:
        reader = zlib.decompressobj()
        content = reader.decompress(message, _LARGEST_VOCABULARY)
        if reader.unconsumed_tail:
            raise ValueError("it is too large")
        data = json.loads(content)
        return Vocabulary(tuple(map(str, data["words"])), data["unigram"])
    except (zlib.error, ValueError, LookupError, TypeError, RecursionError) as problem:
        raise InvalidInput(f"Expected a vocabulary in a request, but {problem}.") from problem
