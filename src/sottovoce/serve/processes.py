"""Processes for the work of requests: each job can be killed, and none can hold up the others.

- A job that reaches the time limit or takes too much memory is killed with its process.
- Callers take turns: whoever sends a hundred requests waits behind whoever sends one.
- A job that runs longer than a moment gets a lower priority and leaves its lane to the next one. At
  most as many such jobs as there are lanes go on; beyond that, the caller with most of them loses
  one.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from sottovoce.errors import InvalidInput
from sottovoce.serve.jobs import Loaded
from sottovoce.serve.limits import BUSY, LATE
from sottovoce.serve.metrics import Metrics
from sottovoce.serve.problems import RequestError, WorkFailed
from sottovoce.serve.settings import Settings
from sottovoce.serve.work_process import LENGTH, frame, receive
from sottovoce.serve.workers import Answer, Verb

MOMENT = 0.5
"""Seconds after which a job leaves its lane."""
_LOW_PRIORITY = 10
_RECYCLE_AFTER = 250_000
"""Characters that a process reads before it is replaced: detectors cache words of requests."""
_TOO_LONG = "The service is busy with long requests; this one was stopped. Send smaller requests."
_DIED: Answer = {"failure": "WorkerDied", "where": ""}
_TOO_MUCH_MEMORY = "The request needs more memory than is allowed. Send smaller requests."


@dataclass(eq=False)
class _Process:
    """A forked worker, by its socket."""

    jobs: socket.socket
    pid: int
    read: int = 0

    @property
    def alive(self) -> bool:
        """Whether it waits for a job: it has said nothing and not closed its socket."""
        try:
            self.jobs.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def kill(self) -> None:
        """End the process; whoever waits for its answer sees its socket close."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def discard(self) -> None:
        self.kill()
        self.jobs.close()


@dataclass(eq=False)
class _Job:
    verb: Verb
    body: str
    caller: str
    answer: asyncio.Future[Answer]
    process: _Process | None = None
    slow: bool = False
    started: bool = False


