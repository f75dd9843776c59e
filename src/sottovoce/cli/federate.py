"""`sottovoce federate`: federated word marginals with noise, simulated on one machine."""

import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from sottovoce.cli.lm import load_vocabulary
from sottovoce.cli.shared.book import book_options, charged, unprotected
from sottovoce.cli.shared.console import json_option, print_json, progress
from sottovoce.cli.shared.nbest_lists import nbest_options, read_lists
from sottovoce.cli.shared.options import deprecated_option
from sottovoce.cli.shared.statements import print_statement
from sottovoce.errors import InvalidInput
from sottovoce.io.run import PRIVATE, Run
from sottovoce.personalize.federated.checkpoint import round_key
from sottovoce.personalize.federated.counting import Caps, Counting
from sottovoce.personalize.federated.federation import clients_of, server_for
from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.federated.pairs import pair_vocabulary
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.publishing import (
    LEDGER,
    MARGINALS,
    Publication,
    check_unused,
    federation_folder,
)
from sottovoce.personalize.federated.rounds import RoundReport, run_rounds
from sottovoce.personalize.federated.server import DENOISERS, PLAUSIBLE_MASS
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.formats import write_nbest
from sottovoce.personalize.nbest.lists import NBest, by_client
from sottovoce.privacy.accounting import Entry
from sottovoce.privacy.composition import Part
from sottovoce.privacy.facts import Noise
from sottovoce.privacy.guarantee import Claim, Guarantee, Relation, Statement, Unit
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.recipes.federate import Cap, Kernel, Release
from sottovoce.privacy.sampling import SamplingKey

_DISCRETE = (Noise.DISCRETE_LAPLACE, Noise.DISCRETE_GAUSSIAN)
_DEFAULTS = ReleasePlan()
MINIMUM_CLIENTS = 5
# Settings besides the plan that determine the result.
_RESUMED = ("rounds", "noise", "sampling_rate", "denoise", "plausible_mass", "minimum_clients",
            "secure_aggregation", "seed")  # fmt: skip


def _choice(*options: str) -> click.Choice[str]:
    return click.Choice([str(option) for option in options])


@click.command()
@click.argument("nbest")
@click.option("-o", "--output", "folder", required=True, help="Folder for marginals and run.json.")
@click.option(
    "--vocabulary", required=True, help="Public vocabulary: a vocabulary.json or an lm folder."
)
@nbest_options
@click.option("--rounds", type=int, default=10, show_default=True, help="Number of rounds.")
@click.option("--noise", type=_choice(*Noise, "none"), default="discrete-laplace",
              show_default=True, help="Noise distribution.")  # fmt: skip
@click.option("--epsilon", type=float, help="Calibrate the noise to this epsilon.")
@click.option("--scale", type=float, help="Noise scale in counts, instead of --epsilon.")
@click.option("--delta", type=float, default=0.0, show_default=True, help="Delta of the guarantee.")
@click.option("--unit", type=_choice(Unit.UTTERANCE, Unit.USER), default="utterance",
              show_default=True, help="Unit of privacy.")  # fmt: skip
@click.option("--mass-cap", type=float,
              help="Maximum total count of a user, with --unit user.")  # fmt: skip
@click.option("--word-cap", type=float, help="Maximum count of a user for one word.")
@click.option("--cap", type=_choice(*Cap), default="lifetime", show_default=True,
              help="Apply caps over all rounds, or to each round.")  # fmt: skip
@click.option("--release", type=_choice(*Release), default="increments", show_default=True,
              help="Release new counts only, or all counts so far, as in the paper.")  # fmt: skip
@click.option("--sampling-rate", type=float, default=1.0, show_default=True,
              help="Client sampling rate; amplifies privacy with Laplace noise.")  # fmt: skip
@click.option(
    "--sigma", type=float, default=1.0, show_default=True, help="Width of the rank kernel."
)
@click.option(
    "--nbest-size", type=int, default=5, show_default=True, help="Hypotheses counted per utterance."
)
@click.option("--max-words", type=int, default=20, show_default=True,
              help="Words counted per hypothesis.")  # fmt: skip
@click.option("--kernel", type=_choice(*Kernel), default="normalised", show_default=True,
              help="Rank weights: raw, or normalised to sum to 1.")  # fmt: skip
