"""Nodes of a Flower app in this process: a message goes straight to the client's function."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from sottovoce.personalize.flower.client_app import contribute

if TYPE_CHECKING:
    from flwr.app import Message


def honest(_node: int, reply: "Message") -> "Message":
    return reply


class LoopGrid:
    """As much of a grid as the server needs; `tamper` may change or lose a reply."""

    def __init__(self, nodes: int, tamper: "Callable[[int, Message], Message | None]") -> None:
        from flwr.app import Context, RecordDict

        self.contexts = {
            node: Context(
                1, node, {"partition-id": node, "num-partitions": nodes}, RecordDict(), {}
            )
            for node in range(nodes)
        }
        self.tamper = tamper
        self.calls: dict[int, Message] = {}

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def send_and_receive(
        self, messages: "Iterable[Message]", *, timeout: float | None = None
    ) -> "Iterator[Message]":
        for message in messages:
            node = message.metadata.dst_node_id
            self.calls[node] = message
            reply = self.tamper(node, contribute(message, self.contexts[node]))
            if reply is not None:
                yield reply
