"""`sottovoce audit`: how much a training leaked, as a lower bound on epsilon."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from sottovoce.cli.audit.run import audit_run
from sottovoce.cli.shared.console import json_option, print_json

# The bounds need numpy and scipy, which take their time to load: not for a page of help.
if TYPE_CHECKING:
    from sottovoce.audit.bounds import LowerBound


class RunOrCommand(click.Group):
    """`audit RUN` is short for `audit run RUN`: what is no command is the folder of a run."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["run", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=RunOrCommand, subcommand_metavar="RUN | COMMAND [ARGS]...")
def audit() -> None:
    """How much a training leaked: attacks on a run, and lower bounds on epsilon.

    \b
    Examples: sottovoce audit run/ --attack loss
              sottovoce audit bound one-run --canaries 1000 --guesses 100 --correct 90
    """


audit.add_command(audit_run)


@audit.group()
def bound() -> None:
    """Turn the counts of an attack into a lower bound on epsilon."""


def _guess_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.option(
                "--canaries",
                type=int,
                required=True,
                help="Canaries, each included by a fair coin.",
            ),
            click.option(
                "--guesses", type=int, required=True, help="Guesses made; fix this beforehand."
            ),
            click.option("--correct", type=int, required=True, help="Guesses that were right."),
        )
    ):
        command = option(command)
    return command


def _confidence_option(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--confidence", type=float, default=0.95, show_default=True, help="Of the bound."
    )(command)


@bound.command("one-run")
@_guess_options
@click.option("--delta", type=float, default=0.0, show_default=True, help="Delta of the guarantee.")
@_confidence_option
@json_option
def one_run(*, as_json: bool, **counts: Any) -> None:
    """What guesses about the canaries of one run prove of any training.

    \b
    Example:
      sottovoce audit bound one-run --canaries 1000 --guesses 100 --correct 90 --delta 1e-5
    """
    from sottovoce.audit.bounds import one_run_bound

    _show(one_run_bound(**counts), as_json=as_json)


@bound.command("one-run-gdp")
@_guess_options
@click.option("--delta", type=float, required=True, help="Delta of the guarantee, above 0.")
@_confidence_option
@json_option
def one_run_gdp(*, as_json: bool, **counts: Any) -> None:
    """What the same guesses prove if all noise of the training is Gaussian.

    \b
    Example:
      sottovoce audit bound one-run-gdp --canaries 1000 --guesses 100 --correct 90 --delta 1e-5
    """
    from sottovoce.audit.bounds import one_run_gaussian_bound

    _show(one_run_gaussian_bound(**counts), as_json=as_json)


@bound.command("clopper-pearson")
@click.option("--true-positives", type=int, required=True, help="Members called members.")
@click.option("--members", type=int, required=True, help="Members tried.")
@click.option("--false-positives", type=int, required=True, help="Non-members called members.")
@click.option("--non-members", type=int, required=True, help="Non-members tried.")
@click.option("--delta", type=float, default=0.0, show_default=True, help="Delta of the guarantee.")
@_confidence_option
@json_option
def clopper_pearson(*, as_json: bool, **counts: Any) -> None:
    """What the verdicts of an attack over independent runs prove.

    With a delta above 0 it also says what they prove of a Gaussian mechanism.

    \b
    Example:
      sottovoce audit bound clopper-pearson --true-positives 450 --members 500 \\
        --false-positives 20 --non-members 500 --delta 1e-5
    """
    from sottovoce.audit.bounds import clopper_pearson_bound, gaussian_bound

    gaussian = gaussian_bound(**counts) if counts["delta"] > 0 else None
    _show(clopper_pearson_bound(**counts), gaussian, as_json=as_json)


def _show(shown: "LowerBound", gaussian: "LowerBound | None" = None, *, as_json: bool) -> None:
    if not as_json:
        click.echo(shown)
        if gaussian is not None:
            click.echo(gaussian)
        return
    result = shown.to_json()
    if gaussian is not None:
        result |= {"epsilon_lower_if_gaussian": gaussian.epsilon, "mu_lower": gaussian.mu}
    print_json(result)
