"""Files of n-gram models: ARPA, memory-mapped arrays, and KenLM's binary format."""

import json
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.corpora.lines import LINE_LIMIT, Problems, open_bytes, text_lines
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output, text_output
from sottovoce.personalize.lm.ngram.model import END, NEVER, START, Ints, NGramModel, Order
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector, Vocabulary

_COUNT = re.compile(r"ngram (\d+)=(\d+)$")
_SECTION = re.compile(r"\\(\d+)-grams:$")


def read_arpa(path: Path | str) -> NGramModel:
    """Read a model from an ARPA file, compressed or not.

    ARPA is the common format of n-gram toolkits, with logarithms to base 10. An n-gram whose prefix
    is not itself an n-gram is rejected.
    """
    counts: dict[int, int] = {}
    sections: dict[int, list[tuple[int, list[str]]]] = {}
    current = 0
    with open_bytes(path) as stream:
        for number, line in text_lines(stream, Problems(str(path), strict=True), LINE_LIMIT):
            text = line.strip()
            if found := _COUNT.match(text):
                counts[int(found[1])] = int(found[2])
            elif found := _SECTION.match(text):
                current = int(found[1])
                sections[current] = []
            elif text == "\\end\\":
                break
            elif current:
                sections[current].append((number, text.split()))
        else:
            raise InvalidInput(
                f"Expected \\end\\ at the end of {path}, got none: is the file truncated?"
            )
    if not counts or sorted(sections) != list(range(1, len(sections) + 1)):
        raise InvalidInput(f"Expected the sections of an ARPA file in {path}, got none.")
    for order, rows in sections.items():
        if len(rows) != counts.get(order, 0):
            raise InvalidInput(
                f"Expected {counts.get(order, 0)} {order}-grams in {path}, got {len(rows)}."
            )
    return _model(path, sections)


def write_arpa(path: Path | str, model: NGramModel) -> None:
    """Write the model; a name that ends in .gz is compressed."""
    with text_output(path) as stream:
        stream.write("\\data\\\n")
        for number, order in enumerate(model.orders, 1):
            stream.write(f"ngram {number}={order.keys.size}\n")
        texts: list[str] = []
        for number, order in enumerate(model.orders, 1):
            stream.write(f"\n\\{number}-grams:\n")
            texts = list(_texts(model, order, texts))
            last = number == len(model.orders)
            for text, p, b in zip(
                texts,
                (order.log_probability / math.log(10)).tolist(),
                (order.log_backoff / math.log(10)).tolist(),
                strict=True,
            ):
                tail = "" if last or b == 0 else f"\t{b:.7g}"
                stream.write(f"{p:.7g}\t{text}{tail}\n")
        stream.write("\n\\end\\\n")


def _texts(model: NGramModel, order: Order, contexts: list[str]) -> Iterator[str]:
    size = len(model.words)
    for key in order.keys.tolist():
        context, word = divmod(key, size)
        yield f"{contexts[context]} {model.words[word]}" if contexts else model.words[word]


def _model(path: Path | str, sections: dict[int, list[tuple[int, list[str]]]]) -> NGramModel:
    words = [fields[1] for _, fields in sections[1] if len(fields) > 1]
    unigrams = list(sections[1])
    for word in (START, END, UNKNOWN):
        if word not in words:
            # Toolkits may omit symbols that they never predict; give them probability 0.
            words.append(word)
            unigrams.append((0, [str(NEVER), word]))
    index = {word: place for place, word in enumerate(words)}
    if len(index) != len(words):
        raise InvalidInput(f"Expected every unigram of {path} once, got some twice.")
    orders: list[Order] = []
    for length in range(1, len(sections) + 1):
        rows = unigrams if length == 1 else sections[length]
        places, values, backoffs = [], [], []
        for number, fields in rows:
            if len(fields) not in (length + 1, length + 2):
                raise InvalidInput(
                    f"{path}, line {number}: Expected a {length}-gram, got another length."
                )
            try:
                places.append([index[word] for word in fields[1 : length + 1]])
                values.append(_number(fields[0]))
                backoffs.append(_number(fields[length + 1]) if len(fields) > length + 1 else 0.0)
            except (KeyError, ValueError) as problem:
                raise InvalidInput(
                    f"{path}, line {number}: Expected known words and numbers, got {problem}."
                ) from problem
        orders.append(_order(path, orders, np.array(places).reshape(-1, length), values, backoffs))
    return NGramModel(tuple(words), tuple(orders))


