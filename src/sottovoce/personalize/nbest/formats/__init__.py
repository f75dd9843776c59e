"""N-best formats of many tools: one reader and one writer per format, by name.

`read_nbest` yields the lists one by one; strict mode stops at the first bad record with its line,
lenient mode skips bad records and counts them in `problems`. Folder-based formats take the folder.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal

from sottovoce import _validate
from sottovoce._registry import Registry
from sottovoce.corpora.lines import STANDARD_STREAM, Problem, Problems, name_of
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output
from sottovoce.personalize.nbest.formats import results
from sottovoce.personalize.nbest.formats._tables import read_table
from sottovoce.personalize.nbest.formats.beams import (
    from_beams,
    read_flashlight,
    read_nemo,
    to_beams,
    write_flashlight,
    write_nemo,
)
from sottovoce.personalize.nbest.formats.folders import (
    read_espnet,
    read_kaldi,
    read_srilm,
    write_espnet,
    write_kaldi,
    write_srilm,
)
from sottovoce.personalize.nbest.formats.htk import read_htk, write_htk
from sottovoce.personalize.nbest.formats.icefall import read_icefall
from sottovoce.personalize.nbest.formats.json_lists import (
    read_canonical,
    read_hyporadise,
    write_canonical,
    write_hyporadise,
)
from sottovoce.personalize.nbest.lists import NBest

__all__ = [
    "FORMATS",
    "NBestFormat",
    "NBestOptions",
    "NBestReader",
    "from_beams",
    "read_nbest",
    "read_table",
    "to_beams",
    "write_nbest",
]


@dataclass(frozen=True, kw_only=True)
class NBestOptions:
    """Options that some formats need."""

    beam_size: int | None = None
    manifest: Path | str | None = None
    size: int = 100
    client_column: str = "client"


@dataclass(frozen=True, kw_only=True)
class NBestFormat:
    """How a format is read and written; bad records go to `Problems.reject`.

    A single-file format has `write`, a folder format `write_folder`. `reads_folders` says whether a
    folder can be read.
    """

    read: Callable[[Path | str, Problems, NBestOptions], Iterator[NBest]]
    write: Callable[[BinaryIO, Iterable[NBest]], None] | None = None
    write_folder: Callable[[Path | str, Iterable[NBest]], None] | None = None
    reads_folders: bool = False


_Read = Callable[[Path | str, Problems], Iterator[NBest]]


def _plain(read: _Read) -> Callable[[Path | str, Problems, NBestOptions], Iterator[NBest]]:
    return lambda path, problems, options: read(path, problems)


def _read_nemo(path: Path | str, problems: Problems, options: NBestOptions) -> Iterator[NBest]:
    assert options.beam_size is not None
    return read_nemo(path, problems, beam_size=options.beam_size, manifest=options.manifest)


def _read_htk(path: Path | str, problems: Problems, options: NBestOptions) -> Iterator[NBest]:
    return read_htk(path, problems, size=options.size)


def _read_jsonl(path: Path | str, problems: Problems, options: NBestOptions) -> Iterator[NBest]:
    return read_canonical(path, problems, client_column=options.client_column)


def _results(lists_of: Callable[[str, Any], Iterable[NBest]]) -> NBestFormat:
    return NBestFormat(read=_plain(results.reader(lists_of)), reads_folders=True)


FORMATS: Registry[NBestFormat] = Registry(
    "format",
    {
        "jsonl": NBestFormat(read=_read_jsonl, write=write_canonical),
        "kaldi": NBestFormat(read=_plain(read_kaldi), write_folder=write_kaldi, reads_folders=True),
        "nemo": NBestFormat(read=_read_nemo, write=write_nemo),
        "espnet": NBestFormat(
            read=_plain(read_espnet), write_folder=write_espnet, reads_folders=True
        ),
        "hyporadise": NBestFormat(read=_plain(read_hyporadise), write=write_hyporadise),
        "srilm": NBestFormat(read=_plain(read_srilm), write_folder=write_srilm, reads_folders=True),
        "flashlight": NBestFormat(read=_plain(read_flashlight), write=write_flashlight),
        "htk": NBestFormat(read=_read_htk, write_folder=write_htk, reads_folders=True),
        "icefall": NBestFormat(read=_plain(read_icefall), reads_folders=True),
        "whisper": _results(results.whisper),
        "transformers": _results(results.transformers),
        "vosk": _results(results.vosk),
        "sherpa-onnx": _results(results.sherpa_onnx),
        "aws": _results(results.aws),
        "google": _results(results.google),
        "azure": _results(results.azure),
    },
    group="sottovoce.nbest_formats",
)


class NBestReader:
    """The lists of one source. Each iteration reopens it and resets its counts."""

    def __init__(self, path: Path | str, read: _Read, *, strict: bool) -> None:
        self.path, self.strict = path, strict
        self._read = read
        self._found = Problems(name_of(path), strict)
        if str(path) != STANDARD_STREAM and not Path(path).exists():
            raise InvalidInput(f"Expected N-best lists at {path}, got no such file.")

    @property
    def rejected(self) -> int:
        return self._found.rejected

    @property
    def problems(self) -> list[Problem]:
        return list(self._found.first)

    def __iter__(self) -> Iterator[NBest]:
        self._found = Problems(name_of(self.path), self.strict)
        seen: set[str] = set()
        for each in self._read(self.path, self._found):
            if each.id in seen:
                self._found.reject(len(seen) + 1, f"Expected every id once, got {each.id!r} twice.")
                continue
            seen.add(each.id)
            yield each
        if not seen:
            why = f"; the first problem: {self.problems[0].reason}" if self.problems else "."
            raise InvalidInput(f"Expected N-best lists in {name_of(self.path)}, got none{why}")


def read_nbest(
    path: Path | str,
    format: str = "jsonl",
    *,
    on_error: Literal["strict", "lenient"] = "strict",
    beam_size: int | None = None,
    manifest: Path | str | None = None,
    size: int = 100,
    client_column: str = "client",
) -> NBestReader:
    """Open N-best lists.

    `beam_size` and `manifest` are for nemo, `size` for htk, `client_column` for jsonl.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "heard.json")
    ...     _ = file.write_text('[{"input": ["call mom", "call mum"], "output": "call mum"}]')
    ...     [each.best.text for each in read_nbest(file, "hyporadise")]
    ['call mom']
    """
    chosen = FORMATS.get(format)
    _validate.one_of("on_error", on_error, ("strict", "lenient"))
    if format == "nemo" and beam_size is None:
        raise InvalidInput(
            "Expected a beam size with the format nemo, got none: give the number of lines per "
            "utterance with --beam-size."
        )
    if format != "jsonl" and client_column != "client":
        raise InvalidInput(f"Expected a file of clients with the format {format}, got a column.")
    if Path(path).is_dir() and not chosen.reads_folders:
        raise InvalidInput(f"Expected a file with the format {format}, got the folder {path}.")
    options = NBestOptions(
        beam_size=beam_size, manifest=manifest, size=size, client_column=client_column
    )
    read = partial(_with, chosen, options)
    return NBestReader(path, read, strict=on_error == "strict")


def _with(
    format: NBestFormat, options: NBestOptions, path: Path | str, problems: Problems
) -> Iterator[NBest]:
    return format.read(path, problems, options)


def write_nbest(path: Path | str, lists: Iterable[NBest], format: str = "jsonl") -> int:
    """Write lists atomically and return their number."""
    chosen = FORMATS.get(format)
    if chosen.write is None and chosen.write_folder is None:
        raise InvalidInput(f"Expected a format that can be written, got {format}.")
    count = 0

    def counted() -> Iterator[NBest]:
        nonlocal count
        for each in lists:
            count += 1
            yield each

    if chosen.write_folder is not None:
        chosen.write_folder(path, counted())
    elif chosen.write is not None:
        with output(path) as stream:
            chosen.write(stream, counted())
    return count
