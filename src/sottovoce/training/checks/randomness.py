"""The same random numbers again, for other examples: dropout that a second pass can repeat.

Two passes over a batch and over a part of it can be compared only if every example meets the same
dropout mask in both. Starting from the same seed is not enough: masks are drawn for a whole batch,
so the rows of a smaller batch get other numbers. `Draws` sees every random operation of torch,
keeps what it drew, and hands the rows of the examples that are left to the same operation of a
later pass.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_DROPOUT = torch.ops.aten.native_dropout.default


class Draws:
    """What the random operations of a pass over `examples` examples drew."""

    def __init__(self, examples: int, *, watch: bool = True) -> None:
        """Without `watch`, operations run at full speed, and only whether they drew is noticed."""
        self._examples = examples
        self._watch = watch
        self.surprised = False
        """Whether something was drawn that nobody watched."""
        self._drawn: list[tuple[Any, tuple[Tensor, ...]]] = []
        """Operations (with the numbers they were given), and what each drew."""
        self.aligned = True
        """False once a later pass drew something else, or in another order."""

    @property
    def any(self) -> bool:
        return bool(self._drawn)

    @contextmanager
    def _unwatched(self) -> Iterator[None]:
        before = _torch_states()
        yield
        self.surprised |= not all(map(torch.equal, before, _torch_states()))

    @contextmanager
    def record(self) -> Iterator[None]:
        if not self._watch:
            with self._unwatched():
                yield
            return

        def keep(func: Any, args: Any, kwargs: Any) -> Any:
            outputs = func(*args, **kwargs)
            drawn = tuple(out.clone() for out in _tensors(outputs))
            self._drawn.append((_operation(func, args), drawn))
            self.aligned &= _is_free_of_values(func, args)
            return outputs

        with _Seeing(keep):
            yield

    @contextmanager
    def replay(self, kept: Sequence[int]) -> Iterator[None]:
        """Only the examples at these places go through the model now."""
        if not self._watch:
            with self._unwatched():
                yield
            return
        waiting = iter(self._drawn)

        def repeat(func: Any, args: Any, kwargs: Any) -> Any:
            outputs = func(*args, **kwargs)
            known, earlier = next(waiting, (None, ()))
            wanted = _tensors(outputs)
            found = [
                self._rows(then, now.shape, kept)
                for then, now in zip(earlier, wanted, strict=False)
            ]
            rows = [row for row in found if row is not None]
            free = _is_free_of_values(func, args)
            if not free or known != _operation(func, args) or len(rows) != len(wanted):
                self.aligned = False
                return outputs
            if func is _DROPOUT:
                return _dropout(args, rows[1])
            for now, row in zip(wanted, rows, strict=True):
                now.copy_(row)
            return outputs

        with _Seeing(repeat):
            yield
        if next(waiting, None) is not None:
            self.aligned = False

    def _rows(self, then: Tensor, shape: torch.Size, kept: Sequence[int]) -> Tensor | None:
        """The part of an earlier draw that belongs to the examples that are left."""
        if then.dim() != len(shape) or any(map(int.__gt__, shape, then.shape)):
            return None
        changed = [dim for dim, size in enumerate(shape) if then.shape[dim] != size]
        by_example = [
            dim for dim in changed if self._is_by_example(then.shape[dim], shape[dim], kept)
        ]
        # Half of the examples may be left, with half of the padding: which dimension is which?
        self.aligned &= not changed or len(by_example) == 1
        for dim in changed:
            if dim in by_example[:1]:
                fold = then.shape[dim] // self._examples
                places = torch.tensor(kept, device=then.device).unsqueeze(1) * fold
                places = (places + torch.arange(fold, device=then.device)).flatten()
                then = then.index_select(dim, places)
            else:  # padding that only the example left out had needed
                then = then.narrow(dim, 0, shape[dim])
        return then

    def _is_by_example(self, before: int, now: int, kept: Sequence[int]) -> bool:
        fold, rest = divmod(before, self._examples)
        return rest == 0 and now == fold * len(kept)


@contextmanager
def frozen() -> Iterator[None]:
    """Dropout keeps everything, and other random numbers are constants."""

    def calm(func: Any, args: Any, kwargs: Any) -> Any:
        names = [argument.name for argument in func._schema.arguments]
        if "dropout_p" in names:
            kwargs = {**kwargs, **dict(zip(names, args, strict=False)), "dropout_p": 0.0}
            return func(**kwargs)
        outputs = func(*args, **kwargs)
        if func is _DROPOUT:
            return _dropout(args, torch.ones_like(outputs[1]))
        name = func._schema.name
        for out in _tensors(outputs):
            if "bernoulli" in name and len(args) > 1 and isinstance(args[1], float):
                out.fill_(args[1])  # divided by the same number afterwards: a mask of ones
            elif out.is_floating_point() and "randperm" not in name:
                out.fill_(0.5 if "rand" in name and "randn" not in name else 0.0)
        return outputs

    with _Seeing(calm):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """Leave all global generators as they were."""
    state = _states()
    try:
        yield
    finally:
        _restore(state)


class OtherGenerators:
    """The global generators of Python and numpy, which a loop may use beside torch."""

    def __init__(self) -> None:
        self._before = _states()
        self.moved = False
        """Whether a pass used one of them."""

    def rewind(self) -> None:
        _restore(self._before)

    @contextmanager
    def still(self) -> Iterator[None]:
        """Every function of `random` and `numpy.random` draws the same numbers whenever called.

        Those for the first examples of a batch then do not depend on how many follow.
        """
        python, legacy = random.Random(), np.random.RandomState()  # other ones in every check
        start = python.getstate(), legacy.get_state()

        def again(name: str, generator: Any) -> Callable[..., Any]:
            def draw(*args: Any, **kwargs: Any) -> Any:
                python.setstate(start[0])
                legacy.set_state(start[1])
                return getattr(generator, name)(*args, **kwargs)

            return draw

        with ExitStack() as undo:
            for module, generator, owner in (
                (random, python, random.Random),
                (np.random, legacy, np.random.RandomState),
            ):
                for name in _drawing(module, owner):
                    undo.callback(setattr, module, name, getattr(module, name))
                    setattr(module, name, again(name, generator))
            yield

    def look(self) -> None:
        python, numpy, _, _ = self._before
        now: Any = np.random.get_state()
        same = all(np.array_equal(a, b) for a, b in zip(now, numpy, strict=True))
        same = same and random.getstate() == python
        self.moved |= not same


def _drawing(module: Any, owner: type) -> list[str]:
    """The functions of a module that are methods of its global generator."""
    return [
        name
        for name in vars(module)
        if isinstance(getattr(vars(module)[name], "__self__", None), owner)
        and not any(word in name for word in ("state", "seed", "bit_generator"))
    ]


class _Seeing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands every random operation to a function of ours."""

    def __init__(self, handle: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._handle = handle

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags and _is_random(func, args, kwargs or {}):
            return self._handle(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def _is_random(func: Any, args: Any, kwargs: Any) -> bool:
    """Attention that drops nothing is tagged as random like any other."""
    names = [argument.name for argument in func._schema.arguments]
    if "dropout_p" not in names:
        return True
    return bool({**dict(zip(names, args, strict=False)), **kwargs}.get("dropout_p", 0.0))


def _is_free_of_values(func: Any, args: Any) -> bool:
    """Whether what is drawn depends on shapes alone, so that it may be drawn for others before.

    What a distribution with given parameters draws carries them along: repeating it would hide
    that examples influence each other through them.
    """
    if func is _DROPOUT:
        return True
    name, tensors = func._schema.name, sum(isinstance(each, Tensor) for each in args)
    in_place_or_like = name.endswith(("_", "_like")) or func._overloadname == "p"
    return tensors == 0 or (tensors == 1 and in_place_or_like)


def _operation(func: Any, args: Any) -> tuple[Any, ...]:
    """A permutation of n, or a number below n, is another operation for another n."""
    return func, *(each for each in args if isinstance(each, int | float))


def _tensors(outputs: Any) -> tuple[Tensor, ...]:
    outputs = outputs if isinstance(outputs, tuple | list) else (outputs,)
    return tuple(out for out in outputs if isinstance(out, Tensor))


def _dropout(args: Any, mask: Tensor) -> tuple[Tensor, Tensor]:
    inputs, p = args[0], float(args[1])
    scale = 1 / (1 - p) if p < 1 else 0.0
    return inputs * mask * scale, mask


def _states() -> tuple[Any, ...]:
    cpu, *cuda = _torch_states()
    return random.getstate(), np.random.get_state(), cpu, cuda


def _torch_states() -> list[Tensor]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return [torch.get_rng_state(), *cuda]


def _restore(state: tuple[Any, ...]) -> None:
    python, numpy, cpu, cuda = state
    random.setstate(python)
    np.random.set_state(numpy)
    torch.set_rng_state(cpu)
    if cuda:
        torch.cuda.set_rng_state_all(cuda)
