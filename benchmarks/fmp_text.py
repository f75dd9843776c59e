"""Public text for the Transformers of the tables: meetings, or nothing but dialogues.

    python benchmarks/fmp_text.py --data PATH -o FOLDER [--dialogues]

Not a race: it prepares what fmp_tables.py can use. It writes `public.txt.gz` and `valid.txt`, from
which `sottovoce lm train` makes the model: two thirds of AMI's training meetings with a sixteenth
of the dialogues, or a third of the dialogues alone. One core reads either once in less than a
quarter of an hour.
"""

import gzip
import json
from pathlib import Path

from helpers import fmp_data
from helpers.options import BENCHMARKS, options_of, parser_of, tell, without_data
from sottovoce.personalize.nbest.lists import normal_text

BLOCK = 500
# So many blocks of lines in so many are kept.
MEETINGS = {"ami": (2, 3), "sgd": (1, 16)}
DIALOGUES = {"sgd": (1, 3)}


def part(data: Path, name: str, kept: int, of: int) -> list[str]:
    lines = [line for line in fmp_data.public_lines(data, [name]) if line]
    return [line for place, line in enumerate(lines) if place // BLOCK % of < kept]


def held_out(data: Path, *, dialogues: bool) -> list[str]:
    if dialogues:
        with gzip.open(data / "text/sgd.dev.txt.gz", "rt") as stream:
            lines = [normal_text(line) for line in stream][::16]
    else:
        with gzip.open(data / "ami/dev.jsonl.gz", "rt") as stream:
            lines = [normal_text(json.loads(line)["norm"]) for line in stream][::4]
    return [line for line in lines if line]


def main() -> None:
    folder = BENCHMARKS / "out" / "fmp_text"
    parser = parser_of(__file__, __doc__, data="AMI and dialogues", output=folder)
    parser.add_argument("--dialogues", action="store_true", help="no meetings")
    given = options_of(parser)
    kept = DIALOGUES if given.dialogues else MEETINGS
    needed = "text" if given.dialogues else "ami"
    if not (given.data / needed).is_dir():
        without_data(given, needed)
    given.output.mkdir(parents=True, exist_ok=True)
    if given.quick:
        kept = dict.fromkeys(kept, (1, 64))
    lines = [line for name, share in kept.items() for line in part(given.data, name, *share)]
    with gzip.open(given.output / "public.txt.gz", "wt") as stream:
        stream.write("\n".join(lines) + "\n")
    valid = held_out(given.data, dialogues=given.dialogues)
    (given.output / "valid.txt").write_text("\n".join(valid) + "\n")
    print(f"{len(lines):,} lines to train on, {len(valid):,} to measure perplexity on.")
    tell(given.output)


if __name__ == "__main__":
    main()
