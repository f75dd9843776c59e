"""Users of a synthetic corpus, and their utterances as a stream or as a file.

`generate` and `write_jsonl` both format what `_rendered` makes, so they cannot disagree.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sottovoce._validate import at_least_one, one_of
from sottovoce.corpora.records import Utterance
from sottovoce.corpora.synthetic.carriers import (
    MOST_HOLES,
    PLACES,
    Carrier,
    agree,
    catalogue,
    repair,
    stumble,
)
from sottovoce.corpora.synthetic.domains import NAMES
from sottovoce.corpora.synthetic.draws import GOLDEN, Numbers, Shares, cumulative, key, mix, unit
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output

ACTIVITY_SHIFT = 1.0

Users = npt.NDArray[np.int64]


class People:
    """The users of a corpus, their activity and their habits, in 16 bytes of memory per user.

    Activity is Zipf-like: the user of activity rank r speaks with probability proportional to
    1 / (r + 1), and ranks are assigned to users in shuffled order. A habit is a number that depends
    on the user, the purpose and the rank of the habit, but not on the utterance: the third contact
    of a user is the same number, hence the same contact, each time. Habits are drawn from the same
    lists as other values, so they change how values recur within a user, but not their overall
    frequencies.
    """

    def __init__(self, users: int, key: int) -> None:
        self.key = np.array([key], dtype=np.uint64)
        order = np.arange(users, dtype=np.uint64)
        self.by_rank: Users = np.argsort(mix((order + np.uint64(1)) * GOLDEN + self.key))
        self.activity: Shares = cumulative(1 / (np.arange(1, users + 1) + ACTIVITY_SHIFT))

    def speakers(self, numbers: Numbers) -> Users:
        """One user per number, sampled by activity."""
        ranks = np.searchsorted(self.activity, unit(numbers), side="right")
        chosen: Users = self.by_rank[ranks]
        return chosen

    def habitual(
        self,
        users: Users,
        fresh: Numbers,
        *,
        purpose: Numbers,
        own: npt.NDArray[np.float64] | float,
        recurrence: npt.NDArray[np.float64] | float,
    ) -> Numbers:
        """Replace the fraction `recurrence` of the fresh numbers by one of about `own` habits.

        Low ranks are more frequent: the rank is own * u**2 for uniform u, so that the first of
        nine habits has probability 1/3.
        """
        choice = mix(fresh + self.key)
        fraction = unit(choice << np.uint64(20))
        rank = (fraction * fraction * own).astype(np.uint64)
        person = mix((users.astype(np.uint64) + np.uint64(1)) * GOLDEN ^ self.key)
        habit = mix(mix(person ^ purpose) + rank * GOLDEN)
        return np.where(unit(choice) < recurrence, habit, fresh)


BLOCK = 4096
STUMBLES = 0.06  # fraction of utterances with a filler or a false start
REPAIRS = 0.02  # fraction of utterances with slots that have a self-repair
OWN_CARRIERS, CARRIER_RECURRENCE = 100, 0.35  # preferred phrasings of a user
OWN_FRAMES, FRAME_RECURRENCE = 8, 0.6  # politeness of a user

# Columns of the random numbers of an utterance; the holes come last.
_USER, _CARRIER, _FRAME, _STUMBLE, _HOLES = range(5)
_COLUMNS = _HOLES + MOST_HOLES

Rendered = tuple[str, str, str, str, str]  # text, labels, intent, user, id


def generate(
    domain: str, *, size: int, users: int | None = None, seed: int = 0
) -> Iterator[Utterance]:
    """Utterances of a built-in domain, one at a time.

    Deterministic: the same (domain, users, seed) gives the same utterances on every platform, and
    a smaller `size` gives a prefix. `users` defaults to about `size ** 0.6`, at least 20 and at
    most `size`; pass it to get the same prefix for different sizes.

    >>> first = next(generate("health", size=100, seed=7))
    >>> first.text, first.intent, first.user, first.id
    ('excuse me could dr woods renew my metoprolol pills',
     'refill_prescription', 'u00009', 'health-000000000')
    >>> generate("weather", size=10)
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected domain to be one of communication, health, video, ...
    """
    rendered = _checked(domain, size, users, seed)
    return (
        Utterance(
            tokens=tuple(text.split(" ")),
            slots=tuple(labels.split(" ")),
            intent=intent,
            user=user,
            id=identity,
            text=text,
        )
        for text, labels, intent, user, identity in rendered
    )


def write_jsonl(
    path: str | Path,
    domain: str,
    *,
    size: int,
    users: int | None = None,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write the utterances of `generate` as JSON Lines, compressed if the name ends in `.gz`.

    Writing is atomic. `progress` is called regularly with the number of utterances written.
    """
    rendered = _checked(domain, size, users, seed)
    written = 0
    with output(path) as stream:
        while lines := [_line(s) for s in islice(rendered, BLOCK)]:
            stream.write("".join(lines).encode("ascii"))
            written += len(lines)
            if progress is not None:
                progress(written)


