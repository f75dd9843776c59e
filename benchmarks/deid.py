"""How fast text is released, in how much memory, and how much of what is private is found.

    python benchmarks/deid.py                  speed, memory and recall on the built-in corpora
    python benchmarks/deid.py --data FOLDER    and recall on public datasets (CoNLL-2003, Presidio)
    python benchmarks/deid.py --only recall    one part (speed, memory, recall, workers, finding)
    python benchmarks/deid.py --gigabyte       a file of 1 GB: memory, time, and a run killed midway
    python benchmarks/deid.py --size N         utterances of the speed test

Where Presidio and spaCy are installed, they run beside (see helpers/deid_race.py). Times are those
of the processor: other work on the machine does not count.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from helpers.deid_finding import measured
from helpers.deid_race import REPEATS, TARGETS, Figures, corpus, race
from helpers.options import options_of, parser_of, tell, write
from sottovoce.corpora import Utterance, read
from sottovoce.corpora.synthetic import DOMAINS, generate, write_jsonl
from sottovoce.deid import LabelMap, mapping
from sottovoce.deid.detect import detector, evaluate
from sottovoce.deid.detect.crf.training import choose_caution, train

CAUTION = 0.98
NEWS_RECALL = 0.98
"""The share of the private words of CoNLL-2003's valid part that its caution has to find."""
PARTS = ("speed", "memory", "recall", "workers", "finding")
GIGABYTE = 1_000_000_000
COPIED = 10_000
"""Utterances that the large file repeats."""

PROGRAM = (
    "import sys\n"
    "from sottovoce.corpora import read\n"
    "from sottovoce.deid import Deidentifier, Setting\n"
    "from sottovoce.deid.files.corpus_file import release_file\n"
    "deid = Deidentifier(detector=sys.argv[3], setting=Setting(epsilon=3.0))\n"
    "release_file(deid, read(sys.argv[1]), sys.argv[2])\n"
)


def release_alone(source: Path, target: Path, kill_after: float | None = None) -> Figures:
    """Release a file in a fresh process; its peak memory is its own."""
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(source), str(target), "gazetteer+patterns"]
    ) as process:
        if kill_after is not None:
            time.sleep(kill_after)
            process.kill()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode and kill_after is None:
        raise RuntimeError("the release failed")
    return {
        "bytes": source.stat().st_size,
        "wall_seconds": round(time.perf_counter() - began, 1),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mebibytes": round(usage.ru_maxrss / 1024, 1),
    }


def peak_memory(size: int) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in.jsonl")
        write_jsonl(source, "communication", size=size, users=min(size, 1000))
        return {"utterances": size, **release_alone(source, Path(folder, "out.jsonl"))}


SHARING = (
    "import json, resource, sys, time\n"
    "from sottovoce.corpora import read\n"
    "from sottovoce.deid import Deidentifier, Setting\n"
    "from sottovoce.deid.files.corpus_file import release_file\n"
    "deid = Deidentifier(setting=Setting(epsilon=3.0))\n"
    "wall, own = time.perf_counter(), time.process_time()\n"
    "workers = int(sys.argv[3])\n"
    "release_file(deid, read(sys.argv[1]), sys.argv[2], workers=workers)\n"
    "wall, own = time.perf_counter() - wall, time.process_time() - own\n"
    "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
    "print(json.dumps([wall, own, (used.ru_utime + used.ru_stime) / workers]))\n"
)


def workers_speed(size: int, rounds: int) -> Figures:
    """One and two workers in turns.

    The longest path in processor time (this process, then one worker) is what counts where every
    worker has a core; other work on the machine counts in the wall time alone.
    """
    walls: dict[int, list[float]] = {1: [], 2: []}
    paths: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in.jsonl")
        write_jsonl(source, "communication", size=size, users=min(size, 1000))
        for place in range(rounds):
            for workers in walls:
                target = Path(folder, f"out-{place}-{workers}.jsonl")
                command = [sys.executable, "-c", SHARING, str(source), str(target), str(workers)]
                told = subprocess.run(command, capture_output=True, text=True, check=True)
                wall, own, worker = json.loads(told.stdout)
                walls[workers].append(wall)
                paths[workers].append(own + worker)
    return {
        "utterances": size,
        "wall_seconds": {str(count): [round(s, 2) for s in each] for count, each in walls.items()},
        "wall_one_over_two": _median_ratio(walls),
        "processor_seconds": {
            str(count): [round(s, 2) for s in each] for count, each in paths.items()
        },
        "processor_one_over_two": _median_ratio(paths),
        "load_average": round(os.getloadavg()[0], 2),
    }


