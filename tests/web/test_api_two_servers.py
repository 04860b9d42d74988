"""Two real server processes on one database: the same bytes from both, a new release from either within one request."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from console.models import Role
from tests import make
from tests.conftest import ROOT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.minilm, pytest.mark.timeout(240)]
SAID = [
    {"role": "user", "content": "hello there"},
    {"role": "assistant", "content": "How can I help?"},
    {"role": "user", "content": "I do not want the parcel any more, can you stop it"},
]


class Server:
    def __init__(self, environment: dict[str, str]) -> None:
        with closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        web = [
            sys.executable,
            "-m",
            "granian",
            "--interface",
            "wsgi",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--no-ws",
        ]
        self.process = subprocess.Popen(
            [*web, "--workers", "1", "--log-level", "warning", "console.wsgi:application"], cwd=ROOT, env=environment
        )

    def wait(self) -> None:
        deadline = time.monotonic() + 90
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/healthz", timeout=30).close()
            except OSError:
                assert self.process.poll() is None, "the server ended by itself"
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.2)
            else:
                return

    def call(self, token: str, method: str, path: str, body: Any = None) -> bytes:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/api/v1/inventories/tiny{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            content: bytes = response.read()
            return content

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(5)


@pytest.fixture
def servers(child_environment: dict[str, str]) -> Iterator[tuple[Server, Server]]:
    environment = {**child_environment, "PATH": os.environ["PATH"]}
    both = (Server(environment), Server(environment))
    try:
        for server in both:
            server.wait()
        yield both
    finally:
        for server in both:
            server.stop()


def timeless(content: bytes) -> bytes:
    return re.sub(rb'"timing_ms":\{[^}]*\}', b'"timing_ms":0', content)


def test_one_answer_and_one_release(world: make.World, servers: tuple[Server, Server]) -> None:
    token = make.token(world.inventory, Role.PUBLISHER)
    first, second = servers

    def discover(server: Server, **more: Any) -> bytes:
        return timeless(server.call(token, "POST", "/discover", {"messages": SAID, **more}))

    answers = {
        discover(first),
        discover(second),
        discover(first, session="a"),
        discover(second, session="a"),
        discover(first),
    }
    assert len(answers) == 1
    assert json.loads(answers.pop())["release"] == 6
    recorded = {discover(server, conversation="chat-1") for server in servers for _ in range(2)}
    assert len(recorded) == 1, "a retry on another server is the same decision"

    added = {"text": SAID[2]["content"], "polarity": "signal", "base_version": 1}
    made = json.loads(first.call(token, "POST", "/artifacts/cancel-order/exemplars", added))
    assert made["release"] == 7
    after = discover(second)  # the very next request, on the process that did not write
    assert json.loads(after)["release"] == 7
    assert {f["artifact"]: f["version"] for f in json.loads(after)["fired"]}["cancel-order"] == 2
    assert after == discover(first)

    second.call(token, "PATCH", "", {"theta": 9.0})
    assert json.loads(discover(first))["theta"] == 9.0
    with pytest.raises(urllib.error.HTTPError, match="409"):
        first.call(token, "POST", "/artifacts/cancel-order/exemplars", {**added, "text": "another"})
