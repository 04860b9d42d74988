"""A worker that is killed in the middle of an import: another one takes the file over, and nothing is there twice."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from console.models import Conversation, ItemState, Message, Run, RunState
from console.services import run_coordinator, runs, uploads
from console.services.actor import SYSTEM
from tests import make
from tests.conftest import ROOT

pytestmark = [pytest.mark.engines, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
TALKS, MESSAGES = 1_500, 12
WORK = "import sys, django; django.setup(); from console.services import run_work; run_work.work(int(sys.argv[1]))"


def worker(run: Run, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WORK, str(run.pk)], cwd=ROOT, env=environment)


def stored() -> int:
    return Conversation.objects.filter(inventory__slug="drill").count()


def lines() -> Iterator[bytes]:
    for number in range(TALKS):
        messages = [{"role": "user", "content": f"message {m} of talk {number}"} for m in range(MESSAGES)]
        yield json.dumps({"id": f"talk-{number}", "messages": messages}).encode() + b"\n"


def test_a_killed_worker_s_import_is_taken_over(child_environment: dict[str, str]) -> None:
    inventory = make.inventory("drill")
    upload, _ = uploads.store_upload(inventory, io.BytesIO(b"".join(lines())), name="talks.jsonl", by=SYSTEM)
    params = {"what": "conversations", "upload": upload.public_id}
    run = runs.create_run(inventory, "import", by=SYSTEM, params=params)

    first = worker(run, child_environment)
    until = time.monotonic() + 120
    while stored() < 100 and time.monotonic() < until:
        assert first.poll() is None, "it ended before it could be killed"
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    begun = stored()
    assert 0 < begun < TALKS
    assert run.items.get().state == ItemState.CLAIMED

    later = timezone.now() + timedelta(seconds=200)  # its lease has ended by then
    assert run_coordinator.coordinate(later, only=run.pk) == [run.pk]
    assert worker(run, child_environment).wait(timeout=200) == 0
    run.refresh_from_db()
    assert (run.state, run.settled) == (RunState.COMPLETE, True)
    assert run.result is not None
    assert (run.result["read"], run.result["duplicates"], run.result["stored"]) == (TALKS, begun, TALKS - begun)
    assert run.result["again"] is True
    assert stored() == TALKS
    assert Message.objects.filter(conversation__inventory=inventory).count() == TALKS * MESSAGES
    assert runs.tried_again(run) == [("lost", 1)]
