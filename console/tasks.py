"""Every Celery task: ids in, one service call. The database is the record of what is to be done; messages only wake workers."""

import logging
from typing import Any

from celery.signals import worker_ready
from django.db import OperationalError
from django.dispatch import receiver
from kombu.exceptions import OperationalError as BrokerError

from console.celery import app
from console.models import EncoderMigration, Inventory, Run
from console.services import (
    alert_watch,
    embed,
    embed_turns,
    erasure,
    heartbeat,
    run_coordinator,
    run_work,
    schedules,
    uploads,
    webhook_send,
)
from console.services import migrate as migrations
from console.services.errors import Unavailable

SENDING_S = 5.0  # of webhooks
SLICE_S = 20.0  # of one run, or of embedding; then the other runs and tasks have their turn
log = logging.getLogger(__name__)


@app.task(
    name="console.embed_pending",
    autoretry_for=(Unavailable, OperationalError),
    retry_backoff=5,
    retry_backoff_max=300,
    max_retries=5,
    soft_time_limit=600,
    time_limit=660,
)
def embed_pending(inventory_id: int | None = None, turn: str | None = None) -> int:
    """A slice of embedding the inventory's examples and query states that have no vectors yet, the rest asked for again
    behind what else is waiting; without an id, wake one such task per inventory."""
    if inventory_id is None:
        waiting = [inventory for inventory in Inventory.objects.all() if embed.is_pending(inventory)]
        for inventory in waiting:
            embed_pending.delay(inventory.pk)
        return len(waiting)
    done = embed_turns.embed_slice(Inventory.objects.get(pk=inventory_id), turn=turn, seconds=SLICE_S)
    if done.turn is not None:
        try:
            embed_pending.delay(inventory_id, done.turn)
        except (BrokerError, OSError) as error:  # the next minute's task begins again
            log.warning("the rest of inventory %s waits to be embedded, the broker is away: %s", inventory_id, error)
    return done.done


@receiver(embed.still_embedding)
def wake_embedding(**_: Any) -> None:
    """Somebody was asked to come back: the worker need not wait for the minute."""
    try:
        embed_pending.apply_async(expires=55, retry=False)
    except (BrokerError, OSError) as error:
        log.warning("the worker was not called for examples without vectors: %s", error)


@app.task(name="console.work_run", reject_on_worker_lost=True, soft_time_limit=3_300, time_limit=3_400)
def work_run(run_id: int) -> bool:
    """A slice of one run; the rest is asked for again behind what else is waiting."""
    try:
        more = run_work.work(run_id, seconds=SLICE_S)
    except Run.DoesNotExist:
        return False
    except OperationalError as error:  # the database is away: its rows say what is left, the coordinator calls again
        log.warning("run %s: %s", run_id, error)
        return False
    if more:
        wake_run(run_id)
    return more


@app.task(name="console.coordinate", autoretry_for=(OperationalError,), max_retries=2, time_limit=60)
def coordinate() -> int:
    """Call workers for the runs and migrations that have something to do, and start what schedules have missed."""
    for migration_id in migrations.stalled():
        wake_migration(migration_id)
    schedules.catch_up()
    wake = run_coordinator.coordinate()
    for run_id in wake:
        wake_run(run_id)
    return len(wake)


@app.task(name="console.start_scheduled", autoretry_for=(OperationalError,), max_retries=3, time_limit=120)
def start_scheduled(schedule_id: int) -> None:
    """The clock has reached a schedule's time."""
    run = schedules.start_due(schedule_id)
    if run is not None:
        wake_run(run.pk)


def wake_run(run_id: int) -> bool:
    """Call a worker; False when the broker is away: the run is accepted all the same, the coordinator calls later."""
    try:
        work_run.apply_async((run_id,), expires=600, retry=False)
    except (BrokerError, OSError) as error:
        log.warning("run %s waits, the broker is away: %s", run_id, error)
        return False
    return True


@app.task(name="console.erase_uploads", autoretry_for=(OperationalError,), max_retries=2, time_limit=900)
def erase_uploads() -> int:
    """Erase the files that are no longer needed."""
    return uploads.erase_old()


@app.task(
    name="console.migrate",
    autoretry_for=(OperationalError,),
    retry_backoff=5,
    max_retries=5,
    soft_time_limit=3_300,
    time_limit=3_400,
)
def migrate(migration_id: int) -> bool:
    """A slice of a migration's reading, at its end the report; the rest is asked for again behind what else is waiting."""
    row = EncoderMigration.objects.select_related("inventory", "from_centre").filter(pk=migration_id).first()
    more = row is not None and migrations.advance(row, seconds=SLICE_S)
    if more:
        wake_migration(migration_id)
    return more


def wake_migration(migration_id: int) -> None:
    """Call a worker; when the broker is away, `coordinate` calls later."""
    try:
        migrate.apply_async((migration_id,), expires=600, retry=False)
    except (BrokerError, OSError) as error:
        log.warning("migration %s waits, the broker is away: %s", migration_id, error)


@app.task(name="console.erase_conversations", autoretry_for=(OperationalError,), max_retries=2, time_limit=1_800)
def erase_conversations() -> int:
    """Erase the conversations that are older than their inventory keeps them."""
    return erasure.erase_due()


@app.task(name="console.send_webhooks", autoretry_for=(OperationalError,), max_retries=2, time_limit=120)
def send_webhooks() -> int:
    """Tell webhooks what the outbox holds, for a few seconds; the rest waits for the next of these tasks."""
    return webhook_send.send_for(SENDING_S)


def wake_webhooks() -> None:
    """Somebody sent something by hand: the worker need not wait for the next quarter of a minute."""
    try:
        send_webhooks.apply_async(expires=14, retry=False)
    except (BrokerError, OSError) as error:
        log.warning("webhooks wait, the broker is away: %s", error)


@app.task(name="console.watch_alerts", autoretry_for=(OperationalError,), max_retries=2, time_limit=900)
def watch_alerts() -> int:
    """Tell webhooks that want it which alerts of Home have come and gone."""
    return alert_watch.watch_all()


@app.task(name="console.prune_webhooks", autoretry_for=(OperationalError,), max_retries=2, time_limit=900)
def prune_webhooks() -> int:
    """Delete deliveries that are a month old."""
    return webhook_send.prune()


@app.task(name="console.heartbeat", autoretry_for=(OperationalError,), max_retries=2, time_limit=30)
def beat() -> None:
    """Say that broker, beat and worker do their part: `/readyz` reads it."""
    heartbeat.beat(heartbeat.WORKER)


@worker_ready.connect
def say_ready(**_: Any) -> None:
    heartbeat.beat(heartbeat.WORKER)
