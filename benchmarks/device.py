"""Personal rescoring on a device: resident memory, time to load, and time for a 20-best list.

    python benchmarks/device.py --data FOLDER

An n-gram of public text (FOLDER/text, or made-up text) is saved as an ARPA file and in the mapped
format. Each is loaded in a fresh process, in turns, which then scores lists of 20 hypotheses
(SNIPS-tts, or made up). Memory is what the process has more after it than before, by the system's
own count; the part that is pages of the file is told apart, since it can be dropped. Time is
processor time on one core.
"""

import gzip
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from helpers.options import options_of, parser_of, tell, write
from sottovoce.personalize.lm.language_model import compile_ngram
from sottovoce.personalize.lm.ngram.files import write_arpa
from sottovoce.personalize.lm.ngram.training import train_ngram
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.formats import read_nbest, write_nbest
from sottovoce.personalize.nbest.lists import Hypothesis, NBest

TEXTS = ("swda.train", "icsi-mrda.train", "sgd.train")
SNIPS = "nbest/snips-tts/test.jsonl"
LISTS, SIZE = 60, 20

# In a process of its own, so that nothing of another format is in memory.
MEASURE = """
import json, sys, time
from sottovoce.personalize.lm.language_model import load_lm
from sottovoce.personalize.nbest.formats import read_nbest
from sottovoce.personalize.rescoring.personal import PersonalModel
from sottovoce.personalize.rescoring.trusting import word_scores

def memory():
    rows = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    return {name: int(rows[name].split()[0]) / 1024 for name in ("RssAnon", "RssFile")}

lists = list(read_nbest(sys.argv[2]))
before, start = memory(), time.process_time()
model = load_lm(sys.argv[1])
loaded = time.process_time() - start
personal, spent = PersonalModel(model.vocabulary), []
for each in lists:
    start = time.process_time()
    log_p = word_scores([each], model)[each.id]
    gains = personal.gains([h.words for h in each.hypotheses], log_p)
    spent.append(time.process_time() - start)
    personal.add(each.best.words)
after = memory()
print(json.dumps({
    "load_seconds": loaded,
    "own_megabytes": after["RssAnon"] - before["RssAnon"],
    "mapped_megabytes": after["RssFile"] - before["RssFile"],
    "milliseconds_a_list": 1000 * sorted(spent)[len(spent) // 2],
}))
"""


def public(data: Path, most: int | None) -> list[str]:
    found: list[str] = []
    for name in TEXTS:
        path = data / f"text/{name}.txt.gz"
        if path.exists():
            with gzip.open(path, "rt", encoding="utf-8") as stream:
                found += [line.strip() for line in stream if line.strip()]
    if not found:
        rng = np.random.default_rng(0)
        words = [f"w{int(i)}" for i in rng.zipf(1.3, 200_000) % 20_000]
        found = [" ".join(words[i : i + 10]) for i in range(0, len(words), 10)]
    return found[:most]


def heard(data: Path, lines: list[str]) -> list[NBest]:
    """Lists of 20 hypotheses."""
    if (data / SNIPS).exists():
        lists = [each for each in read_nbest(data / SNIPS) if len(each.hypotheses) == SIZE]
        if lists:
            return lists[:LISTS]
    starts = range(0, len(lines) - SIZE, SIZE)
    return [
        NBest(f"u{start}", tuple(Hypothesis(line) for line in lines[start : start + SIZE]))
        for start in starts
    ][:LISTS]


def main() -> None:
    parser = parser_of(__file__, __doc__, data="public text and N-best lists of SNIPS")
    parser.add_argument("--lines", type=int, help="the most lines of text (default: all)")
    parser.add_argument("--repeats", type=int, default=3, help="processes of each format")
    given = options_of(parser, quick={"lines": 2000, "repeats": 1})
    lines = public(given.data, given.lines)
    model = train_ngram(lines, Vocabulary.from_text(lines, 20_000), 4)
    rows: dict[str, list[dict[str, float]]] = {"mapped": [], "ARPA": []}
    with tempfile.TemporaryDirectory() as folder:
        paths = {"mapped": Path(folder, "lm"), "ARPA": Path(folder, "lm.arpa.gz")}
        compile_ngram(paths["mapped"], model)
        write_arpa(paths["ARPA"], model)
        write_nbest(Path(folder, "lists.jsonl"), heard(given.data, lines))
        for _ in range(given.repeats):
            for name, path in paths.items():
                command = [sys.executable, "-c", MEASURE, str(path), f"{folder}/lists.jsonl"]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                rows[name].append(json.loads(done.stdout))
        sizes = {name: _megabytes(path) for name, path in paths.items()}
    found: dict[str, Any] = {
        "machine": platform.processor() or platform.machine(),
        "ngrams": int(sum(order.keys.size for order in model.orders)),
        "file_megabytes": sizes,
    }
    for name, each in rows.items():
        found[name] = {key: round(statistics.median(r[key] for r in each), 2) for key in each[0]}
    found["load_ratio"] = round(
        found["ARPA"]["load_seconds"] / max(found["mapped"]["load_seconds"], 0.01), 1
    )
    print(json.dumps(found, indent=1))
    write(given.output, found, indent=1)
    tell(given.output)


def _megabytes(path: Path) -> float:
    files = [path] if path.is_file() else list(path.rglob("*"))
    return round(sum(file.stat().st_size for file in files) / 2**20, 1)


if __name__ == "__main__":
    main()
