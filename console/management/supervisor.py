"""Run a few programs in the foreground: what ends is started again, what is essential takes the rest with it, Ctrl-C stops all.

Every program gets a process group of its own, so that a Ctrl-C in the terminal reaches the supervisor alone and each
program is asked to stop exactly once, its own children with it; on Linux a program also stops when the supervisor is
killed outright.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType

POLL_S = 0.2
STEADY_S = 60.0  # a program that lived this long starts again at once, the next time it ends
SLOWEST_RESTART_S = 30.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Program:
    """``essential``: when it ends, everything ends; another program is started again, each time after a longer wait.

    ``delay_s``: how long after the others it starts at the latest; earlier as soon as ``when()`` holds.
    """

    name: str
    command: Sequence[str]
    essential: bool = False
    delay_s: float = 0.0
    when: Callable[[], bool] | None = None


@dataclass
class _Child:
    program: Program
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    start_at: float = 0.0
    failures: int = field(default=0)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Supervisor:
    """``run`` returns an exit status: 0 after a signal, the essential program's own (at least 1) when that one ended."""

    def __init__(
        self,
        programs: Sequence[Program],
        *,
        environment: Mapping[str, str] | None = None,
        grace_s: float = 10.0,
        say: Callable[[str], None] = print,
    ) -> None:
        began = time.monotonic()
        self._children = [_Child(program, start_at=began + program.delay_s) for program in programs]
        self._environment = dict(os.environ if environment is None else environment)
        self._grace_s, self._say = grace_s, say
        self._stop = threading.Event()

    def run(self) -> int:
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, self._asked_to_stop) for number in signals}
        try:
            return self._watch()
        finally:
            self._stop_all()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _asked_to_stop(self, number: int, frame: FrameType | None) -> None:
        self._stop.set()

    def _watch(self) -> int:
        while not self._stop.is_set():
            for child in self._children:
                if child.alive:
                    continue
                if child.process is not None and child.program.essential:
                    self._say(f"{child.program.name} ended with status {child.process.returncode}: stopping the rest")
                    return max(child.process.returncode, 1)
                self._start_when_due(child)
            self._stop.wait(POLL_S)
        return 0

    def _start_when_due(self, child: _Child) -> None:
        now = time.monotonic()
        if child.process is not None:  # it ended: decide once when it starts again
            child.failures = 1 if now - child.started > STEADY_S else child.failures + 1
            wait = min(2.0 ** (child.failures - 1), SLOWEST_RESTART_S)
            self._say(f"{child.program.name} ended with status {child.process.returncode}: again in {wait:.0f} s")
            child.process, child.start_at = None, now + wait
        early = child.failures == 0 and child.program.when is not None and child.program.when()
        if early or now >= child.start_at:
            child.started = now
            child.process = subprocess.Popen(
                child.program.command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                process_group=0,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )

    def _stop_all(self) -> None:
        running = [child.process for child in self._children if child.process is not None]
        for process in running:
            _signal_group(process, signal.SIGTERM)
        deadline = time.monotonic() + self._grace_s
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                _signal_group(process, signal.SIGKILL)
                process.wait()


def _signal_group(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def _die_with_parent() -> None:
    """Runs in the new process before its program: the kernel ends it when the supervisor is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
