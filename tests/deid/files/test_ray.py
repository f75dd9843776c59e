"""With a real local Ray; skipped where the extra `ray` is not installed."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from sottovoce.corpora.synthetic import generate
from sottovoce.deid import Deidentifier, Fields, Resources, Setting, Vault
from sottovoce.deid.detect import Gazetteer
from sottovoce.deid.detect.detector import utterance_of
from sottovoce.deid.files.tables import Make, TextColumns, release_dataset
from sottovoce.deid.statement.release_statement import ReleaseStatement
from sottovoce.errors import InvalidInput

ray = pytest.importorskip("ray", reason="the extra ray is not installed")
# Ray cleans up sockets and processes at shutdown.
pytestmark = pytest.mark.filterwarnings("ignore")

COLUMNS = TextColumns(text="text", user="user")
TABLE = pa.table(
    {
        "text": [u.text for u in generate("communication", size=300, seed=1)],
        "user": [u.user for u in generate("communication", size=300, seed=1)],
    }
)


def maker() -> Make:
    # A nested function is pickled by value; the workers cannot import this module.
    def make() -> Deidentifier:
        return Deidentifier(
            detector="gazetteer",
            setting=Setting(epsilon=1.0),
            resources=Resources(vault=Vault(bytes(32))),
        )

    return make


@pytest.fixture(scope="module")
def dataset() -> Iterator[Any]:
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    yield ray.data.from_arrow(TABLE).repartition(4).materialize()
    ray.shutdown()


def test_the_statement_is_that_of_one_machine(dataset: Any) -> None:
    released, statement = release_dataset(dataset, maker(), COLUMNS)
    alone = maker()()
    texts = zip(*TABLE.to_pydict().values(), strict=True)
    list(alone.release_all([utterance_of(text, user) for text, user in texts]))
    here = {unit: found.epsilon for unit, found in alone.statement().guarantees.items()}
    there = {unit: found.epsilon for unit, found in statement.guarantees.items()}
    assert there == pytest.approx(here)
    rows = released.take_all()
    assert len(rows) == 300
    assert len({row["user"] for row in rows}) == len({*TABLE.column("user").to_pylist()})
    # Materialised: reading twice gives the same release.
    assert sorted(row["text"] for row in released.take_all()) == sorted(r["text"] for r in rows)


def test_a_check_refuses_before_anything_is_released(dataset: Any) -> None:
    def strict(statement: ReleaseStatement) -> None:
        if statement.guarantees["user"].epsilon > 2:
            raise InvalidInput("too much")

    with pytest.raises(InvalidInput, match="too much"):
        release_dataset(dataset, maker(), COLUMNS, check=strict)


def test_pseudonyms_need_a_key() -> None:
    def keyless() -> Deidentifier:
        return Deidentifier(detector=Gazetteer({"PER": ["anna"]}), fields=Fields())

    with pytest.raises(InvalidInput, match="vault with a key"):
        release_dataset(None, keyless, COLUMNS)  # type: ignore[arg-type]
