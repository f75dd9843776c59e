"""`sottovoce audit RUN`: attack a trained run, and compare the bounds with its guarantee.

The audit package knows only scoring functions, and the models know nothing of attacks; this module
connects them.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from sottovoce.cli.shared.book import book_options, charged, unprotected
from sottovoce.cli.shared.canaries import planted
from sottovoce.cli.shared.console import json_option, print_json, progress
from sottovoce.cli.shared.options import Named, deprecated_option
from sottovoce.corpora import Utterance
from sottovoce.corpora.splits import By, Parts, Split, load_parts, parse_ratios
from sottovoce.errors import InvalidInput
from sottovoce.io.run import Run

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from sottovoce.audit import AuditResult
    from sottovoce.audit.scoring import ScoringFunction
    from sottovoce.nlu.fit.settings import Settings
    from sottovoce.nlu.model import JointModel
    from sottovoce.nlu.schema import Schema

    Scoring = ScoringFunction[Utterance]

REFERENCES = "references"
TABLE = "sottovoce.audit.attacks.membership:ATTACKS"


@click.command("run")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--attack",
    "attacks",
    type=Named(TABLE, ("shadow", "one-run", "all")),
    multiple=True,
    default=("all",),
    show_default=True,
    help="Attack to run, repeatable; all runs every attack that has what it needs.",
)
@click.option(
    "--data", type=click.Path(exists=True), help="Training data [default: as recorded in the run]."
)
@click.option(
    "--test", type=click.Path(exists=True), help="Data that the model was not trained on."
)
@click.option("--split", metavar="T:V:T", help="How the data was split, such as 45:5:50.")
@click.option(
    "--shadow-data",
    type=click.Path(exists=True),
    help="Public corpus to train the shadow model on.",
)
@deprecated_option("--shadow", "--shadow-data", type=click.Path(exists=True))
@click.option(
    "--references", type=click.IntRange(min=2), default=4, show_default=True,
    help="Number of reference models for LiRA and RMIA.",
)  # fmt: skip
@click.option(
    "--max-members", type=click.IntRange(min=1), default=2000, show_default=True,
    help="Members to test, with as many non-members.",
)  # fmt: skip
@deprecated_option("--most", "--max-members", type=click.IntRange(min=1))
@click.option(
    "--guesses", type=click.IntRange(min=1),
    help="Guesses of one-run, fixed before the attack [default: a tenth of the canaries].",
)  # fmt: skip
@click.option(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    help="Confidence level of intervals and bounds.",
)
@click.option(
    "--publish",
    is_flag=True,
    help="Also write audit.json to the public part of the run and to the model card. It is "
    "computed from private data, and no guarantee covers it.",
)
@book_options
@json_option
def audit_run(
    run: Path,
    attacks: tuple[str, ...],
    data: str | None,
    test: str | None,
    split: str | None,
    shadow_data: str | None,
    references: int,
    max_members: int,
    guesses: int | None,
    confidence: float,
    publish: bool,
    book: str | None,
    people: str,
    as_json: bool,
) -> None:
    """Attack the trained run in the folder RUN and write RUN/private/audit.json.

    The loss attack trains nothing. lira and rmia train reference models, stored in RUN/private so
    that an interrupted audit can resume. shadow needs --shadow-data; one-run needs a run of
    `train --canaries`.

    \b
    Example: sottovoce audit run/ --attack loss --attack rmia --json
    """
    if "shadow" in attacks and shadow_data is None:
        raise InvalidInput("Expected a public corpus for the shadow attack: add --shadow-data.")
    reason = "an audit is computed from private data, and no guarantee covers it"
    cost = [unprotected(run.name, "user", reason)] if publish else []
    note = f"audit of {run.name}; its figures {'are published' if publish else 'stay private'}"
    with charged(book, people, "audit", lambda: cost, note=note) as charge:
        result = audit_folder(
            run,
            attacks,
            load_parts_of(run, data=data, test=test, split=split),
            shadow=None if shadow_data is None else load_parts(shadow_data),
            references=references,
            max_members=max_members,
            guesses=guesses,
            confidence=confidence,
        )
        result.write(run)
        Run(run).protect()
        charge.settle(cost)
    if publish:
        result.write(run, publish=True)
        _update_card(run)
    if as_json:
        print_json(result.to_json())
    else:
        print_audit(result)


def audit_folder(
    folder: Path,
    attacks: Sequence[str],
    parts: Parts,
    *,
    shadow: Parts | None = None,
    references: int = 4,
    max_members: int = 2000,
    guesses: int | None = None,
    confidence: float = 0.95,
) -> "AuditResult":
    """Run attacks on a run folder that was trained on `parts`."""
    from sottovoce.audit import audit_model
    from sottovoce.audit.attacks.membership import ATTACKS, Attack, attack_named
    from sottovoce.audit.duplicates import candidates, words
    from sottovoce.nlu.fit.settings import Settings
    from sottovoce.nlu.runs.run import load_run, weights_hash
    from sottovoce.privacy.guarantee import Guarantee
    from sottovoce.privacy.noise import NoiseSource

    loaded = load_run(folder)
    known_run = Run(folder).read_run(private=True)
    model, settings = loaded.model, Settings.from_json(known_run["asked"])
    guarantee = Guarantee.from_json(loaded.run["guarantee"])
    known = list(filter(model.schema.fits(), parts.test))
    # The same candidates every time, so that stored reference models can be reused.
    drawn = NoiseSource.seeded(0)
    tested = candidates(parts.train, known, sentence=words, source=drawn, most=max_members)
    wanted = None if "all" in attacks else set(attacks)
    asked_for_references = wanted is None or any(
        attack_named(name).needs_references for name in wanted if name in ATTACKS
    )
    asked_for_shadow = shadow is not None and (wanted is None or Attack.SHADOW in wanted)
    with progress("Training reference models", unit="models", total=references) as update:
        result = audit_model(
            model.log_probabilities,
            tested,
            attacks=wanted,
            train=_trainer(settings, model, parts) if asked_for_references else None,
            models=references,
            folder=Run(folder).private(REFERENCES)
            / _name((*tested.members, *tested.non_members), references),
            shadow=_shadow(settings, shadow, model) if shadow and asked_for_shadow else None,
            canaries=planted(folder, guarantee.relation),
            guesses=guesses,
            guarantee=guarantee,
            confidence=confidence,
            progress=update,
        )
    result = replace(result, model=weights_hash(folder))
    if left := len(parts.test) - len(known):
        note = f"{left} test utterances were left out: the model does not have their labels"
        result = replace(result, notes=(*result.notes, note))
    return result


def _name(records: Sequence[Utterance], models: int) -> str:
    """A folder name that depends on the records and on the number of models."""
    digest = hashlib.blake2b(digest_size=6)
    for record in records:
        digest.update(repr(record).encode() + b"\0")
    return f"{models}-{digest.hexdigest()}"


def load_parts_of(
    run: Path, *, data: str | None = None, test: str | None = None, split: str | None = None
) -> Parts:
    """The data that a run was trained on: as given here, or as recorded in its run.json."""
    try:
        known: Any = Run(run).read_run(private=True)
    except InvalidInput:
        raise InvalidInput(f"Expected a trained run in {run}, found none.") from None
    if not {"asked", "configuration", "guarantee"} <= known.keys():
        raise InvalidInput(f"Expected a run of `sottovoce train` in {run}, got another one.")
    source: dict[str, Any] = known.get("source") or {}
    path = data or source.get("data")
    if path is None or not Path(path).exists():
        raise InvalidInput(
            f"Expected the training data of {run} with --data, because "
            + ("the run does not name it." if path is None else f"{path} is not there.")
        )
    ratios = split or (source.get("split") if data is None else None)
    by: By = "user" if known["configuration"].get("unit") == "user" else "id"
    parts = load_parts(
        path,
        split=None if ratios is None else Split(ratios=parse_ratios(ratios), by=by),
        test=test or (source.get("test") if data is None else None),
    )
    if not parts.test:
        raise InvalidInput(
            f"Expected data that {run} has not seen, in {path} or with --test, found none."
        )
    return parts


def _trainer(
    settings: "Settings", model: "JointModel", parts: Parts
) -> "Callable[[Sequence[Utterance], int], Scoring]":
    """Train reference models with the settings and labels of the audited model."""

    def make(records: Sequence[Utterance], index: int) -> "Scoring":
        other = Parts(name=parts.name, train=tuple(records))
        return _trained(settings, other, model.schema, index).log_probabilities

    return make


def _trained(settings: "Settings", parts: Parts, schema: "Schema", index: int) -> "JointModel":
    """Train a model with the same settings, except for population and seed."""
    from sottovoce.nlu.runs.experiment import train

    seed = None if settings.seed is None else settings.seed + 1 + index
    like = replace(settings, population=None, seed=seed)
    with TemporaryDirectory() as folder:
        # A dp vocabulary is charged to a ledger, which needs a folder.
        place = Path(folder) if like.vocabulary == "dp" else None
        return train(like, parts, schema, folder=place).model


def _shadow(settings: "Settings", public: Parts, model: "JointModel") -> "Scoring":
    """Membership scores of an attack model that was trained on a shadow model of public data."""
    from sottovoce.audit.attacks.shadow import ShadowAttack, sorted_features
    from sottovoce.audit.duplicates import candidates, words
    from sottovoce.nlu.schema import Schema
    from sottovoce.privacy.noise import NoiseSource

    if not public.test:
        raise InvalidInput(f"Expected a test part in the shadow corpus {public.name}, found none.")
    schema = Schema.of((*public.train, *public.test), declared=True)
    shadow = _trained(settings, replace(public, valid=(), test=()), schema, 0)
    tested = candidates(public.train, public.test, sentence=words, source=NoiseSource())
    attack = ShadowAttack.fit(
        sorted_features(*shadow.scores(tested.members)),
        sorted_features(*shadow.scores(tested.non_members)),
    )

    def score(records: Sequence[Utterance]) -> "ArrayLike":
        return attack.score(sorted_features(*model.scores(records)))

    return score


def _update_card(folder: Path) -> None:
    """Add the audit to the model card."""
    from sottovoce.nlu.runs.card import write_card

    write_card(folder)


def print_audit(result: "AuditResult") -> None:
    """Print the attacks in a table, then bounds, guarantee and notes."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=(0, 1), header_style="bold")
    for heading in ("attack", "AUC", "interval", "found at 0.1 % FPR", "found at 1 % FPR"):
        table.add_column(heading, justify="left" if heading == "attack" else "right")
    best = result.strongest
    for attack in result.attacks:
        low, high = attack.auc_interval
        rates = [
            f"{rate.true_positive_rate:.1%}" if rate.resolved else "too few"
            for rate in attack.rates
        ]
        mark = " (strongest)" if attack is best else ""
        table.add_row(attack.attack + mark, f"{attack.auc:.3f}", f"{low:.3f}-{high:.3f}", *rates)
    console = Console()
    console.print(table)
    for bound in result.bounds:
        console.print(str(bound), highlight=False, markup=False)
    if result.guarantee is not None:
        console.print(f"Guarantee: {result.guarantee}", highlight=False, markup=False)
    for sentence in (*result.defects(), *result.not_compared(), *result.notes):
        console.print(f"- {sentence}", highlight=False, markup=False)
