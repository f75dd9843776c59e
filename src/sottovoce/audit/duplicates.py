"""Selection of members and non-members for an attack, without duplicates.

A test sentence that is also in the training data is not a non-member, and ten copies of a sentence
are one observation. Both are left out, and their numbers are part of the result, because real
corpora have many duplicates ("call mum").
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sottovoce import _validate
from sottovoce.corpora.records import Utterance
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

Record = TypeVar("Record")


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Numbers of records left out, by reason."""

    in_training: int = 0
    """Test records whose words are also in the training data."""
    repeated_members: int = 0
    repeated_non_members: int = 0


@dataclass(frozen=True, kw_only=True)
class Candidates(Generic[Record]):
    """Equal numbers of distinct members and non-members."""

    members: tuple[Record, ...]
    non_members: tuple[Record, ...]
    left_out: LeftOut = LeftOut()


def words(utterance: Utterance) -> str:
    """The key for duplicates: the words of an utterance, ignoring case and labels.

    >>> words(Utterance(tokens=("Call", "mum"), slots=("O", "O"))) == "call mum"
    True
    """
    return " ".join(utterance.tokens).casefold()


def candidates(
    training: Sequence[Record],
    test: Sequence[Record],
    *,
    sentence: Callable[[Record], str],
    source: NoiseSource,
    most: int | None = None,
) -> Candidates[Record]:
    """Distinct members from `training` and equally many non-members from `test`, drawn at random.

    >>> tried = candidates(["a", "b", "b", "c"], ["b", "d", "e", "e"], sentence=str,
    ...                    source=NoiseSource.seeded(1))
    >>> len(tried.members), sorted(tried.non_members), tried.left_out
    (2, ['d', 'e'], LeftOut(in_training=1, repeated_members=1, repeated_non_members=1))
    """
    if most is not None:
        _validate.at_least_one("most", most)
    known = {sentence(record) for record in training}
    members = _distinct(training, sentence)
    unseen = [record for record in test if sentence(record) not in known]
    non_members = _distinct(unseen, sentence)
    size = min(len(members), len(non_members), most or len(members))
    if size == 0:
        raise InvalidInput(
            f"Expected at least one member and one non-member, got {len(members)} distinct "
            f"training records and {len(non_members)} test records that are not among them."
        )
    return Candidates(
        members=_drawn(members, size, source),
        non_members=_drawn(non_members, size, source),
        left_out=LeftOut(
            in_training=len(test) - len(unseen),
            repeated_members=len(training) - len(members),
            repeated_non_members=len(unseen) - len(non_members),
        ),
    )


def _distinct(records: Iterable[Record], sentence: Callable[[Record], str]) -> list[Record]:
    first: dict[str, Record] = {}
    for record in records:
        first.setdefault(sentence(record), record)
    return list(first.values())


def _drawn(records: Sequence[Record], size: int, source: NoiseSource) -> tuple[Record, ...]:
    """A uniform sample in corpus order."""
    places = sorted(source.words(len(records)).argsort(kind="stable")[:size].tolist())
    return tuple(records[place] for place in places)
