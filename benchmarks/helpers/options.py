"""The options that every benchmark has: --help, --quick, --output and, where it reads data, --data.

Without options a benchmark writes to `benchmarks/results`. With --quick it runs a tiny version to
show that it works, and writes to a temporary folder: its figures mean nothing.
"""

import json
import os
import sys
import tempfile
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

BENCHMARKS = Path(__file__).parents[1]
RESULTS = BENCHMARKS / "results"
DATA_VARIABLE = "SOTTOVOCE_BENCH_DATA"
"""Environment variable with the default of --data; `make bench DATA=FOLDER` sets it."""


def parser_of(
    script: str, described: str | None, *, data: str | None = None, output: Path | None = None
) -> ArgumentParser:
    """A parser for the file `script`. `data` says what is read from the public datasets, if any.

    `output` is where results go by default: benchmarks/results/NAME.json.
    """
    name = Path(script).name
    output = output or RESULTS / f"{Path(script).stem}.json"
    parser = ArgumentParser(
        prog=f"python benchmarks/{name}",
        description=described,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="run a tiny version (30 s at most) and leave benchmarks/results alone",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        help=f"where to write (default: {output.relative_to(BENCHMARKS.parent)}; with --quick a "
        "temporary folder)",
    )
    parser.set_defaults(default_output=output)
    if data is not None:
        parser.add_argument(
            "--data",
            type=Path,
            default=default_data(),
            help=f"folder of the public datasets, for {data} (default: ../shared/data beside the "
            "repository)",
        )
    return parser


def options_of(
    parser: ArgumentParser,
    arguments: Sequence[str] | None = None,
    quick: Mapping[str, Any] | None = None,
) -> Namespace:
    """The options as given. `quick` has the defaults that --quick changes."""
    given = parser.parse_args(arguments)
    if given.quick:
        parser.set_defaults(**(quick or {}))
        given = parser.parse_args(arguments)
    if given.output is None:
        given.output = given.default_output
        if given.quick:
            folder = tempfile.mkdtemp(prefix="sottovoce-bench-")
            given.output = Path(folder, given.default_output.name)
    return given


def default_data() -> Path:
    """Where public datasets are looked for: beside the repository, unless a variable says."""
    beside = BENCHMARKS.parent.parent / "shared" / "data"
    return Path(os.environ.get(DATA_VARIABLE) or beside)


def without_data(given: Namespace, needed: str) -> NoReturn:
    """End a benchmark that cannot run without data: a success if it was only to be tried."""
    message = f"Nothing was run: {needed} is not in {given.data}; name the folder with --data."
    if given.quick:
        print(message)
        sys.exit(0)
    sys.exit(message)


def write(output: Path, report: object, indent: int = 2) -> None:
    """Write the figures, whole or not at all: some benchmarks go on from what they find there."""
    output.parent.mkdir(parents=True, exist_ok=True)
    beside = output.with_name(f"{output.name}.tmp")
    beside.write_text(json.dumps(report, indent=indent) + "\n", encoding="utf-8")
    beside.replace(output)


def tell(output: Path) -> None:
    """Say where the result is."""
    print(f"Written to {output}.")
