"""Type a command for the reader: show it, run it in this process, and give back its JSON."""

import io
import json
import shlex
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from rich.console import Console

from sottovoce.errors import SottovoceError


def typed(console: Console, *arguments: object) -> dict[str, Any]:
    """Run `sottovoce arguments --json`; what it says besides is kept from the screen."""
    from sottovoce.cli.main import sottovoce

    words = [str(each) for each in arguments]
    shown = " ".join(shlex.quote(word) for word in words)
    console.print(f"   [dim]$ sottovoce {shown}[/]", soft_wrap=True)
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(io.StringIO()):
            sottovoce.main([*words, "--json"], standalone_mode=False)
    except SystemExit as end:
        if end.code:
            raise SottovoceError(f"The step `sottovoce {words[0]}` did not end well.") from end
    text = said.getvalue()
    found: dict[str, Any] = json.loads(text) if text.strip() else {}
    return found
