"""`sottovoce audit`: empirical lower bounds on epsilon."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from sottovoce.cli.audit.run import audit_run
from sottovoce.cli.shared.console import json_option, print_json

# The bounds import numpy and scipy, which are too slow for `--help`.
if TYPE_CHECKING:
    from sottovoce.audit.bounds import LowerBound


class RunOrCommand(click.Group):
    """`audit RUN` is short for `audit run RUN`: anything but a command is a run folder."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["run", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=RunOrCommand, subcommand_metavar="RUN | COMMAND [ARGS]...")
def audit() -> None:
    """Attack a training run, and compute lower bounds on epsilon.

    \b
    Examples: sottovoce audit run/ --attack loss
              sottovoce audit bound one-run --canaries 1000 --guesses 100 --correct 90
    """


audit.add_command(audit_run)


@audit.group()
def bound() -> None:
    """Compute a lower bound on epsilon from the counts of an attack."""


def _guess_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.option(
                "--canaries",
                type=int,
                required=True,
                help="Canaries, each included with probability 1/2.",
            ),
            click.option(
                "--guesses",
                type=int,
                required=True,
                help="Number of guesses, fixed before the attack.",
            ),
            click.option("--correct", type=int, required=True, help="Correct guesses."),
        )
    ):
        command = option(command)
    return command


def _confidence_option(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--confidence",
        type=float,
        default=0.95,
        show_default=True,
        help="Confidence level of the bound.",
    )(command)


@bound.command("one-run")
@_guess_options
@click.option("--delta", type=float, default=0.0, show_default=True, help="Delta of the guarantee.")
@_confidence_option
@json_option
def one_run(*, as_json: bool, **counts: Any) -> None:
    """Bound from guesses about the canaries of one run, for any training algorithm.

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
    """Bound from the same guesses if all noise in the training is Gaussian.

    \b
    Example:
      sottovoce audit bound one-run-gdp --canaries 1000 --guesses 100 --correct 90 --delta 1e-5
    """
    from sottovoce.audit.bounds import one_run_gaussian_bound

    _show(one_run_gaussian_bound(**counts), as_json=as_json)


@bound.command("clopper-pearson")
@click.option("--true-positives", type=int, required=True, help="Members classified as members.")
@click.option("--members", type=int, required=True, help="Members tested.")
@click.option(
    "--false-positives", type=int, required=True, help="Non-members classified as members."
)
@click.option("--non-members", type=int, required=True, help="Non-members tested.")
@click.option("--delta", type=float, default=0.0, show_default=True, help="Delta of the guarantee.")
@_confidence_option
@json_option
def clopper_pearson(*, as_json: bool, **counts: Any) -> None:
    """Bound from the decisions of an attack on independent runs.

    With a delta above 0, also print the bound for a Gaussian mechanism.

    \b
    Example:
      sottovoce audit bound clopper-pearson --true-positives 450 --members 500 \\
        --false-positives 20 --non-members 500 --delta 1e-5
    """
    from sottovoce.audit.bounds import clopper_pearson_bound, gaussian_bound

    gaussian = gaussian_bound(**counts) if counts["delta"] > 0 else None
    _show(clopper_pearson_bound(**counts), gaussian, as_json=as_json)


def _show(
    bound_found: "LowerBound", gaussian: "LowerBound | None" = None, *, as_json: bool
) -> None:
    if not as_json:
        click.echo(bound_found)
        if gaussian is not None:
            click.echo(gaussian)
        return
    result = bound_found.to_json()
    if gaussian is not None:
        result |= {"epsilon_lower_if_gaussian": gaussian.epsilon, "mu_lower": gaussian.mu}
    print_json(result)
