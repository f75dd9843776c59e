"""The command `sottovoce`. Verbs import their modules only when used, so `--help` is fast."""

import importlib
import sys
from collections.abc import Mapping

import click

from sottovoce import __version__
from sottovoce._extras import explained
from sottovoce.cli.shared.options import plugin_option
from sottovoce.errors import SottovoceError

VERBS: Mapping[str, str] = {
    "audit": "sottovoce.cli.audit.group:audit",
    "book": "sottovoce.cli.book:book",
    "corpus": "sottovoce.cli.corpus:corpus",
    "deid": "sottovoce.cli.deid.group:deid",
    "demo": "sottovoce.cli.demo:demo",
    "epsilon": "sottovoce.cli.epsilon:epsilon",
    "evaluate": "sottovoce.cli.evaluate:evaluate",
    "federate": "sottovoce.cli.federate:federate",
    "ledger": "sottovoce.cli.ledger:ledger",
    "lm": "sottovoce.cli.lm:lm",
    "predict": "sottovoce.cli.predict:predict",
    "pretrain": "sottovoce.cli.pretrain:pretrain",
    "report": "sottovoce.cli.report:report",
    "rescore": "sottovoce.cli.rescore:rescore_verb",
    "serve": "sottovoce.cli.serve:serve",
    "train": "sottovoce.cli.train:train",
    "tune": "sottovoce.cli.tune:tune",
}


class LazyVerbs(click.Group):
    """A group that imports a verb's module when the verb is used or described."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module_name, _, attribute = VERBS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module_name), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyVerbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sottovoce")
@plugin_option
def sottovoce() -> None:
    """Private language understanding: release text, train models, and know the privacy cost."""


def main() -> None:
    """Run the command; errors that users can fix print one line and exit with code 2."""
    try:
        sottovoce(standalone_mode=False)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except click.Abort:
        click.echo("Interrupted.", err=True)
        sys.exit(130)
    except click.ClickException as problem:
        problem.show()
        sys.exit(2)
    except ModuleNotFoundError as problem:
        missing = explained(problem)
        if not isinstance(missing, SottovoceError):
            raise
        click.echo(f"Error: {missing}", err=True)
        sys.exit(2)
    except SottovoceError as problem:
        click.echo(f"Error: {problem}", err=True)
        sys.exit(2)
    except OSError as problem:
        where = f" ({problem.filename})" if problem.filename else ""
        click.echo(f"Error: {problem.strerror or problem}{where}.", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
