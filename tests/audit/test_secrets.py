import pytest

from sottovoce.audit.exposure import SecretFormat
from sottovoce.corpora import check_bio
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

CALLS = SecretFormat(carrier="call # # # at # #", intent="call", slot="phone_number")


def test_the_secret_is_spelled_out_with_its_labels() -> None:
    spoken = CALLS.utterance(1234)
    assert spoken.text == "call 0 1 2 at 3 4"
    assert spoken.intent == "call"
    assert spoken.slots[1:] == (
        "B-phone_number", "I-phone_number", "I-phone_number", "O", "B-phone_number",
        "I-phone_number",
    )  # fmt: skip
    check_bio(spoken.slots)


def test_drawn_secrets_are_distinct_and_in_range() -> None:
    drawn = CALLS.draw(500, NoiseSource.seeded(1))
    assert len(set(drawn)) == 500
    assert all(0 <= secret < CALLS.size for secret in drawn)
    tiny = SecretFormat(carrier="pin #", intent="unlock", slot="pin")
    assert sorted(tiny.draw(10, NoiseSource.seeded(1))) == list(range(10))


def test_bad_input() -> None:
    for carrier in ("call mum", "call ###", "#" + " #" * 18):
        with pytest.raises(InvalidInput, match='Expected 1 to 18 places "#" among the words'):
            SecretFormat(carrier=carrier, intent="call", slot="phone_number")
    for secret in (-1, CALLS.size):
        with pytest.raises(InvalidInput, match="Expected a secret from 0 to 99999"):
            CALLS.utterance(secret)
    with pytest.raises(InvalidInput, match="Expected count >= 1, got 0"):
        CALLS.draw(0, NoiseSource())
    with pytest.raises(InvalidInput, match="Expected at most 100000 distinct secrets"):
        CALLS.draw(CALLS.size + 1, NoiseSource())
