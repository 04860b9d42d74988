"""What webhooks are told is written with what it tells of, or not at all; and what their admins may do."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console.models import (
    AuditEvent,
    DeliveryState,
    ItemState,
    Pin,
    RaisedAlert,
    Run,
    RunState,
    Webhook,
    WebhookDelivery,
    WebhookState,
)
from console.services import (
    alert_watch,
    alerts,
    curate,
    fit,
    impact,
    outbox,
    refitting,
    releases,
    rolling_back,
    run_coordinator,
    run_work,
    runs,
    webhooks,
)
from console.services.actor import SYSTEM, person
from console.services.errors import Conflict, Invalid, NotFound
from console.services.plan import Step
from tests import make
from tests.make import World
from tests.services.test_runs import Toy, start, toy, work

pytestmark = pytest.mark.django_db
ADDRESS = "https://hooks.example.com/in?key=a-key-of-theirs"
__all__ = ["toy"]  # the fixture


def hook(world: World, *events: str, address: str = ADDRESS) -> Webhook:
    made = webhooks.create_webhook(
        world.inventory, by=person(world.admin), address=address, events=events or outbox.EVENTS
    )
    return made.webhook


def bodies(*names: str) -> list[dict[str, Any]]:
    """What is to be told, oldest first."""
    rows = WebhookDelivery.objects.filter(event__in=names or outbox.EVENTS).order_by("pk")
    return [json.loads(row.body) for row in rows]


def promote(world: World, text: str = "call the whole order off", **more: Any) -> curate.Applied:
    active = fit.active_version(world.cancel)
    return curate.apply(
        world.cancel, [Step("add", text=text, polarity="signal")], by=world.by,
        base_version=active.number if active else None, **more,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------- the outbox
def test_a_version_and_the_release_are_told_once_each_to_everybody_who_wants_them(world: World) -> None:
    both, versions = hook(world), hook(world, outbox.VERSION_MADE)
    done = promote(world)
    release = world.inventory.release + 1
    rows = list(WebhookDelivery.objects.order_by("pk"))
    assert sorted((row.webhook_id, row.event) for row in rows) == sorted(
        [(both.pk, "version.made"), (versions.pk, "version.made"), (both.pk, "release.live")]
    )
    assert len({row.event_id for row in rows}) == 2
    assert len({row.public_id for row in rows}) == 3
    made, live = bodies("version.made")[0], bodies("release.live")[0]
    assert made["data"] == {
        "policy": "cancel-order", "version": 2, "previous": 1, "action": "add", "change": done.change.public_id,
    }  # fmt: skip
    assert {name: made[name] for name in ("schema", "event", "inventory", "actor", "release", "link")} == {
        "schema": 1, "event": "version.made", "inventory": "tiny", "actor": "ada", "release": release,
        "link": "/i/tiny/policies/cancel-order/versions/",
    }  # fmt: skip
    assert live["data"] == {"live": release, "previous": release - 1}
    assert {row.event_id for row in rows if row.event == "version.made"} == {made["id"]}


def test_no_payload_holds_a_text(world: World) -> None:
    hook(world)
    promote(world, "call the whole order off", reason="Mrs Miller of 5 Elm Street asked for it")
    written = json.dumps(bodies())
    for text in ("call the whole", "Elm Street", *make.TEXTS.values()):
        assert text not in written


def test_a_change_that_is_rolled_back_tells_nobody(world: World) -> None:
    hook(world)

    def written_and_refused() -> None:
        with transaction.atomic():
            promote(world)
            assert len(bodies()) == 2
            raise RuntimeError

    with pytest.raises(RuntimeError):
        written_and_refused()
    assert bodies() == []
    assert fit.active_version(world.cancel).number == 1  # type: ignore[union-attr]


def test_it_costs_no_query_without_webhooks_and_one_with_them(world: World) -> None:
    def taken() -> int:
        with CaptureQueriesContext(connection) as asked:
            promote(world, f"a new text, number {WebhookDelivery.objects.count()} {timezone.now()}")
        return len(asked)

    taken()  # what is cached is cached
    without = taken()
    row = hook(world, outbox.RUN_ENDED)
    assert taken() == without
    webhooks.set_events(row, outbox.EVENTS, by=world.by)
    hook(world)
    assert taken() == without + 1
    webhooks.pause_webhook(row, by=world.by)
    assert taken() == without + 1
    for left in webhooks.webhooks(world.inventory):
        webhooks.delete_webhook(left, by=world.by)
    assert taken() == without


def test_rollback_refit_and_going_back_as_a_whole_are_versions_too(world: World) -> None:
    hook(world)
    promote(world)
    rolling_back.rollback(world.cancel, 1, by=world.by, base_version=2, reason="too much")
    promote(world, "stop my order")
    world.inventory.refresh_from_db()
    releases.rollback_all(world.inventory, world.inventory.release - 3, by=world.by, reason="all wrong")
    told = [(body["data"]["action"], body["data"]["version"]) for body in bodies("version.made")]
    assert told == [("add", 2), ("rollback", 3), ("add", 4), ("rollback", 5)]
    text = make.ANTI_SIGNALS["cancel-order"][0]
    exemplar = world.exemplar(world.cancel, text)
    exemplar.text, exemplar.text_digest = "something else entirely", "0" * 64
    type(exemplar).objects.filter(pk=exemplar.pk).update(text=exemplar.text, text_digest=exemplar.text_digest)
    made = refitting.refit(world.inventory, by=SYSTEM)
    assert [body["data"]["action"] for body in bodies("version.made")[4:]] == ["refit"] * len(made)
    assert made


def test_a_decision_that_makes_no_version_is_no_version(world: World) -> None:
    hook(world, outbox.VERSION_MADE)
    state = world.state("talk-5", 0).pk
    curate.apply(world.cancel, [Step("pin", state=state)], by=world.by, base_version=1)
    assert [b["data"]["version"] for b in bodies()] == list(
        world.cancel.versions.filter(number__gt=1).order_by("number").values_list("number", flat=True)
    )


def test_a_pin_that_breaks_is_told_with_its_version(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    hook(world, outbox.PIN_BROKEN)
    curate.apply(world.cancel, [Step("pin", state=world.state("talk-5", 0).pk)], by=world.by, base_version=1)
    pin = Pin.objects.current().get(artifact=world.cancel)
    base = fit.active_version(world.cancel)
    assert base is not None
    passes = impact.pin_passes

    def fails_now(row: Pin, ground: Any, classifier: Any, cutoff: float) -> bool:
        return classifier.weight_hash == base.weight_hash and passes(row, ground, classifier, cutoff) | True

    monkeypatch.setattr(impact, "pin_passes", fails_now)
    done = promote(world, reason="it must be")
    assert done.version is not None
    (body,) = bodies()
    assert body["data"] == {
        "policy": "cancel-order", "version": done.version.number, "pins": [pin.public_id],
        "change": done.change.public_id,
    }  # fmt: skip
    assert body["link"] == "/i/tiny/policies/cancel-order/"
    assert pin.text not in json.dumps(body)


def test_a_refit_and_going_back_as_a_whole_look_at_pins_where_somebody_wants_to_know(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook(world, outbox.PIN_BROKEN)
    curate.apply(world.cancel, [Step("pin", state=world.state("talk-5", 0).pk)], by=world.by, base_version=1)
    promote(world)
    pins = Pin.objects.current().filter(artifact=world.cancel)
    passed = fit.active_version(world.cancel)
    assert passed is not None
    monkeypatch.setattr(
        impact, "pin_passes", lambda _pin, _ground, classifier, _cutoff: classifier.weight_hash == passed.weight_hash
    )
    releases.rollback_all(fit.fresh_inventory(world.inventory.pk), passed.from_release - 1, by=world.by, reason="wrong")
    assert [body["data"]["pins"] for body in bodies()] == [[pins.get().public_id]]
    back = fit.active_version(world.cancel)
    assert back is not None
    passed = back
    exemplar = world.exemplar(world.cancel, make.ANTI_SIGNALS["cancel-order"][0])
    type(exemplar).objects.filter(pk=exemplar.pk).update(text="something else entirely", text_digest="0" * 64)
    refitting.refit(world.inventory, by=SYSTEM, artifacts=[world.cancel])
    assert [body["data"]["version"] for body in bodies()] == [back.number, back.number + 1]


def test_a_draft_goes_live(world: World) -> None:
    world.inventory.go_live = "after_review"
    world.inventory.save(update_fields=["go_live"])
    hook(world, outbox.RELEASE_LIVE)
    before = world.inventory.live_release
    promote(world)
    assert bodies() == []
    world.inventory.refresh_from_db()
    releases.go_live(world.inventory, world.inventory.release, by=person(world.publisher))
    (body,) = bodies()
    assert (body["actor"], body["release"], body["data"]) == (
        "paul", world.inventory.release, {"live": world.inventory.release, "previous": before},
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------- runs
def test_a_run_tells_how_it_ended(world: World, toy: Toy) -> None:
    hook(world)
    run = work(start(world))
    (body,) = bodies()
    assert body["event"] == "run.ended"
    assert body["actor"] == "ada"
    assert body["link"] == f"/i/tiny/runs/{run.public_id}/"
    assert body["data"] == {
        "run": run.public_id, "kind": "judge", "state": "complete", "total": 10, "done": 10, "failed": 0,
        "tokens_in": 1_000, "tokens_out": 100,
    }  # fmt: skip
    run_work.work(run.pk)
    assert len(bodies()) == 1


def test_gaps_failed_cancelled_empty_and_capped(world: World, toy: Toy) -> None:
    hook(world)
    bad = run_work.Outcome(code="wrong_shape", message="no score")
    toy.script = {"item-1": [bad]}
    work(start(world, params={"n": 3}))
    toy.script = {"item-0": [bad]}
    work(start(world, params={"n": 1}))
    runs.cancel_run(start(world), by=world.by)
    start(world, params={"n": 0})
    toy.calls_model = True
    work(start(world, cap_tokens=10))
    told = [(body["event"], body["data"]["state"]) for body in bodies()]
    assert told == [
        ("run.ended", "gaps"), ("run.ended", "failed"), ("run.ended", "cancelled"), ("run.ended", "complete"),
        ("run.capped", "capped"),
    ]  # fmt: skip


def test_a_run_that_stalls_and_one_that_is_given_up(world: World, toy: Toy) -> None:
    hook(world)
    run = start(world)
    now = timezone.now()
    for _ in range(run_coordinator.STALLS):
        run_work.claim(run, toy, 1)
        now += timedelta(seconds=2 * toy.lease_s)
        run.items.filter(state=ItemState.CLAIMED).update(lease_until=now - timedelta(seconds=1))
        run_coordinator.coordinate(now)
        run.refresh_from_db()
    assert run.state == RunState.FAILED
    told = [(body["event"], body["data"]["state"]) for body in bodies()]
    assert told == [("run.stalled", "stalled")] * 2 + [("run.ended", "failed")]


def test_a_run_s_end_that_is_not_committed_is_not_told(world: World, toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    hook(world)
    run = start(world)

    def breaks(*_: Any, **__: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(WebhookDelivery.objects, "bulk_create", breaks)
    with pytest.raises(RuntimeError):
        run_work.work(run.pk)
    run.refresh_from_db()
    assert run.state == RunState.RUNNING
    monkeypatch.undo()
    monkeypatch.setitem(run_work.kind_of.__globals__["KINDS"], "judge", toy)
    run_work.finish(run)
    assert [body["data"]["state"] for body in bodies()] == ["complete"]


# --------------------------------------------------------------------------------------------------------------------- alerts
def test_alerts_are_told_when_they_come_and_when_they_go(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    standing: dict[str, Any] = {"recall": None, "drifts": []}
    monkeypatch.setattr(alerts, "recall_estimate", lambda *_, **__: standing["recall"])
    monkeypatch.setattr(alerts, "drifts", lambda *_, **__: standing["drifts"])
    standing["drifts"] = [alerts.Drift("cancel-order", 1, 0.2, 0.5, 100)]
    assert alert_watch.watch_all() == 0  # nobody wants to know
    hook(world, outbox.ALERT_RAISED, outbox.ALERT_CLEARED)
    assert alert_watch.watch_all() == 1
    assert alert_watch.watch_all() == 0
    standing["recall"], standing["drifts"] = alerts.RecallEstimate(0.8, 0.7, 0.9, 30, 12, 0.9), []
    assert alert_watch.watch_all() == 2
    standing["recall"] = alerts.RecallEstimate(0.95, 0.9, 0.99, 30, 12, 0.9)
    assert alert_watch.watch_all() == 1
    told = [(body["event"], body["data"]["alert"], body["data"]["policy"], body["link"]) for body in bodies()]
    assert told == [
        ("alert.raised", "firing", "cancel-order", "/i/tiny/policies/cancel-order/"),
        ("alert.raised", "recall", None, "/i/tiny/"),
        ("alert.cleared", "firing", "cancel-order", "/i/tiny/policies/cancel-order/"),
        ("alert.cleared", "recall", None, "/i/tiny/"),
    ]
    assert bodies()[1]["data"]["target"] == 0.9
    assert not RaisedAlert.objects.exists()
    standing["recall"] = alerts.RecallEstimate(0.8, 0.7, 0.9, 30, 12, 0.9)
    alert_watch.watch_all()
    assert RaisedAlert.objects.exists()
    webhooks.set_events(webhooks.webhooks(world.inventory)[0], [outbox.RUN_ENDED], by=SYSTEM)
    alert_watch.watch_all()
    assert not RaisedAlert.objects.exists()  # with nobody to tell, nothing is kept


def test_the_alerts_of_home_are_what_is_watched(world: World) -> None:
    hook(world, outbox.ALERT_RAISED)
    assert alert_watch.standing(world.inventory, timezone.now()) == {}
    assert alert_watch.watch_all() == 0


# ----------------------------------------------------------------------------------------------------------- what admins do
def test_every_act_is_audited_and_the_secret_and_path_are_in_no_row(world: World) -> None:
    by = person(world.admin, "request-1")
    made = webhooks.create_webhook(
        world.inventory, by=by, address=ADDRESS, events=["version.made", "run.ended"], reason="for the pager"
    )
    row = made.webhook
    assert row.events == ["run.ended", "version.made"]
    webhooks.set_events(row, ["version.made"], by=by, reason="less")
    webhooks.set_events(row, ["version.made"], by=by)
    delivery = webhooks.send_test(row, by=by)
    webhooks.send_again(row, delivery.public_id, by=by)
    webhooks.pause_webhook(row, by=by, reason="noisy")
    webhooks.pause_webhook(row, by=by)
    webhooks.resume_webhook(row, by=by)
    turned = webhooks.rotate_secret(row, by=by, reason="leaked")
    webhooks.delete_webhook(row, by=by, reason="done")
    events = list(AuditEvent.objects.filter(object_type="webhook").order_by("pk"))
    assert [event.action.removeprefix("webhook.") for event in events] == [
        "create", "edit", "test", "send_again", "pause", "resume", "rotate", "delete",
    ]  # fmt: skip
    assert {(e.inventory, e.actor, e.object_id, e.label, e.request_id) for e in events} == {
        ("tiny", "anna", row.public_id, "hooks.example.com", "request-1")
    }
    assert [e.reason for e in events if e.reason] == ["for the pager", "less", "noisy", "leaked", "done"]
    written = json.dumps([[e.before, e.after, e.label] for e in events])
    for hidden in (made.secret, turned.secret, "a-key-of-theirs"):
        assert hidden not in written
    row.refresh_from_db()
    assert (row.state, row.address) == (WebhookState.DELETED, "")


def test_an_act_that_is_rolled_back_leaves_no_audit_row(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "_record", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        hook(world)
    assert not Webhook.objects.exists()
    world.inventory.refresh_from_db()
    assert world.inventory.wanted_events == {}


def test_the_secret_comes_from_the_server_s_key_and_is_not_stored(world: World, settings: Any) -> None:
    made = webhooks.create_webhook(world.inventory, by=SYSTEM, address=ADDRESS, events=["run.ended"])
    row = Webhook.objects.get()
    assert made.secret.startswith("whsec_")
    assert len(made.secret) == 70
    assert webhooks.secret_of(row) == made.secret
    assert made.secret not in str(Webhook.objects.values())
    turned = webhooks.rotate_secret(row, by=SYSTEM)
    row.refresh_from_db()
    assert turned.secret == webhooks.secret_of(row) != made.secret
    other = webhooks.create_webhook(world.inventory, by=SYSTEM, address=ADDRESS, events=["run.ended"])
    assert other.secret not in {made.secret, turned.secret}
    settings.SECRET_KEY = django_settings.SECRET_KEY + "another"
    assert webhooks.secret_of(row) != turned.secret


@pytest.mark.parametrize(
    ("address", "events", "field"),
    [
        ("http://hooks.example.com/", ["run.ended"], "address"),
        ("https://10.0.0.1/", ["run.ended"], "address"),
        ("https://u:p@hooks.example.com/", ["run.ended"], "address"),
        ("", ["run.ended"], "address"),
        ("https://hooks.example.com/" + "x" * 500, ["run.ended"], "address"),
        (ADDRESS, [], "events"),
        (ADDRESS, ["run.ended", "run.danced"], "events"),
        (ADDRESS, ["test"], "events"),
    ],
)
def test_what_is_refused(world: World, address: str, events: list[str], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        webhooks.create_webhook(world.inventory, by=SYSTEM, address=address, events=events)
    assert refused.value.field == field
    assert not Webhook.objects.exists()


def test_so_many_and_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MOST", 2)
    first = hook(world)
    hook(world)
    with pytest.raises(Conflict, match="has 2 webhooks"):
        hook(world)
    webhooks.delete_webhook(first, by=SYSTEM)
    hook(world)


def test_another_inventory_s_webhook_and_a_deleted_one_are_not_there(world: World) -> None:
    row = hook(world)
    with pytest.raises(NotFound):
        webhooks.get_webhook(world.others, row.public_id)
    delivery = webhooks.send_test(row, by=SYSTEM)
    other = hook(world)
    with pytest.raises(NotFound):
        webhooks.send_again(other, delivery.public_id, by=SYSTEM)
    webhooks.delete_webhook(row, by=SYSTEM)
    for act in (webhooks.pause_webhook, webhooks.rotate_secret, webhooks.delete_webhook, webhooks.send_test):
        with pytest.raises(NotFound):
            act(row, by=SYSTEM)
    with pytest.raises(NotFound):
        webhooks.get_webhook(world.inventory, row.public_id)


def test_while_it_is_paused_nothing_is_kept_and_nothing_is_sent_by_hand(world: World) -> None:
    row = hook(world)
    promote(world)
    kept = WebhookDelivery.objects.count()
    webhooks.pause_webhook(row, by=SYSTEM)
    promote(world, "stop my order")
    assert WebhookDelivery.objects.count() == kept
    with pytest.raises(Conflict):
        webhooks.send_test(row, by=SYSTEM)
    with pytest.raises(Conflict):
        webhooks.send_again(row, WebhookDelivery.objects.all()[0].public_id, by=SYSTEM)
    old = timezone.now() - timedelta(days=5)
    WebhookDelivery.objects.update(due_at=old, queued_at=old)
    webhooks.resume_webhook(row, by=SYSTEM)
    assert all(d.queued_at > old for d in WebhookDelivery.objects.all())
    promote(world, "stop it now, please")
    assert WebhookDelivery.objects.count() == kept + 2


def test_what_is_on_its_way_is_not_queued_again(world: World) -> None:
    row = hook(world)
    delivery = webhooks.send_test(row, by=SYSTEM)
    WebhookDelivery.objects.update(state=DeliveryState.SENDING, claim="c", lease_until=timezone.now())
    with pytest.raises(Conflict, match="being sent"):
        webhooks.send_again(row, delivery.public_id, by=SYSTEM)


def test_the_links_of_payloads_lead_to_pages(world: World, toy: Toy, client: Any) -> None:
    hook(world)
    promote(world)
    work(start(world))
    client.force_login(world.admin)
    webhooks.send_test(webhooks.webhooks(world.inventory)[0], by=SYSTEM)
    links = {body["link"] for body in bodies(*outbox.EVENTS, outbox.TEST)}
    assert len(links) == 4
    for link in links:
        assert client.get(link).status_code == 200, link
    assert Run.objects.count() == 1


def test_the_database_refuses_a_deleted_webhook_with_an_address_and_an_unknown_alert(world: World) -> None:
    row = hook(world, outbox.RUN_ENDED)
    for values in ({"state": "deleted"}, {"state": "deleted", "deleted_at": timezone.now()}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Webhook.objects.filter(pk=row.pk).update(**values)
    with pytest.raises(IntegrityError), transaction.atomic():
        RaisedAlert.objects.create(inventory=world.inventory, name="weather", since=timezone.now())