def _order(
    path: Path | str,
    lower: list[Order],
    places: np.ndarray,
    values: list[float],
    backoffs: list[float],
) -> Order:
    size = lower[0].keys.size if lower else 0
    keys = places[:, 0].astype(np.int64)
    for position in range(1, places.shape[1]):
        rows = lower[position - 1].find(keys)
        if (rows < 0).any():
            raise InvalidInput(
                f"Expected the prefix of every {places.shape[1]}-gram of {path} to be an n-gram "
                "too, got one that is not."
            )
        keys = rows * size + places[:, position]
    sort = np.argsort(keys, kind="stable")
    if (np.diff(keys[sort]) == 0).any():
        raise InvalidInput(f"Expected every {places.shape[1]}-gram of {path} once, got some twice.")
    scale = math.log(10)
    return Order(keys[sort], np.array(values)[sort] * scale, np.array(backoffs)[sort] * scale)


def _number(text: str) -> float:
    value = float(text)
    if math.isnan(value) or value == math.inf:
        raise ValueError(text)
    return max(value, NEVER)


_MAGIC = b"sottovoce n-gram 1\n"
_ALIGNED = 64
_INTEGERS, _FLOATS = np.dtype("<i8"), np.dtype("<f8")


def write_compiled(path: Path | str, model: NGramModel, *, arpa: Path | str | None = None) -> None:
    """Write the model as plain arrays, with a fingerprint of its ARPA file, if there is one.

    The file is a line of JSON (sizes and words) followed, for every order, by sorted keys, ln p and
    ln backoff as little-endian 64-bit numbers. It cannot execute code. Scores equal those of the
    source ARPA file bit for bit.
    """
    about = {
        "words": model.words,
        "orders": [order.keys.size for order in model.orders],
        "arpa": None if arpa is None else fingerprint(arpa),
    }
    head = _MAGIC + json.dumps(about).encode() + b"\n"
    with output(path) as stream:
        stream.write(head + bytes(-len(head) % _ALIGNED))
        for number, order in enumerate(model.orders, 1):
            stream.write(order.keys.astype(_INTEGERS).tobytes())
            stream.write(order.log_probability.astype(_FLOATS).tobytes())
            # The highest order has no back-off weights.
            if number < len(model.orders):
                stream.write(order.log_backoff.astype(_FLOATS).tobytes())


def read_compiled(path: Path | str, *, arpa: Path | str | None = None) -> NGramModel | None:
    """The model; None if it was not made from the given ARPA file.

    The file is memory-mapped. Loading reads the words, not the n-grams: only the pages touched by
    lookups are read, and processes share them.
    """
    try:
        with Path(path).open("rb") as stream:
            if stream.read(len(_MAGIC)) != _MAGIC:
                raise ValueError("its header is not that of one")
            line = stream.readline()
            about = json.loads(line)
            sizes = [int(size) for size in about["orders"]]
            words = tuple(map(str, about["words"]))
        if arpa is not None and about["arpa"] != fingerprint(arpa):
            return None
        return NGramModel(words, _orders(Path(path), len(_MAGIC) + len(line), sizes, len(words)))
    except (LookupError, TypeError, ValueError) as problem:
        raise InvalidInput(f"Expected a compiled n-gram model in {path}, but {problem}.") from None


def as_written(model: NGramModel) -> NGramModel:
    """The model rounded to the seven digits of an ARPA file."""
    orders = []
    for number, order in enumerate(model.orders, 1):
        last = number == len(model.orders)
        backoff = np.zeros(order.keys.size) if last else _seven_digits(order.log_backoff)
        orders.append(Order(order.keys, _seven_digits(order.log_probability), backoff))
    return NGramModel(model.words, tuple(orders), model.background)


def fingerprint(arpa: Path | str) -> list[int]:
    """Identifies an ARPA file by its length and a checksum of its beginning and end.

    A compressed file ends with the checksum of its whole content.
    """
    path = Path(arpa)
    size = path.stat().st_size
    with path.open("rb") as stream:
        first = stream.read(4096)
        stream.seek(max(size - 4096, 0))
        return [size, zlib.crc32(first + stream.read())]


def _orders(path: Path, head: int, sizes: list[int], words: int) -> tuple[Order, ...]:
    if not sizes or min(sizes) < 0 or sizes[0] != words:
        raise ValueError("its sizes do not match its words")
    place = head + -head % _ALIGNED
    if path.stat().st_size != place + 8 * (3 * sum(sizes) - sizes[-1]):
        raise ValueError("its length is wrong: it was truncated or altered")
    whole = np.memmap(path, np.uint8, "r", offset=0)
    orders = []

    def take(size: int, kind: np.dtype[Any]) -> np.ndarray:
        nonlocal place
        part = whole[place : place + 8 * size].view(kind)
        place += 8 * size
        # A plain array over the same pages, because memmap objects are slower to slice.
        return np.asarray(part)

    for number, size in enumerate(sizes, 1):
        keys: Ints = take(size, _INTEGERS)
        log_probability: Vector = take(size, _FLOATS)
        is_last = number == len(sizes)
        orders.append(
            Order(keys, log_probability, np.zeros(size) if is_last else take(size, _FLOATS))
        )
    return tuple(orders)


