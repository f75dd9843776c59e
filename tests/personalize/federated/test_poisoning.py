"""One client cannot own the result: with a minimum m it adds at most 1/m of the mass to a word."""

import numpy as np
import pytest

from sottovoce.personalize.federated.counting import Counting
from sottovoce.personalize.federated.federation import ledger_for, server_for
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.server import PLAUSIBLE_MASS, Refused, Server
from sottovoce.personalize.lm.vocabulary import Vocabulary

WORDS = Vocabulary.from_text(["call mum dad", "hang up now", "play music"], size=20)
RNG = np.random.default_rng(0)


def q_bar(server: Server, honest: list[np.ndarray], attack: np.ndarray | None) -> np.ndarray:
    for place, counts in enumerate(honest):
        server.receive(counts, client=f"c{place}")
    if attack is not None:
        server.receive(attack, client="attacker")
    return server.finish_round()


@pytest.mark.parametrize("minimum", [2, 5, 20])
@pytest.mark.parametrize("clients", [20, 100])
@pytest.mark.parametrize("words", [1.0, 20.0])
def test_no_client_raises_a_word_by_more(minimum: int, clients: int, words: float) -> None:
    plan = ReleasePlan(counting=Counting())
    honest = [RNG.integers(0, 2, len(WORDS)) * words for _ in range(clients)]
    attack = np.zeros(len(WORDS))
    attack[2] = PLAUSIBLE_MASS

    def share(counts: np.ndarray | None) -> float:
        server = server_for(WORDS, None, ledger=ledger_for(plan), minimum_clients=minimum)
        return float(q_bar(server, honest, counts)[2])

    assert share(attack) - share(None) <= 1 / minimum + 1e-12


def test_without_the_limit_one_client_owns_the_result() -> None:
    honest = [RNG.integers(0, 2, len(WORDS)) * 20.0 for _ in range(100)]
    attack = np.zeros(len(WORDS))
    attack[2] = PLAUSIBLE_MASS
    server = Server(WORDS, minimum_clients=5)
    assert q_bar(server, honest, attack)[2] > 0.4


def test_implausible_masses_are_refused() -> None:
    server = server_for(WORDS, None, ledger=ledger_for(ReleasePlan()), minimum_clients=5)
    attack = np.zeros(len(WORDS))
    attack[2] = 99_999.0
    with pytest.raises(Refused, match="caps of one client"):
        server.receive(attack, client="attacker")


def test_cutting_words_never_increases_the_distance_of_neighbours() -> None:
    # The sensitivity of the plan holds after the cut: it is applied word by word.
    for _ in range(200):
        one, other = RNG.exponential(60, (2, 30))
        before = np.abs(one - other)
        after = np.abs(np.minimum(one, 50) - np.minimum(other, 50))
        assert (after <= before).all()


def test_enough_words_are_not_filled_up() -> None:
    server = server_for(WORDS, None, ledger=ledger_for(ReleasePlan()), minimum_clients=2)
    honest = [np.full(len(WORDS), 40.0) for _ in range(10)]
    assert np.allclose(q_bar(server, honest, None), 1 / len(WORDS))
    assert server.marginals.mass == pytest.approx(400 * len(WORDS))
