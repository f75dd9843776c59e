"""HTK lattices (SLF), such as those of pocketsphinx, and their best paths as hypotheses."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sottovoce import _validate
from sottovoce.corpora.lines import LINE_LIMIT, Problems, open_bytes, text_lines
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.personalize.nbest.formats._tables import known, number
from sottovoce.personalize.nbest.lists import Hypothesis, NBest

FILLERS = frozenset({"!NULL", "!SENT_START", "!SENT_END", "<s>", "</s>", "<sil>", "[NOISE]"})
# Many paths share a word string (silences, variants), so search up to this many paths per string.
_PATHS_PER_STRING = 200


@dataclass(slots=True)
class Lattice:
    """Words on nodes and scored links between them.

    The n best distinct word strings are found best-first: the forward search uses the exact best
    score from every node to the end as its heuristic, so it pops paths in order.
    """

    words: dict[int, str] = field(default_factory=dict)
    links: dict[int, list[tuple[int, float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def ends(self) -> tuple[int, int]:
        """The unique start node (no incoming links) and end node (no outgoing links)."""
        reached = {target for links in self.links.values() for target, _, _ in links}
        starts = [node for node in self.words if node not in reached]
        stops = [node for node in self.words if not self.links.get(node)]
        if len(starts) != 1 or len(stops) != 1:
            raise InvalidInput(
                f"Expected a lattice with one start and one end, got {len(starts)} and "
                f"{len(stops)}."
            )
        return starts[0], stops[0]

    def paths(self, size: int) -> Iterator[Hypothesis]:
        """The `size` best distinct word strings, best first."""
        start, stop = self.ends()
        best = self._best_to(stop)
        # (negated score of the whole, tie-breaker, node, am and lm so far, words so far)
        queue = [(-best.get(start, 0.0), 0, start, 0.0, 0.0, self._spoken(start))]
        seen: set[tuple[str, ...]] = set()
        pushed = popped = 0
        while queue and len(seen) < size and popped < size * _PATHS_PER_STRING:
            _, _, node, am, lm, words = heapq.heappop(queue)
            if node == stop:
                popped += 1
                if words not in seen:
                    seen.add(words)
                    yield Hypothesis(" ".join(words), am=am, lm=lm, score=am + lm)
                continue
            for target, link_am, link_lm in self.links[node]:
                if target in best:
                    pushed += 1
                    total = am + link_am + lm + link_lm + best[target]
                    longer = words + self._spoken(target)
                    heapq.heappush(
                        queue, (-total, pushed, target, am + link_am, lm + link_lm, longer)
                    )

    def _spoken(self, node: int) -> tuple[str, ...]:
        word = self.words[node]
        return () if word in FILLERS else (word,)

    def _best_to(self, stop: int) -> dict[int, float]:
        """The best score from every node to the end, in reverse topological order."""
        best: dict[int, float] = {}
        state: dict[int, bool] = {}
        for root in self.words:
            stack = [root]
            while stack:
                node = stack[-1]
                if node not in state:
                    state[node] = False
                    for target, _, _ in self.links.get(node, ()):
                        if state.get(target) is False:
                            raise InvalidInput("Expected a lattice without loops, got one.")
                        if target not in state:
                            stack.append(target)
                    continue
                stack.pop()
                if state[node]:
                    continue
                state[node] = True
                scores = [
                    am + lm + best[target]
                    for target, am, lm in self.links.get(node, ())
                    if target in best
                ]
                if node == stop:
                    best[node] = 0.0
                elif scores:
                    best[node] = max(scores)
        return best


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
    """Read one lattice, with natural logarithms.

    Nodes are `I=n t=seconds W=word v=variant`, links `J=n S=from E=to a=acoustic l=language
    p=posterior`.
    """
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
