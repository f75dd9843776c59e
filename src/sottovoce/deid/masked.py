"""Context reconstruction with a masked language model: what do the words around a value tell?

The value is masked, the model reads the rest, and the attacker takes the candidate whose pieces are
the likeliest, weighed by how usual it is. No epsilon bounds this: the words around a value are
released as they are. Needs the extra `bert`; the model is given by its folder, nothing is
downloaded.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sottovoce.deid.attacks import Attack
from sottovoce.deid.pairing import Told
from sottovoce.deid.replace.letters import canonical
from sottovoce.errors import InvalidInput

MOST_CANDIDATES = 2_000


class MaskedModel:
    """A masked language model and its tokenizer, from a folder."""

    def __init__(self, path: str | Path) -> None:
        if not Path(path).is_dir():
            raise InvalidInput(f"Expected the folder of a masked language model, got {path}.")
        from transformers import AutoModelForMaskedLM, AutoTokenizer

        self._tokenizer: Any = AutoTokenizer.from_pretrained(path, local_files_only=True)
        self._model: Any = AutoModelForMaskedLM.from_pretrained(path, local_files_only=True)
        self._model.eval()
        if self._tokenizer.mask_token_id is None:
            raise InvalidInput(f"Expected a model with a token for masks in {path}, got none.")

    def pieces(self, value: str) -> tuple[int, ...]:
        """The numbers of the pieces that a value is cut into."""
        return tuple(self._tokenizer(value, add_special_tokens=False)["input_ids"])

    def scores(self, before: str, after: str, masks: int) -> list[list[float]]:
        """The log probability of every piece at each of `masks` places between two texts."""
        import torch

        hidden = " ".join([self._tokenizer.mask_token] * masks)
        ids = self._tokenizer(f"{before} {hidden} {after}", return_tensors="pt")["input_ids"]
        longest = self._model.config.max_position_embeddings
        if ids.shape[1] > longest:
            # Cutting it off would make the attack look weaker than it is.
            raise InvalidInput(
                f"Expected at most {longest} pieces, as the model reads, got {ids.shape[1]}."
            )
        with torch.no_grad():
            rows = self._model(input_ids=ids).logits[0].log_softmax(-1)
        found: list[list[float]] = rows[ids[0] == self._tokenizer.mask_token_id].tolist()
        return found


def fill_in(told: Sequence[Told], model: MaskedModel, prior: Mapping[str, float]) -> Attack:
    """Guess hidden values among the candidates of the prior, by the words around them.

    A value that is no candidate is a failure. Blind guessing is the most usual candidate.
    """
    if not told or not prior:
        raise InvalidInput("Expected hidden values and candidates, got none.")
    usual = sorted(prior, key=lambda value: (-prior[value], value))[:MOST_CANDIDATES]
    pieces = {value: model.pieces(value) for value in usual}
    by_length: dict[int, list[str]] = {}
    for value in usual:
        if pieces[value]:
            by_length.setdefault(len(pieces[value]), []).append(value)
    truths = [canonical(each.value) for each in told]
    successes = 0
    for each, truth in zip(told, truths, strict=True):
        best, guess = -math.inf, ""
        for length, values in by_length.items():
            rows = model.scores(each.before, each.after, length)
            for value in values:
                score = math.log(prior[value])
                score += sum(row[piece] for row, piece in zip(rows, pieces[value], strict=True))
                if score > best:
                    best, guess = score, value
        successes += guess == truth
    return Attack(
        name="masked language model",
        trials=len(told),
        successes=successes,
        prior=truths.count(usual[0]) / len(truths),
    )
