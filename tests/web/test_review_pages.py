"""Pages of review: queues with progress, one item after the other, hidden until answered, taken back, lost and kept."""

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from console.models import (
    Judgement,
    Note,
    QueueKind,
    Reservation,
    ReviewAnswer,
    ReviewItem,
    ReviewQueue,
    Role,
)
from console.services import embed, review_items, review_queues
from console.services.actor import person
from console.services.fit import fresh_inventory
from console.services.review_build import Asked
from tests import make

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
BASE = "/i/tiny/review/"


def queue(world: make.World, kind: str = QueueKind.AUDIT, *, size: int = 5, **options: Any) -> ReviewQueue:
    return review_queues.create_queue(
        fresh_inventory(world.inventory.pk), Asked(kind, size=size), by=world.by, name="Mine", **options
    )


def at(made: ReviewQueue, position: int = 0) -> str:
    return f"{BASE}{made.public_id}/items/{made.items.get(position=position).public_id}/"


def text_of(response: Any) -> str:
    return re.sub(r"\s+", " ", html.unescape(response.content.decode()))


def words_of(response: Any) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text_of(response)))


@pytest.fixture
def reviewer(world: make.World, signed_in: Any) -> Client:
    return signed_in(world.reviewer)  # type: ignore[no-any-return]


# ------------------------------------------------------------------------------------------------------------- the queues
def test_an_author_sees_what_queues_could_hold_and_makes_one(world: make.World, signed_in: Any) -> None:
    author = signed_in(world.author)
    page = text_of(author.get(BASE))
    assert "No queue yet" in page
    assert "36 pairs" in page  # the audit sample's
    assert "?kind=misses" in page
    page = text_of(author.get(f"{BASE}new/?kind=near"))
    assert re.search(r'value="near" checked', page)
    form = {"kind": "near", "size": 4, "reviewers": 2, "minutes": 5, "order": "worst", "seed": 1, "guideline": "As is."}
    response = author.post(f"{BASE}new/", form, follow=True)
    made = ReviewQueue.objects.get()
    assert response.redirect_chain[-1][0] == f"{BASE}{made.public_id}/"
    page = text_of(response)
    assert "Near the cut-off" in page
    assert "0 / 8" in re.sub(r"<[^>]+>", "", page)
    assert "As is." in page
    assert made.created_by == "ada"


def test_a_form_that_is_wrong_says_where(world: make.World, signed_in: Any) -> None:
    author = signed_in(world.author)
    form = {"kind": "human", "size": 4, "reviewers": 1, "minutes": 5, "order": "worst", "seed": 1}
    response = author.post(f"{BASE}new/", form)
    assert response.status_code == 422
    assert "there is nothing to review" in text_of(response)
    response = author.post(f"{BASE}new/", {**form, "kind": "best", "size": 0})
    assert response.status_code == 422
    assert not ReviewQueue.objects.exists()


