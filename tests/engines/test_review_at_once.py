"""Reviewers at one queue at the same moment on PostgreSQL: nobody holds another's item, waits, or loses an answer."""

import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection, connections, transaction
from django.test import Client
from django.utils import timezone

from console.models import (
    AuditEvent,
    Exemplar,
    ExemplarStatus,
    Judgement,
    QueueKind,
    Reservation,
    ReviewAnswer,
    ReviewQueue,
)
from console.services import candidates, curate, review_items, review_queues, run_work, runs
from console.services.actor import SYSTEM, person
from console.services.candidates import Filters
from console.services.fit import fresh_inventory
from console.services.plan import Step
from console.services.review_build import Asked
from tests import make

pytestmark = [pytest.mark.engines, pytest.mark.django_db(transaction=True)]
PEOPLE, ITEMS = 15, 36


@pytest.fixture
def world() -> make.World:
    if connection.vendor != "postgresql":
        pytest.skip("tests/services/test_review_at_once.py has it on SQLite")
    return make.world()


def queue(world: make.World, **options: int) -> ReviewQueue:
    inventory = fresh_inventory(world.inventory.pk)
    return review_queues.create_queue(inventory, Asked(QueueKind.AUDIT, size=ITEMS), by=world.by, **options)  # type: ignore[arg-type]


def together(acts: list[Callable[[], None]]) -> None:
    """All at once, each with a connection of its own; what one raises is raised here."""
    start, wrong = threading.Barrier(len(acts)), list[BaseException]()

    def run(act: Callable[[], None]) -> None:
        try:
            start.wait(timeout=30)
            act()
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            wrong.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not any(thread.is_alive() for thread in threads)
    if wrong:
        raise wrong[0]


def test_fifteen_browsers_lose_nothing_and_never_hold_one_item(world: make.World) -> None:
    """Over HTTP as the page does it, with the next item fetched ahead: all fifteen are told the same one, one gets it."""
    made = queue(world)
    people = [make.user(f"reviewer-{n}", "reviewer", world.inventory) for n in range(PEOPLE)]
    clients = []
    for user in people:
        client = Client()
        client.force_login(user)
        clients.append(client)
    answered: list[str] = []

    def work(client: Client) -> None:
        base = f"/i/tiny/review/{made.public_id}/"
        here = client.post(f"{base}start/")["Location"]
        while "/items/" in here:
            ahead = client.get(f"{here}ahead/", headers={"HX-Request": "true"})
            text = ahead.content.decode() if ahead.status_code == 200 else ""
            following = text.split('data-item="')[1].split('"')[0] if text else ""
            response = client.post(here, {"answer": "no", "ahead": following}, headers={"HX-Request": "true"})
            assert response.status_code in {200, 204, 303}, response.status_code
            answered.append(here.rstrip("/").rsplit("/", 1)[-1])
            here = response.headers.get("HX-Push-Url") or response.headers.get("Location") or ""

    together([lambda client=client: work(client) for client in clients])  # type: ignore[misc]
    assert Counter(answered) == dict.fromkeys(made.items.values_list("public_id", flat=True), 1)
    assert ReviewAnswer.objects.counted().count() == ITEMS
    assert Judgement.objects.filter(judge__name__startswith="human:reviewer-").count() == ITEMS
    assert AuditEvent.objects.filter(action="judgement.label").count() == ITEMS
    assert review_queues.progress(made).left == 0


def test_two_reviewers_an_item_are_two_people(world: make.World) -> None:
    made = queue(world, reviewers=2)
    people = [make.user(f"reviewer-{n}", "reviewer", world.inventory) for n in range(6)]
    inventory = fresh_inventory(world.inventory.pk)

    def work(n: int) -> None:
        by = person(people[n])
        while (item := review_items.claim(made, by=by)) is not None:
            found = review_items.get_item(inventory, made.public_id, item.public_id, reader=people[n])
            assert review_items.answer(found, "yes", by=by).kept

    together([lambda n=n: work(n) for n in range(6)])  # type: ignore[misc]
    places = Reservation.objects.filter(item__queue=made, done=True)
    assert places.count() == 2 * ITEMS
    assert len(set(places.values_list("item", "user"))) == 2 * ITEMS


def test_who_claims_does_not_wait_for_a_place_somebody_is_taking(world: make.World) -> None:
    made = queue(world)
    other = make.user("other", "reviewer", world.inventory)
    with transaction.atomic():
        first = review_items.claim(made, by=person(world.reviewer))
        got: list[int] = []

        def claim() -> None:
            item = review_items.claim(made, by=person(other))
            assert item is not None
            got.append(item.position)

        together([claim])
    assert first is not None
    assert (first.position, got) == (0, [1])


def test_a_lost_reservation_keeps_the_answer_as_a_draft_whoever_commits_first(world: make.World) -> None:
    made = queue(world)
    inventory = fresh_inventory(world.inventory.pk)
    rivals = [world.reviewer, make.user("other", "reviewer", world.inventory)]
    item = review_items.claim(made, by=person(rivals[0]))
    assert item is not None
    Reservation.objects.filter(item=item).update(until=timezone.now() - timedelta(seconds=1))
    kept: list[bool] = []

    def answer(n: int) -> None:
        found = review_items.get_item(inventory, made.public_id, item.public_id, reader=rivals[n])
        kept.append(review_items.answer(found, "yes", by=person(rivals[n]), note=f"by {n}").kept)

    together([lambda n=n: answer(n) for n in range(2)])  # type: ignore[misc]
    assert sorted(kept) == [False, True]
    assert ReviewAnswer.objects.counted().filter(item=item).count() == 1
    draft = ReviewAnswer.objects.get(item=item, draft=True)
    assert draft.note in {"by 0", "by 1"}
    assert draft.judgement is None
    assert Judgement.objects.filter(judge__name__startswith="human:").count() == 1


def test_a_decision_on_all_that_match_against_somebody_else_s_is_whole_or_nothing(world: make.World) -> None:
    """Both at once: either all twelve were turned down, or the one and none of the others."""
    run = runs.create_run(fresh_inventory(world.inventory.pk), "mine", by=SYSTEM)
    run_work.work(run.pk)
    client = Client()
    client.force_login(world.author)
    base = "/i/tiny/candidates/"
    asked = f"{base}?policy=cancel-order"
    shown = candidates.page(fresh_inventory(world.inventory.pk), Filters(policy="cancel-order")).extent
    assert shown.count == 12
    rows = list(Exemplar.objects.filter(artifact=world.cancel, status=ExemplarStatus.CANDIDATE).order_by("pk"))
    import json

    part = json.dumps({"policy": "cancel-order", "base": 1, "rows": [[row.public_id, "reject"] for row in rows]})
    form = {"p": part, "next": asked, "count": 12, "digest": shown.digest, "key": "k", "reason": "as shown"}
    codes: list[int] = []

    def all_of_them() -> None:
        codes.append(client.post(f"{base}apply/", form, headers={"HX-Request": "true"}).status_code)

    def one() -> None:
        step = Step("reject", exemplar=rows[5].public_id)
        try:
            curate.apply(world.cancel, [step], by=SYSTEM, base_version=1)
            codes.append(0)
        except Exception:  # noqa: BLE001 - all of them were faster: this one is decided
            codes.append(1)

    together([all_of_them, one])
    left = Exemplar.objects.filter(artifact=world.cancel, status=ExemplarStatus.CANDIDATE).count()
    assert (sorted(codes), left) in [([0, 409], 11), ([1, 200], 0)]
