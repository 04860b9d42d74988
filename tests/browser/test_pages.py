"""Every page in both themes and at both widths: nothing for axe, for the Content-Security-Policy or on the console, no
sideways scrolling on a phone. Screenshots are kept in var/screenshots."""

import io
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from console.models import (
    Change,
    DeliveryState,
    EncoderMigration,
    Evaluation,
    Evidence,
    EvidenceOrigin,
    ReviewQueue,
    Run,
    Upload,
    Webhook,
    WebhookDelivery,
)
from console.services import (
    artifacts,
    caches,
    cards,
    curate,
    evidence,
    inventories,
    migrate,
    notes,
    outbox,
    review_items,
    review_queues,
    run_work,
    runs,
    uploads,
    webhooks,
)
from console.services.actor import person
from console.services.plan import Step
from console.services.review_build import Asked
from tests.browser.conftest import Sample, keep_database, restore_database, sample_now
from tests.conftest import ROOT
from tests.evidence_toy import SQ, trace_bundle

pytestmark = [pytest.mark.minilm, pytest.mark.timeout(900)]
SCREENSHOTS = ROOT / "var" / "screenshots"
KEY = "modify-flight"


def addresses(sample: Sample) -> list[tuple[str, str, str]]:
    """(name of the screenshot, who looks, address)."""
    home, policy = sample.home, f"{sample.home}/policies/{KEY}"
    talk = f"{home}/conversations/{sample.conversation('sky-112').public_id}"
    change = Change.objects.filter(artifact__key=KEY).latest("pk")
    moved = Change.objects.filter(object_type="operating_point").latest("pk")
    number, publisher = sample.inventory.release, sample.by_role["publisher"]
    clear, near, audit = ReviewQueue.objects.order_by("pk")
    measured = [row.run.public_id for row in Evaluation.objects.order_by("pk")]
    return [
        ("sign-in", "", "/sign-in/"),
        ("home", "publisher", f"{home}/"),
        ("policies", "publisher", f"{home}/policies/"),
        ("policies-none", "publisher", f"{home}/policies/?q=zeppelin&f=nonsense"),
        ("policy-new", "publisher", f"{home}/new-policy/"),
        ("policy-edit", "publisher", f"{policy}/edit/"),
        ("shown-and-missed", "publisher", f"{policy}/"),
        ("map", "publisher", f"{policy}/map/"),
        ("map-beside", "viewer", f"{policy}/map/?beside=cancel-flight&c={talk.rsplit('/', 1)[1]}&t=2"),
        ("exemplars", "publisher", f"{policy}/exemplars/"),
        ("metrics", "publisher", f"{policy}/metrics/"),
        ("versions", "publisher", f"{policy}/versions/"),
        ("diff", "publisher", f"{policy}/versions/1...2/"),
        ("rollback", "publisher", f"{policy}/versions/1/rollback/"),
        ("undo", "publisher", f"{home}/changes/{change.public_id}/undo/"),
        ("undo-cut-off", "publisher", f"{home}/changes/{moved.public_id}/undo/"),
        ("candidates", "publisher", f"{home}/candidates/?policy={KEY}"),
        ("candidates-seen", "viewer", f"{home}/candidates/"),
        ("candidates-none", "publisher", f"{home}/candidates/?source=generated"),
        ("neighbours", "publisher", f"{home}/neighbours/"),
        ("neighbours-pair", "publisher", f"{home}/neighbours/{KEY}...cancel-flight/"),
        ("conversations", "publisher", f"{home}/conversations/"),
        (
            "conversations-filtered",
            "publisher",
            f"{home}/conversations/?q=refund&f=turns:gte:6&f=or.flag:is:judge&f=not.channel:is:app&f=x&sort=-turns",
        ),
        ("policies-filtered", "publisher", f"{home}/policies/?f=recall:lt:90&f=or.state:is:few&f=x&sort=-precision"),
        ("similar", "viewer", f"{home}/similar/?turn={sample.conversation('sky-112').public_id}:0"),
        ("saved-views", "publisher", f"{home}/views/"),
        ("conversation", "publisher", f"{talk}/?t=2&p={KEY}"),
        ("why", "publisher", f"{talk}/turns/0/why/{KEY}/"),
        ("why-selected", "viewer", f"{talk}/turns/0/why/cancel-flight/"),
        ("prefix", "viewer", f"{talk}/turns/2/prefix/?p={KEY}"),
        ("playground", "publisher", f"{home}/playground/"),
        ("review", "publisher", f"{home}/review/"),
        ("review-new", "publisher", f"{home}/review/new/?kind=audit"),
        ("review-queue", "publisher", f"{home}/review/{audit.public_id}/"),
        ("review-clear", "viewer", f"{home}/review/{clear.public_id}/"),
        ("review-item", "publisher", f"{home}/review/{audit.public_id}/items/{audit.items.get(position=9).public_id}/"),
        ("review-open", "publisher", f"{home}/review/{near.public_id}/items/{near.items.get(position=0).public_id}/"),
        ("review-mine", "publisher", f"{home}/review/mine/"),
        ("agreement", "viewer", f"{home}/agreement/?cell=judge-people:1:0"),
        ("agreement-scores", "publisher", f"{home}/agreement/?show=scores"),
        ("agreement-decide", "publisher", f"{home}/agreement/decide/"),
        ("evaluation", "publisher", f"{home}/evaluation/"),
        ("evaluation-one", "viewer", f"{home}/evaluation/{measured[0]}/"),
        ("evaluation-compare", "viewer", f"{home}/evaluation/{measured[0]}...{measured[1]}/"),
        ("releases", "publisher", f"{home}/releases/"),
        ("release-diff", "publisher", f"{home}/releases/{number - 4}...{number}/"),
        ("card", "", f"/cards/{cards.make_link(sample.inventory, number - 4, number, by=person(publisher))[0]}/"),
        ("release-rollback", "publisher", f"{home}/releases/{number - 1}/rollback/"),
        ("go-live", "publisher", f"{home}/releases/{number - 1}/go-live/"),
        ("data", "publisher", f"{home}/data/"),
        ("data-seen", "viewer", f"{home}/data/"),
        ("data-look", "publisher", f"{home}/data/uploads/{Upload.objects.get().public_id}/"),
        ("data-report", "publisher", f"{home}/runs/{Run.objects.get(kind='import').public_id}/"),
        ("data-export", "publisher", f"{home}/data/export/"),
        ("data-freeze", "publisher", f"{home}/data/freeze/?release=2"),
        ("mine", "publisher", f"{home}/mine/"),
        ("mine-author", "author", f"{home}/mine/"),
        ("notes", "publisher", f"{home}/notes/"),
        ("settings", "admin", f"{home}/settings/general/"),
        ("settings-members", "admin", f"{home}/settings/members/"),
        ("settings-tokens", "admin", f"{home}/settings/tokens/"),
        ("settings-webhooks", "admin", f"{home}/settings/webhooks/"),
        ("settings-webhook", "admin", f"{home}/settings/webhooks/{Webhook.objects.latest('pk').public_id}/"),
        ("settings-webhook-paused", "admin", f"{home}/settings/webhooks/{Webhook.objects.earliest('pk').public_id}/"),
        ("settings-models", "admin", f"{home}/settings/models/"),
        ("as-of", "author", f"{policy}/exemplars/?as_of=2100-01-01"),
        ("as-of-versions", "publisher", f"{policy}/versions/?as_of=2100-01-01"),
        ("settings-redaction", "admin", f"{home}/settings/redaction/"),
        ("settings-retention", "admin", f"{home}/settings/retention/"),
        ("conversation-erase", "admin", f"{talk}/erase/"),
        ("audit", "publisher", f"{home}/audit/?f=policy:is:{KEY}&f=or.actor:is:ada&f=colour:is:red"),
        ("audit-none", "publisher", f"{home}/audit/?actor=nobody"),
        ("policy-history", "publisher", f"{policy}/history/"),
        ("migrations", "publisher", f"{home}/settings/migration/?encoder=minilm"),
        ("migration", "publisher", f"{home}/settings/migration/{EncoderMigration.objects.get().public_id}/"),
        ("evidence", "publisher", f"{home}/evidence/"),
        ("evidence-seen", "viewer", f"{home}/evidence/"),
        ("evidence-one", "publisher", f"{home}/evidence/{Evidence.objects.get(system='traces').public_id}/"),
        ("evidence-sq", "viewer", f"{home}/evidence/{Evidence.objects.get(system='sq').public_id}/"),
        ("start", "publisher", "/start/"),
        ("profile", "publisher", "/profile/"),
        ("api", "publisher", "/api/v1/docs"),
        ("403", "viewer", f"{home}/new-policy/"),
        ("404", "publisher", f"{home}/policies/no-such-policy/"),
        ("422", "viewer", f"{policy}/?as_of=yesterday"),
    ]


