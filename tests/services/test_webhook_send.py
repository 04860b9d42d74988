"""Sending: claims, leases, back-off, what a receiver gets; by an injected clock, and against a real server."""

import json
import re
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from http.server import ThreadingHTTPServer
from typing import Any

import pytest
from django.db import connection

from console.env import networks
from console.models import AuditEvent, DeliveryState, Webhook, WebhookDelivery, WebhookState
from console.providers.webhook import Post, Told
from console.services import outbox, webhook_send, webhooks
from console.services.actor import SYSTEM
from console.tasks import prune_webhooks, send_webhooks, wake_webhooks
from tests import make
from tests.conftest import ROOT
from tests.make import World
from tests.receiver import receiver, status

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DOWN = Told(503, "Answered 503")
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


class Scripted:
    """In place of the network: answers in order, then 204; ``posts`` is what was sent."""

    def __init__(self, *answers: Told) -> None:
        self.answers, self.posts = list(answers), list[Post]()

    def __call__(self, posts: Sequence[Post]) -> Mapping[int, Told]:
        self.posts += posts
        return {post.key: self.answers.pop(0) if self.answers else Told(204) for post in posts}


def hook(world: World, address: str = "https://hooks.example.com/") -> Webhook:
    return webhooks.create_webhook(world.inventory, by=SYSTEM, address=address, events=["run.ended"]).webhook


def queued(row: Webhook, n: int = 1, *, at: datetime = NOW) -> list[WebhookDelivery]:
    """``n`` events for it."""
    made = []
    for _ in range(n):
        made += outbox.deliveries("tiny", outbox.Event("run.ended", {"run": "r"}), [row.pk], now=at)
    return WebhookDelivery.objects.bulk_create(made)


def now_of(row: WebhookDelivery) -> WebhookDelivery:
    row.refresh_from_db()
    return row


# ------------------------------------------------------------------------------------------------------------- the clock
def test_what_arrives_is_delivered_once(world: World) -> None:
    (row,) = queued(hook(world))
    send = Scripted()
    assert webhook_send.send_due(now=NOW - MINUTE, send=send) == 0
    assert webhook_send.send_due(now=NOW, send=send) == 1
    assert webhook_send.send_due(now=NOW + DAY, send=send) == 0
    now_of(row)
    assert (row.state, row.tries, row.status, row.error, row.claim) == (DeliveryState.DELIVERED, 1, 204, "", "")
    assert [post.body for post in send.posts] == [row.body.encode()]


def test_back_off_doubles_up_to_three_hours_and_ends_after_a_day(world: World) -> None:
    (row,) = queued(hook(world))
    now, pauses = NOW, []
    while row.state != DeliveryState.FAILED:
        assert webhook_send.send_due(now=now, send=Scripted(DOWN)) == 1
        now_of(row)
        if row.state == DeliveryState.WAITING:
            pauses.append((row.due_at - now).total_seconds())
            assert webhook_send.send_due(now=row.due_at - timedelta(seconds=1), send=Scripted()) == 0
            now = max(row.due_at, Webhook.objects.get().not_before or now)
    assert pauses[:4] == [30, 60, 120, 240]
    assert pauses[-1] == 3 * 3_600
    assert now - NOW <= DAY
    assert now - NOW > 20 * HOUR
    assert (row.status, row.error, row.tries) == (503, "Answered 503", len(pauses) + 1)
    assert webhook_send.send_due(now=now + DAY, send=Scripted()) == 0


def test_retry_after_is_honoured_and_holds_for_the_whole_webhook(world: World) -> None:
    row = hook(world)
    first, second = queued(row), queued(row, at=NOW + MINUTE)
    webhook_send.send_due(now=NOW, send=Scripted(Told(429, "Answered 429", retry_after=3_600)))
    assert now_of(first[0]).due_at == NOW + HOUR
    assert webhook_send.send_due(now=NOW + 59 * MINUTE, send=Scripted()) == 0
    assert webhook_send.send_due(now=NOW + HOUR, send=Scripted()) == 1
    assert webhook_send.send_due(now=NOW + HOUR, send=Scripted()) == 1
    assert {now_of(d).state for d in (*first, *second)} == {DeliveryState.DELIVERED}


