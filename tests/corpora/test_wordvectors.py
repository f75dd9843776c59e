import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.corpora.wordvectors import read_word_vectors
from sottovoce.errors import InvalidInput

TWO = np.eye(2, dtype=np.float16)


def test_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "tiny.npz", words=np.array(["call", "mum"]), vectors=TWO)
    found = read_word_vectors(tmp_path / "tiny.npz")
    assert found.words == ("call", "mum")
    assert found.index == {"call": 0, "mum": 1}
    assert found.vectors.dtype == np.float16


@pytest.mark.parametrize("header", ["", "2 3\n"])
@pytest.mark.parametrize("name", ["tiny.vec", "tiny.txt.gz"])
def test_text(tmp_path: Path, header: str, name: str) -> None:
    content = f"{header}call 1 0 -2.5e-1 \n\u00a0x 0 1 1\n".encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    found = read_word_vectors(path)
    assert found.words == ("call", "\u00a0x")
    assert found.vectors.tolist() == [[1, 0, -0.25], [0, 1, 1]]


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"words": np.array(["a"])}, "with the arrays words and vectors"),
        ({"words": np.array(["a", "b"], dtype=object), "vectors": TWO}, "words and vectors"),
        ({"words": np.array([1, 2]), "vectors": TWO}, "words as a list of strings"),
        ({"words": np.array([["a", "b"]]), "vectors": TWO}, "words as a list of strings"),
        ({"words": np.array(["a"]), "vectors": TWO}, "a vector for each of 1 words, got 2"),
        ({"words": np.array(["a", "a"]), "vectors": TWO}, "every word once, got 'a' twice"),
        ({"words": np.array(["a", "b"]), "vectors": TWO[0]}, "a table of floating-point"),
        ({"words": np.array(["a", "b"]), "vectors": TWO.astype(int)}, "a table of floating-point"),
        ({"words": np.array(["a", "b"]), "vectors": TWO * np.nan}, "NaN or infinity for 'a'"),
    ],
)
def test_bad_npz_is_refused(tmp_path: Path, arrays: dict[str, Any], complaint: str) -> None:
    np.savez(tmp_path / "tiny.npz", **arrays)
    with pytest.raises(InvalidInput, match=rf"tiny\.npz: .*{complaint}"):
        read_word_vectors(tmp_path / "tiny.npz")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"nonsense", b"\x93NUMPY"])
def test_what_is_not_npz_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tiny.npz").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"Expected an \.npz file with"):
        read_word_vectors(tmp_path / "tiny.npz")


def test_single_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "tiny.npy", TWO)
    (tmp_path / "tiny.npy").rename(tmp_path / "tiny.npz")
    with pytest.raises(InvalidInput, match=r"Expected an \.npz file with"):
        read_word_vectors(tmp_path / "tiny.npz")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "found none"),
        ("2 3\n", "found none"),
        ("call\n", "a word and numbers at line 1"),
        ("call 1 x\n", "a word and numbers at line 1"),
        ("call 1 2\nmum 1\n", "a word and 2 numbers at line 2"),
        ("call 1 2\ncall 1 2\n", "every word once, got 'call' twice"),
        ("call 1 nan\n", "NaN or infinity for 'call'"),
    ],
)
def test_bad_text_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / "tiny.vec").write_text(content)
    with pytest.raises(InvalidInput, match=rf"tiny\.vec: .*{complaint}"):
        read_word_vectors(tmp_path / "tiny.vec")


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="found none there"):
        read_word_vectors(tmp_path / "none.npz")
