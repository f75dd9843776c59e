"""Mask, hash, encrypt, keep and functions: what each releases, and what its statement says."""

import pytest

from sottovoce.deid import Deidentifier, Resources, Setting, Vault
from sottovoce.deid.replace import Scope
from sottovoce.deid.replace.operators import Custom, Encrypt, Hash, Keep, Mask, decrypted
from sottovoce.deid.replace.strategies import parse_setting
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

KEY = bytes(range(32))
SCOPE = Scope(type="PER", user="u1")


def test_a_mask_hides_all_but_the_last_characters() -> None:
    whole, last = Mask(), Mask(last=4)
    assert len({*whole.replace(["Al", "Maximilian"], [], NoiseSource())}) == 1
    assert last.replace(["1234567890", "12345"], [], NoiseSource()) == ["******7890", "*****"]
    assert not whole.cost().reveals
    assert "last 4 characters" in last.cost().reveals[0]
    assert "last 4 characters" in last.cost().assumptions[0]


def test_values_that_differ_in_what_a_mask_keeps_are_told_apart_and_the_statement_says_so() -> None:
    """The twin: with the last characters kept, epsilon 0 holds only among equal endings."""
    last = Mask(last=2)
    assert last.channel("maria") != last.channel("mario")
    assert Mask().channel("maria") == Mask().channel("mario")
    deid = Deidentifier(detector="patterns", setting=Setting(strategy="mask", last=4))
    assert deid.release("call 555-0199").text == "call ****0199"
    stated = deid.statement().guarantees["token"]
    assert stated.epsilon == 0
    assert any("last 4 characters" in each for each in stated.not_covered)


def test_a_hash_needs_the_key_and_tells_equal_values() -> None:
    made, other = Hash(vault=Vault(KEY)), Hash(vault=Vault(bytes(32)))
    one, same, third = made.replace(["Maria", "maria", "anna"], [SCOPE] * 3, NoiseSource())
    assert one == same != third
    assert other.replace(["maria"], [SCOPE], NoiseSource()) != [one]
    assert "single occurrence" in made.cost().why_none


def test_encrypted_values_come_back_exactly_with_the_key_alone() -> None:
    vault = Vault(KEY)
    values = ["Maria", "María  José", "x" * 40, "<PER:abc>", "tab\tand\nline"]
    told = Encrypt(vault=vault).replace(values, [SCOPE] * len(values), NoiseSource())
    assert [decrypted(each, vault) for each in told] == values
    assert not any(value in each for value, each in zip(values, told, strict=True))
    with pytest.raises(InvalidInput, match="this key"):
        decrypted(told[0], Vault(bytes(32)))
    short, long = (Encrypt(vault=vault).replace([v], [SCOPE], NoiseSource())[0] for v in ("a", "b"))
    assert len(short) == len(long)


def test_scopes_have_hashes_and_ciphertexts_of_their_own() -> None:
    other = Scope(type="PER", user="u2")
    for made in (Hash(vault=Vault(KEY)), Encrypt(vault=Vault(KEY))):
        one, two = made.replace(["maria", "maria"], [SCOPE, other], NoiseSource())
        assert one != two


def test_kept_values_and_functions_have_no_guarantee() -> None:
    deid = Deidentifier(
        detector="gazetteer+patterns",
        setting=Setting(strategy="typed"),
        per_type={
            "LOC": Setting(strategy="keep"),
            "PER": Setting(strategy="custom", function=lambda value: value[0] + "."),
        },
    )
    assert deid.release("maria in london at noon").text == "m. in london at [TIME]"
    said = deid.statement()
    assert not said.guarantees["token"].holds
    assert said.types["TIME"].guarantee.epsilon == 0
    reasons = " ".join(said.guarantees["token"].reasons)
    assert "values of LOC are released as they are" in reasons
    assert "states no cost" in reasons
    assert Keep(kind="LOC").replace(["Rome"], [], NoiseSource()) == ["Rome"]


def test_settings_of_operators_are_checked() -> None:
    assert parse_setting("CARD=mask:last=4") == ("CARD", Setting(strategy="mask", last=4))
    with pytest.raises(InvalidInput, match="with the strategy mask"):
        Setting(strategy="entity", last=4)
    with pytest.raises(InvalidInput, match="function"):
        Setting(strategy="custom")
    with pytest.raises(InvalidInput, match="neither p nor epsilon"):
        Setting(strategy="keep", epsilon=1)
    with pytest.raises(InvalidInput, match="Expected text"):
        Custom(function=lambda value: 3).replace(["a"], [], NoiseSource())  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidInput, match="vault"):
        Deidentifier(
            detector="patterns", setting=Setting(strategy="hash"), resources=Resources()
        ).release("at noon")
