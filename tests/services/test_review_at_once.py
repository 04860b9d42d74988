"""Many reviewers at one queue at the same moment: no item is held twice, no answer is lost."""

import threading
from collections import Counter

import pytest
from django.db import connection

from console.models import Judgement, QueueKind, ReviewAnswer
from console.services import review_items, review_queues
from console.services.actor import person
from console.services.fit import fresh_inventory
from console.services.review_build import Asked
from tests import make

PEOPLE, ITEMS = 15, 30


@pytest.mark.django_db(transaction=True)
def test_fifteen_at_once_lose_nothing() -> None:
    world = make.world()
    people = [make.user(f"reviewer-{n}", "reviewer", world.inventory) for n in range(PEOPLE)]
    inventory = fresh_inventory(world.inventory.pk)
    made = review_queues.create_queue(inventory, Asked(QueueKind.AUDIT, size=ITEMS), by=world.by)
    held: list[str] = []
    wrong: list[BaseException] = []
    together = threading.Barrier(PEOPLE)

    def work(number: int) -> None:
        by = person(people[number])
        try:
            together.wait(timeout=30)
            while (item := review_items.claim(made, by=by)) is not None:
                held.append(item.public_id)
                found = review_items.get_item(inventory, made.public_id, item.public_id)
                assert review_items.answer(found, "no", by=by).kept
        except BaseException as error:  # noqa: BLE001  # a thread cannot fail the test itself
            wrong.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(PEOPLE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not wrong
    assert Counter(held) == dict.fromkeys(made.items.values_list("public_id", flat=True), 1)
    assert ReviewAnswer.objects.counted().count() == ITEMS
    assert Judgement.objects.filter(judge__name__startswith="human:reviewer-").count() == ITEMS
    assert review_queues.progress(made).left == 0
