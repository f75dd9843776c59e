"""The command-line reference, read off the commands themselves.

Nothing here is written by hand, so the page says what the code does. A test compares the committed
page with this one, and fails for a command or an option without a help text.
"""

import inspect
import re
from collections.abc import Iterator
from typing import NamedTuple

import click

from sottovoce.cli.main import sottovoce

INTRODUCTION = """\
# Command line

<!-- Made by `make docs` from the commands; do not edit. -->

Commands read and write text or JSONL; `-` is standard input or output. Bad input gives exit code 2
and one sentence. Every verb that does work writes a `run.json` next to its output, for
`sottovoce report`.
"""


class Documented(NamedTuple):
    """A command with the words that start it."""

    name: str
    command: click.Command


def commands(command: click.Command = sottovoce, name: str = "sottovoce") -> Iterator[Documented]:
    """This command and everything below it, a parent before its children."""
    yield Documented(name, command)
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            if not found.hidden:
                yield from commands(found, f"{name} {child}")


def page() -> str:
    """The whole page.

    >>> "## sottovoce epsilon" in page()
    True
    """
    return "\n".join([INTRODUCTION, *(section(each) for each in commands())])


def section(documented: Documented) -> str:
    name, command = documented
    context = click.Context(command, info_name=name)
    # Verbs are chapters; what is below a verb is a section of it.
    level = min(len(name.split()), 3)
    heading = "#" * max(level, 2)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    parts = [f"{heading} {name}", f"```\n{usage}\n```", description(command)]
    options = [each for each in command.params if isinstance(each, click.Option)]
    rows = [row(each, context) for each in options if not each.hidden]
    if rows:
        parts.append("\n".join(["| option | what it does | default |", "|---|---|---|", *rows]))
    if isinstance(command, click.Group):
        parts.append(children(command, context, name))
    return "\n\n".join(part for part in parts if part) + "\n"


def description(command: click.Command) -> str:
    """The help text; paragraphs that are kept as they are (after \\b) become code."""
    blocks = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(_paragraph(block) for block in blocks)


def _paragraph(block: str) -> str:
    if not block.startswith("\b"):
        return " ".join(block.split())
    lines = block.splitlines()[1:]
    first = lines[0].partition(":") if lines and lines[0].startswith("Example") else ("", "", "")
    example = [first[2].strip(), *lines[1:]] if first[1] else lines
    body = inspect.cleandoc("\n".join(line for line in example if line.strip()))
    return (f"{first[0]}:\n\n" if first[1] else "") + f"```\n{body}\n```"


def row(option: click.Option, context: click.Context) -> str:
    """One line of the table of options."""
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    kind = option.make_metavar(context) if not (option.is_flag or option.count) else ""
    text = re.sub(r"\s*\[default: ([^\]]+)\]", "", option.help or "")
    return f"| {names} {_code(kind)} | {_cell(text)} | {_default(option)} |"


def _default(option: click.Option) -> str:
    if option.required:
        return "*required*"
    told = re.search(r"\[default: ([^\]]+)\]", option.help or "")
    if told:
        return _cell(told[1])
    # An option without a default has None, or click's own mark for "nothing was given".
    default = option.to_info_dict()["default"]
    if option.is_flag or option.multiple or default is None or callable(default):
        return ""
    variable = f"`{option.envvar}` or " if option.envvar else ""
    return variable + _code(str(default))


def children(group: click.Group, context: click.Context, name: str) -> str:
    lines = ["| command | what it does |", "|---|---|"]
    for child in group.list_commands(context):
        command = group.get_command(context, child)
        assert command is not None
        if not command.hidden:
            full = f"{name} {child}"
            anchor = full.replace(" ", "-")
            lines.append(f"| [`{full}`](#{anchor}) | {_cell(command.get_short_help_str(200))} |")
    return "\n".join(lines)


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


def _cell(text: str) -> str:
    """Text for a cell of a table: on one line, with its bars escaped."""
    return " ".join(text.split()).replace("|", "\\|")
