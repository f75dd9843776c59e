"""`sottovoce deid explain`: why each value of a text is marked."""

import sys

import click

from sottovoce.cli.deid.detection import Detection, detector_options
from sottovoce.cli.deid.options import chosen_labels, labels_option
from sottovoce.cli.shared.console import json_option, print_json
from sottovoce.deid.detect.findings import Decision, explain


@click.command(name="explain")
@click.argument("text")
@detector_options
@labels_option
@json_option
def explain_verb(text: str, detection: Detection, labels: str, as_json: bool) -> None:
    """Show what a detector marks in TEXT (- reads lines from standard input), and why.

    Nothing is replaced: the output holds the private values.

    \b
    Example:
      sottovoce deid explain "call Anna Lee at 555-0123"
    """
    chosen = detection.detector(chosen_labels(labels))
    lines = [line.rstrip("\n") for line in sys.stdin] if text == "-" else [text]
    decisions = [(line, explain(chosen, line)) for line in lines]
    if as_json:
        print_json(
            [
                {"text": line, "decisions": [each.to_json() for each in found]}
                for line, found in decisions
            ]
        )
        return
    for line, found in decisions:
        click.echo(line)
        for each in found:
            click.echo(f"  {_shown(each)}")


def _shown(decision: Decision) -> str:
    why = "; ".join(f"{found.reason} ({found.score:.2f})" for found in decision.findings)
    if decision.kept:
        return f"{decision.value}: stays, it is on the allow list [{why}]"
    return f"{decision.value}: {decision.span.type} [{why}]"
