"""From a domain to a stream of utterances, and to a file of them.

`_spoken` makes utterances as plain strings (text and labels, words parted by spaces); `generate`
turns them into `Utterance`s and `write_jsonl` into lines of JSON, so the two cannot disagree.
Numbers are drawn in blocks with numpy; what is left for each utterance is to look up and to join.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from sottovoce._validate import at_least_one, one_of
from sottovoce.corpora.records import Utterance
from sottovoce.corpora.synthetic.carriers import MOST_HOLES, Carrier, catalogue
from sottovoce.corpora.synthetic.domains import NAMES
from sottovoce.corpora.synthetic.draws import GOLDEN, key, mix, unit
from sottovoce.corpora.synthetic.people import People
from sottovoce.corpora.synthetic.speech import PLACES, agree, repair, stumble
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output

BLOCK = 4096
STUMBLES = 0.06  # share of the utterances with a filler or a false start
REPAIRS = 0.02  # share of the utterances with slots that take a value back
OWN_CARRIERS, CARRIER_RECURRENCE = 100, 0.35  # preferred phrasings of a user
OWN_FRAMES, FRAME_RECURRENCE = 8, 0.6  # politeness of a user

# The numbers of an utterance, by column; the holes come last.
_USER, _CARRIER, _FRAME, _STUMBLE, _HOLES = range(5)
_COLUMNS = _HOLES + MOST_HOLES

Spoken = tuple[str, str, str, str, str]  # text, labels, intent, user, id


def generate(
    domain: str, *, size: int, users: int | None = None, seed: int = 0
) -> Iterator[Utterance]:
    """Utterances of a built-in domain, one at a time.

    Deterministic: the same (domain, users, seed) gives the same utterances in every process and on
    every platform, and a smaller `size` gives a prefix of a larger one. `users` defaults to about
    `size ** 0.6`, at least 20 (and at most `size`), so pass it to keep the prefix when the size
    changes.

    >>> first = next(generate("health", size=100, seed=7))
    >>> first.text, first.intent, first.user, first.id
    ('excuse me could dr woods renew my metoprolol pills',
     'refill_prescription', 'u00009', 'health-000000000')
    >>> generate("weather", size=10)
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected domain to be one of communication, health, video, ...
    """
    spoken = _checked(domain, size, users, seed)
    return (
        Utterance(
            tokens=tuple(text.split(" ")),
            slots=tuple(labels.split(" ")),
            intent=intent,
            user=user,
            id=identity,
            text=text,
        )
        for text, labels, intent, user, identity in spoken
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
    """Write what `generate` yields as JSON Lines, compressed if the name ends in `.gz`.

    The file appears whole or not at all. `progress` is told now and then how many utterances have
    been written so far.
    """
    spoken = _checked(domain, size, users, seed)
    written = 0
    with output(path) as stream:
        while lines := [_line(s) for s in islice(spoken, BLOCK)]:
            stream.write("".join(lines).encode("ascii"))
            written += len(lines)
            if progress is not None:
                progress(written)


def _line(spoken: Spoken) -> str:
    """Words hold no quote and no backslash (see `grammar`), so nothing has to be escaped."""
    text, labels, intent, user, identity = spoken
    tokens = text.replace(" ", '", "')
    slots = labels.replace(" ", '", "')
    return (
        f'{{"tokens": ["{tokens}"], "slots": ["{slots}"], '
        f'"intent": "{intent}", "user": "{user}", "id": "{identity}"}}\n'
    )


def _checked(domain: str, size: int, users: int | None, seed: int) -> Iterator[Spoken]:
    one_of("domain", domain, NAMES)
    at_least_one("size", size)
    if users is None:
        users = min(size, max(20, round(size**0.6)))
    if not 1 <= users <= size:
        raise InvalidInput(f"Expected users from 1 to size ({size}), got {users}.")
    if seed < 0:
        raise InvalidInput(f"Expected seed >= 0, got {seed}.")
    return islice(_spoken(domain, size, users, seed), size)


def _spoken(domain: str, size: int, users: int, seed: int) -> Iterator[Spoken]:
    """Whole blocks of utterances, hence up to a block more than `size`."""
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
            text, labels = _said(chosen, frame, row, slip)
            yield text, labels, chosen.intent, f"u{speaker:05d}", f"{domain}-{number:09d}"


def _said(carrier: Carrier, frame: int, row: list[int], slip: float) -> tuple[str, str]:
    """Fill the holes, put the frame around, and now and then spoil the result."""
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