@pytest.mark.parametrize("seconds", [2.0 * 86_400, 1e12])
def test_a_retry_after_beyond_the_day_gives_up(world: World, seconds: float) -> None:
    (row,) = queued(hook(world))
    webhook_send.send_due(now=NOW + MINUTE, send=Scripted(Told(503, "Answered 503", retry_after=seconds)))
    assert now_of(row).state == DeliveryState.FAILED


def test_a_short_retry_after_does_not_hurry(world: World) -> None:
    (row,) = queued(hook(world))
    webhook_send.send_due(now=NOW, send=Scripted(Told(503, "Answered 503", retry_after=0)))
    assert now_of(row).due_at == NOW + timedelta(seconds=30)


def test_a_webhook_that_fails_is_tried_with_one_at_a_time_and_holds_up_no_other(world: World) -> None:
    bad, good = hook(world), hook(world)
    queued(bad, 10)
    queued(good, 10)
    send = Scripted(*[DOWN] * 4)
    assert webhook_send.send_due(now=NOW, send=send) == 8  # four of each, side by side
    bad.refresh_from_db()
    assert (bad.failures, bad.failing_since, bad.not_before) == (1, NOW, NOW + timedelta(seconds=30))
    assert webhook_send.send_due(now=NOW, send=Scripted()) == 4
    assert webhook_send.send_due(now=NOW, send=Scripted()) == 2
    assert webhook_send.send_due(now=NOW, send=Scripted()) == 0
    later = NOW + timedelta(seconds=30)
    assert webhook_send.send_due(now=later, send=Scripted(DOWN)) == 1
    assert Webhook.objects.get(pk=bad.pk).not_before == later + timedelta(seconds=60)
    assert webhook_send.send_due(now=later + MINUTE, send=Scripted()) == 1  # it arrives: all the others may go
    assert webhook_send.send_due(now=later + MINUTE, send=Scripted()) == 4
    bad.refresh_from_db()
    assert (bad.failures, bad.failing_since, bad.not_before) == (0, None, None)


def test_after_three_days_of_failing_it_is_paused_with_a_note(world: World) -> None:
    row = hook(world)
    now = NOW
    while Webhook.objects.get().state == WebhookState.ACTIVE:
        queued(row, at=now)
        webhook_send.send_due(now=now, send=Scripted(DOWN))
        now += 2 * HOUR
        assert now < NOW + 5 * DAY
    row.refresh_from_db()
    assert row.state == WebhookState.PAUSED
    assert row.note == "Nothing has arrived since 2026-11-30 12:00 UTC. It goes on when you say so."
    assert now - NOW > 3 * DAY
    event = AuditEvent.objects.get(action="webhook.pause")
    assert (event.actor, event.after) == ("", {"note": row.note})
    world.inventory.refresh_from_db()
    assert world.inventory.wanted_events == {}
    assert webhook_send.send_due(now=now + DAY, send=Scripted()) == 0
    webhooks.resume_webhook(row, by=SYSTEM)
    row.refresh_from_db()
    assert (row.note, row.failures, row.failing_since) == ("", 0, None)


def test_one_success_within_three_days_keeps_it(world: World) -> None:
    row = hook(world)
    for day in range(8):
        (delivery,) = queued(row, at=NOW + day * DAY)
        answer = Told(204) if day % 2 else Told(500, "Answered 500", retry_after=2e6)
        webhook_send.send_due(now=NOW + day * DAY + HOUR, send=Scripted(answer))
        assert now_of(delivery).state == (DeliveryState.DELIVERED if day % 2 else DeliveryState.FAILED)
        Webhook.objects.update(not_before=None)
    row.refresh_from_db()
    assert row.state == WebhookState.ACTIVE


