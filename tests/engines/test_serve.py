"""`manage.py serve`, as `make up` runs it: answers, becomes ready, outlives its web server, stops and leaves no listener."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.engines.servers import free_port

pytestmark = [pytest.mark.engines, pytest.mark.minilm, pytest.mark.timeout(400)]


def answer(url: str) -> tuple[int, dict[str, str]]:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)
    except OSError:
        return 0, {}


def wait_for(url: str, process: "subprocess.Popen[str]", *, seconds: float) -> dict[str, str]:
    deadline = time.monotonic() + seconds
    while True:
        status, body = answer(url)
        if status == 200:
            return body
        assert process.poll() is None, "it ended by itself"
        assert time.monotonic() < deadline, f"{url}: {status} {body}"
        time.sleep(0.2)


def kill_web(supervisor: int, role: str) -> None:
    """SIGKILL to the web server's first process, or to the one of its children that answers; both are gone afterwards."""

    def children(of: int) -> list[int]:
        rows = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
        found = [row.split(maxsplit=2) for row in rows.splitlines()]
        return [int(pid) for pid, parent, *words in found if int(parent) == of and "granian" in "".join(words)]

    deadline = time.monotonic() + 60
    while not ((first := children(supervisor)) and (workers := children(first[0]))):
        assert time.monotonic() < deadline, "no web server"
        time.sleep(0.1)
    os.kill(first[0] if role == "first" else workers[0], signal.SIGKILL)
    while any(Path(f"/proc/{pid}").exists() for pid in (first[0], *workers)):
        assert time.monotonic() < deadline, "it lives on unsupervised"
        time.sleep(0.05)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL", "SECRET_KEY"}
    }
    return {
        **kept,
        "SIGNALBOX_VAR_DIR": str(tmp_path / "var"),
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "PORT": str(free_port()),
    }


def test_it_becomes_ready_replaces_a_killed_web_server_and_stops_on_ctrl_c(
    environment: dict[str, str], tmp_path: Path
) -> None:
    base = f"http://127.0.0.1:{environment['PORT']}"
    with (tmp_path / "serve.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "serve", "--no-sample"],
            cwd=ROOT, env=environment, stdout=log, stderr=log, text=True, process_group=0,
        )  # fmt: skip
        try:
            assert wait_for(f"{base}/healthz", process, seconds=120) == {"status": "ok"}
            ready = wait_for(f"{base}/readyz", process, seconds=120)
            assert ready == dict.fromkeys(["status", "database", "broker", "encoder", "worker"], "ok")
            for role in ("first", "worker"):
                kill_web(process.pid, role)
                assert wait_for(f"{base}/healthz", process, seconds=60) == {"status": "ok"}
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(20) == 0  # what a person waits for, and what a service manager grants
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(environment["PORT"]))) != 0
    output = (tmp_path / "serve.log").read_text()
    assert f"Starting web, worker and beat at {base}/" in output
    assert "Traceback" not in output
    assert (tmp_path / "var" / "static" / "staticfiles.json").exists()


def test_a_taken_port_is_named_with_the_mend(environment: dict[str, str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(environment["PORT"])))
        taken.listen()
        done = subprocess.run(
            [sys.executable, "manage.py", "serve", "--no-sample"],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert f"Port {environment['PORT']} cannot be used" in done.stderr
    assert f"PORT={int(environment['PORT']) + 1}" in done.stderr
