"""`sottovoce deid`: release text with a privacy statement, and commands around it."""

import click

from sottovoce.cli.deid.attack import attack
from sottovoce.cli.deid.evaluate import evaluate_verb
from sottovoce.cli.deid.explain import explain_verb
from sottovoce.cli.deid.restore import restore
from sottovoce.cli.deid.run import run
from sottovoce.cli.deid.train import train
from sottovoce.cli.deid.verify import verify


class ReleasesByDefault(click.Group):
    """A group whose first argument may also be a file to release."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        helps = ctx.help_option_names
        if args and args[0] not in self.commands and args[0] not in helps:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=ReleasesByDefault)
def deid() -> None:
    """Release text with private values replaced, and state the privacy cost.

    `sottovoce deid IN -o OUT` is short for `sottovoce deid run IN -o OUT`.
    """


for command in (run, train, evaluate_verb, explain_verb, verify, restore, attack):
    deid.add_command(command)