def lived_in(sample: Sample) -> None:
    """A little history: decisions, a text, what comes along, the cut-off: versions, differences, releases show something."""
    policy, by = sample.artifact(KEY), person(sample.by_role["author"])
    state = sample.conversation("sky-112").states.get(user_turn=0)
    curate.apply(policy, [Step("add", state=state.pk, polarity="signal")], by=by, base_version=1)
    other = sample.artifact("cancel-flight")
    curate.apply(other, [Step("add", text="call my trip off", polarity="signal")], by=by, base_version=1)
    artifacts.edit_artifact(other, by=by, name="Calling a flight off", text="A flight is called off on request.")
    artifacts.set_dependencies(other, by=by, requires=[KEY], entails=[])
    theta = inventories.current_point(sample.inventory).theta
    inventories.update_inventory(sample.inventory, by=by, theta=theta + 0.2, expiry={"others": 3})
    sample.inventory.refresh_from_db()
    overview = {"protocol": "overview"}
    twice = [runs.create_run(sample.inventory, "evaluate", by=by, params=overview) for _ in range(2)]
    run_work.work(twice[0].pk)
    kept = Evaluation.objects.get()  # half a minute's work: the second is the first one's copy
    kept.pk, kept.run = None, twice[1]
    kept.save(force_insert=True)
    run = runs.create_run(sample.inventory, "mine", by=by, scope={"artifacts": [KEY]})
    run_work.work(run.pk)
    rows = b'{"id": "new-1", "messages": [{"role": "user", "content": "hello"}]}\n{"id": "new-2"}\n{broken\n'
    upload = uploads.store_upload(sample.inventory, io.BytesIO(rows), name="march.jsonl", by=by)[0]
    params = {"what": "conversations", "upload": upload.public_id}
    run_work.work(runs.create_run(sample.inventory, "import", by=by, params=params).pk)
    params = {"plan": SQ}
    run_work.work(runs.create_run(sample.inventory, "evaluate", by=by, params=params).pk)
    evidence.store_bundle(
        sample.inventory, trace_bundle(), by=by, origin=EvidenceOrigin.COMMAND, written_at=datetime.now(UTC)
    )
    moving = migrate.start(sample.inventory, by=by)
    migrate.advance(moving, seconds=600)
    noted(sample)
    reviewed(sample)
    told(sample)


