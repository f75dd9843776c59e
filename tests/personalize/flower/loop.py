"""Nodes of a Flower app in this process: a message goes straight to the client's app."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import TYPE_CHECKING

from sottovoce.errors import InvalidInput
from sottovoce.personalize.flower.client_app import client_app

if TYPE_CHECKING:
    from flwr.app import Message


def honest(_node: int, reply: "Message") -> "Message":
    return reply


class LoopGrid:
    """The part of a grid that the server uses; `tamper` may change or drop a reply."""

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
    ) -> "list[Message]":
        from flwr.app import Error, Message

        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            # A network transmits copies.
            message = self.calls[node] = deepcopy(message)
            try:
                reply = client_app()(message, self.contexts[node])
            except InvalidInput as problem:
                # Like a real node: only its error is returned.
                reply = Message(Error(code=0, reason=str(problem)), reply_to=message)
            # Like Flower's grids, this one knows the sender.
            reply.metadata.__dict__["_src_node_id"] = node
            changed = self.tamper(node, reply)
            if changed is not None:
                replies.append(changed)
        return replies
