"""HTK lattices (SLF), as written by pocketsphinx's `write_htk`: the best paths become a list.

Nodes are `I=n t=seconds W=word v=variant`, links `J=n S=from E=to a=acoustic l=language
p=posterior`, with natural logarithms.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from sottovoce import _validate
from sottovoce.corpora.lines import LINE_LIMIT, Problems, open_bytes, text_lines
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.personalize.nbest.formats._lattice import Lattice
from sottovoce.personalize.nbest.formats._tables import known, number
from sottovoce.personalize.nbest.lists import NBest


def read_htk(path: Path | str, problems: Problems, *, size: int = 100) -> Iterator[NBest]:
    """The `size` best word strings of one lattice file, or of every file in a folder."""
    _validate.at_least_one("size", size)
    path = Path(path)
    files = sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
    if not files:
        raise InvalidInput(f"Expected lattice files in {path}, got none.")
    for order, file in enumerate(files):
        problems.name = str(file)
        try:
            hypotheses = tuple(read_lattice(file, problems).paths(size))
        except InvalidInput as problem:
            problems.reject(0, problem)
        else:
            yield NBest(_id(file), hypotheses, order=order)


def read_lattice(file: Path, problems: Problems) -> Lattice:
    lattice = Lattice()
    with open_bytes(file) as stream:
        for place, line in text_lines(stream, problems, LINE_LIMIT):
            if line.startswith("#"):
                continue
            fields = dict(part.split("=", 1) for part in line.split() if "=" in part)
            if "I" in fields:
                lattice.words[_index(fields, "I")] = fields.get("W", "!NULL")
            elif "J" in fields:
                source, target = _index(fields, "S"), _index(fields, "E")
                if source not in lattice.words or target not in lattice.words:
                    raise InvalidInput(
                        f"Expected links between known nodes, got others at line {place}."
                    )
                am, lm = (number(fields.get(name, "0")) for name in ("a", "l"))
                lattice.links[source].append((target, am, lm))
    if not lattice.words:
        raise InvalidInput(f"Expected nodes in the lattice {file}, got none.")
    return lattice


def write_htk(folder: Path | str, lists: Iterable[NBest]) -> None:
    """One lattice per utterance; each hypothesis is a separate path with its scores on one link."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for each in lists:
        if Path(each.id).name != each.id or not each.hypotheses:
            raise InvalidInput(
                f"Expected hypotheses and an id that is a valid file name, got {each.id!r}."
            )
        nodes, links = ["!SENT_START", "!SENT_END"], []
        for h in each.hypotheses:
            am, lm = known(h.am, "am", each.id), h.lm or 0.0
            previous, scores = 0, f"a={am!r} l={lm!r}"
            for word in h.words:
                nodes.append(word)
                links.append(f"S={previous} E={len(nodes) - 1} {scores}")
                previous, scores = len(nodes) - 1, "a=0.0 l=0.0"
            links.append(f"S={previous} E=1 {scores}")
        with text_output(folder / f"{each.id}.slf") as stream:
            stream.write(f"VERSION=1.0\nN={len(nodes)} L={len(links)}\n")
            stream.writelines(f"I={i} t=0.00 W={word} v=1\n" for i, word in enumerate(nodes))
            stream.writelines(f"J={j} {link}\n" for j, link in enumerate(links))


def _index(fields: dict[str, str], name: str) -> int:
    value = fields.get(name, "")
    if not (value.isascii() and value.isdigit()):
        raise InvalidInput(f"Expected a node number after {name}=, got {value!r}.")
    return int(value)


def _id(file: Path) -> str:
    name = file.name
    for suffix in (".gz", ".slf", ".htk", ".lat"):
        name = name.removesuffix(suffix)
    return name
