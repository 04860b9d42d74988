"""Agreement and Decide: figures with their n, the turns behind a cell, filters in the address, differences decided."""

import html
import re
from typing import Any

import pytest
from django.test import Client

from console.models import AuditEvent, QueueKind, ReviewDecision, ReviewQueue, Role, User
from console.services import models_setting, review_items, review_queues
from console.services.actor import person
from console.services.fit import fresh_inventory
from console.services.review_build import Asked
from tests import make

pytestmark = pytest.mark.django_db
BASE = "/i/tiny/agreement/"
DECIDE = BASE + "decide/"


def text_of(response: Any) -> str:
    return re.sub(r"\s+", " ", html.unescape(response.content.decode()))


def audit(world: make.World, *, reviewers: int = 1) -> ReviewQueue:
    asked = Asked(QueueKind.AUDIT, size=36)
    return review_queues.create_queue(
        fresh_inventory(world.inventory.pk), asked, by=world.by, name="Audit", reviewers=reviewers
    )


def say(world: make.World, made: ReviewQueue, position: int, word: str, who: User, note: str = "") -> None:
    public_id = made.items.get(position=position).public_id
    item = review_items.get_item(world.inventory, made.public_id, public_id)
    review_items.answer(item, word, by=person(who), note=note)


@pytest.fixture
def viewer(world: make.World, signed_in: Any) -> Client:
    return signed_in(world.viewer)  # type: ignore[no-any-return]


def test_without_an_audit_answer_it_says_so(world: make.World, viewer: Client, signed_in: Any) -> None:
    page = text_of(viewer.get(BASE))
    assert "0 blind answers in random audit samples" in page
    assert "review/new" not in page
    assert "review/new/?kind=audit" in text_of(signed_in(world.author).get(BASE))


def test_figures_with_n_and_the_turns_behind_a_cell(world: make.World, viewer: Client) -> None:
    made = audit(world)
    for item in made.items.all():
        say(world, made, item.position, "yes" if item.why["score"] == 5 else "no", world.reviewer)
    say(world, made, 0, "unsure", world.reviewer)
    page = text_of(viewer.get(BASE))
    assert "κ is worked out from random audit samples alone" in page
    assert "35 answers count, 1 unsure left out" in page
    assert "+1.00" in page
    assert "100" in page
    assert "No interval: 5 scenarios, it takes 6." in page
    needed = made.items.filter(why__score=5).exclude(position=0)
    page = text_of(viewer.get(f"{BASE}?cell=judge-people:1:1"))
    assert page.count("data-row") == needed.count()
    first = needed[0]
    assert f"/conversations/{first.state.conversation.public_id}/?t={first.state.user_turn}" in page
    assert "data-row" not in text_of(viewer.get(f"{BASE}?cell=judge-people:9:x"))


def test_kappa_of_every_comparison_is_drawn_with_its_n(world: make.World, viewer: Client) -> None:
    made = audit(world)
    for position in range(8):
        say(world, made, position, "yes" if position % 2 else "no", world.reviewer)
    page = viewer.get(BASE)
    assert 'data-plot="kappa"' in text_of(page)
    figure = viewer.get(f"{BASE}figures.json").json()["kappa"]
    cards = [card for card in page.context["cards"] if card.kappa is not None]
    assert figure["data"][0]["x"] == [pytest.approx(card.kappa, abs=1e-4) for card in cards]
    assert all(
        f"(n = {card.n})" in tick for card, tick in zip(cards, figure["layout"]["yaxis"]["ticktext"], strict=True)
    )
    assert "data-plot" not in text_of(viewer.get(BASE, {"show": "scores"}))
    assert viewer.get(f"{BASE}figures.json", {"from": "2999-01-01"}).json() == {}


def test_the_address_narrows_it_and_unknown_parts_are_said(world: make.World, viewer: Client) -> None:
    made = audit(world)
    for item in made.items.all():
        say(world, made, item.position, "no", world.reviewer)
    assert "12 answers count" in text_of(viewer.get(f"{BASE}?policy=refund-status"))
    page = text_of(viewer.get(f"{BASE}?policy=nothing&judge=nobody&from=never"))
    for text in ("policy=nothing", "judge=nobody", "from=never"):
        assert f"<s>{text}</s>" in page
    assert "0 blind answers" in text_of(viewer.get(f"{BASE}?from=2999-01-01"))
    page = text_of(viewer.get(f"{BASE}?show=scores"))
    assert "No κ: these turns were picked." in page
    assert "AI reviewer and itself" in page


def test_the_queue_shows_kappa_so_far(world: make.World, viewer: Client) -> None:
    made = audit(world)
    address = f"/i/tiny/review/{made.public_id}/"
    assert "κ with the AI reviewer" not in text_of(viewer.get(address))
    say(world, made, 0, "no", world.reviewer)
    assert "κ with the AI reviewer" in text_of(viewer.get(address))


