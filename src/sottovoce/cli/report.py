"""`sottovoce report`: run folders in, one self-contained HTML page out."""

import sys

import click

from sottovoce.cli.shared.console import json_option, print_json


@click.command()
@click.argument("runs", nargs=-1)
@click.option("-o", "--output", required=True, help="HTML file to write; - is standard output.")
@click.option("--title", default="Privacy report", show_default=True, help="Heading of the page.")
@click.option("--compare", nargs=2, metavar="A B", help="Compare two runs side by side.")
@click.option(
    "--public", is_flag=True, help="Leave out the private/ parts of runs, for a page to share."
)
@json_option
def report(
    runs: tuple[str, ...],
    output: str,
    title: str,
    compare: tuple[str, str] | None,
    public: bool,
    as_json: bool,
) -> None:
    """Write one page about RUNS: guarantees, claims, audits and scores.

    RUNS are folders with a run.json (and an audit.json), folders of such folders, OUT.run.json of
    `deid`, or the output of `rescore --json`. The page includes and marks what runs keep in
    private/ (counts, timings, scores, audits); --public leaves it out. Exit code 1: an audit or a
    ledger contradicts a guarantee; the page shows where.

    \b
    Examples:
      sottovoce report runs/ -o report.html
      sottovoce report plain/ private/ --compare plain/ private/ -o report.html
    """
    from sottovoce.errors import InvalidInput
    from sottovoce.report import Report, collect, one_stage

    if not runs and not compare:
        raise InvalidInput("Expected at least one run, got none: name run folders.")
    stages = collect((*runs, *(compare or ())), private=not public)
    pair = None
    if compare:
        first, second = (one_stage(path, stages, private=not public) for path in compare)
        pair = first, second
    page = Report(tuple(stages), title=title, compared=pair)
    page.write(output)
    quiet = output == "-"
    if as_json:
        print_json({"output": output, **page.to_json()}, err=quiet)
    else:
        kept = sum(stage.holds for stage in stages)
        click.echo(f"{kept} of {len(stages)} stages have a guarantee; wrote {output}.", err=quiet)
    for defect in page.defects:
        click.echo(f"Defect: {defect}", err=True)
    if page.defects:
        sys.exit(1)
