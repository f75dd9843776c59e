import pytest

from sottovoce.corpora.synthetic import DOMAINS, schema
from sottovoce.corpora.synthetic.carriers import catalogue
from sottovoce.corpora.synthetic.domains import domain_of
from sottovoce.errors import InvalidInput

ENTITIES = {"person", "phone", "address", "date", "email", "location"}


@pytest.mark.parametrize("domain", DOMAINS)
def test_domains_are_as_rich_as_promised(domain: str) -> None:
    declared = schema(domain)
    assert len(declared.intents) >= 12
    assert len(declared.slot_types) >= 15
    assert len(set(declared.labels)) == 2 * len(declared.slot_types) + 1
    assert {slot.entity for slot in declared.slots if slot.private} >= ENTITIES


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_intent_has_many_carriers(domain: str) -> None:
    counts = dict.fromkeys(schema(domain).intents, 0)
    for carrier in catalogue(domain).carriers:
        counts[carrier.intent] += 1
    assert min(counts.values()) >= 25
    main = max(domain_of(domain).intents.items(), key=lambda pair: pair[1].weight)[0]
    assert counts[main] > 400


def test_medicines_are_private() -> None:
    assert {"medicine", "patient", "doctor", "birth_date"} <= set(schema("health").private)


def test_an_unknown_domain_is_named() -> None:
    with pytest.raises(InvalidInput, match="got 'weather'"):
        schema("weather")
