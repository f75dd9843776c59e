"""N-best lists of many tools: one reader and one writer a format, chosen by name.

`read_nbest` gives the lists one by one; strict stops at the first bad record with its line, lenient
skips and counts them in `problems`. A format that lives in a folder is given the folder.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal

from sottovoce import _validate
from sottovoce.corpora.lines import STANDARD_STREAM, name_of
from sottovoce.corpora.problems import Problem, Problems
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output
from sottovoce.personalize.nbest.formats._tables import read_table
from sottovoce.personalize.nbest.formats.canonical import read_canonical, write_canonical
from sottovoce.personalize.nbest.formats.espnet import read_espnet, write_espnet
from sottovoce.personalize.nbest.formats.flashlight import read_flashlight, write_flashlight
from sottovoce.personalize.nbest.formats.htk import read_htk, write_htk
from sottovoce.personalize.nbest.formats.hyporadise import read_hyporadise, write_hyporadise
from sottovoce.personalize.nbest.formats.kaldi import read_kaldi, write_kaldi
from sottovoce.personalize.nbest.formats.nemo import read_nemo, write_nemo
from sottovoce.personalize.nbest.formats.pyctcdecode import from_beams, to_beams
from sottovoce.personalize.nbest.formats.srilm import read_srilm, write_srilm
from sottovoce.personalize.nbest.lists import NBest

__all__ = [
    "FORMATS",
    "NBestReader",
    "from_beams",
    "read_nbest",
    "read_table",
    "to_beams",
    "write_nbest",
]

FORMATS = ("jsonl", "kaldi", "nemo", "espnet", "hyporadise", "srilm", "flashlight", "htk")

_Read = Callable[[Path | str, Problems], Iterator[NBest]]
_READERS: dict[str, _Read] = {
    "jsonl": read_canonical,
    "kaldi": read_kaldi,
    "espnet": read_espnet,
    "hyporadise": read_hyporadise,
    "srilm": read_srilm,
    "flashlight": read_flashlight,
    "htk": read_htk,
}
_STREAM_WRITERS: dict[str, Callable[[BinaryIO, Iterable[NBest]], None]] = {
    "jsonl": write_canonical,
    "nemo": write_nemo,
    "hyporadise": write_hyporadise,
    "flashlight": write_flashlight,
}
_FOLDER_WRITERS: dict[str, Callable[[Path | str, Iterable[NBest]], None]] = {
    "kaldi": write_kaldi,
    "espnet": write_espnet,
    "srilm": write_srilm,
    "htk": write_htk,
}
_FOLDERS = ("kaldi", "espnet")


class NBestReader:
    """The lists of one source. Each pass opens it anew and counts anew."""

    def __init__(self, path: Path | str, read: _Read, *, strict: bool) -> None:
        self.path, self.strict = path, strict
        self._read = read
        self._found = Problems(name_of(path), strict)
        if str(path) != STANDARD_STREAM and not Path(path).exists():
            raise InvalidInput(f"Expected N-best lists at {path}, found nothing there.")

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
            raise InvalidInput(f"Expected N-best lists in {name_of(self.path)}, found none{why}")


def read_nbest(
    path: Path | str,
    format: str = "jsonl",
    *,
    on_error: Literal["strict", "lenient"] = "strict",
    beam_size: int | None = None,
    manifest: Path | str | None = None,
    size: int = 100,
) -> NBestReader:
    """Open N-best lists; `beam_size` and `manifest` are for nemo, `size` for htk.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "heard.json")
    ...     _ = file.write_text('[{"input": ["call mom", "call mum"], "output": "call mum"}]')
    ...     [each.best.text for each in read_nbest(file, "hyporadise")]
    ['call mom']
    """
    _validate.one_of("format", format, FORMATS)
    _validate.one_of("on_error", on_error, ("strict", "lenient"))
    if format == "nemo":
        if beam_size is None:
            raise InvalidInput("Expected a beam_size with the format nemo, got none.")
        read: _Read = partial(read_nemo, beam_size=beam_size, manifest=manifest)
    elif format == "htk":
        read = partial(read_htk, size=size)
    else:
        read = _READERS[format]
    if Path(path).is_dir() and format not in (*_FOLDERS, "srilm", "htk"):
        raise InvalidInput(f"Expected a file with the format {format}, got the folder {path}.")
    return NBestReader(path, read, strict=on_error == "strict")


def write_nbest(path: Path | str, lists: Iterable[NBest], format: str = "jsonl") -> int:
    """Write lists and return how many; files appear whole or not at all."""
    _validate.one_of("format", format, FORMATS)
    count = 0

    def counted() -> Iterator[NBest]:
        nonlocal count
        for each in lists:
            count += 1
            yield each

    if format in _FOLDER_WRITERS:
        _FOLDER_WRITERS[format](path, counted())
    else:
        with output(path) as stream:
            _STREAM_WRITERS[format](stream, counted())
    return count
