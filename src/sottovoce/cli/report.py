"""`sottovoce report`: runs in, one self-contained HTML page and a decision out."""

import json
import sys
from typing import Any

import click

from sottovoce.cli.shared.console import json_option, print_json, printable
from sottovoce.io.atomic import text_output


class PageByDefault(click.Group):
    """`report RUNS` is short for `report page RUNS`: anything but a command is a run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["page", *args]
        return super().parse_args(ctx, args)


@click.group(cls=PageByDefault, subcommand_metavar="RUNS... -o PAGE | COMMAND [ARGS]...")
def report() -> None:
    """Decide about a release, and write the page on which people sign.

    `sottovoce report RUNS -o PAGE` is short for `sottovoce report page RUNS -o PAGE`.

    \b
    Examples:
      sottovoce report runs/ -o report.html --policy strict
      sottovoce report plain/ private/ --compare plain/ private/ -o report.html
      sottovoce report runs/ -o report.html --sign key.pem --author "Ada Moss"
      sottovoce report verify report.html --key key.pub
    """


@report.command()
@click.argument("runs", nargs=-1)
@click.option("-o", "--output", required=True, help="HTML file to write; - is standard output.")
@click.option(
    "--policy", "policy_name", default="moderate", show_default=True,
    help="strict, moderate, research, safe-harbor, or a TOML file.",
)  # fmt: skip
@click.option("--title", default="Privacy report", show_default=True, help="Heading of the page.")
@click.option("--compare", nargs=2, metavar="A B", help="Compare two runs side by side.")
@click.option(
    "--reference", "references", multiple=True, metavar="RUN",
    help="A run to show for comparison that is not released; the decision ignores it.",
)  # fmt: skip
@click.option(
    "--public", is_flag=True, help="Leave out the private/ parts of runs, for a page to share."
)
@click.option(
    "--sign", "key", type=click.Path(exists=True, dir_okay=False),
    help="Ed25519 private key (PEM): also write PAGE.signed.json.",
)  # fmt: skip
@click.option(
    "--for", "form", type=click.Choice(["registry", "nist"]),
    help="Write an entry of OpenDP's registry of deployments, or a statement as NIST SP 800-226 "
    "asks for, as JSON instead of the page.",
)  # fmt: skip
@click.option("--author", default="", help="Who makes the page.")
@click.option("--scope", default="", help="What is released, to whom, for what.")
@json_option
def page(
    runs: tuple[str, ...],
    output: str,
    policy_name: str,
    title: str,
    compare: tuple[str, str] | None,
    references: tuple[str, ...],
    public: bool,
    key: str | None,
    form: str | None,
    author: str,
    scope: str,
    as_json: bool,
) -> None:
    """Write one page about RUNS: the decision, guarantees, claims, audits and scores.

    RUNS are folders with a run.json (and an audit.json), folders of such folders, OUT.run.json of
    `deid`, OUT.attack.json of `deid attack`, or the output of `rescore --json`. Every epsilon is
    derived again from its ledger. The page includes and marks what runs keep in private/ (counts,
    timings, scores, audits); --public leaves it out.

    Exit code 0: release; 1: do not release; 3: a person must decide.

    \b
    Example: sottovoce report runs/ -o report.html --policy strict
    """
    from sottovoce.errors import InvalidInput
    from sottovoce.privacy.policy import policy_of
    from sottovoce.report import Report, collect, one_stage
    from sottovoce.report.signing import sign_page

    if not runs and not compare:
        raise InvalidInput("Expected at least one run, got none: name run folders.")
    if key is not None and form is not None:
        raise InvalidInput("Expected a page to sign, got --for: sign the page, then export.")
    if key is not None and output == "-":
        raise InvalidInput("Expected a file to sign, got standard output: name one with --output.")
    policy = policy_of(policy_name)
    stages = collect((*runs, *(compare or ())), private=not public, references=references)
    pair = None
    if compare:
        first, second = (one_stage(path, stages, private=not public) for path in compare)
        pair = first, second
    made = Report(
        tuple(stages), title=title, compared=pair, policy=policy, author=author, scope=scope
    )
    if form is not None:
        from sottovoce.report.export import Form, exported

        with text_output(output) as stream:
            json.dump(exported(made, Form(form)), stream, indent=2, ensure_ascii=False)
            stream.write("\n")
    else:
        made.write(output)
    if key is not None:
        sign_page(made, output, key)
    quiet = output == "-"
    if as_json:
        print_json({"output": output, **made.to_json()}, err=quiet)
    else:
        _print(made.judgement.to_json(), output, err=quiet)
    sys.exit(made.judgement.decision.exit_code)


def _print(judgement: dict[str, Any], output: str, *, err: bool) -> None:
    policy = judgement["policy"]["name"]
    click.echo(
        f"Decision under the policy {policy}: {judgement['decision'].upper()}; wrote {output}.",
        err=err,
    )
    for sentence in judgement["reasons"]:
        click.echo(printable(f"- {sentence}"), err=err)


@report.command()
@click.argument("page", metavar="PAGE")
@click.option(
    "--key", type=click.Path(exists=True, dir_okay=False),
    help="Public key (PEM) that must have signed [default: the one in the signature].",
)  # fmt: skip
@click.option(
    "--runs", "folder", type=click.Path(exists=True, file_okay=False),
    help="Folder that the paths of the runs start from [default: as recorded].",
)  # fmt: skip
@json_option
def verify(page: str, key: str | None, folder: str | None, as_json: bool) -> None:
    """Check a signed PAGE: its signature, and the hashes of all files that it is about.

    Exit code 1: something differs from what was signed.

    \b
    Example: sottovoce report verify report.html --key key.pub
    """
    from sottovoce.report.signing import verify_page

    found = verify_page(page, key, folder)
    if as_json:
        print_json(found.to_json())
    else:
        for sentence in found.lines():
            click.echo(printable(sentence))
    for sentence in found.problems:
        click.echo(printable(f"Problem: {sentence}"), err=True)
    if found.problems:
        sys.exit(1)


@report.command()
@click.argument("path", metavar="KEY")
def key(path: str) -> None:
    """Make a key pair to sign with: KEY (keep it secret) and KEY.pub (give it away).

    \b
    Example: sottovoce report key key.pem
    """
    from sottovoce.io.signatures import make_key

    public = make_key(path)
    click.echo(f"Wrote the private key {path} and the public key {public}.")
