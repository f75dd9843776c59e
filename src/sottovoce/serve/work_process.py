"""The process that loads the models once and forks a worker for each request for one.

It is started as `python -m sottovoce.serve.work_process FD` with one end of a socket pair. It reads
the settings, loads the resources, says what it loaded, and then forks: each byte that arrives comes
with a socket for the new worker. A worker answers jobs, one at a time, until its socket closes.
Forking shares the memory of the models, and happens here because this process has one thread.

Messages are JSON behind their length in eight bytes.
"""

import gc
import json
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LENGTH = struct.Struct(">Q")
_MEBIBYTE = 1 << 20


def frame(message: Mapping[str, Any]) -> bytes:
    """A message with its length."""
    content = json.dumps(message).encode()
    return LENGTH.pack(len(content)) + content


def receive(connection: socket.socket) -> dict[str, Any] | None:
    """The next message; None if the other side has closed."""
    length = _exactly(connection, LENGTH.size)
    if length is None:
        return None
    content = _exactly(connection, LENGTH.unpack(length)[0])
    return None if content is None else json.loads(content)


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    content = bytearray()
    while len(content) < size:
        part = connection.recv(min(size - len(content), _MEBIBYTE))
        if not part:
            return None
        content += part
    return bytes(content)


def main(descriptor: int) -> None:
    """Load the resources, then fork on demand."""
    # Ctrl-C reaches every process of a terminal; the server decides when workers stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Killed workers leave no zombies.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control = socket.socket(fileno=descriptor)
    asked = receive(control)
    if asked is None:
        return
    from sottovoce.errors import SottovoceError
    from sottovoce.serve.jobs import Resources
    from sottovoce.serve.settings import Settings

    try:
        _import_plugins(asked["plugins"])
        resources = Resources(Settings(**asked["settings"]))
    except (SottovoceError, OSError) as problem:
        control.sendall(frame({"problem": str(problem)}))
        return
    resources.warm_up()
    control.sendall(frame({"loaded": vars(resources.loaded)}))
    # Objects that exist now are shared by all workers: do not touch them for garbage collection.
    gc.collect()
    gc.freeze()
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not descriptors:
            return
        if os.fork() == 0:
            control.close()
            _work(socket.socket(fileno=descriptors[0]), resources, asked["memory"])
            os._exit(0)
        os.close(descriptors[0])


def _import_plugins(names: list[str]) -> None:
    import importlib

    for name in names:
        importlib.import_module(name)


def _work(jobs: socket.socket, resources: Any, memory: int) -> None:
    """Answer jobs until the socket closes."""
    _limit_memory(memory)
    jobs.sendall(frame({"pid": os.getpid()}))
    while (job := receive(jobs)) is not None:
        answer = _answer(resources, job)
        jobs.sendall(frame(answer))
        if "memory" in answer:
            return


def _answer(resources: Any, job: Mapping[str, Any]) -> dict[str, Any]:
    from sottovoce.serve.limits import Deadline
    from sottovoce.serve.problems import RequestError, place_of
    from sottovoce.serve.workers import Verb

    try:
        # The server kills this process at the time limit, so there is no deadline here.
        return {"answer": resources.answer(Verb(job["verb"]), job["body"], Deadline(float("inf")))}
    except RequestError as problem:
        return {"status": problem.status, "message": problem.message}
    except MemoryError:
        return {"memory": True}
    except Exception as problem:  # noqa: BLE001
        # Type and line only: the message may quote the text.
        return {"failure": type(problem).__name__, "where": place_of(problem)}


def _limit_memory(allowance: int) -> None:
    """Let this process take so many bytes more than it has now."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:  # not Linux: the time limit alone bounds a job
        return
    [data] = [line for line in status.splitlines() if line.startswith("VmData:")]
    limit = int(data.split()[1]) * 1024 + allowance
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


if __name__ == "__main__":
    main(int(sys.argv[1]))
