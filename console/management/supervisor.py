"""Run a few programs in the foreground: what ends is started again, Ctrl-C stops all.

Every program gets a process group of its own, so that a Ctrl-C in the terminal reaches the supervisor alone and each
program is asked to stop exactly once, its own children with it; on Linux a program also stops when the supervisor is
killed outright. A program whose first process died may have left others of its group behind, holding its port: they are
stopped before it starts again.
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
from dataclasses import dataclass
from types import FrameType

POLL_S = 0.2
STEADY_S = 60.0  # a program that lived this long starts again at once, the next time it ends
FIRST_RESTART_S, SLOWEST_RESTART_S = 1.0, 30.0
GIVEN_UP_AFTER = 5  # times in a row that an essential program ended without having been steady
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Program:
    """It is started again when it ends, each time after a longer wait. ``essential``: when it cannot be kept alive
    (``GIVEN_UP_AFTER``), everything ends.

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
    failures: int = 0  # times in a row it ended without having been steady
    group: int | None = None  # its process group, until nothing of it is left
    kill_at: float = 0.0  # when what a dead program left of its group is no longer asked but killed

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Supervisor:
    """``run`` returns an exit status: 0 after a signal, the essential program's own (at least 1) when it was given up."""

    def __init__(
        self,
        programs: Sequence[Program],
        *,
        environment: Mapping[str, str] | None = None,
        grace_s: float = 10.0,
        first_restart_s: float = FIRST_RESTART_S,
        say: Callable[[str], None] = print,
    ) -> None:
        began = time.monotonic()
        self._children = [_Child(program, start_at=began + program.delay_s) for program in programs]
        self._environment = dict(os.environ if environment is None else environment)
        self._grace_s, self._first_restart_s, self._say = grace_s, first_restart_s, say
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
                if child.process is not None:
                    status = child.process.returncode
                    self._note_end(child, child.process)
                    if child.program.essential and child.failures >= GIVEN_UP_AFTER:
                        self._say(f"{child.program.name} ended {child.failures} times in a row: stopping the rest")
                        return max(status, 1)
                if self._cleared(child):
                    self._start_when_due(child)
            self._stop.wait(POLL_S)
        return 0

    def _note_end(self, child: _Child, process: "subprocess.Popen[bytes]") -> None:
        """Decide once when it starts again, and ask what is left of its group to stop."""
        now = time.monotonic()
        child.failures = 1 if now - child.started > STEADY_S else child.failures + 1
        wait = restart_wait(child.failures, self._first_restart_s)
        again = "" if child.program.essential and child.failures >= GIVEN_UP_AFTER else f": again in {wait:.0f} s"
        self._say(f"{child.program.name} ended with status {process.returncode}{again}")
        child.process, child.start_at, child.kill_at = None, now + wait, now + self._grace_s
        _signal_group(child.group, signal.SIGTERM)

    def _cleared(self, child: _Child) -> bool:
        """Whether nothing of its former group lives; what does not go when asked is killed."""
        if child.group is not None and not _group_lives(child.group):
            child.group = None
        elif child.group is not None and time.monotonic() >= child.kill_at:
            _signal_group(child.group, signal.SIGKILL)
        return child.group is None

    def _start_when_due(self, child: _Child) -> None:
        early = child.failures == 0 and child.program.when is not None and child.program.when()
        if early or time.monotonic() >= child.start_at:
            child.started = time.monotonic()
            child.process = subprocess.Popen(
                child.program.command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                process_group=0,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )
            child.group = child.process.pid

    def _stop_all(self) -> None:
        left = [child for child in self._children if child.group is not None]
        for child in left:
            _signal_group(child.group, signal.SIGTERM)
        deadline = time.monotonic() + self._grace_s
        while left and time.monotonic() < deadline:
            left = [child for child in left if child.alive or _group_lives(child.group)]
            time.sleep(0.02 if left else 0)
        for child in left:
            _signal_group(child.group, signal.SIGKILL)
            if child.process is not None:
                child.process.wait()


def restart_wait(failures: int, first_s: float = FIRST_RESTART_S) -> float:
    """Seconds before a program that ended ``failures`` times in a row starts again: doubled each time, bounded."""
    return min(first_s * 2.0 ** min(failures - 1, 16), SLOWEST_RESTART_S)


def _signal_group(group: int | None, number: signal.Signals) -> None:
    """To every process of the group, whether or not the one that led it still lives."""
    if group is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM where only zombies are left
            os.killpg(group, number)


def _group_lives(group: int | None) -> bool:
    if group is None:
        return False
    with contextlib.suppress(ChildProcessError):  # as a container's first process this one inherits orphans: reap them
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _die_with_parent() -> None:
    """Runs in the new process before its program: the kernel ends it when the supervisor is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
