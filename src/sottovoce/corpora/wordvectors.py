"""Word vectors from a file: `.npz` with arrays `words` and `vectors`, or text.

The text format is that of GloVe and word2vec: one word and its numbers per line, separated by
spaces, with an optional first line "count dimension"; it may be gzipped. Nothing is unpickled.
"""

import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.corpora.lines import LINE_LIMIT, Problems, open_bytes, text_lines
from sottovoce.errors import InvalidInput


@dataclass(frozen=True, slots=True, eq=False)
class WordVectors:
    """Words and their vectors, row by row; `index` maps a word to its row.

    >>> found = WordVectors(("call", "mum"), np.eye(2, dtype=np.float32))
    >>> found.vectors[found.index["mum"]].tolist()
    [0.0, 1.0]
    """

    words: tuple[str, ...]
    vectors: NDArray[np.floating[Any]]
    index: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2 or not np.issubdtype(self.vectors.dtype, np.floating):
            raise InvalidInput(
                "Expected vectors as a table of floating-point numbers, "
                f"got {self.vectors.dtype} of shape {self.vectors.shape}."
            )
        if len(self.words) != len(self.vectors):
            raise InvalidInput(
                f"Expected a vector for each of {len(self.words)} words, got {len(self.vectors)}."
            )
        index = {word: row for row, word in enumerate(self.words)}
        if len(index) != len(self.words):
            twice = next(word for row, word in enumerate(self.words) if index[word] != row)
            raise InvalidInput(f"Expected every word once, got {twice!r} twice.")
        finite = np.isfinite(self.vectors).all(axis=1)
        if not finite.all():
            word = self.words[int(np.argmin(finite))]
            raise InvalidInput(f"Expected finite vectors, got NaN or infinity for {word!r}.")
        object.__setattr__(self, "index", index)


def read_word_vectors(path: str | Path) -> WordVectors:
    """Read word vectors: `.npz` files by suffix, all others as text.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "tiny.vec").write_text("2 3\\ncall 1 0 0\\nmum 0 1 0.5\\n")
    ...     read_word_vectors(Path(folder, "tiny.vec")).vectors.shape
    (2, 3)
    """
    if not Path(path).is_file():
        raise InvalidInput(f"Expected a file at {path}, found none there.")
    try:
        return _from_npz(path) if Path(path).suffix == ".npz" else _from_text(path)
    except InvalidInput as problem:
        raise InvalidInput(f"{path}: {problem}") from problem


def _from_npz(path: str | Path) -> WordVectors:
    try:
        with Path(path).open("rb") as stream, zipfile.ZipFile(stream):
            stream.seek(0)
            arrays = np.load(stream, allow_pickle=False)
            words, vectors = arrays["words"], arrays["vectors"]
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile) as problem:
        raise InvalidInput(
            f"Expected an .npz file with the arrays words and vectors, got {problem}."
        ) from problem
    if words.ndim != 1 or words.dtype.kind != "U":
        raise InvalidInput(
            f"Expected words as a list of strings, got {words.dtype} of shape {words.shape}."
        )
    return WordVectors(tuple(words.tolist()), vectors)


def _from_text(path: str | Path) -> WordVectors:
    words: list[str] = []
    rows: list[NDArray[np.float32]] = []
    with open_bytes(path) as stream:
        for number, line in text_lines(stream, Problems(str(path), strict=True), LINE_LIMIT):
            word, *numbers = line.rstrip(" ").split(" ")
            if number == 1 and len(numbers) == 1 and word.isdecimal() and numbers[0].isdecimal():
                continue
            try:
                row = np.array(numbers, dtype=np.float32)
            except ValueError:
                row = np.empty(0, dtype=np.float32)
            if not len(row) or (rows and len(row) != len(rows[0])):
                size = f"{len(rows[0])} numbers" if rows else "numbers"
                raise InvalidInput(
                    f"Expected a word and {size} at line {number}, got {line[:40]!r}."
                )
            words.append(word)
            rows.append(row)
    if not rows:
        raise InvalidInput("Expected word vectors, found none.")
    return WordVectors(tuple(words), np.stack(rows))