def _median_ratio(times: dict[int, list[float]]) -> float:
    ratios = sorted(one / two for one, two in zip(times[1], times[2], strict=True))
    return round(ratios[len(ratios) // 2], 3)


def gigabyte(size: int, folder: Path | None) -> Figures:
    """A file of `size` bytes and one of a tenth; then the large one again, killed midway."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        some, source, target = (Path(name, each) for each in ("some", "in.jsonl", "out.jsonl"))
        write_jsonl(some, "communication", size=COPIED, users=1000)
        copy = some.read_bytes()
        runs = []
        for bytes_ in (size // 10, size):
            with source.open("wb") as stream:
                for _ in range(max(1, round(bytes_ / len(copy)))):
                    stream.write(copy)
            runs.append(release_alone(source, target))
            target.unlink()
            Path(f"{target}.run.json").unlink()
        release_alone(source, target, kill_after=min(30.0, runs[1]["wall_seconds"] / 2))
        left = [path.name for path in (target, Path(f"{target}.run.json")) if path.exists()]
    large = runs[1]["processor_seconds"] / runs[1]["bytes"]
    return {
        "runs": runs,
        "seconds_per_byte_large_over_small": round(
            large * runs[0]["bytes"] / runs[0]["processor_seconds"], 3
        ),
        "published_by_a_killed_run": left,
    }


def recalls(size: int) -> Figures:
    labels = mapping("built-in")
    found = {}
    for domain in DOMAINS:
        tested = evaluate(detector("tagger"), generate(domain, size=size, seed=77), labels)
        found[domain] = _recall(tested.to_json())
    return found


def public_recalls(data: Path) -> Figures:
    """Presidio's synthetic sentences by the shipped tagger; CoNLL-2003 by one trained on it."""
    standard = mapping("standard")
    with_titles = LabelMap({k: v for k, v in standard.private.items() if k != "TITLE"}, frozenset(
        {"TITLE"}
    ))  # fmt: skip
    synthetic = list(read(data / "deid" / "presidio-synth-v2.jsonl", "spans"))
    found: Figures = {}
    for caution in (0.0, CAUTION):
        chosen = detector("tagger+gazetteer", caution=caution)
        tested = evaluate(chosen, synthetic, with_titles).to_json()
        found[f"presidio-synth-v2, shipped and gazetteer, caution {caution:g}"] = _recall(tested)
    news = LabelMap({kind: kind for kind in ("PER", "LOC", "ORG")}, frozenset({"MISC"}))
    folder = data / "ner" / "conll2003"
    began = time.process_time()
    tagger = train(read(folder / "train.jsonl.gz"), news)
    seconds = time.process_time() - began
    # On the valid part, since what is chosen on the test part cannot be tested on it.
    chosen_caution = choose_caution(tagger, read(folder / "valid.jsonl"), news, recall=NEWS_RECALL)
    test = list(read(folder / "test.jsonl"))
    lower = [
        Utterance(tokens=tuple(token.lower() for token in u.tokens), slots=u.slots) for u in test
    ]
    for name, part in (("cased", test), ("lower-cased", lower)):
        for caution in (0.0, chosen_caution):
            tagger.caution = caution
            tested = evaluate(tagger, part, news).to_json()
            found[f"conll2003 {name}, trained on it, caution {caution:g}"] = _recall(tested)
    found["conll2003 training"] = {
        "processor_seconds": round(seconds, 1),
        "caution": chosen_caution,
        "chosen_on": f"the valid part, recall at least {NEWS_RECALL}",
    }
    return found


def _recall(tested: Figures) -> Figures:
    return {
        "recall": round(tested["recall"], 4),
        "precision": round(tested["precision"], 4),
        "types": {
            kind: {"recall": round(each["recall"], 4), "at_least": round(each["recall_lower"], 4)}
            for kind, each in tested["types"].items()
        },
    }


def show(results: Figures) -> None:
    table = Table("what", "measured", "target", box=None)
    speed = results.get("speed", {})
    peer = (results.get("presidio") or {}).get("tokens_per_second")
    for name, target in TARGETS.items():
        if name in speed:
            own = speed[name]["tokens_per_second"]
            table.add_row(f"{name}, tokens/s", f"{own:,}", f"{target:,}")
            if peer:
                table.add_row(f"{name} over Presidio", f"{own / peer:.1f}x", "20x")
    if peer:
        table.add_row("Presidio blank, batch, tokens/s", f"{peer:,}", "")
    if results.get("spacy"):
        speed_of_spacy = results["spacy"]["tokens_per_second"]
        table.add_row("spaCy tagger, finding alone, tokens/s", f"{speed_of_spacy:,}", "")
    for each in [*results.get("memory", []), *results.get("gigabyte", {}).get("runs", [])]:
        size = f"{each['bytes'] / 2**20:.0f} MiB"
        table.add_row(f"peak memory on {size}, MiB", str(each["peak_mebibytes"]), "300")
    if "workers" in results:
        shared = results["workers"]
        for kind in ("processor", "wall"):
            ratio = f"{shared[f'{kind}_one_over_two']}x"
            table.add_row(f"one over two workers, {kind} time", ratio, "1.7x")
    for name, each in results.get("recall", {}).items():
        if "recall" in each:
            table.add_row(f"recall, {name}", str(each["recall"]), "")
    for name, each in results.get("finding", {}).items():
        scores = "/".join(
            f"{each[key]:.3f}" for key in ("precision", "recall", "f2") if key in each
        )
        table.add_row(name, f"{scores} {each['replaced']:.1%}", "")
    Console().print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__file__, __doc__, data="recall on CoNLL-2003 and Presidio's sentences")
    parser.add_argument("--size", type=int, default=12_000, help="utterances of the speed test")
    parser.add_argument("--memory-size", type=int, default=200_000, help="utterances of the file")
    parser.add_argument("--recall-size", type=int, default=3000, help="utterances a domain")
    parser.add_argument("--workers-size", type=int, default=150_000, help="utterances of the file")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="rounds of the speed test")
    parser.add_argument("--every", type=int, default=4, help="one in so many utterances, finding")
    parser.add_argument("--only", choices=PARTS, action="append", help="a part; repeatable")
    parser.add_argument("--gigabyte", action="store_true", help="the run on a large file alone")
    parser.add_argument("--bytes", type=int, default=GIGABYTE, help="size of the large file")
    parser.add_argument("--folder", type=Path, help="where the large file may be")
    small = {"size": 300, "memory_size": 2000, "recall_size": 200, "repeats": 1, "bytes": 10**7}
    small["workers_size"] = 500
    options = options_of(parser, arguments, quick=small)
    parts = options.only or ([] if options.gigabyte else PARTS)
    results: Figures = {"machine": f"{platform.machine()}, Python {platform.python_version()}"}
    if "speed" in parts:
        results |= race(corpus(options.size), options.repeats)
    if "memory" in parts:
        sizes = (options.memory_size // 10, options.memory_size)
        results["memory"] = [peak_memory(size) for size in sizes]
    if "recall" in parts:
        results["recall"] = recalls(options.recall_size)
        if options.quick or not (options.data / "ner").is_dir():
            why = "--quick" if options.quick else f"{options.data} does not hold them"
            print(f"Recall on the built-in corpora alone, without the public ones: {why}.")
        else:
            results["recall"] |= public_recalls(options.data)
    if "workers" in parts:
        results["workers"] = workers_speed(options.workers_size, options.repeats)
    if "finding" in parts and not options.quick and (options.data / "ner").is_dir():
        results["finding"] = measured(options.data, options.every)
    if options.gigabyte:
        results["gigabyte"] = gigabyte(options.bytes, options.folder)
    # Read as late as this, so that parts that were measured meanwhile are kept.
    path = options.output
    results = (json.loads(path.read_text()) if path.exists() else {}) | results
    write(path, results)
    show(results)
    tell(path)


if __name__ == "__main__":
    main()