def test_few_queries(world: make.World, viewer: Client, django_assert_max_num_queries: Any) -> None:
    made = audit(world)
    for item in made.items.all():
        say(world, made, item.position, "no", world.reviewer)
    viewer.get(BASE)  # the session remembers the inventory
    for address in (BASE, f"{BASE}?show=scores", f"{BASE}?cell=judge-people:1:0"):
        with django_assert_max_num_queries(12):
            viewer.get(address)
    with django_assert_max_num_queries(12):
        viewer.get(f"/i/tiny/review/{made.public_id}/")


def test_a_difference_is_decided_with_a_reason(world: make.World, signed_in: Any) -> None:
    made = audit(world, reviewers=2)
    item = next(i for i in made.items.all() if i.why["score"] == 1)
    say(world, made, item.position, "yes", world.reviewer, note="they will need it")
    author = signed_in(world.author)
    assert "Nothing to decide" in text_of(author.get(DECIDE))  # the second has not answered
    say(world, made, item.position, "no", world.publisher)
    page = text_of(author.get(DECIDE))
    assert "they will need it" in page
    assert "1 case is open" in page
    form = {"queue": made.public_id, "item": item.public_id, "needed": "yes", "reason": " "}
    response = author.post(DECIDE, form)
    assert response.status_code == 422
    assert 'aria-invalid="true"' in text_of(response)
    assert author.post(DECIDE, {**form, "needed": "perhaps", "reason": "so"}).status_code == 422
    author.post(DECIDE, {**form, "reason": "the policy covers it"})
    row = ReviewDecision.objects.get()
    assert (row.needed, row.reason, row.by) == (True, "the policy covers it", "ada")
    assert AuditEvent.objects.filter(action="review.decide", actor="ada").exists()
    assert "Nothing to decide" in text_of(author.get(DECIDE))
    assert "1 decided" in text_of(author.get(BASE))


def test_who_may_what(world: make.World, signed_in: Any) -> None:
    for role in (Role.VIEWER, Role.REVIEWER):
        client = signed_in(world.by_role[role])
        assert client.get(BASE).status_code == 200
        assert client.get(DECIDE).status_code == 403
    stranger = signed_in(world.stranger)
    assert stranger.get(BASE).status_code == 404
    assert stranger.get(DECIDE).status_code == 404


def test_the_turns_of_a_cell_become_a_blind_queue(world: make.World, signed_in: Any) -> None:
    made = audit(world)
    for item in made.items.all():
        say(world, made, item.position, "no", world.reviewer)  # against the AI reviewer where it says needed
    author = signed_in(world.author)
    cell = "cell=judge-people:1:0"
    assert "agreement/review/?cell=judge-people%3A1%3A0" in text_of(author.get(f"{BASE}?{cell}"))
    response = author.post(f"{BASE}review/?{cell}", follow=True)
    queue = ReviewQueue.objects.exclude(pk=made.pk).get()
    assert response.redirect_chain[-1][0] == f"/i/tiny/review/{queue.public_id}/"
    wanted = {(i.state_id, i.artifact_id) for i in made.items.all() if i.why["score"] == 5}
    assert {(i.state_id, i.artifact_id) for i in queue.items.all()} == wanted
    assert queue.blind
    assert queue.name == "AI reviewer: needed, people: not needed"
    assert author.post(f"{BASE}review/?cell=judge-people:1:1").status_code == 422  # nothing in it
    assert signed_in(world.reviewer).post(f"{BASE}review/?{cell}").status_code == 403


def test_a_decided_case_becomes_a_line_of_the_guideline_and_fifty_are_offered_again(
    world: make.World, signed_in: Any
) -> None:
    made = audit(world)
    item = next(i for i in made.items.order_by("position") if i.why["score"] == 5)
    say(world, made, item.position, "no", world.reviewer, note="only asks")
    key = item.artifact.key
    form = {
        "queue": made.public_id,
        "item": item.public_id,
        "needed": "no",
        "reason": "They only ask.",
        "guideline": "1",
    }
    admin = signed_in(world.admin)
    assert "add this case to the guideline" in text_of(admin.get(DECIDE))
    response = admin.post(DECIDE, form, follow=True)
    now = models_setting.guideline(world.inventory)
    assert (now.number, now.text) == (1, f"- {key}: not needed where they only ask.")
    page = text_of(response)
    assert "Guideline 1 has the case." in page
    again = f"/i/tiny/runs/new/?kind=judge&policy={key}&sample=50"
    assert again in page
    assert ReviewDecision.objects.get().needed is False
    shown = text_of(admin.get(again))
    assert re.search(r'name="sample_amount" value="50(\.0)?"', shown)
    assert re.search(rf'value="{key}"[^>]* (checked|selected)|\s{key}</textarea>', shown)
    assert not re.search(r'name="unjudged_only"[^>]* checked', shown)  # also what has a score already
    say(world, made, item.position, "unsure", world.reviewer)
    author = signed_in(world.author)
    assert "add this case to the guideline" not in text_of(author.get(DECIDE))
    other = made.items.exclude(pk=item.pk).first()
    assert other is not None
    author.post(DECIDE, {**form, "item": other.public_id})  # decides, and changes no guideline
    assert models_setting.guideline(world.inventory).number == 1
    assert ReviewDecision.objects.count() == 2