def _seven_digits(values: Vector) -> Vector:
    scale = math.log(10)
    read = [max(float(f"{value:.7g}"), NEVER) for value in (values / scale).tolist()]
    rounded: Vector = np.array(read) * scale
    return rounded


MAGIC = b"mmap lm http://kheafield.com/code"
_LN_10 = math.log(10)


def is_binary(path: Path | str) -> bool:
    """Whether a file is a model in KenLM's binary format."""
    with Path(path).open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


class KenLM:
    """A KenLM model, over the words of a public vocabulary.

    KenLM (the extra `kenlm`) reads ARPA and its own binary format. It stores millions of n-grams in
    little memory but does not list its vocabulary. So the adaptable words and u(w) come from a
    public vocabulary; other words get the factor of `<unk>`. The hypotheses of a list are scored as
    one prefix tree, with one KenLM query per node.
    """

    def __init__(self, path: Path | str, vocabulary: Vocabulary) -> None:
        try:
            import kenlm  # type: ignore[import-not-found, unused-ignore]
        except ImportError as problem:
            raise InvalidInput(
                f"Expected KenLM for {path}, not installed: pip install 'sottovoce[kenlm]'."
            ) from problem
        self._kenlm: Any = kenlm
        settings = kenlm.Config()
        settings.show_progress = False
        try:
            self.model = kenlm.Model(str(path), settings)
        except (OSError, RuntimeError) as problem:
            raise InvalidInput(f"Expected a KenLM model in {path}, but {problem}.") from problem
        self.vocabulary = vocabulary

    def score(
        self,
        sentences: Sequence[Sequence[str]],
        log_factors: Vector | None = None,
        *,
        normalise: bool = True,
    ) -> list[float]:
        """ln p of every sentence including its end, querying each distinct prefix once.

        Exact normalisation queries KenLM for every word of the vocabulary after every prefix.
        """
        if log_factors is not None and len(log_factors) != len(self.vocabulary):
            raise InvalidInput(
                f"Expected {len(self.vocabulary)} log factors, got {len(log_factors)}."
            )
        index, unknown = self.vocabulary.index, self.vocabulary.index[UNKNOWN]
        children: dict[tuple[int, str], int] = {}
        states, sums = [self._start()], [0.0]
        constants: dict[int, float] = {}

        def step(node: int, word: str) -> float:
            """Adapted ln p of the word after a node; the end keeps a factor of 1."""
            after = self._kenlm.State()
            value = float(self.model.BaseScore(states[node], word, after)) * _LN_10
            if log_factors is not None:
                if word != END:
                    value += float(log_factors[index.get(word, unknown)])
                if normalise:
                    if node not in constants:
                        constants[node] = self._log_constant(states[node], log_factors)
                    value -= constants[node]
            children[node, word] = len(states)
            states.append(after)
            sums.append(sums[node] + value)
            return sums[-1]

        totals = []
        for sentence in sentences:
            node = 0
            for word in (*sentence, END):
                if (node, word) not in children:
                    step(node, word)
                node = children[node, word]
            totals.append(sums[node])
        return totals

    def _start(self) -> Any:
        state = self._kenlm.State()
        self.model.BeginSentenceWrite(state)
        return state

    def _log_constant(self, state: Any, log_factors: Vector) -> float:
        """ln Z(h), Z = f_unk + (1 - f_unk) p(end) + sum over the vocabulary of (f - f_unk) p.

        The remaining mass, neither the end nor in the vocabulary, has the factor f_unk.
        """
        after, ask = self._kenlm.State(), self.model.BaseScore
        factors = np.exp(np.asarray(log_factors, dtype=np.float64))
        rest = float(factors[self.vocabulary.index[UNKNOWN]])
        total = rest + (1 - rest) * 10 ** float(ask(state, END, after))
        # Words that KenLM does not know map to its <unk>, which is part of the rest.
        places = [
            place
            for place in np.flatnonzero(factors != rest).tolist()
            if self.vocabulary.words[place] in self.model
        ]
        words = self.vocabulary.words
        p = np.array([ask(state, words[place], after) for place in places], dtype=np.float64)
        return math.log(total + float((factors[places] - rest) @ 10**p))