def test_the_list_has_progress_in_few_queries(
    world: make.World, reviewer: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _number in range(6):
        queue(world)
    with django_assert_max_num_queries(12):
        page = text_of(reviewer.get(BASE))
    assert page.count("0 / 5") == 6
    assert "No queue that old" in text_of(reviewer.get(f"{BASE}?after=1"))


# ----------------------------------------------------------------------------------------------------------------- an item
def test_start_reserves_the_first_and_shows_it(world: make.World, reviewer: Client) -> None:
    made = queue(world)
    response = reviewer.post(f"{BASE}{made.public_id}/start/")
    assert response.status_code == 303
    assert response["Location"] == at(made)
    assert Reservation.objects.get(item__queue=made, item__position=0).user == world.reviewer
    page = text_of(reviewer.get(at(made)))
    assert "Would a good agent need this policy to write its next reply?" in page
    item = made.items.get(position=0)
    assert make.TEXTS[item.artifact.key] in page
    assert make.TALKS[item.state.conversation.external_id][item.state.user_turn][0] in page
    assert "item 1 of 5" in page


def test_a_blind_item_tells_nothing_before_the_answer_and_all_of_it_after(world: make.World, reviewer: Client) -> None:
    made = queue(world)
    page = text_of(reviewer.get(at(made)))
    assert make.JUDGE not in page
    assert 'class="bar' not in page
    response = reviewer.post(at(made), {"answer": "yes"})
    assert response["Location"] == at(made, 1)
    page = text_of(reviewer.get(response["Location"]))
    assert "Your last answer" in page
    before, revealed = page.split('id="answered"')
    assert 'class="bar' not in before  # this item is still hidden
    assert "AI reviewer" in revealed
    assert "/5" in revealed


def test_an_open_queue_shows_them_at_once(world: make.World, reviewer: Client) -> None:
    made = queue(world, QueueKind.NEAR)
    page = text_of(reviewer.get(at(made)))
    assert make.JUDGE in page
    assert 'class="bar' in page


def test_nothing_after_the_turn_is_shown(world: make.World, reviewer: Client) -> None:
    made = queue(world, size=36)
    item = made.items.filter(state__conversation__external_id="talk-1", state__user_turn=0).first()
    assert item is not None
    page = text_of(reviewer.get(at(made, item.position)))
    assert "hello there" in page
    assert "I would like to cancel" not in page


def test_a_long_conversation_is_folded(world: make.World, reviewer: Client) -> None:
    make.conversation(world.inventory, "long", [f"message number {n}" for n in range(20)])
    embed.embed_states(world.inventory)
    made = queue(world, QueueKind.CUSTOM, size=200)
    item = made.items.filter(state__conversation__external_id="long", state__user_turn=19).first()
    assert item is not None
    page = text_of(reviewer.get(at(made, item.position)))
    assert "Show 26 earlier messages" in page
    assert "message number 3 " not in page
    assert "message number 3<" in text_of(reviewer.get(at(made, item.position) + "?all=1")).replace("3 <", "3<")


def test_as_a_part_and_as_a_page(world: make.World, reviewer: Client) -> None:
    made = queue(world)
    part = reviewer.get(at(made), headers=HTMX).content.decode()
    assert part.lstrip().startswith("<article")
    assert "<html" not in part
    assert "data-focus-after" in part
    response = reviewer.post(at(made), {"answer": "no"}, headers=HTMX)
    assert (response.status_code, response["Location"]) == (303, at(made, 1))


def test_the_last_answer_leaves_for_the_queue_which_is_clear(world: make.World, reviewer: Client) -> None:
    made = queue(world, size=1)
    other = queue(world, QueueKind.NEAR, size=2)
    response = reviewer.post(at(made), {"answer": "no"}, headers=HTMX)
    assert response.status_code == 204
    page = text_of(reviewer.get(response["HX-Redirect"]))
    assert "Queue clear." in page
    assert "1 answer" in page
    assert other.public_id in page


def test_a_note_goes_with_the_answer(world: make.World, reviewer: Client) -> None:
    made = queue(world)
    reviewer.post(at(made), {"with": "yes", "note": "they ask for it"})
    row = ReviewAnswer.objects.get()
    assert (row.word, row.note) == ("yes", "they ask for it")
    assert row.judgement is not None
    assert row.judgement.reason == "they ask for it"
    response = reviewer.post(at(made, 1), {"note": "kept"})
    assert response.status_code == 422
    assert "kept" in text_of(response)


def test_skip_and_flag(world: make.World, reviewer: Client, signed_in: Any) -> None:
    made = queue(world, size=2)
    assert reviewer.post(at(made), {"do": "skip"})["Location"] == at(made, 1)
    response = reviewer.post(at(made, 1), {"do": "flag", "reason": " "})
    assert response.status_code == 422
    assert 'aria-invalid="true"' in text_of(response)
    assert reviewer.post(at(made, 1), {"do": "flag", "reason": "cut off"})["Location"] == at(made)
    page = text_of(reviewer.get(f"{BASE}{made.public_id}/"))
    assert "rob: cut off" in page
    assert "Put back" not in page
    assert "nobody is asked" in text_of(reviewer.get(at(made, 1)))
    back = f"{at(made, 1)}put-back/"
    assert reviewer.post(back).status_code == 403
    author = signed_in(world.author)
    assert "Put back" in text_of(author.get(f"{BASE}{made.public_id}/"))
    author.post(back)
    assert not ReviewItem.objects.filter(set_aside=True).exists()


def test_undo_from_the_next_item_and_from_the_list_of_a_later_session(world: make.World, signed_in: Any) -> None:
    made = queue(world)
    reviewer = signed_in(world.reviewer)
    for position, word in ((0, "yes"), (1, "no")):
        reviewer.post(at(made, position), {"answer": word})
    first, second = ReviewAnswer.objects.order_by("pk")
    assert f"{BASE}answers/{second.public_id}/undo/" in text_of(reviewer.get(at(made, 2)))
    response = reviewer.post(f"{BASE}answers/{second.public_id}/undo/", headers=HTMX)
    assert response["Location"] == at(made, 1)
    reviewer.logout()
    again = signed_in(world.reviewer)
    page = text_of(again.get(f"{BASE}mine/"))
    assert f"answers/{first.public_id}/undo/" in page
    assert second.public_id not in page
    again.post(f"{BASE}answers/{first.public_id}/undo/")
    assert not Judgement.objects.filter(judge__name="human:rob").exists()
    assert again.post(f"{BASE}answers/{first.public_id}/undo/").status_code == 409
    assert "Nothing answered yet" in text_of(again.get(f"{BASE}mine/"))


def test_a_lost_reservation_keeps_the_answer_with_a_way_on(world: make.World, reviewer: Client) -> None:
    made = queue(world, size=2)
    reviewer.post(f"{BASE}{made.public_id}/start/")
    Reservation.objects.update(until=timezone.now() - timedelta(seconds=1))
    item = review_items.claim(made, by=world.by)
    assert item is not None
    review_items.answer(review_items.get_item(world.inventory, made.public_id, item.public_id), "no", by=world.by)
    response = reviewer.post(at(made), {"answer": "yes", "note": "mine"})
    assert response.status_code == 409
    page = text_of(response)
    assert "ada has answered this one." in page
    assert "Your answer “needed” is kept as a draft" in page
    assert "second opinion" in text_of(reviewer.get(at(made)))  # also after loading the page again
    response = reviewer.post(at(made), {"answer": "yes", "note": "mine", "second": "1"})
    assert response["Location"] == at(made, 1)
    assert Judgement.objects.filter(judge__name="human:rob", score=5).count() == 1


def test_a_note_is_kept_while_it_is_written_and_gone_with_the_answer(
    world: make.World, reviewer: Client, signed_in: Any
) -> None:
    made = queue(world)
    reviewer.post(f"{BASE}{made.public_id}/start/")
    response = reviewer.post(at(made), {"do": "draft", "note": "half a thou"}, headers=HTMX)
    assert response.status_code == 200
    assert re.fullmatch(r"Saved \d\d:\d\d, not answered yet", text_of(response).strip())
    page = text_of(reviewer.get(at(made)))
    assert ">half a thou</textarea>" in page
    assert "not answered yet" in page
    assert not ReviewAnswer.objects.exists()
    assert "half a thou" not in text_of(signed_in(world.author).get(at(made)))  # the writer's own
    assert reviewer.post(at(made), {"do": "draft", "note": "half a thought"})["Location"] == at(made)  # without scripts
    reviewer.post(at(made), {"answer": "yes", "note": "a whole thought"})
    assert ReviewAnswer.objects.get().note == "a whole thought"
    assert not Note.objects.exists()
    assert "half a thou" not in text_of(reviewer.get(at(made)))


def test_a_clear_queue_says_how_it_went_and_where_to_go_on(world: make.World, reviewer: Client) -> None:
    made = queue(world, size=12)
    near = review_queues.create_queue(
        fresh_inventory(world.inventory.pk), Asked(QueueKind.NEAR, size=7), by=world.by, name="near the cut-off"
    )
    for item in made.items.order_by("position"):
        needed = (item.why["score"] or 1) >= 4
        found = review_items.get_item(world.inventory, made.public_id, item.public_id)
        review_items.answer(found, "yes" if needed else "no", by=person(world.reviewer))
    ReviewAnswer.objects.filter(item__position=0).update(at=timezone.now() - timedelta(minutes=11))
    page = words_of(reviewer.get(f"{BASE}{made.public_id}/"))
    assert re.search(r"Queue clear\. All of it is answered: 12 answers\. κ \+1\.00", page)
    assert re.search(r"Next: near the cut-off \(7\)", page)
    assert "60 answers an hour and person" in page
    assert near.size == 7


def test_pins_due_are_a_kind_and_conversations_can_be_chosen(world: make.World, signed_in: Any) -> None:
    author = signed_in(world.author)
    page = text_of(author.get(f"{BASE}new/?kind=custom&f=scenario:is:talk-1&f=or.scenario:is:talk-2"))
    assert "Pins due" in page
    assert "scenario:is:talk-1 or.scenario:is:talk-2</textarea>" in page
    form = {"kind": "custom", "size": 40, "reviewers": 1, "minutes": 5, "order": "worst", "seed": 1}
    response = author.post(f"{BASE}new/", {**form, "where": "scenario:is:talk-1\nor.scenario:is:talk-2"}, follow=True)
    made = ReviewQueue.objects.get()
    assert made.size == 18
    assert "scenario:is:talk-1 · or.scenario:is:talk-2" in text_of(response)
    response = author.post(f"{BASE}new/", {**form, "where": "colour:is:red"})
    assert response.status_code == 422
    assert "this list has no field colour" in text_of(response)


def test_a_sample_of_what_seems_shown_for_nothing_corrects_precision(world: make.World, reviewer: Client) -> None:
    made = queue(world, QueueKind.EXTRAS, size=2)
    for position, word in enumerate(("yes", "no")):
        reviewer.post(at(made, position), {"answer": word})
    for address in (f"{BASE}{made.public_id}/", "/i/tiny/agreement/"):
        page = words_of(reviewer.get(address))
        assert "Precision, as people correct it" in page
        assert "1 / 2 found needed by people" in page


def test_peers_stay_hidden_until_all_are_in(world: make.World, reviewer: Client, signed_in: Any) -> None:
    made = queue(world, size=1, reviewers=2)
    item = review_items.get_item(world.inventory, made.public_id, made.items.get().public_id)
    review_items.answer(item, "yes", by=world.by, note="a secret of ada's")
    assert "a secret" not in text_of(reviewer.get(at(made)))


def test_a_difference_offers_an_example_to_authors(world: make.World, signed_in: Any) -> None:
    made = queue(world, QueueKind.NEAR, size=36)
    shown = next(i for i in made.items.order_by("position") if i.why["fired"])
    author = signed_in(world.author)
    author.post(at(made, shown.position), {"answer": "no"})
    page = text_of(author.get(at(made, shown.position)))
    assert f"/i/tiny/policies/{shown.artifact.key}/exemplars/preview/" in page
    preview = f"/i/tiny/policies/{shown.artifact.key}/exemplars/preview/"
    form = {"text_of": shown.state_id, "do": "dont_show", "next": at(made)}
    assert author.post(preview, form).status_code == 200
    reviewer = signed_in(world.reviewer)
    reviewer.post(at(made, shown.position), {"answer": "no", "second": "1"})
    assert "exemplars/preview" not in text_of(reviewer.get(at(made, shown.position)))


# ------------------------------------------------------------------------------------------------------------------ limits
def test_an_item_takes_few_queries(
    world: make.World, reviewer: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    made = queue(world, size=36)
    reviewer.post(at(made), {"answer": "yes"})
    address = at(made, 1)
    with django_assert_max_num_queries(12):
        reviewer.get(address)
    with django_assert_max_num_queries(9):
        reviewer.get(address, headers=HTMX)
    ahead = made.items.get(position=2).public_id
    with django_assert_max_num_queries(10):
        assert ahead in reviewer.get(f"{address}ahead/").content.decode()
    assert questions(reviewer, address, answer="no") <= 12
    with CaptureQueriesContext(connection) as asked:
        reviewer.get(at(made, 2), headers=HTMX)
    assert len(asked) <= 9
    ahead = made.items.get(position=3).public_id
    assert questions(reviewer, at(made, 2), answer="yes", ahead=ahead) <= 12
    assert questions(reviewer, at(made, 3), answer="unsure", ahead=made.items.get(position=4).public_id) <= 12


def questions(client: Client, address: str, **form: str) -> int:
    """Statements of a POST but for the marks of transactions."""
    with CaptureQueriesContext(connection) as asked:
        response = client.post(address, form, headers=HTMX)
    assert response.status_code in {200, 303}
    marks = ("SAVEPOINT", "RELEASE", "BEGIN", "COMMIT")
    return sum(not row["sql"].startswith(marks) for row in asked)


def test_what_comes_next_is_shown_ahead_and_reserved_only_with_the_answer(world: make.World, reviewer: Client) -> None:
    made = queue(world, size=3)
    reviewer.post(f"{BASE}{made.public_id}/start/")
    second = made.items.get(position=1)
    page = text_of(reviewer.get(f"{at(made)}ahead/"))
    assert page.startswith("<article")
    assert second.public_id in page
    assert not Reservation.objects.filter(item=second, user__isnull=False).exists()
    response = reviewer.post(at(made), {"answer": "yes", "ahead": second.public_id}, headers=HTMX)
    assert response.status_code == 200
    assert response["HX-Push-Url"] == at(made, 1)
    page = text_of(response)
    assert "1 of 3 answered" in page
    assert "AI reviewer" in page  # the reveal of what was answered
    assert second.state.conversation.external_id not in page.split('id="answered"')[0]  # nothing that is here already
    assert Reservation.objects.get(item=second).user == world.reviewer
    third = made.items.get(position=2)
    Reservation.objects.filter(item=third).update(user=world.author, until=timezone.now() + timedelta(minutes=5))
    assert reviewer.get(f"{at(made, 1)}ahead/").status_code == 204
    response = reviewer.post(at(made, 1), {"answer": "no", "ahead": third.public_id}, headers=HTMX)
    assert response.status_code == 204  # somebody has it: to the queue's page, which says so
    assert Reservation.objects.get(item=third).user == world.author


def test_who_may_what(world: make.World, signed_in: Any) -> None:
    made = queue(world)
    allowed = {
        Role.VIEWER: (200, 403, 403, 403),
        Role.REVIEWER: (200, 303, 200, 403),
        Role.AUTHOR: (200, 303, 200, 200),
    }
    for role, expected in allowed.items():
        client = signed_in(world.by_role[role])
        found = (
            client.get(f"{BASE}{made.public_id}/").status_code,
            client.post(f"{BASE}{made.public_id}/start/").status_code,
            client.get(at(made)).status_code,
            client.get(f"{BASE}new/").status_code,
        )
        assert found == expected, role
    stranger = signed_in(world.stranger)
    for address in (BASE, f"{BASE}mine/", f"{BASE}{made.public_id}/", at(made), f"{BASE}new/"):
        assert stranger.get(address).status_code == 404
    assert stranger.post(at(made), {"answer": "yes"}).status_code == 404


def test_another_inventorys_queue_is_not_found(world: make.World, signed_in: Any) -> None:
    made = queue(world)
    client = signed_in(world.stranger)
    assert client.get(f"/i/others/review/{made.public_id}/").status_code == 404
    assert client.get(at(made).replace("/tiny/", "/others/")).status_code == 404


def test_of_very_many_policies_the_keys_are_typed(
    world: make.World, signed_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.forms.review.TICKED_UP_TO", 2)
    client, address = signed_in(world.author), "/i/tiny/review/new/"
    assert '<textarea name="policies"' in client.get(address).content.decode()
    post = {"kind": "audit", "size": 5, "reviewers": 1, "minutes": 15, "order": "worst", "seed": 1}
    wrong = client.post(address, post | {"policies": "cancel-order\nno-such"})
    assert wrong.status_code == 422
    assert "There is no policy no-such." in wrong.content.decode()
    assert client.post(address, post | {"policies": "cancel-order\n"}).status_code == 302
    assert set(ReviewQueue.objects.get().items.values_list("artifact__key", flat=True)) == {"cancel-order"}