@click.option("--repeats", is_flag=True, help="Count repeated words of a hypothesis repeatedly.")
@click.option("--denoise", type=_choice(*DENOISERS),
              help="Denoising of the counts [default: project; keep for pairs].")  # fmt: skip
@click.option(
    "--pairs-of", help="Folder of an earlier run: count pairs of its most frequent words."
)
@click.option("--pair-words", type=int, default=200, show_default=True,
              help="Number of words of that run to form pairs from.")  # fmt: skip
@click.option("--runner", type=_choice("in-process", "flower"),
              help="Flower's simulation or in process [default: flower if installed].")  # fmt: skip
@click.option("--secure-aggregation", is_flag=True,
              help="SecAgg+: the server sees only sums; needs at least three clients.")  # fmt: skip
@click.option("--plausible-mass", type=float, default=PLAUSIBLE_MASS, show_default=True,
              help="Reject contributions with more words per round than this.")  # fmt: skip
@click.option("--ledger",
              help="Ledger of earlier runs on the same users, to continue.")  # fmt: skip
@click.option("--min-clients", "minimum_clients", type=int, default=MINIMUM_CLIENTS,
              show_default=True,
              help="Do not release rounds with fewer contributions; no client adds more than one "
              "over this share of the mass to a word.")  # fmt: skip
