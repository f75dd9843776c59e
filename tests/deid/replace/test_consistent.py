"""Consistent names and numbers: what corefers, and what changes when a name changes."""

import re

import numpy as np
import pytest
from tests.statistical.distributions import choice_objections

from sottovoce.deid import Deidentifier, Resources, Setting, Vault
from sottovoce.deid.replace import ConsistentNames, ConsistentNumbers, Scope, public_surrogates
from sottovoce.deid.replace.forms import gender
from sottovoce.privacy.noise import NoiseSource

KEY = bytes(range(32))


def names(vault: Vault, values: list[str], user: str = "u1", *, grammar: bool = False) -> list[str]:
    listed = public_surrogates("PER")
    assert listed is not None
    made = ConsistentNames(vault=vault, surrogates=listed, same_gender=grammar)
    return made.replace(values, [Scope(type="PER", user=user)] * len(values), NoiseSource())


def numbers(vault: Vault, values: list[str], kind: str = "PHONE") -> list[str]:
    made = ConsistentNumbers(vault=vault, placeholder=f"[{kind}]", letters=kind == "ID")
    return made.replace(values, [Scope(type=kind, user="u1")] * len(values), NoiseSource())


def test_parts_of_a_name_corefer() -> None:
    given = ["Maria Lopez", "Maria", "LOPEZ", "Ms. Lopez", "lopez's", "Maria de Lopez"]
    whole, first, last, titled, possessive, particle = names(Vault(KEY), given)
    one, other = whole.split()
    assert (first, last.lower(), titled) == (one, other.lower(), f"Ms. {other}")
    assert (possessive, particle) == (f"{other.lower()}'s", f"{one} de {other}")
    assert not {one.lower(), other.lower()} & {"maria", "lopez"}


def test_another_conversation_or_key_has_other_names() -> None:
    values = ["Maria Lopez", "John Smith", "Wei Chen", "Anna Meyer"]
    here = names(Vault(KEY), values)
    assert here != names(Vault(KEY), values, user="u2")
    assert here != names(Vault(bytes(32)), values)


def test_gender_is_kept_only_where_asked() -> None:
    women = ["maria", "anna", "emma", "olivia", "sarah", "laura", "emily", "julia"]
    assert {gender(each) for each in names(Vault(KEY), women, grammar=True)} == {"feminine"}
    assert len({gender(each) for each in names(Vault(KEY), women)}) > 1


def test_numbers_keep_their_format_and_corefer_whatever_their_format() -> None:
    vault = Vault(KEY)
    told = numbers(vault, ["555-0199", "5550199", "(555) 0199", "five five five oh one nine nine"])
    assert re.fullmatch(r"\d{3}-\d{4}", told[0])
    digits = told[0].replace("-", "")
    assert told[1:3] == [digits, f"({digits[:3]}) {digits[3:]}"]
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    assert "".join(str(words.index(word)) for word in told[3].split()) == digits
    assert re.fullmatch(r"[A-Z]{2}\d{6}[A-Z]", numbers(vault, ["AB123456C"], "ID")[0])


def test_digits_are_uniform_over_keys_and_a_constant_is_noticed() -> None:
    drawn = [numbers(Vault(bytes([n // 256, n % 256] * 16)), ["7"])[0] for n in range(4000)]
    assert not choice_objections(np.array(list(map(int, drawn))), [0.1] * 10)
    assert choice_objections(np.array([*map(int, drawn[:3600]), *[7] * 400]), [0.1] * 10)


def test_a_reversible_vault_gives_different_numbers_different_surrogates() -> None:
    vault = Vault(KEY, reversible=True)
    told = numbers(vault, [str(number) for number in range(10)])
    assert sorted(told) == [str(number) for number in range(10)]
    assert numbers(vault, ["12"], "ID") == numbers(vault, ["12"], "ID")


@pytest.mark.parametrize("strategy", ["consistent", "hash", "encrypt"])
def test_no_epsilon_for_one_occurrence_but_for_renaming_everywhere(strategy: str) -> None:
    deid = Deidentifier(
        detector="gazetteer+patterns",
        setting=Setting(strategy=strategy),
        resources=Resources(vault=Vault(KEY, within="corpus")),
    )
    deid.release("call maria at 555-0199")
    stated = deid.statement()
    assert not stated.guarantees["token"].holds
    assert stated.renaming is not None
    assert stated.renaming.epsilon == 0
