"""Run every benchmark, one after the other, and say at the end how each of them ended.

    python benchmarks [--quick] [--data FOLDER] [--only NAME ...]

This is what `make bench` and `make bench-quick` do. One that fails does not stop the others.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from helpers.options import BENCHMARKS, DATA_VARIABLE


def scripts() -> list[Path]:
    """The files of this folder that are benchmarks."""
    return sorted(path for path in BENCHMARKS.glob("*.py") if not path.name.startswith("_"))


def main() -> int:
    names = [path.stem for path in scripts()]
    parser = argparse.ArgumentParser(
        prog="python benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="tiny versions, about 5 minutes")
    parser.add_argument("--data", type=Path, help="folder of the public datasets")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="these alone")
    given = parser.parse_args()
    environment = dict(os.environ)
    if given.data is not None:
        environment[DATA_VARIABLE] = str(given.data)
    ends = {}
    for path in scripts():
        if path.stem in given.only:
            print(f"== {path.name}", flush=True)
            began = time.perf_counter()
            command = [sys.executable, str(path), *(["--quick"] if given.quick else [])]
            ended = subprocess.run(command, env=environment, check=False)
            ends[path.name] = (ended.returncode, time.perf_counter() - began)
    print("== summary")
    for name, (code, seconds) in ends.items():
        print(f"{'done' if code == 0 else f'failed ({code})':12} {name:24} {seconds:8.0f} s")
    failed = [name for name, (code, _) in ends.items() if code]
    if failed:
        print(f"{len(failed)} of {len(ends)} failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
