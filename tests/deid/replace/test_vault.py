from pathlib import Path

import pytest

from sottovoce.deid.replace import Consistent, Scope, Vault, uniform
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

KEY, OTHER = bytes(range(32)), bytes(32)
NAMES = uniform([f"name{place}" for place in range(50)])


def told(vault: Vault, values: list[str], user: str = "u1", document: str = "d1") -> list[str]:
    scope = Scope(type="PER", user=user, document=document)
    made = Consistent(vault=vault, surrogates=NAMES, keep_case=False)
    return made.replace(values, [scope] * len(values), NoiseSource())


def test_equal_values_are_equal_in_every_process_and_case() -> None:
    first, second = told(Vault(KEY), ["Anna Lee", "anna  lee"])
    assert first == second == told(Vault(KEY), ["ANNA LEE"])[0]


def test_scopes_and_keys_decide() -> None:
    values = [f"value{place}" for place in range(40)]
    by_user = told(Vault(KEY), values)
    assert by_user != told(Vault(KEY), values, user="u2")
    assert by_user != told(Vault(OTHER), values)
    whole = Vault(KEY, within="corpus")
    assert told(whole, values) == told(whole, values, user="u2", document="d2")
    document = Vault(KEY, within="document")
    assert told(document, values) == told(document, values, user="u2")
    assert told(document, values) != told(document, values, document="d2")


def test_surrogates_are_spread_evenly() -> None:
    drawn = told(Vault(KEY), [f"value{place}" for place in range(5000)])
    assert max(drawn.count(name) for name in NAMES.values) < 150
    assert {*drawn} == {*NAMES.values}


def test_a_reversible_vault_is_injective_and_opens_with_its_key(tmp_path: Path) -> None:
    vault = Vault(KEY, within="corpus", reversible=True)
    values = [f"value{place}" for place in range(60)]  # more than there are names
    drawn = told(vault, values)
    assert len({*drawn}) == 60
    assert told(vault, values) == drawn
    vault.save(tmp_path / "vault")
    opened = Vault.load(tmp_path / "vault", KEY)
    scope = Scope(type="PER")
    assert [opened.original(name, scope) for name in drawn] == values
    assert b"value1" not in (tmp_path / "vault").read_bytes()
    with pytest.raises(InvalidInput, match="another key"):
        Vault.load(tmp_path / "vault", OTHER)
    with pytest.raises(InvalidInput, match="surrogate of this vault"):
        opened.original("nobody", scope)


def test_a_damaged_vault_is_refused(tmp_path: Path) -> None:
    Vault(KEY, reversible=True).save(tmp_path / "vault")
    content = bytearray((tmp_path / "vault").read_bytes())
    content[-1] ^= 1
    (tmp_path / "vault").write_bytes(bytes(content))
    with pytest.raises(InvalidInput, match="altered"):
        Vault.load(tmp_path / "vault", KEY)


def test_bad_keys_and_missing_scopes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="32 bytes"):
        Vault(b"short")
    with pytest.raises(InvalidInput, match="within"):
        Vault(KEY, within="galaxy")
    with pytest.raises(InvalidInput, match="user in every utterance"):
        told(Vault(KEY), ["anna"], user="")


def test_no_epsilon_is_stated() -> None:
    made = Consistent(vault=Vault(KEY), surrogates=NAMES)
    assert "single occurrence" in made.cost().why_none
    assert Vault.fresh().pseudonym("ann") != Vault.fresh().pseudonym("ann")
