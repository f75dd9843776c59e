"""What a server and a device say to each other: a request for counts, and the counts.

Both are JSON with a version, and both are read as if an enemy had written them. A contribution
names its sender by a pseudonym that differs from server to server. Messages are not encrypted
here: send them over TLS.
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
# A request may carry a vocabulary of pairs; nothing sensible is larger than this.
LARGEST_MESSAGE = 2**25


@dataclass(frozen=True, kw_only=True)
class RoundRequest:
    """A server's call for counts: which round, by which plan and rules.

    `pairs` are the words of the vector where pairs are counted; single words have to be those that
    the device knows already.
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
                raise InvalidInput(f"Expected {name} to be a text of 1 to 1000 letters.")
        _validate.at_least_one("number", self.number)
        if not isinstance(self.plan, ReleasePlan):
            raise InvalidInput(f"Expected a plan of releases, got {self.plan!r}.")

    @classmethod
    def of(cls, server: Server, number: int, *, name: str = "server") -> Self:
        """The request of round `number` of this server, which devices know by `name`."""
        if server.release is None:
            raise InvalidInput(
                "Expected a server that adds noise, got one without: no device sends to it."
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
        """The name of this round among all rounds of all servers."""
        return json.dumps([self.server, self.run, self.number, self.rules])

    def to_bytes(self) -> bytes:
        fields = {name: getattr(self, name) for name in ("server", "run", "number", "rules")}
        whole = {"version": VERSION, **fields, "plan": self.plan.to_json(), "pairs": self.pairs}
        return json.dumps(whole).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a request; anything else is refused as `InvalidInput`."""
        told = _read(data, "a request for counts")
        try:
            pairs = told["pairs"]
            if pairs is not None and not (
                isinstance(pairs, list) and all(isinstance(pair, str) for pair in pairs)
            ):
                raise TypeError("pairs are no list of texts")
            return cls(
                server=told["server"],
                run=told["run"],
                number=told["number"],
                plan=ReleasePlan.from_json(told["plan"]),
                rules=told["rules"],
                pairs=None if pairs is None else tuple(pairs),
            )
        except InvalidInput:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as problem:
            raise InvalidInput(f"Expected a request for counts, but {problem!r}.") from problem


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """The counts of one device for one round, in units of counting, zeros left out.

    >>> told = Contribution(round="[1]", rules="ab-cd", device="0f", places=(2,), units=(64.0,))
    >>> Contribution.from_bytes(told.to_bytes()) == told, told.counts(4).tolist()
    (True, [0.0, 0.0, 64.0, 0.0])
    """

    round: str
    rules: str
    device: str
    places: tuple[int, ...]
    units: tuple[float, ...]

    def counts(self, size: int) -> Vector:
        """The whole vector over a vocabulary of `size` words."""
        if any(place >= size for place in self.places):
            raise Refused("wrong-length", f"Expected counts of {size} words, got one beyond them.")
        dense = np.zeros(size)
        dense[list(self.places)] = self.units
        return dense

    def add_to(self, server: Server, request: RoundRequest) -> None:
        """Let the server take the counts in, or raise its `Refused`."""
        if self.round != request.id:
            raise Refused("other-round", "Expected an answer to this round, got one to another.")
        counts = self.counts(len(server.vocabulary))
        server.receive(counts, client=self.device, rules=self.rules)

    def to_bytes(self) -> bytes:
        return json.dumps({"version": VERSION, **asdict(self)}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a contribution; anything else is `Refused`."""
        try:
            told = _read(data, "a contribution")
            places, units = told["places"], told["units"]
            texts = [told[name] for name in ("round", "rules", "device")]
            if not all(isinstance(text, str) for text in texts):
                raise TypeError("a name is no text")
            if not isinstance(places, list) or not isinstance(units, list):
                raise TypeError("counts are no lists")
            if len(places) != len(units):
                raise ValueError("places and counts differ in number")
            if any(type(place) is not int or place < 0 for place in places):
                raise TypeError("a place is no whole number")
            if any(later <= earlier for earlier, later in pairwise(places)):
                raise ValueError("places are not in order")
            if any(type(unit) not in (int, float) or not math.isfinite(unit) for unit in units):
                raise TypeError("a count is no number")
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
            f"Expected {what} of at most {LARGEST_MESSAGE} bytes, got something else."
        )
    try:
        told = json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(f"Expected {what} in JSON, got something else.") from problem
    if not isinstance(told, dict) or told.get("version") != VERSION:
        raise InvalidInput(f"Expected {what} of version {VERSION}, got another.")
    return told