def told(sample: Sample) -> None:
    """A webhook that is paused, and one with deliveries that arrived, wait and were given up."""
    by = person(sample.by_role["admin"])
    for address in ("https://pager.example.com/in", "https://hooks.example.com/signalbox/" + 8 * "a-long-part-of-it-"):
        made = webhooks.create_webhook(sample.inventory, by=by, address=address, events=outbox.EVENTS).webhook
        if "pager" in address:
            webhooks.pause_webhook(made, by=by, note="Nothing has arrived since 2026-11-27 08:00 UTC.")
    last = [webhooks.send_test(made, by=by) for _ in range(3)]
    rows = WebhookDelivery.objects.filter(webhook=made)
    rows.filter(pk=last[0].pk).update(state=DeliveryState.DELIVERED, tries=1, status=204)
    rows.filter(pk=last[1].pk).update(
        state=DeliveryState.FAILED, tries=16, status=503, error="Answered 503: " + 180 * "x"
    )
    rows.filter(pk=last[2].pk).update(tries=2, error="ConnectTimeout")


def noted(sample: Sample) -> None:
    """A note that names the publisher, and a flag, on a message, a policy and a run."""
    talk = sample.conversation("sky-112").public_id
    by = person(sample.by_role["author"])
    for kind, name, flag in (("turn", f"{talk}/2", True), ("artifact", KEY, False), ("turn", f"{talk}/2", False)):
        on = notes.target(sample.inventory, kind, name)
        notes.write(sample.inventory, on, "@paul, the fare is the old one here", by=by, flag=flag)


