from collections import Counter

import pytest

from sottovoce.corpora import Utterance, check_bio
from sottovoce.corpora.spans import token_offsets
from sottovoce.corpora.synthetic import generate
from sottovoce.deid import (
    Deidentifier,
    Fields,
    Resources,
    Setting,
    Vault,
    mapping,
    public_surrogates,
)
from sottovoce.deid.detect import Gazetteer, Gold
from sottovoce.deid.replace import uniform
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

PEOPLE = Gazetteer({"PER": ["anna lee", "ben"], "LOC": ["rome"]})
KEPT = Fields(user="keep", id="keep")


def test_texts_and_utterances_give_the_same_release() -> None:
    texts = ["call anna lee", "in Rome, call BEN!", "nothing here", ""]
    first = Deidentifier(detector=PEOPLE, setting=Setting(p=0.5), source=NoiseSource.seeded(3))
    second = Deidentifier(detector=PEOPLE, setting=Setting(p=0.5), source=NoiseSource.seeded(3))
    by_text = list(first.release_texts(texts))
    one_batch = [released.text for released in second.release_all(map(_utterance, texts[:3]))]
    assert by_text[:3] == one_batch
    assert by_text[2:] == ["nothing here", ""]
    assert first.statement().guarantees["token"] == second.statement().guarantees["token"]


def _utterance(text: str) -> Utterance:
    return Utterance(tokens=tuple(text.split()), slots=("O",) * len(text.split()), text=text)


def test_equal_sentences_are_released_independently() -> None:
    """A seed per sentence would repeat the same output, which voids the guarantee."""
    deid = Deidentifier(detector=PEOPLE, setting=Setting(epsilon=1.0))
    told = Counter(deid.release_texts(["call anna lee"] * 300))
    assert len(told) > 100
    again = Counter(Deidentifier(detector=PEOPLE).release_texts(["call anna lee"] * 300))
    assert told != again


@pytest.mark.parametrize("strategy", ["redact", "typed", "named", "word", "entity"])
@pytest.mark.parametrize("domain", ["communication", "health", "video"])
def test_labelled_corpora_stay_valid(strategy: str, domain: str) -> None:
    deid = Deidentifier(
        detector=Gold(mapping(domain)), setting=Setting(strategy=strategy), fields=KEPT
    )
    corpus = list(generate(domain, size=150, seed=5))
    for original, released in zip(corpus, deid.release_all(corpus), strict=True):
        made = released.utterance
        token_offsets(made.text, made.tokens)
        check_bio(made.slots)
        assert (made.intent, made.user, made.id) == (original.intent, original.user, original.id)
        assert {s[2:] for s in made.slots} == {s[2:] for s in original.slots}


def test_word_by_word_keeps_the_number_of_words() -> None:
    deid = Deidentifier(detector=PEOPLE, setting=Setting(strategy="word"))
    released = deid.release("call Anna Lee's mum")
    assert len(released.text.split()) == 4
    assert released.text.startswith("call ")
    assert released.text.endswith("'s mum")
    assert deid.unit_counts.tokens == {"PER": 2}


def test_offsets_lead_back() -> None:
    deid = Deidentifier(detector=PEOPLE, setting=Setting(strategy="redact"))
    released = deid.release("call anna lee in rome now")
    assert released.text == "call [REDACTED] in [REDACTED] now"
    there = released.text.index("now")
    assert released.offsets.to_original(there) == "call anna lee in rome now".index("now")


def test_per_type_settings() -> None:
    deid = Deidentifier(
        detector=PEOPLE,
        setting=Setting(strategy="typed"),
        per_type={"LOC": Setting(strategy="named")},
    )
    assert deid.release("ben in rome").text == "[PER] in London"


def test_consistent_within_a_user() -> None:
    resources = Resources(vault=Vault(bytes(32)))
    deid = Deidentifier(
        detector=PEOPLE, setting=Setting(strategy="consistent"), resources=resources
    )
    one = [deid.release(f"{verb} ben", "u1").text.split()[1] for verb in ("call", "text")]
    assert one[0] == one[1]
    with pytest.raises(InvalidInput, match="user"):
        deid.release("call ben")


def test_fields_are_pseudonyms_or_refused() -> None:
    call = Utterance(
        tokens=("call", "ben"), slots=("O", "O"), user="ann", id="7", extra={"room": "rome"}
    )
    with pytest.raises(InvalidInput, match="room"):
        list(Deidentifier(detector=PEOPLE).release_all([call]))
    dropped = Deidentifier(detector=PEOPLE, fields=Fields(drop_rest=True))
    [first] = dropped.release_all([call])
    [second] = dropped.release_all([call])
    assert first.utterance.extra == {}
    assert first.utterance.user == second.utterance.user != "ann"
    assert first.utterance.id not in ("", "7")
    kept = Deidentifier(detector=PEOPLE, fields=Fields(user="drop", keep=frozenset({"room"})))
    [third] = kept.release_all([call])
    assert (third.utterance.user, third.utterance.extra) == ("", {"room": "rome"})
    assert any("room" in each for each in kept.statement().guarantees["token"].not_covered)
    with pytest.raises(InvalidInput, match="user to be one of"):
        Fields(user="sell")


def test_seeds_repeat_and_are_stamped() -> None:
    def told(seed: int) -> tuple[list[str], str]:
        source = NoiseSource.seeded(seed)
        deid = Deidentifier(detector=PEOPLE, setting=Setting(epsilon=2.0), source=source)
        return list(deid.release_texts(["call ben in rome"] * 20)), deid.to_json()["random_numbers"]

    assert told(1) == told(1) != told(2)
    assert "seeded" in told(1)[1]


def test_the_truth_survives_as_often_as_the_channel_says() -> None:
    """End to end: detector, batches and assembly preserve the distribution."""
    cities = uniform(["rome", "oslo", "lima", "bern"])
    deid = Deidentifier(
        detector=PEOPLE,
        setting=Setting(p=0.5),
        resources=Resources(surrogates={"LOC": cities}),
        source=NoiseSource.seeded(5),
    )
    told = Counter(deid.release_texts(["rome"] * 4000))
    assert told["rome"] / 4000 == pytest.approx(0.5 + 0.5 / 4, abs=0.03)
    assert told["oslo"] / 4000 == pytest.approx(0.5 / 4, abs=0.02)


def test_public_lists_are_public() -> None:
    for kind in (
        "PER",
        "ORG",
        "LOC",
        "ADDRESS",
        "DATE",
        "TIME",
        "EMAIL",
        "URL",
        "MEDICAL",
        "TITLE",
    ):
        listed = public_surrogates(kind)
        assert listed is not None
        assert len(listed.values) > 50


def test_a_bad_delta_is_refused() -> None:
    with pytest.raises(InvalidInput, match="delta"):
        Deidentifier(detector=PEOPLE, delta=1.0)


def test_gold_refuses_text_without_annotations() -> None:
    """It would find nothing to replace, and release everything unchanged."""
    deid = Deidentifier(detector="gold")
    with pytest.raises(InvalidInput, match="annotated utterances"):
        deid.release("call anna")
    with pytest.raises(InvalidInput, match="annotated utterances"):
        list(deid.release_texts(["call anna"]))
