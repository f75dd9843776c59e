"""Which architectures train with exact per-example gradients, here and with Opacus?

    python benchmarks/architectures.py
    python benchmarks/architectures.py --only Llama T5

Each model has random weights and a small configuration. Its gradients, from one backward pass over
four examples, are compared with a loop over the examples: exact if every number is within 1e-4 of
the largest. With sottovoce each also takes two steps of private training, with the neighbour check.
Opacus runs as its documentation says, `GradSampleModule(model)`, after `ModuleValidator.fix(model)`
where its validator asks for it, which replaces layers; without Opacus that column is empty. An
error is given in its own words.
"""

import contextlib
import io
import logging
import warnings
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from helpers.architectures import (
    EXAMPLES,
    FAMILIES,
    Architecture,
    gradients_by_loop,
)
from helpers.machine import cpu_name, versions
from helpers.options import options_of, parser_of, write
from sottovoce.errors import SottovoceError
from sottovoce.training import Plan, PrivateTraining
from sottovoce.training.clipping.bookkeeping import BookKeeper

TOLERANCE = 1e-4
Found = tuple[nn.Module, dict[str, Tensor], str]
"""The model, the gradients of its examples by name, and a remark."""
# What a library raises for a model that it cannot train.
FAILURES = (
    SottovoceError, RuntimeError, ValueError, TypeError, AttributeError, NotImplementedError,
    LookupError,
)  # fmt: skip


def main() -> None:
    names = [each.name for family in FAMILIES.values() for each in family]
    parser = parser_of(__file__, __doc__)
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="these alone")
    given = options_of(parser, quick={"only": ["Llama", "T5", "Linear"]})
    rows = []
    for family, members in FAMILIES.items():
        for each in members:
            if each.name in given.only:
                rows.append({"family": family, "name": each.name, **measured(each)})
                Console().print(rows[-1])
    write(
        given.output,
        {
            "examples": EXAMPLES,
            "tolerance": TOLERANCE,
            "processor": cpu_name(),
            "versions": versions("torch", "transformers", "peft", "opacus"),
            "architectures": rows,
        },
    )
    shown = Table("family", "architecture", "sottovoce", "Opacus")
    for row in rows:
        shown.add_row(row["family"], row["name"], row["sottovoce"], row["opacus"])
    Console().print(shown)


def measured(each: Architecture) -> dict[str, str]:
    found = {}
    for system, run in {"sottovoce": by_sottovoce, "opacus": by_opacus}.items():
        torch.manual_seed(0)
        quiet = contextlib.redirect_stdout(io.StringIO())
        with warnings.catch_warnings(), quiet, contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            logging.disable()
            found[system] = outcome(each, run)
    return found


def outcome(each: Architecture, run: Callable[[Architecture], Found]) -> str:
    """exact, wrong with the largest error, or the error message."""
    try:
        model, found, note = run(each)
    except ModuleNotFoundError:
        return ""
    except FAILURES as problem:
        first = str(problem).strip().splitlines() or [""]
        return f"refused: {type(problem).__name__}: {first[0][:160]}"
    expected = gradients_by_loop(model, each.losses)
    for name, gradient in expected.items():
        if name not in found:
            if bool(gradient.any()):
                return f"incomplete: no gradient of {name}"
            found[name] = gradient  # not used in this pass
        if len(found[name]) != len(gradient):
            return f"incomplete: {len(found[name])} for {len(gradient)} examples in {name}"
    error = max(distance(found[name], gradient) for name, gradient in expected.items())
    result = "exact" if error <= TOLERANCE else f"wrong: off by {error:.0%} of the largest number"
    return result + note


def distance(found: Tensor, expected: Tensor) -> float:
    scale = expected.abs().max().clamp(min=1e-3)
    return float((found - expected).abs().max() / scale)


def by_sottovoce(each: Architecture) -> Found:
    """The gradient of each example: the sum with a weight of one for it and zero for the others."""
    model = each.make().train()
    train(each, model)
    model.zero_grad()
    keeper = BookKeeper(model)
    rows = []
    for example in range(EXAMPLES):
        with keeper.record(count=EXAMPLES):
            keeper.backward(each.losses(model, torch.arange(EXAMPLES)))
        keeper.accumulate(torch.eye(EXAMPLES)[example])
        rows.append({name: _gradient(p) for name, p in model.named_parameters() if p.requires_grad})
        model.zero_grad()
    return model, {name: torch.stack([row[name] for row in rows]) for name in rows[0]}, ""


def _gradient(parameter: nn.Parameter) -> Tensor:
    found = parameter.grad
    return torch.zeros_like(parameter) if found is None else found.clone()


def train(each: Architecture, model: nn.Module, steps: int = 2) -> PrivateTraining:
    """Private training of all examples, with the neighbour check."""
    plan = Plan(population=EXAMPLES, batch_size=EXAMPLES, epochs=steps, delta=1e-2, clip_norm=0.1)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=1e-3)
    training = PrivateTraining(plan, model, optimizer, owners=EXAMPLES, seed=0)
    for step in training.steps():
        for batch in step:
            step.backward(each.losses(model, batch))
    return training


def by_opacus(each: Architecture) -> Found:
    from opacus import GradSampleModule
    from opacus.validators import ModuleValidator

    model = each.make().train()
    replaced = bool(ModuleValidator.validate(model))
    if replaced:
        model = ModuleValidator.fix(model).train()
    wrapped = GradSampleModule(model, loss_reduction="sum")
    each.losses(wrapped, torch.arange(EXAMPLES)).sum().backward()  # type: ignore[no-untyped-call]
    found: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        sample = getattr(parameter, "grad_sample", None)
        if sample is not None:
            found[name] = torch.stack(sample).sum(0) if isinstance(sample, list) else sample
            delattr(parameter, "grad_sample")
    wrapped.to_standard_module()
    return model, found, " after ModuleValidator.fix" if replaced else ""


if __name__ == "__main__":
    main()