class Processes:
    """Processes for jobs, forked by one that has loaded the models."""

    def __init__(self, settings: Settings, metrics: Metrics, plugins: tuple[str, ...] = ()) -> None:
        self._settings = settings
        self._plugins = plugins
        self._metrics = metrics
        self._lanes = settings.workers
        self._waiting: OrderedDict[str, deque[_Job]] = OrderedDict()
        self._running: list[_Job] = []
        self._idle: list[_Process] = []
        self._starting = threading.Lock()
        self._forker: tuple[subprocess.Popen[bytes], socket.socket] | None = None
        self._end: Callable[[], object] = _nothing
        self._loaded = self._start()

    @property
    def loaded(self) -> Loaded:
        return self._loaded

    @property
    def ready(self) -> bool:
        return self._forker is not None and self._forker[0].poll() is None

    async def run(self, verb: Verb, body: str, caller: str) -> Answer:
        job = _Job(verb, body, caller, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(caller, deque()).append(job)
        self._next()
        try:
            answer = await asyncio.wait_for(job.answer, self._settings.timeout)
            self._metrics.job(verb, "answered")
            return answer
        except TimeoutError:
            self._metrics.job(verb, "late")
            late = job.started
            raise RequestError(504 if late else 503, LATE if late else BUSY) from None
        except RequestError as problem:
            self._metrics.job(verb, "stopped" if problem.status == 503 else "refused")
            raise
        finally:
            self._forget(job)

    def close(self) -> None:
        for process in self._idle:
            process.discard()
        for job in self._running:
            if job.process is not None:
                job.process.kill()
        self._idle.clear()
        self._running.clear()
        self._waiting.clear()
        self._stop()

    # Scheduling.

    def _next(self) -> None:
        """Start waiting jobs while lanes are free, one caller after the other."""
        while self._waiting and sum(not job.slow for job in self._running) < self._lanes:
            caller, jobs = next(iter(self._waiting.items()))
            job = jobs.popleft()
            del self._waiting[caller]
            if jobs:
                self._waiting[caller] = jobs
            if not job.answer.done():
                self._running.append(job)
                job.started = True
                asyncio.get_running_loop().create_task(self._execute(job))

    async def _execute(self, job: _Job) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(MOMENT, self._leave_lane, job)
        process, told = None, _DIED
        try:
            job.process = process = self._waiting_process() or await self._fork()
            await loop.sock_sendall(process.jobs, frame({"verb": job.verb, "body": job.body}))
            told = await _receive(loop, process.jobs)
        except (OSError, EOFError):
            pass  # Killed, by us or for lack of memory.
        finally:
            timer.cancel()
            job.process = None
            if process is not None:
                self._release(
                    process, len(job.body), usable=told is not _DIED and "memory" not in told
                )
            self._forget(job)
        if not job.answer.done():
            _settle(job.answer, told)

    def _leave_lane(self, job: _Job) -> None:
        """The job has run for a moment: let others pass."""
        job.slow = True
        if job.process is not None:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, job.process.pid, _LOW_PRIORITY)
        slow = [each for each in self._running if each.slow]
        if len(slow) > self._lanes:
            [(caller, _)] = Counter(each.caller for each in slow).most_common(1)
            victim = next(each for each in slow if each.caller == caller)
            if not victim.answer.done():
                victim.answer.set_exception(RequestError(503, _TOO_LONG))
            self._forget(victim)
        self._next()

    def _forget(self, job: _Job) -> None:
        """Take the job off the lists, and kill its process if it is still at work."""
        waiting = self._waiting.get(job.caller)
        if waiting is not None and job in waiting:
            waiting.remove(job)
            if not waiting:
                del self._waiting[job.caller]
        if job in self._running:
            self._running.remove(job)
            if job.process is not None:
                job.process.kill()
            self._next()

    def _waiting_process(self) -> _Process | None:
        while self._idle:
            process = self._idle.pop()
            if process.alive:
                return process
            process.discard()
        return None

    def _release(self, process: _Process, read: int, *, usable: bool) -> None:
        """Keep the process for the next job, unless it has read enough."""
        process.read += read
        if (
            usable
            and process.read < _RECYCLE_AFTER
            and len(self._idle) < self._lanes
            and not _slowed(process)
        ):
            self._idle.append(process)
        else:
            process.discard()

    # Processes.

    async def _fork(self) -> _Process:
        loop = asyncio.get_running_loop()
        for _ in range(2):
            if not self.ready:
                await loop.run_in_executor(None, self._start)
            assert self._forker is not None
            ours, theirs = socket.socketpair()
            try:
                with theirs:
                    socket.send_fds(self._forker[1], [b"f"], [theirs.fileno()])
                ours.setblocking(False)
                return _Process(ours, (await _receive(loop, ours))["pid"])
            except (OSError, EOFError):
                ours.close()
                self._stop()
        raise EOFError

    def _start(self) -> Loaded:
        with self._starting:
            if self.ready:
                return self._loaded
            self._stop()
            ours, theirs = socket.socketpair()
            command = [sys.executable, "-m", "sottovoce.serve.work_process", str(theirs.fileno())]
            # One thread per job: more would only take processors from other jobs.
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
            forker = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL
            )
            theirs.close()
            # The token and the hosts stay with the server.
            settings = asdict(replace(self._settings, token=None, hosts=None))
            ours.sendall(
                frame(
                    {
                        "settings": settings,
                        "memory": self._settings.max_memory,
                        "plugins": list(self._plugins),
                    }
                )
            )
            told = receive(ours)
            self._forker = (forker, ours)
            # Also ends it when the application is dropped without having been closed.
            self._end = weakref.finalize(self, _end, forker, ours)
            if told is None or "problem" in told:
                self._stop()
                raise InvalidInput(told["problem"] if told else "The worker process failed.")
            return Loaded(**told["loaded"])

    def _stop(self) -> None:
        self._end()
        self._forker = None


def _nothing() -> None:
    pass


def _end(forker: subprocess.Popen[bytes], control: socket.socket) -> None:
    control.close()
    forker.kill()
    forker.wait()


def _settle(answer: asyncio.Future[Answer], told: Answer) -> None:
    if "answer" in told:
        answer.set_result(told["answer"])
    elif "status" in told:
        answer.set_exception(RequestError(told["status"], told["message"]))
    elif "memory" in told:
        answer.set_exception(RequestError(413, _TOO_MUCH_MEMORY))
    else:
        answer.set_exception(WorkFailed(told["failure"], told["where"]))


def _slowed(process: _Process) -> bool:
    """Whether its priority was lowered; it cannot be raised again without privileges."""
    try:
        return os.getpriority(os.PRIO_PROCESS, process.pid) > os.getpriority(os.PRIO_PROCESS, 0)
    except OSError:
        return True


async def _receive(loop: asyncio.AbstractEventLoop, connection: socket.socket) -> Answer:
    async def exactly(size: int) -> bytes:
        content = bytearray()
        while len(content) < size:
            part = await loop.sock_recv(connection, min(size - len(content), 1 << 20))
            if not part:
                raise EOFError
            content += part
        return bytes(content)

    content: Answer = json.loads(await exactly(LENGTH.unpack(await exactly(LENGTH.size))[0]))
    return content
