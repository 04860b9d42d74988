"""Senders as processes of their own: one that is killed while its receiver holds it, and the worker of `make up`."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from console.celery import app
from console.env import networks
from console.models import DeliveryState, WebhookDelivery
from console.services import webhook_send, webhooks
from console.services.actor import SYSTEM
from console.tasks import wake_webhooks
from tests import make
from tests.conftest import ROOT
from tests.receiver import receiver, status

pytestmark = [pytest.mark.engines, pytest.mark.django_db(transaction=True), pytest.mark.timeout(400)]
SEND = "import django; django.setup(); from console.services import webhook_send; webhook_send.send_due()"


@pytest.fixture
def environment(child_environment: dict[str, str], settings: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("WEBHOOK_NETWORKS", "127.0.0.0/8")
    settings.WEBHOOK_NETWORKS = networks("WEBHOOK_NETWORKS")
    return child_environment | {"WEBHOOK_NETWORKS": "127.0.0.0/8"}


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 150
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_killed_sender_s_delivery_arrives_again_under_the_same_id(environment: dict[str, str]) -> None:
    held = threading.Event()
    inventory = make.inventory("told")
    with receiver() as server:
        server.answer = lambda handler: held.wait(30) and status(handler, 204)
        hook = webhooks.create_webhook(inventory, by=SYSTEM, address=server.address, events=["run.ended"]).webhook
        delivery = webhooks.send_test(hook, by=SYSTEM)
        first = subprocess.Popen([sys.executable, "-c", SEND], cwd=ROOT, env=environment)
        until(lambda: len(server.got) == 1)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        held.set()
        delivery.refresh_from_db()
        assert delivery.state == DeliveryState.SENDING
        assert webhook_send.send_due() == 0  # its lease has not ended
        later = timezone.now() + webhook_send.LEASE + timedelta(seconds=1)
        assert webhook_send.send_due(now=later) == 1
        delivery.refresh_from_db()
        assert (delivery.state, delivery.tries) == (DeliveryState.DELIVERED, 2)
        assert [got.headers["Signalbox-Delivery"] for got in server.got] == [delivery.public_id] * 2
        assert server.got[0].body == server.got[1].body


def test_the_worker_sends_what_it_is_called_for(
    environment: dict[str, str], start_worker: Callable[[dict[str, str]], "subprocess.Popen[bytes]"]
) -> None:
    inventory = make.inventory("told")
    with receiver() as slow, receiver() as quick, contextlib.ExitStack() as stack:
        held = threading.Event()
        stack.callback(held.set)
        slow.answer = lambda handler: held.wait(30) and status(handler, 204)
        hooks = [
            webhooks.create_webhook(inventory, by=SYSTEM, address=server.address, events=["run.ended"]).webhook
            for server in (slow, quick)
        ]
        for hook in hooks:
            webhooks.send_test(hook, by=SYSTEM)
        start_worker(environment)
        assert app.conf.broker_url
        wake_webhooks()
        until(lambda: len(quick.got) == 1)
        until(lambda: WebhookDelivery.objects.filter(state=DeliveryState.DELIVERED).count() == 1)
        waiting = WebhookDelivery.objects.get(webhook=hooks[0])
        assert (waiting.state, waiting.error) == (DeliveryState.WAITING, "No whole answer within 10 seconds.")
