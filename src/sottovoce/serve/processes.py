"""Processes for the work of requests: each job can be killed, and none can hold up the others.

- A job that reaches the time limit or takes too much memory is killed with its process.
- The next job is of the caller who has used the least processor time lately: whoever sends a
  hundred requests, or a long one, waits behind whoever sends a short one.
- A job that has used a moment of processor time leaves its lane to the next one and goes on at a
  lower priority. At most as many such jobs as there are lanes run at once, of different callers
  first; the others are paused. If too many are paused, the caller with most of them loses one.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter, deque
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

MOMENT = 0.2
"""Seconds of processor time after which a job leaves its lane."""
_LOOK_EVERY = 0.05
_HALF_LIFE = 10.0
"""Seconds after which half of the time that a caller has used is forgotten."""
_MOST_SLOW = 8
"""Long jobs per lane, running or paused."""
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

    def seconds(self) -> float:
        """Processor time that the process has used; where this is unknown, the time of day."""
        try:
            # The clock of another process, as clock_getcpuclockid(3) makes it.
            return time.clock_gettime((~self.pid << 3) | 2)
        except OSError:
            return time.monotonic()

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process; whoever waits for its answer sees its socket close."""
        self.signal(signal.SIGKILL)

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
    began: float = 0.0
    charged: float = 0.0
    slow: bool = False
    started: bool = False


class Processes:
    """Processes for jobs, forked by one that has loaded the models."""

    def __init__(self, settings: Settings, metrics: Metrics, plugins: tuple[str, ...] = ()) -> None:
        self._settings = settings
        self._plugins = plugins
        self._metrics = metrics
        self._lanes = settings.workers
        self._waiting: dict[str, deque[_Job]] = {}
        self._used: dict[str, float] = {}
        self._used_at = 0.0
        self._running: list[_Job] = []
        self._idle: list[_Process] = []
        self._looking: asyncio.Task[None] | None = None
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
        """Start waiting jobs while lanes are free."""
        while self._waiting and sum(not job.slow for job in self._running) < self._lanes:
            caller = min(self._waiting, key=lambda each: self._used.get(each, 0.0))
            job = self._waiting[caller].popleft()
            if not self._waiting[caller]:
                del self._waiting[caller]
            if not job.answer.done():
                # A job costs at least this much, so that callers of short jobs take turns too.
                self._charge(caller, 0.001)
                if not self._running:
                    self._looking = asyncio.get_running_loop().create_task(self._look())
                self._running.append(job)
                job.started = True
                asyncio.get_running_loop().create_task(self._execute(job))

    def _charge(self, caller: str, seconds: float) -> None:
        now = time.monotonic()
        faded = 0.5 ** ((now - self._used_at) / _HALF_LIFE)
        self._used_at = now
        self._used = {who: used * faded for who, used in self._used.items() if used > 1e-4}
        self._used[caller] = self._used.get(caller, 0.0) + seconds

    def _charge_for(self, job: _Job, process: _Process) -> None:
        """Charge the caller with what the job has used since it was charged last."""
        used = process.seconds()
        self._charge(job.caller, used - job.charged)
        job.charged = used

    async def _execute(self, job: _Job) -> None:
        loop = asyncio.get_running_loop()
        process, told = None, _DIED
        try:
            job.process = process = self._waiting_process() or await self._fork()
            job.began = job.charged = process.seconds()
            await loop.sock_sendall(process.jobs, frame({"verb": job.verb, "body": job.body}))
            told = await _receive(loop, process.jobs)
        except (OSError, EOFError):
            pass  # Killed, by us or for lack of memory.
        finally:
            job.process = None
            if process is not None:
                if told is not _DIED:
                    self._charge_for(job, process)
                self._release(
                    process, len(job.body), usable=told is not _DIED and "memory" not in told
                )
            self._forget(job)
        if not job.answer.done():
            _settle(job.answer, told)

    async def _look(self) -> None:
        """While jobs run, find those that have run for a moment, and let others pass."""
        while self._running:
            await asyncio.sleep(_LOOK_EVERY)
            for job in self._running:
                if job.process is None or not job.charged:
                    continue
                self._charge_for(job, job.process)
                if not job.slow and job.charged - job.began > MOMENT:
                    job.slow = True
                    with suppress(OSError):
                        os.setpriority(os.PRIO_PROCESS, job.process.pid, _LOW_PRIORITY)
            self._share_out()
            self._next()

    def _share_out(self) -> None:
        """Run as many long jobs as there are lanes, of different callers first; pause the rest."""
        seen: Counter[str] = Counter()
        ranked = []
        for place, job in enumerate(each for each in self._running if each.slow):
            ranked.append((seen[job.caller], place, job))
            seen[job.caller] += 1
        for number, (_, _, job) in enumerate(sorted(ranked, key=lambda each: each[:2])):
            if job.process is not None:
                job.process.signal(signal.SIGCONT if number < self._lanes else signal.SIGSTOP)
        if len(ranked) > _MOST_SLOW * self._lanes:
            [(caller, _)] = seen.most_common(1)
            victim = next(job for _, _, job in reversed(ranked) if job.caller == caller)
            if not victim.answer.done():
                victim.answer.set_exception(RequestError(503, _TOO_LONG))
            self._forget(victim)

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
            if job.slow:
                self._share_out()
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