def reviewed(sample: Sample) -> None:
    """A queue that is clear, one to answer, an audit sample with nine answers of which three differ from the AI reviewer."""
    publisher = person(sample.by_role["publisher"])
    made = [
        review_queues.create_queue(sample.inventory, asked, by=publisher, name=name)
        for name, asked in (
            ("Misses in March", Asked("misses", size=1)),
            ("By a hair", Asked("near", size=20)),
            ("Audit of the spring log", Asked("audit", size=40)),
        )
    ]
    for queue, answers in ((made[0], 1), (made[2], 9)):
        for item in queue.items.order_by("position")[:answers]:
            needed = (item.why["score"] == 5) != (item.position in {2, 4, 6})
            found = review_items.get_item(sample.inventory, queue.public_id, item.public_id)
            review_items.answer(found, "yes" if needed else "no", by=publisher, note="as the text says" * needed)
    flagged = review_items.get_item(sample.inventory, made[2].public_id, made[2].items.get(position=20).public_id)
    review_items.flag(flagged, "the log is cut off here", by=publisher)


def settle(page: Page) -> None:
    """Until what the page draws by itself is drawn."""
    for plot in [page.locator("#map-plot"), *page.locator("[data-plot]").all()]:
        if plot.is_visible():
            expect(plot).to_have_attribute("data-ready", "yes")


def look(page: Page, name: str, axe: Callable[[Page], None] | None) -> list[str]:
    """What is wrong with the page that is open; without ``axe`` its layout alone."""
    settle(page)
    page.evaluate("() => scrollTo(0, 0)")  # else what lies under the head in passing counts as hidden
    found = []
    if axe is not None:
        try:
            axe(page)
        except AssertionError as error:
            found.append(f"{name}: {error}")
    wide = page.evaluate("() => document.scrollingElement.scrollWidth - innerWidth")
    if wide > 0:
        culprits = page.evaluate(
            """() => [...document.querySelectorAll('main *, header *, footer *')]
                 .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5)
                 .slice(0, 4).map(e => `${e.tagName}.${e.className} ${Math.round(e.getBoundingClientRect().right)}`)"""
        )
        found.append(f"{name}: {wide} px wider than the window: {culprits}")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True, animations="disabled")
    return found