# -------------------------------------------------------------------------------------------------------- claims and leases
def test_a_lost_sender_s_delivery_is_sent_again_after_its_lease_and_its_own_answer_is_not_taken(world: World) -> None:
    (row,) = queued(hook(world))
    (held,) = webhook_send.claim(NOW)
    assert webhook_send.claim(NOW) == []
    assert webhook_send.send_due(now=NOW + webhook_send.LEASE, send=Scripted()) == 0
    after = NOW + webhook_send.LEASE + timedelta(seconds=1)
    send = Scripted(DOWN)
    assert webhook_send.send_due(now=after, send=send) == 1
    assert not webhook_send.record(held, Told(204), after)  # the first sender was only slow
    now_of(row)
    assert (row.state, row.tries, row.status) == (DeliveryState.WAITING, 2, 503)
    assert send.posts[0].headers["Signalbox-Delivery"] == row.public_id


def test_a_lease_of_a_clock_that_was_set_back_ends(world: World) -> None:
    (row,) = queued(hook(world))
    webhook_send.claim(NOW)
    WebhookDelivery.objects.update(lease_until=NOW + DAY)
    assert webhook_send.send_due(now=NOW, send=Scripted()) == 1
    assert now_of(row).state == DeliveryState.DELIVERED


def test_nothing_goes_to_a_paused_or_deleted_webhook(world: World) -> None:
    paused, deleted = hook(world), hook(world)
    queued(paused)
    queued(deleted)
    webhooks.pause_webhook(paused, by=SYSTEM)
    webhooks.delete_webhook(deleted, by=SYSTEM)
    assert webhook_send.send_due(now=NOW + MINUTE, send=Scripted()) == 0


def test_one_that_is_deleted_while_it_is_sent_to(world: World) -> None:
    row = hook(world)
    (delivery,) = queued(row)

    def send(posts: Sequence[Post]) -> Mapping[int, Told]:
        webhooks.delete_webhook(row, by=SYSTEM)
        return {post.key: Told(500, "Answered 500", retry_after=2e6) for post in posts}

    Webhook.objects.update(failing_since=NOW - 4 * DAY, failures=3)
    assert webhook_send.send_due(now=NOW + MINUTE, send=send) == 1
    assert now_of(delivery).state == DeliveryState.FAILED
    assert Webhook.objects.get().state == WebhookState.DELETED


@pytest.mark.django_db(transaction=True)
def test_of_two_senders_at_once_one_sends_each_delivery() -> None:
    """On PostgreSQL too: run with DATABASE_URL."""
    world = make.world()
    rows = [hook(world) for _ in range(6)]
    for row in rows:
        queued(row, 4)
    sent: list[int] = []
    wrong: list[BaseException] = []
    together = threading.Barrier(4)

    def send(posts: Sequence[Post]) -> Mapping[int, Told]:
        sent.extend(post.key for post in posts)
        return {post.key: Told(204) for post in posts}

    def work() -> None:
        try:
            together.wait(timeout=30)
            for _ in range(8):
                webhook_send.send_due(now=NOW, send=send)
        except BaseException as error:  # noqa: BLE001  # a thread cannot fail the test itself
            wrong.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not wrong
    assert len(sent) == len(set(sent)) == 24
    assert set(WebhookDelivery.objects.values_list("state", "tries")) == {(DeliveryState.DELIVERED, 1)}


# ------------------------------------------------------------------------------------------------------------------ pruning
def test_what_is_a_month_old_goes_and_deleted_webhooks_with_their_last(world: World) -> None:
    kept, gone = hook(world), hook(world)
    old, fresh = queued(kept, 3, at=NOW - 31 * DAY), queued(kept, 2, at=NOW - 29 * DAY)
    queued(gone, 1, at=NOW - 31 * DAY)
    webhooks.delete_webhook(gone, by=SYSTEM)
    Webhook.objects.filter(pk=gone.pk).update(deleted_at=NOW - 31 * DAY)
    assert webhook_send.prune(now=NOW) == len(old) + 1
    assert set(WebhookDelivery.objects.values_list("pk", flat=True)) == {d.pk for d in fresh}
    assert list(Webhook.objects.all()) == [kept]
    assert prune_webhooks() == 0


