"""Engines for the tests of this folder, and Celery workers as processes of their own."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, missing
from tests.engines import servers


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with servers.redis_server() as url:
        if url is None:
            missing(f"Redis: {servers.why_not['redis']}", unless="REQUIRE_ENGINES")
        else:
            yield url


StartWorker = Callable[[dict[str, str]], "subprocess.Popen[bytes]"]


@pytest.fixture
def start_worker(tmp_path: Path) -> Iterator[StartWorker]:
    """``start_worker(environment)`` runs the worker of `make up`; it is gone when the test ends."""
    with contextlib.ExitStack() as stack:

        def start(environment: dict[str, str]) -> "subprocess.Popen[bytes]":
            log = stack.enter_context((tmp_path / "worker.log").open("ab"))
            command = [sys.executable, "-m", "celery", "--quiet", "--app", "console", "worker"]
            command += ["--pool", "threads", "--concurrency", "1", "--loglevel", "info"]
            command += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
            stack.callback(_end, process)
            return process

        yield start


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
