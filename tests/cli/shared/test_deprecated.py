import click
import pytest
from click.testing import CliRunner, Result

from sottovoce.cli.main import LazyVerbs, sottovoce
from sottovoce.cli.shared.options import deprecated_option
from sottovoce.errors import InvalidInput


@click.command()
@click.option("--max-rows", type=int, default=10)
@deprecated_option("--most", "--max-rows", type=int)
@click.option("--raw", "as_is", is_flag=True)
@deprecated_option("--untouched", "--raw", parameter="as_is", is_flag=True)
def verb(max_rows: int, as_is: bool) -> None:
    click.echo(f"{max_rows} {as_is}")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(verb, arguments)


def test_the_new_name_is_used_without_a_warning() -> None:
    result = run("--max-rows", "3", "--raw")
    assert (result.stdout, result.stderr) == ("3 True\n", "")
    assert run().stdout == "10 False\n"


def test_the_old_name_works_with_one_line_of_warning() -> None:
    result = run("--most", "3")
    assert result.stdout == "3 False\n"
    assert result.stderr == (
        "Warning: --most is deprecated and will be removed in the next version; use --max-rows "
        "instead.\n"
    )
    assert run("--untouched").stdout == "10 True\n"


def test_both_names_at_once_are_refused() -> None:
    assert isinstance(run("--most", "3", "--max-rows", "3").exception, InvalidInput)


def test_the_old_name_is_hidden() -> None:
    assert "--most" not in run("--help").stdout


RENAMED = {
    "audit run": {"--most": "--max-members", "--shadow": "--shadow-data"},
    "deid run": {"--caution": "--threshold"},
    "deid evaluate": {"--caution": "--threshold"},
    "deid attack": {"--caution": "--threshold"},
    "deid train": {"--recall": "--recall-target"},
    "federate": {"--minimum-clients": "--min-clients"},
    "lm train": {"--listed": "--extra-words", "--size": "--vocabulary-size"},
    "pretrain": {"--passes": "--epochs"},
    "rescore": {"--shortcut": "--unnormalised"},
    "tune": {"--limit": "--max-trials"},
}


@pytest.mark.parametrize("name", sorted(RENAMED))
def test_renamed_options_keep_their_old_names_hidden(name: str) -> None:
    command: click.Command | None = sottovoce
    for part in name.split():
        assert isinstance(command, click.Group | LazyVerbs)
        command = command.get_command(click.Context(command), part)
    assert command is not None
    options = {
        given: each
        for each in command.params
        if isinstance(each, click.Option)
        for given in each.opts
    }
    for old, new in RENAMED[name].items():
        assert options[old].hidden
        assert not options[new].hidden
