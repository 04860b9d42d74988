"""Every main journey of the console, written once and taken twice: by keys alone, and with JavaScript off.

What the design exempts: the map of a policy and the matrix of neighbours are drawn by a script, both drivers use the list
beside them; single-letter keys are a script's (tests/browser/test_keyboard.py has them).
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from console.models import (
    ApiToken,
    Artifact,
    ArtifactSetting,
    Change,
    ClassifierVersion,
    Conversation,
    Evaluation,
    Exemplar,
    ExemplarStatus,
    GoLive,
    Judgement,
    Membership,
    Mode,
    Note,
    Release,
    ReviewAnswer,
    ReviewDecision,
    ReviewQueue,
    Role,
    Run,
    SavedView,
    Schedule,
    Status,
)
from console.services import artifacts, curate, heartbeat, run_work, runs
from console.services.actor import SYSTEM, person
from console.services.fit import fresh_inventory
from console.services.inventories import update_inventory
from console.services.plan import Step
from tests import make
from tests.browser.hands import Hands, hands

Start = Callable[..., Hands]


@pytest.fixture(params=["keys", "noscript"])
def start(request: pytest.FixtureRequest, page_of: Callable[..., Page]) -> Start:
    """``start(world.author)``: that person at the console, with one of the two drivers; ``start()``: signed out."""
    return lambda user=None: hands(request.param, page_of, user)


def versions(artifact: Artifact) -> list[ClassifierVersion]:
    return list(ClassifierVersion.objects.filter(artifact=artifact).order_by("number"))


def take_back(me: Hands) -> None:
    """The Undo of the result that the page tells; where it leads to a page of its own, that page's button."""
    me.press(me.find("#status").get_by_text("Undo", exact=True))
    heading = me.page.get_by_role("heading", name=re.compile("^Take back"))
    done = me.find("#status").get_by_text(re.compile("v3 live|v4 live|Taken back"))
    expect(heading.or_(done).first).to_be_visible()
    me.quiet()
    if heading.count():
        me.press(me.button("Undo"))


# -------------------------------------------------------------------------------------------------------------------- in, out
def test_signing_in_the_menu_and_signing_out(world: make.World, start: Start) -> None:
    me = start()
    me.open("policies/")
    me.fill(me.field("User name"), world.author.username)
    me.fill(me.field("Password"), make.PASSWORD)
    me.press(me.button("Sign in"))
    me.is_at("policies/")
    menu = me.button(re.compile("profile, theme, sign out$"), "header")
    me.press(menu)
    me.press(me.button("Dark", "#user-menu"))
    expect(me.find("html")).to_have_attribute("data-theme", "dark")
    me.quiet()
    me.press(menu)
    me.press(me.link("Profile", "#user-menu"))
    me.sees_heading("Profile")
    me.mark(me.find("input[name=technical_terms]"))
    me.press(me.button("Save"))
    me.said("Saved.")
    world.author.refresh_from_db()
    assert world.author.technical_terms
    me.press(menu)
    me.press(me.button("Sign out", "#user-menu"))
    expect(me.page).to_have_title("Sign in · Signalbox")


# ------------------------------------------------------------------------------------------------------- examples, versions
def test_a_missed_turn_becomes_an_example_and_is_taken_back(world: make.World, start: Start) -> None:
    me = start(world.author)
    me.open("policies/")
    me.press(me.find("#open-change-order"))
    me.sees_heading("Needed it and did not get it")
    me.press(me.find("section[aria-labelledby=missed-title]").get_by_role("link", name="Why"))
    me.sees_heading("Not selected: a miss")
    me.press(me.button("Use as show example"))
    me.sees_heading("What will change")
    me.sees("turns start")
    assert len(versions(world.change)) == 1  # shown, not written
    me.say_why_if_asked("the shop's own words", ".strip")
    me.press(me.button("Apply"))
    me.said("v2 live")
    take_back(me)
    me.said("v3 live")
    first, second, third = versions(world.change)
    assert bytes(first.weights) == bytes(third.weights) != bytes(second.weights)


