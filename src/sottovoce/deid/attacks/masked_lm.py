"""Context reconstruction with a masked language model: how much does the context reveal?

The attack masks the value, runs the model on the rest, and picks the candidate with the highest
likelihood times prior. No epsilon bounds it, because the context is released unchanged. An encoder
without a language-model head, such as MiniLM, works too: a linear probe is trained on its mask
vectors for the values that the attacker knows. Needs the extra `bert`; the model is loaded from a
local folder, nothing is downloaded.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce._extras import quiet
from sottovoce._model_folders import LOCAL, check_size
from sottovoce.deid.attacks.pairing import ReplacedValue
from sottovoce.deid.attacks.reader import Attack
from sottovoce.deid.replace.forms import canonical
from sottovoce.errors import InvalidInput

if TYPE_CHECKING:
    from torch import Tensor

MAX_CANDIDATES = 2_000
MAX_PROBE_EXAMPLES = 1_000
"""Largest number of known values to train the probe on."""
_BATCH = 16
_STEPS = 60  # of L-BFGS; the problem is convex
_LEAST_SPREAD = 1e-6
_SPECIAL = 2  # [CLS] and [SEP]


class MaskedModel:
    """A masked language model, or an encoder without a head, and its tokenizer, from a folder."""

    def __init__(self, path: str | Path) -> None:
        if not Path(path).is_dir():
            raise InvalidInput(f"Expected the folder of a masked language model, got {path}.")
        try:
            import transformers
            from safetensors import SafetensorError
        except ModuleNotFoundError:
            raise InvalidInput(
                "Expected the package transformers for a masked language model, not installed: "
                "install sottovoce[bert]."
            ) from None
        with quiet(transformers):
            try:
                check_size(transformers.AutoModelForMaskedLM, Path(path))
                self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(path, **LOCAL)
                model: Any
                model, found = transformers.AutoModelForMaskedLM.from_pretrained(
                    path, use_safetensors=True, output_loading_info=True, **LOCAL
                )
            except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as problem:
                reason = " ".join(str(problem).split())
                raise InvalidInput(
                    f"Expected a masked language model in {path}, but it cannot be loaded: "
                    f"{reason[:300]}"
                ) from problem
        missing = [key for key in found["missing_keys"] if "pooler." not in key]
        inner = f"{model.base_model_prefix}."
        if any(key.startswith(inner) for key in missing):
            raise InvalidInput(f"Expected all encoder weights in {path}, got only some of them.")
        if self._tokenizer.mask_token_id is None:
            raise InvalidInput(f"Expected a model with a mask token in {path}, got none.")
        self.has_lm_head = not missing
        # A randomly initialised head would make any release look safe.
        self._network: Any = (model if self.has_lm_head else model.base_model).eval()
        self._longest = min(model.config.max_position_embeddings, self._tokenizer.model_max_length)

    def pieces(self, value: str) -> tuple[int, ...]:
        """The word-piece ids of a value."""
        return tuple(self._tokenizer(value, add_special_tokens=False, verbose=False)["input_ids"])

    def outputs(self, replaced: Sequence[ReplacedValue], masks: int) -> "Iterator[Tensor]":
        """The network's outputs at the masks of each value, in batches.

        These are logits over the vocabulary, or hidden vectors if the model has no language-model
        head.
        """
        import torch

        for begin in range(0, len(replaced), _BATCH):
            some = [self._masked(each, masks) for each in replaced[begin : begin + _BATCH]]
            longest = max(len(ids) for ids, _ in some)
            padded = torch.full((len(some), longest), self._tokenizer.pad_token_id or 0)
            attention = torch.zeros_like(padded)
            for row, (ids, _) in enumerate(some):
                padded[row, : len(ids)] = torch.tensor(ids)
                attention[row, : len(ids)] = 1
            places = torch.tensor([first for _, first in some])[:, None] + torch.arange(masks)
            with torch.no_grad():
                found = self._network(input_ids=padded, attention_mask=attention)[0]
            yield found[torch.arange(len(some))[:, None], places]

    def _masked(self, each: ReplacedValue, masks: int) -> tuple[list[int], int]:
        """The word-piece ids of a text with its value masked, and the position of the first mask.

        A text that is too long is truncated to the context nearest to the value.
        """
        before, after = list(self.pieces(each.before)), list(self.pieces(each.after))
        room = max(0, self._longest - masks - _SPECIAL)
        left = min(len(before), max(room // 2, room - len(after)))
        before, after = before[len(before) - left :], after[: room - left]
        marks = self._tokenizer
        ids = [marks.cls_token_id, *before, *[marks.mask_token_id] * masks, *after]
        return [*ids, marks.sep_token_id], 1 + left


def fill_in(
    replaced: Sequence[ReplacedValue],
    model: MaskedModel,
    prior: Mapping[str, float],
    known: Sequence[ReplacedValue] = (),
) -> Attack:
    """Guess hidden values from their context, among the candidates of the prior.

    A value that is not a candidate counts as a failure. The baseline guesses the most frequent
    candidate. A model without a language-model head is trained on the `known` values, which are
    then its candidates.
    """
    if not replaced or not prior:
        raise InvalidInput("Expected hidden values and candidates, got none.")
    usual = sorted(prior, key=lambda value: (-prior[value], value))[:MAX_CANDIDATES]
    if model.has_lm_head:
        guesses = _by_likelihood(replaced, model, {value: prior[value] for value in usual})
    else:
        guesses = _by_probe(replaced, model, known)
    truths = [canonical(each.value) for each in replaced]
    return Attack(
        name="masked language model",
        trials=len(replaced),
        successes=sum(guess == truth for guess, truth in zip(guesses, truths, strict=True)),
        prior=truths.count(usual[0]) / len(truths),
    )


def _by_likelihood(
    replaced: Sequence[ReplacedValue], model: MaskedModel, prior: Mapping[str, float]
) -> list[str]:
    """The candidates of highest likelihood times prior."""
    import torch

    by_length: dict[int, dict[str, tuple[int, ...]]] = {}
    for value in prior:
        pieces = model.pieces(value)
        by_length.setdefault(len(pieces), {})[value] = pieces
    by_length.pop(0, None)
    best = [(-math.inf, "")] * len(replaced)
    for length, values in by_length.items():
        names = list(values)
        weights = torch.tensor([prior[name] for name in names]).log()
        wanted = torch.tensor(list(values.values()))
        scores = torch.cat(
            [
                rows.log_softmax(-1)[:, torch.arange(length), wanted].sum(-1) + weights
                for rows in model.outputs(replaced, length)
            ]
        )
        for number, row in enumerate(scores):
            place = int(row.argmax())
            best[number] = max(best[number], (float(row[place]), names[place]))
    return [guess for _, guess in best]


def _by_probe(
    replaced: Sequence[ReplacedValue], model: MaskedModel, known: Sequence[ReplacedValue]
) -> list[str]:
    """The likeliest known values, by logistic regression on the vector of a single mask."""
    import torch
    from torch.nn import functional

    if not known:
        raise InvalidInput(
            "Expected known values for a model without a language-model head, got none."
        )
    known = known[:MAX_PROBE_EXAMPLES]
    values = [canonical(each.value) for each in known]
    names = sorted({*values})
    truth = torch.tensor([names.index(value) for value in values])
    train, test = (torch.cat(list(model.outputs(each, 1)))[:, 0] for each in (known, replaced))
    mean, spread = train.mean(0), train.std(0, correction=0) + _LEAST_SPREAD
    train, test = (train - mean) / spread, (test - mean) / spread
    layer = torch.nn.Linear(train.shape[1], len(names))
    for parameter in layer.parameters():
        torch.nn.init.zeros_(parameter)
    optimiser = torch.optim.LBFGS(
        layer.parameters(), max_iter=_STEPS, line_search_fn="strong_wolfe"
    )

    def loss() -> Any:
        optimiser.zero_grad()
        # L2 penalty of a standard normal prior.
        penalty = layer.weight.square().sum() / (2 * len(truth))
        total = functional.cross_entropy(layer(train), truth) + penalty
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    return [names[place] for place in layer(test).argmax(1).tolist()]
