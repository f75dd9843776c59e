"""ARPA files, the common format of n-gram toolkits: reading, validation, writing.

Logarithms are to base 10. An n-gram whose prefix is not itself an n-gram is rejected.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sottovoce.corpora.lines import LINE_LIMIT, Problems, open_bytes, text_lines
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.personalize.lm.ngram.model import END, NEVER, START, NGramModel, Order
from sottovoce.personalize.lm.vocabulary import UNKNOWN

_COUNT = re.compile(r"ngram (\d+)=(\d+)$")
_SECTION = re.compile(r"\\(\d+)-grams:$")


def read_arpa(path: Path | str) -> NGramModel:
    """Read a model from an ARPA file, compressed or not."""
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