def test_conversations_are_searched_kept_as_a_view_labelled_and_flagged(world: make.World, start: Start) -> None:
    me = start(world.reviewer)
    me.open("conversations/")
    me.search(me.find("#q"), "lamp")
    expect(me.find("[data-row]")).to_have_count(2)
    me.quiet()
    me.press(me.summary("Add a filter"))
    me.choose(me.field("What"), "scenario:is")
    me.fill(me.field("Value, where one is asked for (…)"), "talk-4")
    me.press(me.button("Add"))
    expect(me.find("[data-row]")).to_have_count(1)
    me.quiet()
    me.press(me.summary("Views"))
    me.fill(me.field("Save this list as"), "Lamps")
    me.press(me.button("Save"))
    me.sees("View:")
    assert not SavedView.objects.get().shared
    me.open("conversations/")
    expect(me.find("[data-row]")).to_have_count(5)
    me.press(me.summary("Views"))
    me.press(me.link("Lamps"))
    expect(me.find("[data-row]")).to_have_count(1)
    me.sees("View:")

    me.press(me.summary("View:"))
    me.fill(me.field("Save this list as"), "Lamps again")
    me.press(me.button("Save"))
    me.said("Saved, for you alone.")
    assert SavedView.objects.values("query").distinct().count() == 1  # an address that only names a view stands for it

    me.press(me.link("talk-4"))
    me.sees_heading("talk-4")
    me.press(me.find("#rail-1"))
    me.sees_heading(re.compile("^Message 2"))
    me.press(me.find("#pick-change-order"))
    expect(me.find("#pick-change-order")).to_have_attribute("aria-current", "true")
    me.quiet()
    me.press(me.find("#label-5"))
    expect(me.find("#label-5")).to_have_attribute("aria-pressed", "true")
    me.quiet()
    label = Judgement.objects.get(judge__name="human:rob")
    assert (label.score, label.artifact_text.artifact) == (5, world.change)

    notes = ".notes-on"
    me.press(me.summary("Flag", notes))
    me.fill(me.field("What is wrong here", notes), "the second lamp is another one")
    me.press(me.button("Flag it", notes))
    expect(me.find(".note-line.flagged")).to_contain_text("the second lamp is another one")
    me.quiet()
    me.press(me.summary("Note", notes))
    me.fill(me.field("Note; @name tells a member", notes), "asked twice")
    me.press(me.button("Write it", notes))
    expect(me.find(".note-line")).to_have_count(2)
    me.quiet()
    assert sorted(Note.objects.filter(draft=False).values_list("flag", "text")) == [
        (False, "asked twice"), (True, "the second lamp is another one"),
    ]  # fmt: skip


def test_suggestions_are_decided_on_applied_and_taken_back(world: make.World, start: Start) -> None:
    run = runs.create_run(fresh_inventory(world.inventory.pk), "mine", by=SYSTEM)
    run_work.work(run.pk)
    me = start(world.author)
    me.open("candidates/?policy=cancel-order")
    first, second = (str(row.get_attribute("id")).removeprefix("c-") for row in me.find("[data-row]").all()[:2])
    me.press(me.find(f"#s-{first}"))
    expect(me.find(f"#s-{first}")).to_have_attribute("aria-pressed", "true")
    me.sees("1 decision", "#tray")
    me.press(me.find(f"#r-{second}"))
    me.sees("2 decisions", "#tray")
    me.press(me.find("#tray-look"))
    me.sees("turns start", "[data-strip]")
    assert len(versions(world.cancel)) == 1
    me.say_why_if_asked("as the reviewer says", "[data-strip]")
    me.press(me.button("Apply", "[data-strip]"))
    me.said("v2 live")
    status = dict(Exemplar.objects.filter(public_id__in=(first, second)).values_list("public_id", "status"))
    assert status == {first: ExemplarStatus.PROMOTED, second: ExemplarStatus.REJECTED}
    take_back(me)
    me.said("v3 live")
    assert Exemplar.objects.get(public_id=first).status == ExemplarStatus.CANDIDATE


