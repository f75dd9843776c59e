"""Print a command, run it in this process, and return its JSON."""

import io
import json
import shlex
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from rich.console import Console

from sottovoce.errors import SottovoceError


def run_command(console: Console, *arguments: object) -> dict[str, Any]:
    """Print and run `sottovoce arguments --json`; its output is returned, not printed."""
    from sottovoce.cli.main import sottovoce

    words = [str(each) for each in arguments]
    shown = " ".join(shlex.quote(word) for word in words)
    console.print(f"   [dim]$ sottovoce {shown}[/]", soft_wrap=True)
    output = io.StringIO()
    try:
        with redirect_stdout(output), redirect_stderr(io.StringIO()):
            sottovoce.main([*words, "--json"], standalone_mode=False)
    except SystemExit as end:
        if end.code:
            raise SottovoceError(
                f"The command `sottovoce {words[0]}` failed with exit code {end.code}."
            ) from end
    text = output.getvalue()
    found: dict[str, Any] = json.loads(text) if text.strip() else {}
    return found
