"""Messages between a server and a device: a request for counts, and the counts.

Both are versioned JSON, and both are parsed as untrusted input. A contribution names its sender by
a pseudonym that is different for each server. Messages are not encrypted here: send them over TLS.
"""

import json
import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.server import Refused, Server
from sottovoce.personalize.lm.vocabulary import Vector

VERSION = 1
# Requests may carry a vocabulary of pairs; reject anything larger than this.
LARGEST_MESSAGE = 2**25


@dataclass(frozen=True, kw_only=True)
class RoundRequest:
    """A server's request for counts: the round, its plan and its rules.

    `pairs` is the vocabulary if pairs are counted; for single words the device uses its own
    vocabulary.
    """

    server: str
    run: str
    number: int
    plan: ReleasePlan
    rules: str
    pairs: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("server", "run", "rules"):
            if not isinstance(given := getattr(self, name), str) or not 0 < len(given) <= 1000:
                raise InvalidInput(f"Expected {name} to be a string of 1 to 1000 characters.")
        _validate.at_least_one("number", self.number)
        if not isinstance(self.plan, ReleasePlan):
            raise InvalidInput(f"Expected a release plan, got {self.plan!r}.")

    @classmethod
    def of(cls, server: Server, number: int, *, name: str = "server") -> Self:
        """The request for round `number` of this server, which devices know by `name`."""
        if server.release is None:
            raise InvalidInput(
                "Expected a server that adds noise, got one without: give it a release plan, since "
                "devices decline otherwise."
            )
        plan = server.release.plan
        return cls(
            server=name,
            run=server.release.run,
            number=number,
            plan=plan,
            rules=server.rules,
            pairs=server.vocabulary.words if plan.counting.order > 1 else None,
        )

    @property
    def id(self) -> str:
        """A unique id of this round over all servers."""
        return json.dumps([self.server, self.run, self.number, self.rules])

    def to_bytes(self) -> bytes:
        fields = {name: getattr(self, name) for name in ("server", "run", "number", "rules")}
        whole = {"version": VERSION, **fields, "plan": self.plan.to_json(), "pairs": self.pairs}
        return json.dumps(whole).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Parse a request; raises `InvalidInput` for anything else."""
        fields = _read(data, "a request for counts")
        try:
            pairs = fields["pairs"]
            if pairs is not None and not (
                isinstance(pairs, list) and all(isinstance(pair, str) for pair in pairs)
            ):
                raise TypeError("pairs are not a list of strings")
            return cls(
                server=fields["server"],
                run=fields["run"],
                number=fields["number"],
                plan=ReleasePlan.from_json(fields["plan"]),
                rules=fields["rules"],
                pairs=None if pairs is None else tuple(pairs),
            )
        except InvalidInput:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as problem:
            raise InvalidInput(f"Expected a request for counts, but {problem!r}.") from problem


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """The counts of one device for one round, in counting units, as a sparse vector.

    >>> sent = Contribution(round="[1]", rules="ab-cd", device="0f", places=(2,), units=(64.0,))
    >>> Contribution.from_bytes(sent.to_bytes()) == sent, sent.counts(4).tolist()
    (True, [0.0, 0.0, 64.0, 0.0])
    """

    round: str
    rules: str
    device: str
    places: tuple[int, ...]
    units: tuple[float, ...]

    def counts(self, size: int) -> Vector:
        """The dense vector over a vocabulary of `size` words."""
        if any(place >= size for place in self.places):
            raise Refused("wrong-length", f"Expected places below {size}, got a larger one.")
        dense = np.zeros(size)
        dense[list(self.places)] = self.units
        return dense

    def add_to(self, server: Server, request: RoundRequest) -> None:
        """Add the counts to the server's sum, or raise `Refused`."""
        if self.round != request.id:
            raise Refused(
                "other-round", "Expected an answer to this round, got one to another round."
            )
        counts = self.counts(len(server.vocabulary))
        server.receive(counts, client=self.device, rules=self.rules)

    def to_bytes(self) -> bytes:
        return json.dumps({"version": VERSION, **asdict(self)}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Parse a contribution; raises `Refused` for anything else."""
        try:
            fields = _read(data, "a contribution")
            places, units = fields["places"], fields["units"]
            texts = [fields[name] for name in ("round", "rules", "device")]
            if not all(isinstance(text, str) for text in texts):
                raise TypeError("a name is not a string")
            if not isinstance(places, list) or not isinstance(units, list):
                raise TypeError("counts are not lists")
            if len(places) != len(units):
                raise ValueError("places and counts differ in length")
            if any(type(place) is not int or place < 0 for place in places):
                raise TypeError("a place is not a whole number")
            if any(later <= earlier for earlier, later in pairwise(places)):
                raise ValueError("places are not sorted")
            if any(type(unit) not in (int, float) or not math.isfinite(unit) for unit in units):
                raise TypeError("a count is not a finite number")
            return cls(
                round=texts[0],
                rules=texts[1],
                device=texts[2],
                places=tuple(places),
                units=tuple(map(float, units)),
            )
        except (LookupError, TypeError, ValueError, OverflowError) as problem:
            raise Refused("unreadable", f"Expected a contribution, but {problem}.") from problem


def _read(data: bytes, what: str) -> dict[str, Any]:
    if not isinstance(data, bytes) or len(data) > LARGEST_MESSAGE:
        raise InvalidInput(
            f"Expected {what} of at most {LARGEST_MESSAGE} bytes, got a longer or other message."
        )
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(f"Expected {what} in JSON, got other data.") from problem
    if not isinstance(fields, dict) or fields.get("version") != VERSION:
        raise InvalidInput(f"Expected {what} of version {VERSION}, got another.")
    return fields