def test_policies_are_set_at_once_and_exported(world: make.World, start: Start) -> None:
    me = start(world.author)
    me.open("policies/")
    me.mark(me.find("#tick-cancel-order"))
    me.mark(me.find("#tick-refund-status"))
    me.press(me.find("#bulk-mode"))
    me.sees("2 policies")
    me.mark(me.find("#mode-always"))
    me.fill(me.field("Reason"), "while the fair lasts")
    me.press(me.button("Set it"))
    me.said("The mode of 2 policies is set.")
    assert {artifacts.fields_of(one)["mode"] for one in (world.cancel, world.refund)} == {Mode.ALWAYS}
    assert artifacts.fields_of(world.change)["mode"] == Mode.AUTO
    assert Change.objects.filter(reason="while the fair lasts").count() == 2
    me.choose(me.find("#bulk-scope"), "all")
    me.press(me.find("#bulk-export"))
    me.sees("all that match the filter")
    taken = me.take(me.button("Download"))
    rows = [json.loads(line) for line in Path(taken.path()).read_text().splitlines()]
    assert {row["id"] for row in rows} == {"cancel-order", "change-order", "refund-status"}


def test_two_versions_are_compared_and_the_first_is_gone_back_to(world: make.World, start: Start) -> None:
    text = "stop my order before it is sent"
    curate.apply(world.cancel, [Step("add", polarity="signal", text=text)], by=world.by, base_version=1)
    me = start(world.publisher)
    me.open("policies/cancel-order/versions/")
    me.mark(me.find("#tick-v1"))
    me.mark(me.find("#tick-v2"))
    me.press(me.button("Compare"))
    me.is_at(r"policies/cancel-order/versions/1\.\.\.2/")
    expect(me.find("ins")).to_have_text(text)
    me.press(me.link("All versions"))
    me.is_at("policies/cancel-order/versions/")
    me.press(me.find("#rollback-v1"))
    strip = "[data-strip]"
    me.sees_heading("What will change")
    me.fill(me.find(strip).get_by_label("Reason", exact=True), "the new one was a guess")
    me.press(me.find(f"{strip} .primary"))
    me.said("v3 live")
    first, _second, third = versions(world.cancel)
    assert bytes(first.weights) == bytes(third.weights)
    assert third.reason == "the new one was a guess"


def test_neighbours_are_opened_and_one_is_taught(world: make.World, start: Start) -> None:
    update_inventory(world.inventory, by=world.by, theta=-50.0)  # all are selected at every turn
    me = start(world.author)
    me.open("neighbours/")
    me.press(me.find("#open-cancel-order--change-order"))  # the list has what the matrix draws
    me.sees_heading(re.compile("Cancel order and Change order"))
    me.mark(me.find("#side-a [data-tick]").first)
    me.press(me.find("#teach-a"))
    me.sees_heading("What will change")
    me.sees("turns stop")
    me.say_why_if_asked("only the other was needed", ".strip")
    me.press(me.button("Apply"))
    me.said("v2 live")
    me.is_at(r"neighbours/cancel-order\.\.\.change-order/.*")
    assert Exemplar.objects.filter(source="mined", polarity="anti_signal", status=ExemplarStatus.PROMOTED).count() == 1


# ------------------------------------------------------------------------------------------------------------------ releases
def test_a_draft_goes_live_and_everything_is_taken_back(world: make.World, start: Start) -> None:
    update_inventory(world.inventory, by=person(world.admin), go_live=GoLive.AFTER_REVIEW)
    artifacts.edit_artifact(world.change, by=world.by, name="Changing an order")
    before = fresh_inventory(world.inventory.pk)
    me = start(world.publisher)
    me.open("releases/")
    me.press(me.link("Change card"))
    me.sees_heading("What differs")
    me.sees("Changing an order")
    me.press(me.link(f"Let release {before.release} go live"))
    me.sees_heading("What will change")
    me.fill(me.field("Reason (optional)"), "agreed with the shop")
    me.press(me.button("Approve and go live"))
    me.said(f"Release {before.release} is live.")
    assert fresh_inventory(world.inventory.pk).live_release == before.release

    me.press(me.find(f"#back-r{before.live_release}"))
    me.sees_heading(f"Everything back to release {before.live_release}")
    me.fill(me.field("Reason"), "the shop thought again")
    me.press(me.button("Take everything back"))
    me.said(f"has the content of release {before.live_release}")
    assert artifacts.fields_of(world.change)["name"] == "Change order"
    assert Release.objects.filter(inventory=world.inventory).latest("number").reason == "the shop thought again"


