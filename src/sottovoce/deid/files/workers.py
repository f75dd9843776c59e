"""Release one file with several processes: each takes a part of its lines.

The file is cut at line breaks into as many parts as there are workers. Every worker is a fork of
this process: it has the same configuration and shares the memory of the detector, but draws its own
random numbers and counts what it releases. Its counts are merged here before anything is published,
so the statement is the one of a single process.
"""

import json
import multiprocessing
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from sottovoce.corpora import Reader, Utterance, write
from sottovoce.deid.deidentifier import Deidentifier
from sottovoce.deid.files.manifest import Examples
from sottovoce.deid.files.nested import NestedReader
from sottovoce.deid.statement.unit_counts import UnitCounts, random_numbers
from sottovoce.errors import InvalidInput, SottovoceError

Track = Callable[[Iterable[Utterance]], Iterable[Utterance]]
_BY_LINE = ("jsonl", "spans", "text")
"""Formats whose records are lines."""
_CHUNK = 1 << 20


def released_utterances(
    deid: Deidentifier,
    utterances: Iterable[Utterance],
    shown: Examples,
    *,
    call: int | None = None,
    waits: Callable[[], bool] = lambda: False,
) -> Iterator[Utterance]:
    """The released utterances; the first changed ones are added to `shown`."""
    for released in deid.release_all(shown.watch(utterances), call=call, waits=waits):
        shown.add(released.text, released.offsets)
        yield released.utterance


def form_of(reader: Reader, chosen: str) -> str:
    """The format to write: JSONL that came as text stays text, rather than tokens."""
    record = reader.first_record() if chosen == "jsonl" else {}
    return "spans" if "text" in record and "tokens" not in record else chosen


def release_in_parts(
    deid: Deidentifier,
    reader: Reader,
    output: Path,
    format: str,
    shown: Examples,
    *,
    call: int | None,
    workers: int,
) -> None:
    """Release the reader's file to `output` with forked processes; count everything in `deid`.

    Temporary files are made in the folder of `output`.
    """
    _check(deid, reader, format)
    format = form_of(reader, format)
    if call is None:
        (call,) = random_numbers(1)
    cuts = _cuts(Path(reader.path), workers)
    outputs = [output.with_name(f"{place}.{output.name}") for place in range(len(cuts))]
    fork = multiprocessing.get_context("fork")
    running = [
        fork.Process(
            target=_work, args=(deid, reader, cut, part, format, call, shown.limit), daemon=True
        )
        for cut, part in zip(cuts, outputs, strict=True)
    ]
    try:
        for process in running:
            process.start()
        for process in running:
            process.join()
    finally:
        for process in running:
            if process.is_alive():
                process.terminate()
    results = [
        _result(part, process.exitcode) for part, process in zip(outputs, running, strict=True)
    ]
    for result in results:
        deid.merge_counts(UnitCounts.from_json(result["counts"]))
        shown.found += result["examples"][: shown.limit - len(shown.found)]
        reader.add_losses(result["losses"])
    with output.open("wb") as whole:
        for part in outputs:
            with part.open("rb") as stream:
                shutil.copyfileobj(stream, whole, _CHUNK)


def _check(deid: Deidentifier, reader: Reader, format: str) -> None:
    path = Path(reader.path)
    if reader.format not in _BY_LINE or format not in _BY_LINE or path.suffix.lower() == ".gz":
        raise InvalidInput(
            f"Expected uncompressed {', '.join(_BY_LINE)} for several workers, got {path.name}: "
            "use one worker, or release a folder of files."
        )
    if isinstance(reader, NestedReader):
        raise InvalidInput("Expected one worker for nested texts, got several.")
    if not path.is_file():
        raise InvalidInput("Expected a file for several workers, got a stream: use one worker.")
    if deid.is_reversible:
        raise InvalidInput("Expected one worker with a vault, got several: the vault is one file.")
    if deid.is_seeded:
        raise InvalidInput("Expected one worker with a seed, got several: they draw on their own.")


def _cuts(path: Path, workers: int) -> list[tuple[int, int]]:
    """Start and size of each part; parts end at line breaks."""
    size = path.stat().st_size
    ends = []
    with path.open("rb") as stream:
        for place in range(1, workers):
            stream.seek(max(size * place // workers - 1, 0))
            while (line := stream.readline(_CHUNK)) and not line.endswith(b"\n"):
                pass
            ends.append(stream.tell())
    starts = [0, *ends]
    cuts = [(start, end - start) for start, end in zip(starts, [*ends, size], strict=True)]
    return [cut for cut in cuts if cut[1] > 0] or [(0, size)]


def _work(
    deid: Deidentifier,
    reader: Reader,
    cut: tuple[int, int],
    output: Path,
    format: str,
    call: int,
    examples: int,
) -> None:
    """The work of one process: a released part, and beside it what the parent has to know."""
    deid.count_apart()
    start, size = cut
    shown = Examples(examples)
    result: dict[str, Any]
    try:
        with Path(reader.path).open("rb") as stream:
            before = _lines_before(stream, start)
            part = reader.part(stream, size, before)
            write(output, released_utterances(deid, part, shown, call=call), format)
        result = {
            "counts": deid.unit_counts.to_json(),
            "examples": shown.found,
            "losses": part.losses(),
        }
    except SottovoceError as problem:
        result = {"problem": str(problem)}
    _beside(output).write_text(json.dumps(result), encoding="utf-8")
    sys.stdout.flush()


def _lines_before(stream: Any, start: int) -> int:
    """The number of lines before a place in the file, to which the stream then points."""
    count = 0
    while (left := start - stream.tell()) > 0:
        count += stream.read(min(_CHUNK, left)).count(b"\n")
    return count


def _result(output: Path, code: int | None) -> dict[str, Any]:
    if code or not _beside(output).exists():
        raise InvalidInput(
            f"Expected every worker to finish, but one ended with code {code}: nothing was "
            "released; use one worker to see why."
        )
    result: dict[str, Any] = json.loads(_beside(output).read_text(encoding="utf-8"))
    if "problem" in result:
        raise InvalidInput(result["problem"])
    return result


def _beside(output: Path) -> Path:
    return output.with_name(f"{output.name}.result")
