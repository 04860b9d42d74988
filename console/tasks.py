"""Every Celery task: ids in, one service call. The database is the record of what is to be done; messages only wake workers."""

from typing import Any

from celery.signals import worker_ready
from django.db import OperationalError

from console.celery import app
from console.models import Inventory
from console.services import embed, heartbeat
from console.services.errors import Unavailable

STATES_PER_RUN = 2_000  # about 15 s with the local encoder; the next minute's run takes the rest


@app.task(
    name="console.embed_pending",
    autoretry_for=(Unavailable, OperationalError),
    retry_backoff=5,
    retry_backoff_max=300,
    max_retries=5,
    soft_time_limit=600,
    time_limit=660,
)
def embed_pending(inventory_id: int | None = None) -> int:
    """Embed the inventory's query states that have no vectors yet; without an id, wake one such task per inventory."""
    if inventory_id is None:
        waiting = [inventory for inventory in Inventory.objects.all() if embed.pending_states(inventory).exists()]
        for inventory in waiting:
            embed_pending.delay(inventory.pk)
        return len(waiting)
    return embed.embed_states(Inventory.objects.get(pk=inventory_id), limit=STATES_PER_RUN)


@app.task(name="console.heartbeat", autoretry_for=(OperationalError,), max_retries=2, time_limit=30)
def beat() -> None:
    """Say that broker, beat and worker do their part: `/readyz` reads it."""
    heartbeat.beat(heartbeat.WORKER)


@worker_ready.connect
def say_ready(**_: Any) -> None:
    heartbeat.beat(heartbeat.WORKER)