def _line(rendered: Rendered) -> str:
    """Words contain no quotes or backslashes (see `grammar`), so nothing is escaped."""
    text, labels, intent, user, identity = rendered
    tokens = text.replace(" ", '", "')
    slots = labels.replace(" ", '", "')
    return (
        f'{{"tokens": ["{tokens}"], "slots": ["{slots}"], '
        f'"intent": "{intent}", "user": "{user}", "id": "{identity}"}}\n'
    )


def _checked(domain: str, size: int, users: int | None, seed: int) -> Iterator[Rendered]:
    one_of("domain", domain, NAMES)
    at_least_one("size", size)
    if users is None:
        users = min(size, max(20, round(size**0.6)))
    if not 1 <= users <= size:
        raise InvalidInput(f"Expected users from 1 to size ({size}), got {users}.")
    if seed < 0:
        raise InvalidInput(f"Expected seed >= 0, got {seed}.")
    return islice(_rendered(domain, size, users, seed), size)


def _rendered(domain: str, size: int, users: int, seed: int) -> Iterator[Rendered]:
    """Complete blocks of utterances, so up to one block more than `size`.

    Text and labels are strings, with words separated by spaces. Numbers are drawn in blocks with
    numpy; per utterance, only look-ups and joins remain.
    """
    known = catalogue(domain)
    base = np.array([key("corpus", seed, domain)], dtype=np.uint64)
    people = People(users, key("people", seed, domain))
    carrier_purpose, frame_purpose = np.array([[key("carrier")], [key("frame")]], dtype=np.uint64)
    columns = np.arange(1, _COLUMNS + 1, dtype=np.uint64)
    for start in range(0, size, BLOCK):
        index = np.arange(start, start + BLOCK, dtype=np.uint64)
        cells = index[:, None] * np.uint64(_COLUMNS) + columns
        numbers = mix(mix(cells * GOLDEN + base))
        speakers = people.speakers(numbers[:, _USER])
        carriers = np.searchsorted(
            known.shares,
            unit(
                people.habitual(
                    speakers,
                    numbers[:, _CARRIER],
                    purpose=carrier_purpose,
                    own=OWN_CARRIERS,
                    recurrence=CARRIER_RECURRENCE,
                )
            ),
            side="right",
        )
        frames = people.habitual(
            speakers,
            numbers[:, _FRAME],
            purpose=frame_purpose,
            own=OWN_FRAMES,
            recurrence=FRAME_RECURRENCE,
        )
        fills = people.habitual(
            speakers[:, None],
            numbers[:, _HOLES:],
            purpose=known.purpose[carriers],
            own=known.own[carriers],
            recurrence=known.recurrence[carriers],
        )
        slips = unit(numbers[:, _STUMBLE])
        for number, carrier, frame, slip, speaker, row in zip(
            index.tolist(),
            carriers.tolist(),
            frames.tolist(),
            slips.tolist(),
            speakers.tolist(),
            fills.tolist(),
            strict=True,
        ):
            chosen = known.carriers[carrier]
            text, labels = _render(chosen, frame, row, slip)
            yield text, labels, chosen.intent, f"u{speaker:05d}", f"{domain}-{number:09d}"


def _render(carrier: Carrier, frame: int, row: list[int], slip: float) -> tuple[str, str]:
    """Fill the holes, add lead and tail, and sometimes a disfluency."""
    text, labels, _, leads, tails, holes = carrier
    if holes:
        values = [draw(number) for (draw, _), number in zip(holes, row, strict=False)]
        marks = [bio[value.count(" ")] for (_, bio), value in zip(holes, values, strict=True)]
        if slip > 1 - REPAIRS:
            draw, bio = holes[-1]
            other = draw(frame)
            values[-1], marks[-1] = repair(
                (other, bio[other.count(" ")]), (values[-1], marks[-1]), row[-1]
            )
        text %= tuple(values)
        labels %= tuple(marks)
        if " a " in text:
            text = agree(text)
    frame, lead = divmod(frame, PLACES)
    before, before_labels = leads[lead]
    after, after_labels = tails[frame % PLACES]
    text = before + text + after
    labels = before_labels + labels + after_labels
    if slip < STUMBLES:
        return stumble(text, labels, int(slip / STUMBLES * 2**32))
    return text, labels
