"""Text where an enum belongs: parsed or refused by every public dataclass, those to come included.

The test finds the dataclasses itself. One that it cannot make up arguments for has to be given an
example below, so that none is left out in silence.
"""

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

import sottovoce
from sottovoce import _validate
from sottovoce.errors import SottovoceError
from sottovoce.privacy.accountants import pld, rdp
from sottovoce.privacy.accountants.losses import PoissonGaussianLoss
from sottovoce.privacy.guarantee import Relation
from sottovoce.privacy.ledger import Ledger

# Arguments that cannot be made up from the types of the fields.
EXAMPLES: dict[str, dict[str, Any]] = {
    "NoisySum": {"noise_stds": (1.0,), "sampling_rate": 0.5, "sampling": "poisson"},
    "TrainingRecipe": {"method": "dp-sgd", "delta": 1e-6, "sampling_rate": 0.5},
    "Privacy": {"population": 1000, "delta": 1e-6, "epsilon": 1.0, "owners": ("ann", "bob")},
    "Plan": {"delta": 1e-6},
    "FederateRecipe": {"delta": 1e-6, "mass_cap": 1.0, "unit": "user"},
    "Guarantee": {"delta": 1e-6, "reasons": ("a reason",)},
    "ReplacedTokens": {"replace_probability": 0.5, "smallest_probability": 0.5},
    "DeidRecipe": {"p": 0.5, "pi_min": 0.5},
    "LowerBound": {"delta": 1e-6, "confidence": 0.95},
    "Surrogates": {"values": ("ann", "bob")},
}


def _dataclasses() -> Iterator[type]:
    for module in pkgutil.walk_packages(sottovoce.__path__, "sottovoce."):
        if module.name.endswith("__main__") or ".flower" in module.name:
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ImportError:  # an extra that is not installed
            continue
        for name, found in inspect.getmembers(loaded, inspect.isclass):
            own = found.__module__ == module.name and not name.startswith("_")
            if own and dataclasses.is_dataclass(found):
                yield found


def _enum_fields(kind: type) -> dict[str, type[StrEnum]]:
    # Some names are imported for type checkers only.
    hints = typing.get_type_hints(kind, localns={"Ledger": Ledger})
    found = {}
    for field in dataclasses.fields(kind):
        declared = hints[field.name]
        union = typing.get_origin(declared) in (typing.Union, types.UnionType)
        for option in typing.get_args(declared) if union else (declared,):
            if isinstance(option, type) and issubclass(option, StrEnum) and field.init:
                found[field.name] = option
    return found


def _made_up(declared: Any) -> Any:
    if typing.get_origin(declared) in (typing.Union, types.UnionType):
        declared = typing.get_args(declared)[0]
    if isinstance(declared, type) and issubclass(declared, StrEnum):
        return next(iter(declared))
    if typing.get_origin(declared) is tuple or declared is tuple:
        return ()
    return {float: 1.0, int: 1, str: "text", bool: False, bytes: b""}.get(declared)


def _arguments(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    required = {
        field.name: _made_up(hints[field.name])
        for field in dataclasses.fields(kind)
        if field.init
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    }
    return required | EXAMPLES.get(kind.__name__, {})


CASES = [
    pytest.param(kind, name, choices, id=f"{kind.__name__}-{name}")
    for kind in _dataclasses()
    for name, choices in _enum_fields(kind).items()
]


@pytest.mark.parametrize(("kind", "field", "choices"), CASES)
def test_text_for_a_choice_is_parsed_or_refused(
    kind: type, field: str, choices: type[StrEnum]
) -> None:
    arguments = _arguments(kind)
    with pytest.raises(SottovoceError, match="one of"):
        kind(**arguments | {field: "bogus"})
    accepted = 0
    for member in choices:
        try:
            made = kind(**arguments | {field: str(member)})
        except SottovoceError:
            continue  # a choice that does not go with the other arguments
        assert getattr(made, field) is member
        accepted += 1
    assert accepted, f"no choice of {field} goes with {arguments}: give an example above"


def test_the_walk_finds_what_there_is() -> None:
    found = {str(case.id).partition("-")[0] for case in CASES}
    assert {"Plan", "Settings", "NoisySum", "NoisyVector", "TrainingRecipe", "Guarantee"} <= found


def test_twin_without_parsing_a_plan_takes_any_text(monkeypatch: pytest.MonkeyPatch) -> None:
    from sottovoce.training import Plan

    monkeypatch.setattr(_validate, "parse_fields", lambda _: None)
    plan = Plan(population=100, batch_size=10, epochs=1, delta=1e-6, clipping="bogus")  # type: ignore[arg-type]
    assert plan.clipping == "bogus"


def _compared_by_identity(source: str, enums: set[str]) -> Iterator[str]:
    """Arguments of public functions that are compared with an enum's member, and never parsed."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef) or function.name.startswith("_"):
            continue
        arguments = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
        parsed = {
            ast.unparse(target)
            for node in calls
            for target in node.targets
            if isinstance(node.value, ast.Call) and "choice" in ast.unparse(node.value.func)
        }
        for node in ast.walk(function):
            if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Is | ast.IsNot):
                continue
            left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
            if left in arguments - parsed and right.partition(".")[0] in enums:
                yield f"{function.name}: {ast.unparse(node)}"


def test_no_public_function_compares_an_argument_by_identity() -> None:
    """A dataclass parses its fields; what comes as an argument is parsed, or compared by value."""
    paths = sorted(Path(sottovoce.__file__).parent.rglob("*.py"))
    trees = {path: path.read_text() for path in paths}
    enums = {
        node.name
        for source in trees.values()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef) and "StrEnum" in map(ast.unparse, node.bases)
    }
    assert len(enums) > 20
    found = [f"{path.name}: {each}" for path in paths for each in
             _compared_by_identity(trees[path], enums)]  # fmt: skip
    assert not found
    twin = "def f(unit):\n    return unit is Unit.USER"
    assert list(_compared_by_identity(twin, enums)) == ["f: unit is Unit.USER"]


def test_accountants_read_text() -> None:
    """Read as another relation, "replace-one" would count half of the sensitivity."""
    losses = [(PoissonGaussianLoss(0.1, 2.0), 10)]
    for accountant in (pld, rdp):
        by_text = accountant.epsilon_of(losses, 1e-5, "replace-one")
        assert by_text == accountant.epsilon_of(losses, 1e-5, Relation.REPLACE_ONE)
        assert by_text > accountant.epsilon_of(losses, 1e-5, Relation.ADD_OR_REMOVE)
        with pytest.raises(SottovoceError, match="replace-one"):
            accountant.epsilon_of(losses, 1e-5, "replace")
