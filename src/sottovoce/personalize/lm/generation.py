"""The same factors when a Hugging Face model generates: to be given as a `logits_processor`.

Adding ln factor to the scores before the softmax *is* exact normalisation: the softmax divides by
Z(h). Tokens that are not whole words of the vocabulary keep their score. `generate` takes any
callable, so nothing of transformers is needed here.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector, Vocabulary


class MarginalLogits:
    """Raises the scores of tokens by the log factors of the words they stand for.

    >>> words = Vocabulary(("call", "mum", "<unk>"), [0.4, 0.4, 0.2])
    >>> raise_mum = MarginalLogits(words, [0.0, 2.0, 0.0], tokens={"mum": 1})
    >>> raise_mum(torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, 3)).tolist()
    [[0.0, 2.0, 0.0]]
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        log_factors: Vector | Sequence[float],
        tokens: Mapping[str, int],
    ) -> None:
        """`tokens` gives the id of a token for every word that is one token."""
        if len(log_factors) != len(vocabulary):
            raise InvalidInput(f"Expected {len(vocabulary)} log factors, got {len(log_factors)}.")
        known = [(tokens[word], float(factor)) for word, factor in zip(
            vocabulary.words, log_factors, strict=True) if word in tokens and word != UNKNOWN
        ]  # fmt: skip
        if not known:
            raise InvalidInput("Expected tokens for words of the vocabulary, got none.")
        self.places = torch.tensor([place for place, _ in known])
        self.factors = torch.tensor([factor for _, factor in known])

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if int(self.places.max()) >= scores.shape[-1]:
            raise InvalidInput(
                f"Expected tokens below {scores.shape[-1]}, got {int(self.places.max())}."
            )
        raised = scores.clone()
        places = self.places.to(scores.device)
        raised[..., places] += self.factors.to(scores.device, scores.dtype)
        return raised
