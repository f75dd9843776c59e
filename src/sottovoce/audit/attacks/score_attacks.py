"""Membership attacks on the scores of single records: loss threshold, LiRA and RMIA.

LiRA and RMIA compare the audited model with reference models: the same training, repeated on random
halves of the records.
"""

import hashlib
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from sottovoce import _validate
from sottovoce.audit import _checks
from sottovoce.audit._checks import Flags, Scores
from sottovoce.audit.scoring import TrainReference, log_odds, log_probabilities
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output
from sottovoce.privacy.noise import NoiseSource

Record = TypeVar("Record")
Arrays = dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]


@dataclass(frozen=True, eq=False)
class ReferenceScores:
    """Log-probabilities by reference model (row) and record (column), and training membership."""

    scores: Scores
    included: Flags

    def __post_init__(self) -> None:
        _checks.table("the reference scores", self.scores)
        _checks.flags("included", self.included, self.scores.shape)


def train_references(
    records: Sequence[Record],
    train: TrainReference[Record],
    *,
    models: int,
    source: NoiseSource,
    folder: Path | str | None = None,
    identity: Callable[[Record], str] = repr,
    progress: Callable[[int], None] | None = None,
) -> ReferenceScores:
    """Train `models` references, each on half of the records, with each record in half of them.

    `identity` identifies records when an attack is resumed; `progress` receives the number of
    finished models. A resumed attack uses the halves of its saved plan, not those of `source`.

    Each model is trained, scored and discarded before the next, so the attack needs the memory of
    one training. With a folder, the plan and the scores of each finished model are saved
    atomically; an interrupted attack resumes with the missing models.

    >>> def train(records, index):
    ...     return lambda asked: [-0.1 if record in records else -2.0 for record in asked]
    >>> references = train_references("abcdef", train, models=4, source=NoiseSource.seeded(1))
    >>> references.included.sum(axis=0).tolist()
    [2, 2, 2, 2, 2, 2]
    """
    if models < 2:
        raise InvalidInput(f"Expected at least 2 reference models, got {models}.")
    if not records:
        raise InvalidInput("Expected at least one record to train reference models on, got none.")
    place = None if folder is None else Path(folder)
    included = _plan(place, records, models, source, identity)
    rows = []
    for index, chosen in enumerate(included):
        file = None if place is None else place / f"reference-{index:03d}.npz"
        if file is not None and file.exists():
            row = log_probabilities(_load(file)["scores"], len(records))
        else:
            score = train([records[i] for i in np.flatnonzero(chosen).tolist()], index)
            row = log_probabilities(score(records), len(records))
            if file is not None:
                _save(file, {"scores": row})
        rows.append(row)
        if progress is not None:
            progress(index + 1)
    return ReferenceScores(np.stack(rows), included)


def _plan(
    place: Path | None,
    records: Sequence[Record],
    models: int,
    source: NoiseSource,
    identity: Callable[[Record], str],
) -> Flags:
    """Draw the halves, or load those of the interrupted attack."""
    if place is not None:
        place.mkdir(parents=True, exist_ok=True)
    file = None if place is None else place / "plan.npz"
    digest = hashlib.blake2b(digest_size=16)
    for record in records:
        digest.update(identity(record).encode() + b"\0")
    if file is not None and file.exists():
        saved = _load(file)
        if str(saved["records"]) != digest.hexdigest() or len(saved["included"]) != models:
            raise InvalidInput(
                f"Expected {file} to plan {models} reference models of these records, but it "
                "belongs to another attack: use a new folder."
            )
        return _checks.flags("the saved plan", saved["included"], (models, len(records)))
    # Each column is a random permutation of the models; the first half includes the record.
    order = source.words(models * len(records)).reshape(models, -1).argsort(axis=0).argsort(axis=0)
    included: Flags = order < models // 2
    if file is not None:
        _save(file, {"records": np.array(digest.hexdigest()), "included": included})
    return included


def _save(file: Path, arrays: Arrays) -> None:
    with output(file, mode=0o600) as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]


def _load(file: Path) -> Arrays:
    try:
        with np.load(file, allow_pickle=False) as saved:
            return dict(saved)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError) as problem:
        raise InvalidInput(
            f"Expected saved scores in {file}, but it cannot be read: delete it to train that "
            "model again."
        ) from problem


LOSS = "loss threshold"


def loss_attack(target: ArrayLike) -> Scores:
    """Membership scores from the audited model alone, by its loss (Yeom et al. 2018).

    The attack confuses easy records with members, so its AUC may be fair although it finds almost
    no members at a low false positive rate.

    >>> loss_attack([-2.0, -0.1]).tolist()
    [-2.0, -0.1]
    """
    return log_probabilities(target)


ONLINE = "LiRA, online"
OFFLINE = "LiRA, offline"
# With fewer models on a side, a standard deviation per record is mostly noise.
ENOUGH_MODELS = 32


