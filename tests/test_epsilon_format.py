"""An epsilon is printed the same everywhere: rounded up to three digits, by one function."""

import ast
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sottovoce.cli.demo import _summary
from sottovoce.cli.shared.statements import print_comparison, print_statement
from sottovoce.nlu.runs.card import _privacy
from sottovoce.privacy.guarantee import (
    Claim,
    Guarantee,
    Relation,
    Statement,
    Unit,
    claimed_epsilon,
    rounded_up,
    true_epsilon,
)
from sottovoce.report.render import _environment

SOURCE = Path(__file__).resolve().parent.parent / "src" / "sottovoce"


def guarantee_of(epsilon: float) -> Guarantee:
    return Guarantee(
        epsilon=epsilon, delta=1e-6, unit=Unit.USER, relation=Relation.ADD_OR_REMOVE,
        accountant="PLD",
    )  # fmt: skip


@given(st.floats(1e-6, 1e6))
def test_a_printed_epsilon_is_never_smaller_than_the_real_one(epsilon: float) -> None:
    printed = float(rounded_up(epsilon))
    assert epsilon * (1 - 1e-9) <= printed <= epsilon * 1.011


@pytest.mark.parametrize(
    ("epsilon", "printed"), [(0.69812, "0.699"), (19.41, "19.5"), (2.0, "2"), (41177.4, "41200")]
)
def test_the_same_epsilon_is_printed_by_every_part(epsilon: float, printed: str) -> None:
    guarantee, claim = guarantee_of(epsilon), Claim.of(epsilon, delta=1e-6, how="the paper")
    assert true_epsilon(guarantee) == claimed_epsilon(claim) == printed
    filters = _environment().filters
    assert filters["true_epsilon"](guarantee) == filters["claimed"](claim) == printed
    told = [
        str(guarantee),
        "\n".join(_privacy({"guarantee": guarantee.to_json(), "claimed": claim.to_json()})),
    ]
    statement = Statement(claimed=claim, guarantee=guarantee)
    shown: list[Callable[[Console], None]] = [
        lambda console: print_statement(statement, console),
        lambda console: print_comparison([("recipe", statement)], console),
        lambda console: _summary([("train", "", claim.to_json(), guarantee.to_json())], console),
    ]
    for show in shown:
        page = io.StringIO()
        show(Console(file=page, width=200))
        told.append(page.getvalue())
    for text in told:
        assert printed in text.replace(",", " ").split() or f"{printed}," in text, text


def test_no_other_code_formats_the_epsilon_of_a_guarantee() -> None:
    """`f"{guarantee.epsilon:.3g}"` rounds down half of the time; input may be quoted."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        quoted = {
            id(each)
            for node in ast.walk(tree)
            if isinstance(node, ast.Raise)
            for each in ast.walk(node)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.FormattedValue) and id(node) not in quoted:
                value = node.value
                name = getattr(value, "attr", getattr(value, "id", ""))
                given = getattr(getattr(value, "value", None), "id", "") == "settings"
                if name == "epsilon" and node.format_spec is not None and not given:
                    found.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert not found