# -------------------------------------------------------------------------------------------------------------------- review
def test_a_queue_is_made_answered_and_a_difference_decided(world: make.World, start: Start) -> None:
    me = start(world.author)
    me.open("review/")
    me.press(me.link(re.compile("^Make it ?: Random audit sample")))
    me.sees_heading("New queue")
    me.fill(me.field("Items"), "4")
    me.press(me.button("Make the queue"))
    me.said("4 items")
    queue = ReviewQueue.objects.get()
    me.press(me.button("Start"))
    me.sees("item 1 of 4")
    me.press(me.button("Yes"))
    me.sees("item 2 of 4")
    me.press(me.button("No"))
    me.sees("item 3 of 4")
    me.press(me.button("Unsure"))
    me.sees("item 4 of 4")
    me.press(me.button("Undo"))
    me.said("Taken back")
    me.sees("item 3 of 4")
    me.press(me.button("No"))
    me.sees("item 4 of 4")
    score = queue.items.get(position=3).why["score"]
    me.press(me.button("No" if score == 5 else "Yes"))  # not what the AI reviewer says
    me.sees("Queue clear.")
    words = list(ReviewAnswer.objects.counted().order_by("item__position").values_list("word", flat=True))
    assert words[:3] == ["yes", "no", "no"]

    me.open("agreement/")
    me.sees("3 answers count")  # the one that was changed after the reveal is left out
    asked = queue.items.get(position=0).artifact.key
    me.choose(me.find("#policy"), asked)
    me.press(me.button("Show"))
    me.is_at(rf"agreement/\?policy={asked}.*")
    me.press(me.link("Decide where they differ"))
    me.sees_heading("Decide")
    item = queue.items.get(position=3).public_id
    me.fill(me.find(f"#reason-{item}"), "read again together")
    me.press(me.find(f"#yes-{item}"))
    me.said("Decided: needed.")
    assert ReviewDecision.objects.get().reason == "read again together"


# ------------------------------------------------------------------------------------------------------------ runs, schedules
def worked(me: Hands, run: Run) -> None:
    """As a worker does it, with the page open."""
    while run_work.work(run.pk):
        pass
    me.look_again()


def test_a_run_is_planned_watched_and_run_again(world: make.World, start: Start) -> None:
    heartbeat.beat(heartbeat.WORKER)
    me = start(world.author)
    me.open("runs/")
    me.press(me.find("#new-mine"))
    me.sees_heading("What it takes")
    me.mark(me.find("input[name=recipe][value=states]"))
    me.press(me.button("Work out what it takes"))
    me.sees("nothing: no model is called")
    expect(me.find("input[name=recipe][value=states]")).to_be_checked()
    me.press(me.button("Start"))
    expect(me.find("#progress")).to_contain_text("queued")
    me.quiet()
    run = Run.objects.get()
    assert run.params["recipe"] == "states"
    worked(me, run)
    expect(me.find("#progress")).to_contain_text("complete")
    me.sees_heading("What came of it")
    me.press(me.button("Run again"))
    me.said("A new run with the same plan.")
    assert Run.objects.exclude(pk=run.pk).get().params["recipe"] == "states"
    me.open("runs/")
    expect(me.find("[data-row]")).to_have_count(2)


def test_a_schedule_is_set_and_run_now(world: make.World, start: Start) -> None:
    heartbeat.beat(heartbeat.WORKER)
    me = start(world.author)
    me.open("schedules/")
    me.press(me.link("New schedule"))
    me.press(me.link(re.compile("^Schedule: Mine|^Schedule: .*examples.*chats|^Schedule: Find")))
    me.sees_heading("Next three times")
    me.fill(me.field("Name"), "Weekly finds")
    me.fill(me.field("When"), "0 5 * * 1")
    me.press(me.button("Show times and forecast"))
    me.sees("At 05:00, only on Monday")
    expect(me.find("ol.times li")).to_have_count(3)
    me.press(me.button("Save schedule"))
    me.said("The schedule is saved.")
    schedule = Schedule.objects.get()
    assert (schedule.name, schedule.cron) == ("Weekly finds", "0 5 * * 1")
    me.open("schedules/")
    expect(me.find("[data-row] .times time")).to_have_count(3)
    me.press(me.button("Run now"))
    me.is_at("runs/[^/]+/")
    assert Run.objects.get().schedule == schedule