# ------------------------------------------------------------------------------------------------------------- a real server
@pytest.fixture
def open_loopback(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBHOOK_NETWORKS", "127.0.0.0/8")
    settings.WEBHOOK_NETWORKS = networks("WEBHOOK_NETWORKS")


def documented() -> dict[str, Any]:
    """The receiver of docs/api.md."""
    (code,) = re.findall(r"```python\n(.*?def verified.*?)```", (ROOT / "docs/api.md").read_text(), re.DOTALL)
    found: dict[str, Any] = {"SECRET": ""}
    exec(code, found)
    return found


def test_the_documented_receiver_takes_what_is_sent_and_refuses_what_is_not(world: World, open_loopback: None) -> None:
    found = documented()
    server = ThreadingHTTPServer(("127.0.0.1", 0), found["Receiver"])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        made = webhooks.create_webhook(
            world.inventory, by=SYSTEM, address=f"http://127.0.0.1:{server.server_address[1]}/", events=["run.ended"]
        )
        found["SECRET"] = made.secret
        delivery = webhooks.send_test(made.webhook, by=SYSTEM)
        assert send_webhooks() == 1
        assert now_of(delivery).state == DeliveryState.DELIVERED
        webhooks.rotate_secret(made.webhook, by=SYSTEM)
        webhooks.send_again(made.webhook, delivery.public_id, by=SYSTEM)
        assert send_webhooks() == 1
        assert (now_of(delivery).state, delivery.status) == (DeliveryState.WAITING, 401)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_signature_is_over_time_and_body() -> None:
    found = documented()
    at = int(datetime.now(UTC).timestamp())
    header = webhook_send.signature("whsec_x", b'{"a": 1}', at)
    assert re.fullmatch(r"t=\d+,v1=[0-9a-f]{64}", header)
    assert found["verified"]("whsec_x", header, b'{"a": 1}')
    assert not found["verified"]("whsec_x", header, b'{"a": 2}')
    assert not found["verified"]("whsec_y", header, b'{"a": 1}')
    assert not found["verified"]("whsec_x", webhook_send.signature("whsec_x", b"{}", at - 3_600), b"{}")
    assert webhook_send.signature("k", b"{}", 1) == (
        "t=1,v1=" + __import__("hmac").new(b"k", b"1.{}", "sha256").hexdigest()
    )


def test_what_goes_out_names_event_and_delivery_and_a_failure_is_kept_in_words(
    world: World, open_loopback: None
) -> None:
    with receiver() as server:
        row = hook(world, server.address)
        delivery = webhooks.send_test(row, by=SYSTEM)
        server.answer = lambda handler: status(handler, 500, body=b"no such table: hooks")
        assert send_webhooks() == 1
        now_of(delivery)
        assert (delivery.status, delivery.error) == (500, "Answered 500: no such table: hooks")
        (got,) = server.got
    assert got.headers["Signalbox-Event"] == "test"
    assert got.headers["Signalbox-Delivery"] == delivery.public_id
    assert json.loads(got.body)["id"] == delivery.event_id
    assert json.loads(got.body)["data"] == {"webhook": row.public_id}


def test_an_address_that_is_not_allowed_any_more_is_tried_and_refused(
    world: World, open_loopback: None, settings: Any
) -> None:
    with receiver() as server:
        delivery = webhooks.send_test(hook(world, server.address), by=SYSTEM)
        settings.WEBHOOK_NETWORKS = ()
        assert send_webhooks() == 1
        assert "no public address" in now_of(delivery).error
        assert server.got == []


def test_a_broker_that_is_away_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(**_: Any) -> None:
        raise OSError

    monkeypatch.setattr(send_webhooks, "apply_async", away)
    wake_webhooks()
