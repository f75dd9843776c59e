"""Context reconstruction with a masked language model: what do the words around a value tell?

The value is masked, the model reads the rest, and the attacker takes the candidate whose pieces are
the likeliest, weighed by how usual it is. No epsilon bounds this: the words around a value are
released as they are. An encoder that cannot name pieces, such as MiniLM, reads too: a linear layer
learns from the values that the attacker knows what its vector of a mask stands for. Needs the extra
`bert`; the model is given by its folder, nothing is downloaded.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce._transformers import quiet
from sottovoce.deid.attacks.pairing import ReplacedValue
from sottovoce.deid.attacks.reader import Attack
from sottovoce.deid.replace.letters import canonical
from sottovoce.errors import InvalidInput

if TYPE_CHECKING:
    from torch import Tensor

MOST_CANDIDATES = 2_000
MOST_LEARNT = 1_000
"""Known values that are learnt from."""
_BATCH = 16
_STEPS = 60  # of L-BFGS; the problem is convex
_LEAST_SPREAD = 1e-6
_ENDS = 2  # pieces that stand before and after every text


class MaskedModel:
    """A masked language model, or an encoder alone, and its tokenizer, from a folder."""

    def __init__(self, path: str | Path) -> None:
        if not Path(path).is_dir():
            raise InvalidInput(f"Expected the folder of a masked language model, got {path}.")
        try:
            import transformers
            from safetensors import SafetensorError
        except ModuleNotFoundError:
            raise InvalidInput(
                "Expected the package transformers for a masked language model; install "
                "sottovoce[bert]."
            ) from None
        with quiet(transformers):
            try:
                self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(
                    path, local_files_only=True
                )
                model: Any
                model, found = transformers.AutoModelForMaskedLM.from_pretrained(
                    path, local_files_only=True, use_safetensors=True, output_loading_info=True
                )
            except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as problem:
                reason = " ".join(str(problem).split())
                raise InvalidInput(
                    f"Expected a masked language model in {path}, but it cannot be loaded: "
                    f"{reason[:300]}"
                ) from problem
        lost = [key for key in found["missing_keys"] if "pooler." not in key]
        inner = f"{model.base_model_prefix}."
        if any(key.startswith(inner) for key in lost):
            raise InvalidInput(f"Expected all weights of the encoder in {path}, some are missing.")
        if self._tokenizer.mask_token_id is None:
            raise InvalidInput(f"Expected a model with a token for masks in {path}, got none.")
        self.names_pieces = not lost
        # A head of random weights would make any release look safe.
        self._network: Any = (model if self.names_pieces else model.base_model).eval()
        self._longest = min(model.config.max_position_embeddings, self._tokenizer.model_max_length)

    def pieces(self, value: str) -> tuple[int, ...]:
        """The numbers of the pieces that a value is cut into."""
        return tuple(self._tokenizer(value, add_special_tokens=False, verbose=False)["input_ids"])

    def outputs(self, told: Sequence[ReplacedValue], masks: int) -> "Iterator[Tensor]":
        """What the network puts out at each of the masks of a value, some texts at a time.

        These are scores of all pieces, or vectors if it cannot name pieces.
        """
        import torch

        for begin in range(0, len(told), _BATCH):
            some = [self._masked(each, masks) for each in told[begin : begin + _BATCH]]
            longest = max(len(ids) for ids, _ in some)
            shown = torch.full((len(some), longest), self._tokenizer.pad_token_id or 0)
            there = torch.zeros_like(shown)
            for row, (ids, _) in enumerate(some):
                shown[row, : len(ids)] = torch.tensor(ids)
                there[row, : len(ids)] = 1
            places = torch.tensor([first for _, first in some])[:, None] + torch.arange(masks)
            with torch.no_grad():
                found = self._network(input_ids=shown, attention_mask=there)[0]
            yield found[torch.arange(len(some))[:, None], places]

    def _masked(self, each: ReplacedValue, masks: int) -> tuple[list[int], int]:
        """The pieces of a text with masks for its value, and where the first mask is.

        Of a text that is too long the model reads what stands nearest to the value.
        """
        before, after = list(self.pieces(each.before)), list(self.pieces(each.after))
        room = max(0, self._longest - masks - _ENDS)
        left = min(len(before), max(room // 2, room - len(after)))
        before, after = before[len(before) - left :], after[: room - left]
        marks = self._tokenizer
        ids = [marks.cls_token_id, *before, *[marks.mask_token_id] * masks, *after]
        return [*ids, marks.sep_token_id], 1 + left


def fill_in(
    told: Sequence[ReplacedValue],
    model: MaskedModel,
    prior: Mapping[str, float],
    known: Sequence[ReplacedValue] = (),
) -> Attack:
    """Guess hidden values among the candidates of the prior, by the words around them.

    A value that is no candidate is a failure. Blind guessing is the most usual candidate. A model
    that cannot name pieces learns from the `known` values, and these are its candidates.
    """
    if not told or not prior:
        raise InvalidInput("Expected hidden values and candidates, got none.")
    usual = sorted(prior, key=lambda value: (-prior[value], value))[:MOST_CANDIDATES]
    if model.names_pieces:
        guesses = _named(told, model, {value: prior[value] for value in usual})
    else:
        guesses = _learnt(told, model, known)
    truths = [canonical(each.value) for each in told]
    return Attack(
        name="masked language model",
        trials=len(told),
        successes=sum(guess == truth for guess, truth in zip(guesses, truths, strict=True)),
        prior=truths.count(usual[0]) / len(truths),
    )


def _named(
    told: Sequence[ReplacedValue], model: MaskedModel, prior: Mapping[str, float]
) -> list[str]:
    """The candidates whose pieces are the likeliest, weighed by the prior."""
    import torch

    by_length: dict[int, dict[str, tuple[int, ...]]] = {}
    for value in prior:
        pieces = model.pieces(value)
        by_length.setdefault(len(pieces), {})[value] = pieces
    by_length.pop(0, None)
    best = [(-math.inf, "")] * len(told)
    for length, values in by_length.items():
        names = list(values)
        weights = torch.tensor([prior[name] for name in names]).log()
        wanted = torch.tensor(list(values.values()))
        scores = torch.cat(
            [
                rows.log_softmax(-1)[:, torch.arange(length), wanted].sum(-1) + weights
                for rows in model.outputs(told, length)
            ]
        )
        for number, row in enumerate(scores):
            place = int(row.argmax())
            best[number] = max(best[number], (float(row[place]), names[place]))
    return [guess for _, guess in best]


def _learnt(
    told: Sequence[ReplacedValue], model: MaskedModel, known: Sequence[ReplacedValue]
) -> list[str]:
    """The likeliest of the known values: logistic regression on the vector of one mask."""
    import torch
    from torch.nn import functional

    if not known:
        raise InvalidInput("Expected known values for a model that cannot name pieces, got none.")
    known = known[:MOST_LEARNT]
    values = [canonical(each.value) for each in known]
    names = sorted({*values})
    truth = torch.tensor([names.index(value) for value in values])
    read, asked = (torch.cat(list(model.outputs(each, 1)))[:, 0] for each in (known, told))
    mean, spread = read.mean(0), read.std(0, correction=0) + _LEAST_SPREAD
    read, asked = (read - mean) / spread, (asked - mean) / spread
    layer = torch.nn.Linear(read.shape[1], len(names))
    for parameter in layer.parameters():
        torch.nn.init.zeros_(parameter)
    optimiser = torch.optim.LBFGS(
        layer.parameters(), max_iter=_STEPS, line_search_fn="strong_wolfe"
    )

    def loss() -> Any:
        optimiser.zero_grad()
        # The penalty is that of a standard normal prior.
        penalty = layer.weight.square().sum() / (2 * len(truth))
        total = functional.cross_entropy(layer(read), truth) + penalty
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    return [names[place] for place in layer(asked).argmax(1).tolist()]