# ---------------------------------------------------------------------------------------------------------------------- data
def test_a_file_is_brought_looked_at_imported_and_another_taken(
    world: make.World, start: Start, tmp_path: Path
) -> None:
    heartbeat.beat(heartbeat.WORKER)
    file = tmp_path / "march.jsonl"
    rows = [{"id": f"new-{n}", "messages": [{"role": "user", "content": f"lamp {n}, please"}]} for n in range(3)]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    me = start(world.author)
    me.open("data/")
    me.upload(me.find("#file"), file)
    me.press(me.button("Upload and look at it"))
    me.sees_heading("march.jsonl")
    me.sees("3 new")
    me.press(me.button("Import the whole file"))
    expect(me.find("#progress")).to_contain_text("queued")
    me.quiet()
    worked(me, Run.objects.get())
    expect(me.find("#progress")).to_contain_text("complete")
    me.sees("conversations read")
    assert Conversation.objects.filter(external_id__startswith="new-").count() == 3
    me.open("data/")
    me.press(me.link("Export"))
    me.sees_heading("As it is now")
    taken = me.take(me.link("Conversations as JSON lines"))
    ids = [json.loads(line)["id"] for line in Path(taken.path()).read_text().splitlines()]
    assert len(ids) == 8
    assert "new-2" in ids


# ---------------------------------------------------------------------------------------------------------------- evaluation
def test_a_release_is_measured_and_its_errors_read(world: make.World, start: Start) -> None:
    heartbeat.beat(heartbeat.WORKER)
    me = start(world.author)
    me.open("evaluation/")
    me.press(me.button("Measure"))
    me.said("is being measured")
    worked(me, Run.objects.get())
    release = fresh_inventory(world.inventory.pk).release
    expect(me.link(f"Release {release}")).to_be_visible()
    expect(me.find("[data-row] .badge")).to_have_count(0)  # measured, not at work
    me.quiet()
    me.press(me.link(f"Release {release}"))
    me.sees_heading("Errors, the surest first")
    assert Evaluation.objects.count() == 1
    me.press(me.find("#policies").get_by_role("link", name=re.compile("missed")).first)
    me.sees_heading(re.compile("^Errors of"))
    me.press(me.find("#errors [data-open]").first)
    me.is_at("conversations/.*")


# ------------------------------------------------------------------------------------------------------------------ settings
def test_settings_members_and_tokens(world: make.World, start: Start) -> None:
    me = start(world.admin)
    me.open("settings/general/")
    me.fill(me.field("Share to catch, in percent"), "85")
    me.press(me.button("Save"))
    me.said("Saved.")
    assert fresh_inventory(world.inventory.pk).target_recall == pytest.approx(0.85)

    me.press(me.link("Members"))
    me.sees_heading("A new account")
    made = "section[aria-labelledby=make-title]"
    me.fill(me.field("User name", made), "nora")
    me.choose(me.field("Role", made), Role.REVIEWER)
    me.press(me.button("Make it", made))
    me.sees("The link for nora, shown this once:")
    nora = Membership.objects.get(user__username="nora")
    assert nora.role == Role.REVIEWER
    me.choose(me.field("Role of nora"), Role.AUTHOR)
    me.press(me.button("Change nora"))
    me.said("nora is Author now.")

    me.press(me.link("Tokens"))
    me.sees_heading("A new token")
    me.fill(me.field("Name"), "shop agent")
    me.choose(me.field("Role"), Role.REVIEWER)
    me.press(me.button("Make it"))
    me.sees("The token of shop agent, shown this once:")
    me.press(me.button("Revoke shop agent"))
    me.said("shop agent is refused from now on.")
    assert ApiToken.objects.get(name="shop agent").revoked_at is not None


