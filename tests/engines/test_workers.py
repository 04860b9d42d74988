"""A worker in a process of its own, over the filesystem broker of the embedded default and over a real Redis."""

import subprocess
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from celery import Celery
from django.utils import timezone

import console.celery  # noqa: F401 - gives `filesystem` our transport
from console.models import Heartbeat, StateView
from console.services import embed, heartbeat
from tests import make
from tests.engines.conftest import StartWorker

pytestmark = [pytest.mark.engines, pytest.mark.django_db(transaction=True), pytest.mark.timeout(400)]


@pytest.fixture(params=["filesystem", "redis"])
def broker(request: pytest.FixtureRequest, child_environment: dict[str, str]) -> tuple[dict[str, str], Celery]:
    """A worker's environment, and an application that sends to the same broker."""
    if request.param == "redis":
        url = request.getfixturevalue("redis_url")
        return {**child_environment, "REDIS_URL": url}, Celery("sender", broker=url, set_as_current=False)
    sender = Celery("sender", broker="filesystem://", set_as_current=False)
    folder = child_environment["SIGNALBOX_VAR_DIR"] + "/queue"
    sender.conf.broker_transport_options = {
        "data_folder_in": f"{folder}/messages",
        "data_folder_out": f"{folder}/messages",
        "control_folder": f"{folder}/control",
    }
    return {key: value for key, value in child_environment.items() if key != "REDIS_URL"}, sender


def until(condition: Callable[[], bool], *, seconds: float, worker: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert worker.poll() is None, "the worker ended by itself"
        assert time.monotonic() < deadline, "the worker did not do it in time"
        time.sleep(0.1)


def test_the_worker_says_that_it_lives_at_its_start_and_at_each_beat(
    broker: tuple[dict[str, str], Celery], start_worker: StartWorker
) -> None:
    environment, sender = broker
    worker = start_worker(environment)
    until(lambda: Heartbeat.objects.filter(name=heartbeat.WORKER).exists(), seconds=120, worker=worker)

    long_ago = timezone.now() - timedelta(hours=1)
    Heartbeat.objects.update(at=long_ago)
    sender.send_task("console.heartbeat")
    until(lambda: not Heartbeat.objects.filter(at=long_ago).exists(), seconds=120, worker=worker)
    silence = heartbeat.silence(heartbeat.WORKER)
    assert silence is not None
    assert silence < timedelta(seconds=120)


@pytest.mark.minilm
def test_states_without_vectors_are_embedded_in_the_background(
    broker: tuple[dict[str, str], Celery], start_worker: StartWorker
) -> None:
    environment, sender = broker
    inventory = make.inventory("waiting")
    make.conversation(inventory, "talk", ["where is my parcel", "thank you"])
    assert embed.pending_states(inventory).count() == 2
    sender.send_task("console.embed_pending")  # names no inventory: it finds the one that waits
    worker = start_worker(environment)
    until(lambda: not embed.pending_states(inventory).exists(), seconds=120, worker=worker)
    assert {view.encoder_id for view in StateView.objects.all()} == {inventory.encoder_id}
