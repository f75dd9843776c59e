"""A word lattice, and its best paths as hypotheses.

The n best distinct word strings are found best-first: the forward search uses the exact best score
from every node to the end as its heuristic, so it pops paths in order.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from sottovoce.errors import InvalidInput
from sottovoce.personalize.nbest.lists import Hypothesis

FILLERS = frozenset({"!NULL", "!SENT_START", "!SENT_END", "<s>", "</s>", "<sil>", "[NOISE]"})
# Many paths share a word string (silences, variants), so search up to this many paths per string.
_PATHS_PER_STRING = 200


@dataclass(slots=True)
class Lattice:
    """Words on nodes and scored links between them."""

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
