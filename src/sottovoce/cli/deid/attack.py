"""`sottovoce deid attack`: what attacks on a release recover, compared with its epsilon."""

import json
from pathlib import Path
from typing import Any

import click

from sottovoce.cli.deid.detection import Detection, detector_options
from sottovoce.cli.deid.options import chosen_labels, labels_option
from sottovoce.cli.shared.console import json_option, print_json, track
from sottovoce.cli.shared.options import Named
from sottovoce.cli.shared.reading import open_corpus, reading_options
from sottovoce.deid.attacks.masked_lm import MaskedModel
from sottovoce.deid.attacks.pairing import replaced_values
from sottovoce.deid.attacks.run import ATTACKS, run_attacks
from sottovoce.deid.files.manifest import describe_file
from sottovoce.deid.files.manifest import verify as verify_release
from sottovoce.io.atomic import text_output
from sottovoce.io.run import header
from sottovoce.privacy.guarantee import rounded_up

SUFFIX = ".attack.json"


@click.command()
@click.argument("original", metavar="ORIGINAL")
@click.argument("released", metavar="RELEASED")
@detector_options
@labels_option
@click.option(
    "--attack", "attacks", type=Named(ATTACKS), multiple=True,
    help="Run only guess, kept and this attack; repeatable [default: all].",
)  # fmt: skip
@click.option("--masked-lm", help="Folder of a masked language model, for an additional attack.")
@reading_options
@json_option
def attack(
    original: str,
    released: str,
    detection: Detection,
    labels: str,
    attacks: tuple[str, ...],
    masked_lm: str | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Attack RELEASED, the release of ORIGINAL, and write RELEASED.attack.json.

    Use the detector of the release: the attacks are scored on the values that it found.

    \b
    Example:
      sottovoce deid attack calls.jsonl released.jsonl --json
    """
    manifest = verify_release(released, source=original)
    chosen = detection.detector(chosen_labels(labels))
    model = None if masked_lm is None else MaskedModel(masked_lm)
    values = replaced_values(
        track(open_corpus(original, **reading), "Reading", unit="utterances"),
        open_corpus(released, **reading),
        chosen,
    )
    result: dict[str, Any] = {
        **header("deid attack"),
        "original": describe_file(original),
        "released": describe_file(released),
        "types": run_attacks(values, manifest, model, attacks or None),
    }
    with text_output(f"{released}{SUFFIX}") as stream:
        stream.write(json.dumps(result, indent=2, allow_nan=False) + "\n")
    if as_json:
        print_json(result)
        return
    for kind, found in result["types"].items():
        _show(kind, found)
    click.echo(f"Wrote {Path(released).name}{SUFFIX}.")


def _show(kind: str, found: dict[str, Any]) -> None:
    known = ", knowing the form" if found["knows_the_form"] else ""
    bound = "" if found["allowed"] is None else f" (success at most {found['allowed']:.3f}{known})"
    epsilon = rounded_up(float(found["epsilon"]))  # "inf" is a string in JSON
    click.echo(f"{kind}: {found['values']:,} values, epsilon {epsilon} per token{bound}")
    longest = max(len(each["attack"]) for each in found["attacks"])
    for each in found["attacks"]:
        low, high = each["interval"]
        name, above = f"{each['attack']}:".ljust(longest + 1), each["above_prior"]
        chance = "  (above chance)" if each["is_above_prior"] else ""
        click.echo(
            f"  {name} {each['success']:.3f} ({low:.3f} to {high:.3f}), blind "
            f"{each['prior']:.3f}, gain {above:+.3f}{chance}"
        )
    if found["exceeds_epsilon"]:
        click.echo("  Above what epsilon allows: the statement is wrong.", err=True)