# ---------------------------------------------------------------------------------------------------------------- playground
def test_a_typed_conversation_is_played_and_taught(world: make.World, start: Start) -> None:
    me = start(world.author)
    me.open("playground/")
    me.fill(me.field("Next message"), "cancel the order of the lamp")
    me.press(me.button("See what is selected"))
    me.sees_heading(re.compile("^Message 1"))
    expect(me.find("#results .play-rows").get_by_role("img").first).to_be_visible()  # the bars
    me.press(me.button(re.compile("should not have been selected$")).first)
    me.sees_heading("What will change")
    me.sees("cancel the order of the lamp")
    assert not Exemplar.objects.filter(text="cancel the order of the lamp").exists()
    me.press(me.link("Cancel"))
    me.is_at("policies/cancel-order/")  # what was typed is stored nowhere to come back to


# ------------------------------------------------------------------------------------------------------------------ policies
def test_a_policy_is_written_tried_edited_and_archived(world: make.World, start: Start) -> None:
    me = start(world.author)
    me.open("policies/")
    me.press(me.link("New policy"))
    me.fill(me.field("Name"), "Gift wrap")
    me.fill(me.field("Text"), "Gifts are wrapped for 3 euros.")
    me.fill(me.field("Messages that need it"), "can you wrap it as a gift\nis gift paper possible\nit is a present")
    me.fill(me.field("Look-alikes that don't"), "please cancel my order\nwhere is my refund\nthank you, goodbye")
    me.fill(me.field("Messages to try"), "wrap the lamp as a present")
    me.press(me.button("Try and find neighbours"))
    me.sees("of your 12 logged turns")
    assert not Artifact.objects.filter(key="gift-wrap").exists()
    me.press(me.button("Save policy"))
    me.sees_heading("Gift wrap")
    made = Artifact.objects.get(key="gift-wrap")
    assert len(versions(made)) == 1
    me.press(me.link("Edit policy"))
    me.fill(me.field("Text"), "Gifts are wrapped for 4 euros.")
    me.press(me.button("Save"))
    me.sees("Gifts are wrapped for 4 euros.", "#policy-head")
    assert artifacts.fields_of(made)["text"] == "Gifts are wrapped for 4 euros."
    # The pages have no Archive of their own: a policy is archived there by taking its making back.
    change = Change.objects.get(artifact=made, action="create").public_id
    me.open("mine/")
    me.press(me.find(f"#undo-{change}"))
    me.sees_heading(re.compile("^Take back"))
    me.press(me.button("Undo"))
    me.said("Taken back")
    assert ArtifactSetting.objects.current().get(artifact=made).status == Status.ARCHIVED
    me.open("policies/")
    expect(me.find("[data-row]")).to_have_count(3)


# --------------------------------------------------------------------------------------------------------------------- audit
def test_the_audit_is_filtered_and_an_object_s_history_read(world: make.World, start: Start) -> None:
    artifacts.edit_artifact(world.change, by=world.by, name="Changing an order", reason="plainer")
    me = start(world.admin)
    me.open("audit/")
    me.fill(me.field("Who"), "ada")
    me.press(me.button("Show"))
    me.is_at(r"audit/\?actor=ada.*")
    expect(me.find("[data-row]")).to_have_count(1)
    me.sees("plainer")
    me.press(me.link(re.compile("^History of")))
    me.is_at(r"audit/\?object=change-order.*")
    assert me.find("[data-row]").count() > 1


# --------------------------------------------------------------------------------------------------- what they rely on
def test_a_choice_passed_by_keys_waits_for_its_button_and_one_by_mouse_does_not(
    world: make.World, page_of: Callable[..., Page]
) -> None:
    page = page_of(world.author)
    page.goto("/i/tiny/agreement/")
    page.wait_for_load_state("load")
    policy, show = page.locator("#policy"), page.get_by_role("button", name="Show", exact=True)
    expect(show).to_be_hidden()
    policy.focus()
    page.keyboard.press("ArrowDown")
    expect(policy).to_have_value("cancel-order")
    expect(show).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(policy).to_have_value("change-order")
    expect(policy).to_be_focused()
    page.keyboard.press("Tab")
    expect(page).to_have_url(re.compile("/agreement/$"))
    show.focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"policy=change-order"))
    page.wait_for_load_state("load")
    policy.click()
    policy.select_option("refund-status")
    expect(page).to_have_url(re.compile(r"policy=refund-status"))
