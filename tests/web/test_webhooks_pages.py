"""Settings, Webhooks: whose page it is, the secret shown once, the deliveries and what can be done about them."""

import json
import re
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from console.models import AuditEvent, DeliveryState, Role, Webhook, WebhookDelivery, WebhookState
from console.services import outbox, webhooks
from console.services.actor import SYSTEM, person
from tests import make
from tests.conftest import ROOT

pytestmark = pytest.mark.django_db
BASE = "/i/tiny/settings/webhooks/"
FORM = {
    "address": "https://hooks.example.com/in?key=theirs",
    "events": ["run.ended", "version.made"],
    "reason": "pager",
}


@pytest.fixture(autouse=True)
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each time the worker was called."""
    found: list[str] = []
    monkeypatch.setattr("console.views.settings_webhooks.wake_webhooks", lambda: found.append("called"))
    monkeypatch.setattr("console.views.settings_webhooks.transaction.on_commit", lambda then: then())
    return found


@pytest.fixture
def hook(world: make.World) -> Webhook:
    made = webhooks.create_webhook(
        world.inventory, by=person(world.admin), address=FORM["address"], events=["run.ended"]
    )
    return made.webhook


@pytest.fixture
def admin(world: make.World, signed_in: Any) -> Client:
    client: Client = signed_in(world.admin)
    return client


def text(response: Any, status: int = 200) -> str:
    assert response.status_code == status, (response.status_code, response.content.decode()[:400])
    found: str = response.content.decode()
    return found


def secret_in(page: str) -> str:
    (found,) = re.findall(r"whsec_[0-9a-f]{64}", page)
    return str(found)


# ------------------------------------------------------------------------------------------------------------------ who may
def test_admins_alone(world: make.World, hook: Webhook, signed_in: Any) -> None:
    one, act = f"{BASE}{hook.public_id}/", f"{BASE}{hook.public_id}/do/"
    for role, somebody in world.by_role.items():
        client = signed_in(somebody)
        for address in (BASE, one):
            assert client.get(address).status_code == (200 if role == Role.ADMIN else 403), (role, address)
        if role != Role.ADMIN:
            for address in (BASE, one, act):
                assert client.post(address, FORM | {"do": "rotate"}).status_code == 403, (role, address)
    stranger = signed_in(world.stranger)
    for address in (BASE, one, act):
        assert stranger.get(address).status_code == (405 if address == act else 404)
        assert stranger.post(address, FORM | {"do": "rotate"}).status_code == 404
        assert Client().post(address)["Location"].startswith("/sign-in/")
    elsewhere = f"/i/{world.others.slug}/settings/webhooks/{hook.public_id}/"  # admin there, but it is not theirs
    assert stranger.get(elsewhere).status_code == 404
    assert stranger.post(f"{elsewhere}do/", {"do": "delete"}).status_code == 404
    hook.refresh_from_db()
    assert (Webhook.objects.count(), hook.rotation, hook.state) == (1, 1, WebhookState.ACTIVE)


# --------------------------------------------------------------------------------------------------------------- making one
def test_the_secret_is_shown_in_one_answer_and_nowhere_else(world: make.World, admin: Client) -> None:
    assert "nobody is told" in text(admin.get(BASE))
    answer = admin.post(BASE, FORM)
    page = text(answer)
    assert "no-store" in answer["Cache-Control"]
    row = Webhook.objects.get()
    assert secret_in(page) == webhooks.secret_of(row)
    assert (row.actor, row.events) == ("anna", ["run.ended", "version.made"])
    for address in (BASE, f"{BASE}{row.public_id}/", f"/i/tiny/audit/?object={row.public_id}"):
        assert "whsec_" not in text(admin.get(address))
    assert FORM["address"].replace("&", "&amp;") in text(admin.get(BASE))
    event = AuditEvent.objects.get(action="webhook.create")
    assert (event.reason, event.label, event.actor) == ("pager", "hooks.example.com", "anna")
    history = text(admin.get("/i/tiny/audit/?action=webhook"))
    assert "Made a webhook" in history
    assert "theirs" not in history


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"address": "http://hooks.example.com/"}, "http"),
        ({"address": "https://169.254.169.254/latest"}, "no public address"),
        ({"address": "https://u:p@hooks.example.com/"}, "user name or password"),
        ({"address": ""}, "required"),
        ({"events": []}, "required"),
        ({"events": ["run.danced"]}, "not one of the available choices"),
    ],
)
def test_what_is_refused_is_said_at_the_field(admin: Client, wrong: dict[str, Any], said: str) -> None:
    page = text(admin.post(BASE, FORM | wrong), 422)
    assert said in page
    assert "whsec_" not in page
    assert not Webhook.objects.exists()


def test_one_too_many(admin: Client, hook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MOST", 1)
    assert "Delete one that is no longer needed" in text(admin.post(BASE, FORM), 422)


# --------------------------------------------------------------------------------------------------------------- one of them
def test_its_page_lists_deliveries_and_sends_one_again(
    world: make.World,
    admin: Client,
    hook: Webhook,
    called: list[str],
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    address = f"{BASE}{hook.public_id}/"
    assert "None in the last 30 days" in text(admin.get(address))
    assert admin.post(f"{address}do/", {"do": "test"})["Location"] == address
    delivery = WebhookDelivery.objects.get()
    WebhookDelivery.objects.update(
        state=DeliveryState.FAILED, tries=15, status=503, error="Answered 503: <script>alert(1)</script>"
    )
    with django_assert_max_num_queries(12):
        page = text(admin.get(address))
    for words in (
        "given up",
        ">15",
        "503",
        "&lt;script&gt;alert(1)",
        delivery.public_id,
        f'id="again-{delivery.public_id}"',
    ):
        assert words in page, words
    assert admin.post(f"{address}do/", {"do": "again", "delivery": delivery.public_id}).status_code == 302
    delivery.refresh_from_db()
    assert (delivery.state, delivery.tries, delivery.error) == (DeliveryState.WAITING, 0, "")
    assert called == ["called"] * 2
    assert admin.post(f"{address}do/", {"do": "again", "delivery": "nothing"}).status_code == 404
    assert admin.post(f"{address}do/", {"do": "dance"}).status_code == 404
    assert admin.get(f"{address}do/").status_code == 405


def test_pause_resume_rotate_delete(world: make.World, admin: Client, hook: Webhook) -> None:
    address = f"{BASE}{hook.public_id}/"
    first = webhooks.secret_of(hook)
    admin.post(f"{address}do/", {"do": "pause", "reason": "noisy"})
    hook.refresh_from_db()
    assert hook.state == WebhookState.PAUSED
    page = text(admin.get(address))
    assert "paused" in page
    assert 'value="test"' not in page
    assert admin.post(f"{address}do/", {"do": "test"}).status_code == 409
    admin.post(f"{address}do/", {"do": "resume"})
    page = text(admin.post(f"{address}do/", {"do": "rotate", "reason": "leaked"}))
    hook.refresh_from_db()
    assert secret_in(page) == webhooks.secret_of(hook) != first
    assert admin.post(address, {"events": ["alert.raised"], "reason": "only these"}).status_code == 302
    hook.refresh_from_db()
    assert hook.events == ["alert.raised"]
    assert "required" in text(admin.post(address, {"events": []}), 422)
    assert admin.post(f"{address}do/", {"do": "delete", "reason": "done"})["Location"] == BASE
    assert admin.get(address).status_code == 404
    assert "hooks.example.com" not in text(admin.get(BASE)).split("<h2")[0]
    told = AuditEvent.objects.filter(object_type="webhook").order_by("pk").values_list("action", "reason")
    assert list(told)[1:] == [
        ("webhook.pause", "noisy"), ("webhook.resume", ""), ("webhook.rotate", "leaked"),
        ("webhook.edit", "only these"), ("webhook.delete", "done"),
    ]  # fmt: skip


def test_why_it_was_paused_and_since_when_it_fails(world: make.World, admin: Client, hook: Webhook) -> None:
    webhooks.pause_webhook(hook, by=SYSTEM, note="Nothing has arrived since 2026-11-27 08:00 UTC.")
    assert "Nothing has arrived since 2026-11-27 08:00 UTC." in text(admin.get(f"{BASE}{hook.public_id}/"))
    webhooks.resume_webhook(hook, by=SYSTEM)
    Webhook.objects.update(failures=3, failing_since="2026-11-29T10:00Z")
    assert "Nothing has arrived since 2026-11-29 10:00" in text(admin.get(f"{BASE}{hook.public_id}/"))
    assert "failing" in text(admin.get(BASE))


# ------------------------------------------------------------------------------------------------------------------- the docs
def examples() -> list[dict[str, Any]]:
    part = (ROOT / "docs/api.md").read_text().split("## Webhooks", 1)[1]
    return [json.loads(line) for line in part.split("```json\n", 1)[1].split("```", 1)[0].splitlines()]


def test_every_event_is_documented_with_a_body_of_its_shape(world: make.World, hook: Webhook) -> None:
    part = (ROOT / "docs/api.md").read_text().split("## Webhooks", 1)[1]
    assert [body["event"] for body in examples()] == [*outbox.EVENTS, outbox.TEST]
    for name in (*outbox.EVENTS, outbox.TEST):
        assert f"| `{name}` |" in part
    (real,) = outbox.deliveries("tiny", outbox.Event("run.ended", {}), [hook.pk], now=hook.created_at)
    for body in examples():
        assert list(body) == list(json.loads(real.body))
        assert body["schema"] == outbox.SCHEMA
