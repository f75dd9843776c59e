"""Match the modules of a model with rules before the first step.

All problems are reported at once, by name, with a remedy.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import UninitializedParameter

from sottovoce.training.errors import UnsupportedLayer
from sottovoce.training.layers import Rule, find_rule
from sottovoce.training.layers.registry import overridden_on_object
from sottovoce.training.records.tape import TrackedParameter


@dataclass(frozen=True)
class Recorded:
    """A module that runs its rule while a keeper records."""

    name: str
    module: nn.Module
    rule: Rule


@dataclass(frozen=True)
class Coverage:
    """Every trainable parameter of a model, with the modules that use them."""

    tracked: dict[int, TrackedParameter]
    """By the parameter's id, in the model's order."""
    layer_names: tuple[str, ...]
    recorded: tuple[Recorded, ...]

    @classmethod
    def of(cls, model: nn.Module) -> "Coverage":
        """Raise `UnsupportedLayer` for layers that mix examples, or that a rule refuses.

        Parameters without a rule are followed through the operations that use them.
        """
        problems: dict[str, str] = {}
        recorded: list[Recorded] = []
        covered: set[tuple[nn.Module, str]] = set()
        for name, module in model.named_modules():
            reason = why_never(module)
            if reason is not None:
                problems[name or type(module).__name__] = reason
            rule = find_rule(module)
            if rule is None:
                continue
            held = set(_held(module, rule)) - covered
            if held:
                reason = _why_not(module, rule)
                if reason is not None:
                    problems[name or type(module).__name__] = reason
                recorded.append(Recorded(name, module, rule))
                covered |= held
        for name, module, own in _trainable(model):
            if isinstance(module._parameters[own], UninitializedParameter):
                problems[f"{name}.{own}".lstrip(".")] = (
                    f"the shape of {type(module).__name__} is not initialised: run the model once "
                    "first"
                )
        if problems:
            raise UnsupportedLayer(problems)
        tracked, layer_names = _track_parameters(model)
        return cls(tracked, layer_names, tuple(recorded))


def why_never(module: nn.Module) -> str | None:
    """Why this module cannot be trained with any rule, or not in its current mode."""
    frozen = not any(p.requires_grad for p in module.parameters(recurse=False))
    if isinstance(module, _BatchNorm) and (module.training or not frozen):
        return (
            f"{type(module).__name__} computes batch statistics, which mix examples: "
            "use GroupNorm or LayerNorm (or freeze it and keep it in eval mode)"
        )
    if isinstance(module, _InstanceNorm) and module.track_running_stats and module.training:
        return (
            f"{type(module).__name__} keeps running statistics of private examples, without "
            "noise: set track_running_stats=False"
        )
    if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None:
        return (
            "rules cannot see the code of a compiled module: pass the module before torch.compile"
        )
    if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
        return f"{type(module).__name__} copies or reduces gradients: pass the wrapped module"
    return None


def _why_not(module: nn.Module, rule: Rule) -> str | None:
    replaced = overridden_on_object(module)
    if replaced is not None:
        return f"its method {replaced} was replaced on the instance: restore it"
    return rule.refuse(module)


def _held(module: nn.Module, rule: Rule) -> Iterator[tuple[nn.Module, str]]:
    """The trainable parameters that a rule covers, each with the module that holds it."""
    for path in rule.covers(module):
        holder_name, _, own = path.rpartition(".")
        holder = module.get_submodule(holder_name)
        parameter = holder._parameters.get(own)
        if parameter is not None and parameter.requires_grad:
            yield holder, own


def _trainable(model: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
    """Module name, module, and parameter name, for every module that holds the parameter."""
    for name, module in model.named_modules():
        for own, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            if parameter.requires_grad:
                yield name, module, own


def _track_parameters(model: nn.Module) -> tuple[dict[int, TrackedParameter], tuple[str, ...]]:
    held = [(name, own, module._parameters[own]) for name, module, own in _trainable(model)]
    holders = Counter(id(parameter) for _, _, parameter in held)
    tracked: dict[int, TrackedParameter] = {}
    layers: dict[str, int] = {}
    for name, own, parameter in held:
        if parameter is not None and id(parameter) not in tracked:
            layer = layers.setdefault(name, len(layers))
            full_name = f"{name}.{own}".lstrip(".")
            shared = holders[id(parameter)] > 1
            tracked[id(parameter)] = TrackedParameter(full_name, parameter, layer, shared)
    return tracked, tuple(layers)
