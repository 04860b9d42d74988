"""The runner of `make up`: it restarts, it stops everything, and nothing of it stays behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from console.management.supervisor import GIVEN_UP_AFTER, Program, Supervisor, restart_wait
from tests.engines.servers import free_port

pytestmark = [pytest.mark.engines, pytest.mark.timeout(60)]
PYTHON = sys.executable
FOREVER = [PYTHON, "-c", "import time; time.sleep(600)"]


def run_until(condition: object, supervisor: Supervisor, *, seconds: float = 20.0) -> int:
    """Run in this thread; a second one sends the Ctrl-C once ``condition()`` holds."""

    def watch() -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not condition():  # type: ignore[operator]
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        return supervisor.run()
    finally:
        watcher.join()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_ctrl_c_stops_programs_and_the_processes_they_started(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    code = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(note)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)"
    )
    supervisor = Supervisor([Program("web", [PYTHON, "-c", code], essential=True), Program("other", FOREVER)])
    found = signal.getsignal(signal.SIGINT)  # a shell that runs the tests in the background ignores it
    assert run_until(lambda: note.exists() and len(note.read_text().split()) == 2, supervisor) == 0
    pids = [int(pid) for pid in note.read_text().split()]
    deadline = time.monotonic() + 5
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, pids))
    assert signal.getsignal(signal.SIGINT) is found


def test_a_program_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    note = tmp_path / "ready"
    code = (
        f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open({str(note)!r}, 'w'); time.sleep(600)"
    )
    supervisor = Supervisor([Program("stubborn", [PYTHON, "-c", code])], grace_s=0.5)
    began = time.monotonic()
    assert run_until(note.exists, supervisor) == 0
    assert time.monotonic() - began < 15


def test_an_ended_program_starts_again_after_a_growing_wait(tmp_path: Path) -> None:
    note = tmp_path / "starts"
    lines: list[str] = []
    code = f"open({str(note)!r}, 'a').write('x'); raise SystemExit(3)"
    supervisor = Supervisor(
        [Program("web", FOREVER, essential=True), Program("worker", [PYTHON, "-c", code])], say=lines.append
    )
    assert run_until(lambda: note.exists() and len(note.read_text()) >= 2 and len(lines) >= 2, supervisor) == 0
    assert lines[:2] == ["worker ended with status 3: again in 1 s", "worker ended with status 3: again in 2 s"]


def test_an_essential_program_that_cannot_be_kept_alive_ends_everything_with_its_status() -> None:
    lines: list[str] = []
    programs = [Program("web", [PYTHON, "-c", "raise SystemExit(7)"], essential=True), Program("worker", FOREVER)]
    assert Supervisor(programs, first_restart_s=0.01, say=lines.append).run() == 7
    assert lines == [
        *["web ended with status 7: again in 0 s"] * (GIVEN_UP_AFTER - 1),
        "web ended with status 7",
        f"web ended {GIVEN_UP_AFTER} times in a row: stopping the rest",
    ]


def test_what_a_killed_program_left_of_its_group_is_stopped_before_it_starts_again(tmp_path: Path) -> None:
    """As granian: the first process dies, the one that serves lives on, deaf to SIGTERM, and holds the port."""
    port = free_port()
    note = tmp_path / "starts"
    serve = (
        "import signal, socket, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); s = socket.socket(); "
        f"s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('127.0.0.1', {port})); s.listen(); "
        f"open({str(note)!r}, 'a').write(f'{{sys.argv[1]}} '); time.sleep(600)"
    )
    lead = f"import os, subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {serve!r}, str(os.getpid())]) != 0)"
    lines: list[str] = []
    supervisor = Supervisor(
        [Program("web", [PYTHON, "-c", lead], essential=True), Program("worker", FOREVER)],
        first_restart_s=0.1, grace_s=1.0, say=lines.append,
    )  # fmt: skip
    killed: list[int] = []

    def kill_the_first_then_wait_for_the_second() -> bool:
        leaders = [int(pid) for pid in note.read_text().split()] if note.exists() else []
        if leaders and not killed:
            killed.append(leaders[0])
            os.kill(leaders[0], signal.SIGKILL)
        return len(leaders) >= 2

    assert run_until(kill_the_first_then_wait_for_the_second, supervisor) == 0
    assert len(note.read_text().split()) == 2, "the second could not take the port"
    assert lines == ["web ended with status -9: again in 0 s"]
    deadline = time.monotonic() + 5
    while (left := [g for g in map(int, note.read_text().split()) if alive(-g)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, "a group outlived the supervisor"


def test_the_wait_stays_bounded_however_often_a_program_ended() -> None:
    assert [restart_wait(n) for n in (1, 2, 5, 6, 1_025, 10**9)] == [1, 2, 16, 30, 30, 30]


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_programs_end_when_the_supervisor_is_killed_outright(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    child = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    code = (
        "import sys\nfrom console.management.supervisor import Program, Supervisor\n"
        f"Supervisor([Program('web', [sys.executable, '-c', {child!r}], essential=True)]).run()"
    )
    parent = subprocess.Popen([PYTHON, "-c", code])
    deadline = time.monotonic() + 20
    while not (note.exists() and note.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    pid = int(note.read_text())
    parent.kill()
    parent.wait()
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(pid)


def test_a_late_program_starts_as_soon_as_what_it_waits_for_is_there(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    wait_and_write = f"import time; time.sleep(0.5); open({str(first)!r}, 'w'); time.sleep(600)"
    write = f"open({str(second)!r}, 'w').write(str(__import__('os').path.exists({str(first)!r}))); __import__('time').sleep(600)"
    programs = [
        Program("web", [PYTHON, "-c", wait_and_write], essential=True),
        Program("worker", [PYTHON, "-c", write], delay_s=60.0, when=first.exists),
    ]
    assert run_until(lambda: second.exists() and second.read_text(), Supervisor(programs)) == 0
    assert second.read_text() == "True"