@deprecated_option("--minimum-clients", "--min-clients", parameter="minimum_clients", type=int)
@click.option("--seed", type=int, help="For tests: repeatable noise and sampling; no guarantee.")
@book_options
@json_option
def federate(
    nbest: str,
    folder: str,
    vocabulary: str,
    book: str | None,
    people: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Release noisy word marginals over all clients in NBEST, with their guarantee.

    FOLDER must be new, or that of an interrupted run of the same command, which is resumed. Its
    top level may be shared; exact numbers of clients and utterances, rejected contributions and
    timings are in its private folder.

    With --pairs-of, count pairs of the most frequent words of an earlier run: --epsilon is then
    the cost of this run alone, and the printed guarantee covers both runs.

    \b
    Example: sottovoce federate heard.jsonl --vocabulary lm/ --epsilon 1 -o marginals/
    """
    started = time.monotonic()
    words = load_vocabulary(vocabulary)
    earlier = _Earlier.of(options["pairs_of"], folder) if options["pairs_of"] else None
    if earlier is not None:
        words = pair_vocabulary(words, earlier.marginals.over(words), options["pair_words"])
    options["denoise"] = options["denoise"] or ("project" if earlier is None else "keep")
    plan = _plan(options)
    options["runner"] = _runner(options)
    check_unused(Run(folder))
    lists = read_lists(nbest, options)
    noiseless = options["noise"] == "none"
    publication = Publication(
        delta=options["delta"],
        configuration={
            **{name: value for name, value in options.items() if name != "ledger"},
            "scale": None if noiseless else plan.scale,
            "counting": plan.counting.to_json(),
        },
        exact={"clients": len(by_client(lists)), "utterances": len(lists)},
        words_from=earlier.marginals.digest if earlier else None,
        claimed_before=earlier.claimed if earlier else None,
    )
    job = _Job(lists, words, plan, Path(folder), _ledger(options, earlier), earlier, publication)
    cost = [_cost(plan, options, Path(folder).name)]
    with charged(book, people, "federate", lambda: cost, folder=Path(folder)) as charge:
        (_in_flower if options["runner"] == "flower" else _in_process)(job, options, started)
        # A continued ledger holds earlier runs too, which the book has already.
        charge.settle(cost) if job.ledger or earlier else charge.settle_run(Path(folder))
    run = Run(folder).read_run()
    if as_json:
        print_json(run)
        return
    guarantee = Guarantee.from_json(run["guarantee"])
    if run["claimed"] is not None:
        claimed = Claim.from_json(run["claimed"])
        print_statement(Statement(claimed=claimed, guarantee=guarantee))
    else:
        click.echo(str(guarantee))
    click.echo(f"Marginals are in {folder}; do not share {Path(folder, PRIVATE)}.")


def _cost(plan: ReleasePlan, options: dict[str, Any], name: str) -> Part:
    """What this run will spend, from its plan."""
    if options["noise"] == "none":
        return unprotected(name, plan.unit, "counts are released without noise")
    return Part(
        name=name,
        unit=plan.unit,
        relation=Relation.ADD_OR_REMOVE,
        delta=options["delta"],
        entries=tuple(Entry(plan.fact(number)) for number in range(1, options["rounds"] + 1)),
    )


@dataclass(frozen=True)
class _Earlier:
    """The marginals of an earlier run, and their cost."""

    folder: Path
    marginals: Marginals
    ledger: dict[str, Any]
    claimed: dict[str, Any] | None

    @classmethod
    def of(cls, folder: str, output: str) -> "_Earlier":
        if Path(folder).resolve() == Path(output).resolve():
            raise InvalidInput(
                "Expected another folder for pairs than for the words: change --output."
            )
        try:
            run = Run(folder).read_run()
            marginals = Marginals.load(Path(folder, MARGINALS))
            # The cost of the words carries over. Read both copies of the ledger; none may be empty.
            paid = Ledger.from_json(run["ledger"]).union(
                Ledger.from_json(marginals.about["ledger"])
            )
            if not paid.entries or marginals.about["of"] != marginals.digest:
                raise ValueError("its marginals do not match its ledger")
            found = cls(Path(folder), marginals, paid.to_json(), run["claimed"])
        except (OSError, ValueError, LookupError, TypeError) as problem:
            raise InvalidInput(
                f"Expected a run of federate in {folder}, got: {problem}"
            ) from problem
        if any(" " in word for word in marginals.words):
            raise InvalidInput(f"Expected a run that released words in {folder}, got one of pairs.")
        return found


@dataclass(frozen=True)
class _Job:
    """The input of both runners."""

    lists: list[NBest]
    words: Vocabulary
    plan: ReleasePlan
    folder: Path
    ledger: Path | None
    earlier: _Earlier | None
    publication: Publication

    @property
    def carried(self) -> dict[str, Any] | None:
        """The ledger of the earlier run, whose cost carries over; shared entries count once."""
        return self.earlier.ledger if self.earlier else None


def _ledger(options: dict[str, Any], earlier: _Earlier | None) -> Path | None:
    """An existing ledger to continue, if any: pairs continue the ledger of their words."""
    if options["ledger"]:
        return Path(options["ledger"])
    if earlier is not None and (earlier.folder / LEDGER).exists():
        return earlier.folder / LEDGER
    return None


def _asked(job: _Job, options: dict[str, Any]) -> dict[str, Any]:
    """What an interrupted run must have in common with the one that resumes it."""
    return {
        "plan": job.plan.to_json(),
        "vocabulary": job.words.digest,
        "utterances": len(job.lists),
        **{name: options[name] for name in _RESUMED},
    }


def _fresh_key(options: dict[str, Any]) -> SamplingKey:
    return SamplingKey() if options["seed"] is None else SamplingKey.from_seed(options["seed"])


def _in_process(job: _Job, options: dict[str, Any], started: float) -> None:
    seed = options["seed"]
    with (
        federation_folder(
            job.folder,
            job.plan,
            asked=_asked(job, options),
            key=_fresh_key(options),
            ledger=job.ledger,
            earlier=job.carried,
        ) as (folder, ledger, checkpoint),
        progress("Federating", unit="rounds", total=options["rounds"]) as update,
    ):
        key = checkpoint.key
        clients = clients_of(job.lists, job.words, job.plan, rounds=options["rounds"], key=key)
        server = server_for(
            job.words,
            None if options["noise"] == "none" else job.plan,
            ledger=ledger,
            source=NoiseSource() if seed is None else NoiseSource.seeded(seed),
            denoise=options["denoise"],
            plausible_mass=options["plausible_mass"],
            minimum_clients=options["minimum_clients"],
            resume=checkpoint.run,
        )
        checkpoint.begin(server)
        for report in run_rounds(
            clients,
            server,
            rounds=options["rounds"],
            sampling_rate=options["sampling_rate"],
            key=key,
            done=checkpoint.reports,
        ):
            checkpoint.add(report, server)
            update(report.number)
            _print_round(report)
        job.publication.write(
            folder, server, checkpoint.reports, seeded=seed is not None, started=started
        )


def _in_flower(job: _Job, options: dict[str, Any], _started: float) -> None:
    from sottovoce.personalize.flower import running
    from sottovoce.personalize.flower.settings import FederationSettings

    clients, seed = len(by_client(job.lists)), options["seed"]
    key = round_key(Run(job.folder), _fresh_key(options))
    click.echo(
        "Starting Flower's simulation, which takes up to half a minute before the first round; "
        "--runner in-process starts at once.",
        err=True,
    )
    # Simulated nodes read files. Private text must not stay next to the public output.
    with (
        tempfile.TemporaryDirectory() as private,
        progress("Federating", unit="rounds", total=options["rounds"]) as update,
    ):
        job.words.save(Path(private, "vocabulary.json"))
        write_nbest(Path(private, "nbest.jsonl"), job.lists)
        settings = FederationSettings(
            vocabulary=str(Path(private, "vocabulary.json")),
            nbest=str(Path(private, "nbest.jsonl")),
            output=str(job.folder.resolve()),
            plan=job.plan.to_json(),
            noiseless=options["noise"] == "none",
            rounds=options["rounds"],
            sampling_rate=options["sampling_rate"],
            nodes=clients,
            denoise=options["denoise"],
            round_key=key.secret.hex(),
            seed=seed,
            secure=options["secure_aggregation"],
            plausible_mass=options["plausible_mass"],
            minimum_clients=options["minimum_clients"],
            ledger=str(job.ledger.resolve()) if job.ledger else "",
            earlier=job.carried,
            publication=asdict(job.publication),
        )

        def on_round(report: RoundReport) -> None:
            update(report.number)
            _print_round(report)

        running.simulate(settings, clients=clients, on_round=on_round)


def _print_round(report: RoundReport) -> None:
    """Print exact numbers to the terminal only; no public file contains them."""
    click.echo(report.sentence, err=True)


def _runner(options: dict[str, Any]) -> str:
    from sottovoce.personalize.flower.running import installed

    chosen: str | None = options["runner"]
    if chosen is None:
        chosen = "flower" if installed() else "in-process"
        if chosen == "in-process" and not options["secure_aggregation"]:
            click.echo("Flower is not installed (extra `flower`): running in process.", err=True)
    if chosen == "flower" and not installed():
        raise InvalidInput("Expected Flower to be installed: pip install 'sottovoce[flower]'.")
    if chosen == "in-process" and options["secure_aggregation"]:
        raise InvalidInput(
            "Expected --runner flower with --secure-aggregation: a single process sees every "
            "contribution anyway."
        )
    return chosen


def _plan(options: dict[str, Any]) -> ReleasePlan:
    noise = Noise.LAPLACE if options["noise"] == "none" else Noise(options["noise"])
    if options["noise"] == "none":
        if options["epsilon"] is not None or options["scale"] is not None:
            raise InvalidInput("Expected no --epsilon or --scale with --noise none: drop them.")
    elif (options["epsilon"] is None) == (options["scale"] is None):
        raise InvalidInput("Expected exactly one of --epsilon and --scale.")
    sampled = options["sampling_rate"] < 1 and noise in (Noise.LAPLACE, Noise.DISCRETE_LAPLACE)
    increments = Release(options["release"]) is Release.INCREMENTS
    plan = ReleasePlan(
        counting=Counting(
            sigma=options["sigma"],
            nbest=options["nbest_size"],
            kernel=Kernel(options["kernel"]),
            max_words=options["max_words"],
            distinct=not options["repeats"],
            # Secure aggregation is exact only for integers.
            integer=noise in _DISCRETE or options["secure_aggregation"],
            order=2 if options["pairs_of"] else 1,
        ),
        noise=noise,
        scale=options["scale"] if options["scale"] is not None else _DEFAULTS.scale,
        unit=Unit(options["unit"]),
        caps=Caps(options["mass_cap"], options["word_cap"], Cap(options["cap"])),
        release=Release(options["release"]),
        sampling_rate=options["sampling_rate"] if sampled and increments else None,
    )
    if options["epsilon"] is None:
        return plan
    return plan.calibrated(
        epsilon=options["epsilon"], rounds=options["rounds"], delta=options["delta"]
    )
