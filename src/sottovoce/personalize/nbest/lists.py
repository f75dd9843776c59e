"""N-best lists: the hypotheses of a recogniser, best first, with separate scores.

The rank of a hypothesis is its position in the list as decoded by the *first* pass. Counting and
privacy depend on it (see `cache`), so lists are never re-sorted.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sottovoce.errors import InvalidInput

# A word starts and ends with a letter or digit of any script; a final apostrophe is allowed.
_WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*'?")


def normal_text(line: str) -> str:
    """The normalised words of a line.

    >>> normal_text('"Uh, first-class -- that\\'s $20, isn\\'t it?"')
    "uh first-class that's 20 isn't it"
    """
    return " ".join(_WORD.findall(line.lower().replace("’", "'")))


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One hypothesis of an utterance; scores are natural logarithms, higher is better.

    `am` is the acoustic score, `lm` the first pass's language model score and `score` the total it
    ranked by. Each may be unknown.

    >>> Hypothesis("  call   mum ", am=-3.5).words
    ('call', 'mum')
    >>> Hypothesis("call", am=float("nan"))
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected a finite am of 'call', got nan.
    """

    text: str
    am: float | None = None
    lm: float | None = None
    score: float | None = None

    def __post_init__(self) -> None:
        # Normalise white space once, since texts are compared across tools.
        object.__setattr__(self, "text", " ".join(self.text.split()))
        for name in ("am", "lm", "score"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise InvalidInput(f"Expected a finite {name} of {self.text!r}, got {value}.")

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.text.split())

    @property
    def first_pass(self) -> float:
        """The total of the first pass, or the sum of the known scores."""
        if self.score is not None:
            return self.score
        return (self.am or 0.0) + (self.lm or 0.0)


@dataclass(frozen=True, slots=True)
class NBest:
    """The hypotheses of one utterance, best first; may be empty.

    `client` is the owner of the device and `order` the position in time on that device.

    >>> nbest = NBest("u1", (Hypothesis("call mum"), Hypothesis("call mom")), reference="call mum")
    >>> nbest.best.text, len(nbest.hypotheses)
    ('call mum', 2)
    """

    id: str
    hypotheses: tuple[Hypothesis, ...]
    reference: str | None = None
    client: str | None = None
    order: float | None = None

    def __post_init__(self) -> None:
        if not self.id:
            raise InvalidInput("Expected an N-best list with an id, got an empty one.")
        if self.reference is not None:
            object.__setattr__(self, "reference", " ".join(self.reference.split()))

    @property
    def best(self) -> Hypothesis:
        return self.hypotheses[0] if self.hypotheses else Hypothesis("")


def attach(
    lists: Iterable[NBest],
    *,
    references: Mapping[str, str] | None = None,
    clients: Mapping[str, str] | None = None,
) -> Iterator[NBest]:
    """Add the references and clients that a format keeps in other files.

    >>> next(attach([NBest("u1", ())], references={"u1": "call mum"}, clients={})).reference
    'call mum'
    """
    for each in lists:
        yield replace(
            each,
            reference=(references or {}).get(each.id, each.reference),
            client=(clients or {}).get(each.id, each.client),
        )


def by_client(lists: Iterable[NBest]) -> dict[str, list[NBest]]:
    """The lists of every client in time order; a list without a client is an error.

    >>> nbest = [NBest("b", (), client="ann", order=2), NBest("a", (), client="ann", order=1)]
    >>> [each.id for each in by_client(nbest)["ann"]]
    ['a', 'b']
    """
    clients: dict[str, list[NBest]] = {}
    for each in lists:
        if each.client is None:
            raise InvalidInput(
                f"Expected a client for every N-best list, got none for {each.id!r}."
            )
        clients.setdefault(each.client, []).append(each)
    for mine in clients.values():
        # Stable sort: lists without an order keep their input order.
        mine.sort(key=lambda each: 0.0 if each.order is None else each.order)
    return clients