@pytest.fixture(scope="session")
def lived_file(
    sample_file: Path | None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Path | None:
    """The sample with its history, which takes a minute to make, made once."""
    if sample_file is None:
        return None
    path = tmp_path_factory.mktemp("lived") / "lived.sqlite3"
    with django_db_blocker.unblock():
        restore_database(sample_file)
        lived_in(sample_now())
        keep_database(path)
        caches.clear_all()
    return path


@pytest.fixture
def lived(lived_file: Path | None, sample: Sample) -> Sample:
    if lived_file is None:
        lived_in(sample)
        return sample
    restore_database(lived_file)
    caches.clear_all()
    return sample_now()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_every_page_is_sound(
    lived: Sample,
    page_of: Callable[..., Page],
    axe: Callable[[Page], None],
    page_problems: list[str],
    theme: str,
    width: int,
) -> None:
    sample = lived
    height = 800 if width > 600 else 740
    options: dict[str, Any] = {"viewport": {"width": width, "height": height}, "color_scheme": theme}
    pages = {
        role: page_of(sample.by_role[role] if role else None, **options)
        for role in ("", "viewer", "reviewer", "author", "publisher", "admin")
    }
    wrong: list[str] = []
    for name, role, address in addresses(sample):
        page = pages[role]
        response = page.goto(address)
        assert response is not None
        expected = int(name) if name.isdigit() else 200
        if response.status != expected:
            wrong.append(f"{name}: {response.status} at {address}")
        wrong += look(page, f"{name}-{theme}-{width}", axe)
    page_problems[:] = [text for text in page_problems if not re.search(r"status of (403|404|422) ", text)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_opens_on_a_page_is_sound_too(
    sample: Sample, page_of: Callable[..., Page], axe: Callable[[Page], None], theme: str
) -> None:
    """The impact strip, the toast, the sheet of keys, the drawer, menus, the playground's answer, a tried policy."""
    wrong: list[str] = []
    page = page_of(sample.by_role["publisher"], color_scheme=theme)
    policy = f"{sample.home}/policies/{KEY}"
    state = sample.conversation("sky-112").states.get(user_turn=0)

    page.goto(f"{policy}/?turn={state.pk}")
    row = page.locator(f"#turn-{state.pk}")
    row.get_by_role("button", name="Show example").first.click()
    expect(row.locator("[data-strip]")).to_be_visible()
    wrong += look(page, f"strip-{theme}-1280", axe)
    page.set_viewport_size({"width": 360, "height": 740})
    wrong += look(page, f"strip-{theme}-360", axe)
    row.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("status").filter(has_text="v2 live")).to_be_visible()
    wrong += look(page, f"done-{theme}-360", axe)
    page.set_viewport_size({"width": 1280, "height": 800})
    wrong += look(page, f"done-{theme}-1280", axe)

    page.goto(f"{policy}/exemplars/")
    page.get_by_role("radio", name="Both").or_(page.locator("#fit-mixed")).first.check()
    page.locator("#fit-set form button").last.click()
    expect(page.locator("#strip-fit [data-strip]")).to_be_visible()
    wrong += look(page, f"fit-set-{theme}-1280", axe)

    page.goto(f"{sample.home}/policies/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    wrong += look(page, f"keys-{theme}-1280", axe)
    page.keyboard.press("Escape")
    page.locator("#user-menu-open").click()
    wrong += look(page, f"menu-{theme}-1280", axe)

    page.goto(f"{sample.home}/conversations/{state.conversation.public_id}/?t=0&p={KEY}")
    page.locator("#why").click()
    expect(page.locator("#drawer-content")).to_be_visible()
    wrong += look(page, f"drawer-{theme}-1280", axe)
    page.set_viewport_size({"width": 360, "height": 740})
    wrong += look(page, f"drawer-{theme}-360", axe)
    page.goto(f"{sample.home}/")
    page.locator("#nav-open").click()
    wrong += look(page, f"navigation-{theme}-360", axe)

    page.goto(f"{sample.home}/playground/")
    page.locator("#text-next").fill(state_text := "hi, I have to cancel my trip to Chicago next week")
    page.get_by_role("button", name="See what is selected").click()
    expect(page.locator("#results section.played")).to_contain_text(state_text)
    wrong += look(page, f"played-{theme}-360", axe)
    page.set_viewport_size({"width": 1280, "height": 800})
    wrong += look(page, f"played-{theme}-1280", axe)

    page.goto(f"{sample.home}/new-policy/")
    page.get_by_label("Name").fill("Peacocks on board")
    page.get_by_label("Text").fill("Peacocks travel as cargo.")
    page.get_by_label("Messages that need it").fill("can my peacock fly with me\nmy peacock needs a seat")
    page.get_by_label("Look-alikes that").fill("can my dog fly with me\nI need a window seat")
    page.get_by_label("Messages to try").fill("I have a peacock\nI have a bag")
    page.get_by_role("button", name="Try and find neighbours").click()
    expect(page.get_by_role("list", name="What became of your messages")).to_be_visible()
    wrong += look(page, f"tried-{theme}-1280", axe)
    assert not wrong, "\n".join(wrong)