def lira(target: ArrayLike, references: ReferenceScores) -> Scores:
    """Online LiRA: the log-likelihood ratio of "in" against "out", one number per record.

    The likelihood-ratio attack of Carlini et al. (2022). For each record, the log-odds under the
    reference models are modelled as normal, once for the models trained on it (online only) and
    once for the others. With few models the variance is pooled over records, as the paper advises;
    the means stay per record.

    >>> references = ReferenceScores(np.log([[0.9, 0.6], [0.5, 0.9], [0.8, 0.7], [0.6, 0.95]]),
    ...                              np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=bool))
    >>> lira(np.log([0.85, 0.65]), references).round(2).tolist()   # the first was in training
    [12.44, -6.87]
    """
    found = _target(target, references)
    odds = log_odds(references.scores)
    inside, outside = references.included, ~references.included
    return _log_density(found, odds, inside) - _log_density(found, odds, outside)


def lira_offline(target: ArrayLike, references: ReferenceScores) -> Scores:
    """Offline LiRA: the deviation from the models not trained on the record, in units of their
    standard deviation.

    It needs no model trained on the record, so references can be trained before the records to
    attack are known.
    """
    found = _target(target, references)
    centre, spread = _normal(log_odds(references.scores), ~references.included)
    deviation: Scores = (found - centre) / spread
    return deviation


def _target(target: ArrayLike, references: ReferenceScores) -> Scores:
    return log_odds(log_probabilities(target, references.scores.shape[1]))


def _log_density(found: Scores, odds: Scores, chosen: Flags) -> Scores:
    centre, spread = _normal(odds, chosen)
    density: Scores = -(((found - centre) / spread) ** 2) / 2 - np.log(spread)
    return density


def _normal(odds: Scores, chosen: Flags) -> tuple[Scores, Scores]:
    """Mean and standard deviation of each record over the chosen models."""
    counts = chosen.sum(axis=0)
    if counts.min() == 0:
        raise InvalidInput(
            "Expected every record in some reference models and not in others, got "
            f"{int((counts == 0).sum())} records without one of the two."
        )
    centre = np.where(chosen, odds, 0.0).sum(axis=0) / counts
    squares = (np.where(chosen, odds - centre, 0.0) ** 2).sum(axis=0)
    if counts.min() >= ENOUGH_MODELS:
        spread = np.sqrt(squares / (counts - 1))
    else:
        freedom = int((counts - 1).sum())
        # One model per side has no spread, so only the means are compared.
        pooled = np.sqrt(squares.sum() / freedom) if freedom else 1.0
        spread = np.full(centre.shape, pooled)
    # Avoid division by zero if all models agree.
    return centre, np.maximum(spread, 1e-6)


RMIA = "RMIA"
# The paper's correction of p(x) from models not trained on x, which is too small on average.
OFFLINE_FACTOR = 0.3


def rmia(
    target: ArrayLike,
    references: ReferenceScores,
    *,
    population: Flags | None = None,
    gamma: float = 1.0,
    offline: bool = False,
) -> Scores:
    """The fraction of the population that each record beats, one number from 0 to 1 per record.

    The robust membership inference attack of Zarifzadeh, Liu and Shokri (2023). A record x is
    compared with records z of the population:

        score(x) = fraction of z with  [p(x|target) / p(x)] / [p(z|target) / p(z)] >= gamma,

    where p(x) is the mean probability over reference models. One or two of them are enough.

    `population` marks the columns that serve as z (by default all; the attacker need not know which
    are members). With `offline`, p(x) uses only models not trained on x. All records are compared
    with the same z, so they are ranked by their ratio, and gamma only changes the scale.

    >>> references = ReferenceScores(np.log([[0.9, 0.6], [0.5, 0.9], [0.8, 0.7], [0.6, 0.95]]),
    ...                              np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=bool))
    >>> rmia(np.log([0.85, 0.65]), references).tolist()        # the first was in training
    [1.0, 0.5]
    """
    _validate.positive("gamma", gamma)
    log_p = log_probabilities(target, references.scores.shape[1])
    ratios = log_p - (_offline_mean(references) if offline else _online_mean(references))
    others = ratios if population is None else ratios[population]
    if others.size == 0:
        raise InvalidInput("Expected at least one record in the population, got none.")
    beaten = np.searchsorted(np.sort(others), ratios - np.log(gamma), side="right")
    shares: Scores = beaten / others.size
    return shares


def _online_mean(references: ReferenceScores) -> Scores:
    """ln of the mean over models trained on the record and not, with equal weight."""
    inside = _log_mean(references.scores, references.included)
    outside = _log_mean(references.scores, ~references.included)
    mean: Scores = np.logaddexp(inside, outside) - np.log(2)
    return mean


def _offline_mean(references: ReferenceScores) -> Scores:
    """ln of ((1 + a) p_out + 1 - a) / 2: an estimate of the online mean."""
    outside = _log_mean(references.scores, ~references.included)
    scaled = np.log1p(OFFLINE_FACTOR) + outside
    mean: Scores = np.logaddexp(scaled, np.log1p(-OFFLINE_FACTOR)) - np.log(2)
    return mean


def _log_mean(scores: Scores, chosen: Flags) -> Scores:
    counts = chosen.sum(axis=0)
    if counts.min() == 0:
        raise InvalidInput(
            "Expected every record in some reference models and not in others, got "
            f"{int((counts == 0).sum())} records without one of the two."
        )
    weighted = np.where(chosen, np.maximum(scores, -700.0), -np.inf)
    mean: Scores = logsumexp(weighted, axis=0) - np.log(counts)
    return mean
