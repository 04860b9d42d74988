"""One order of locks: artifacts, then their inventory. Whoever writes at once waits for the others, and nobody for ever."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from django.db import connection, connections, transaction

from console.models import Artifact, ClassifierVersion, Exemplar, Inventory, Release
from console.services import artifacts, curate, embed, fit, inventories, refitting, releases
from console.services.actor import SYSTEM
from console.services.errors import ServiceError
from console.services.plan import Step
from console.services.revision import lock_artifact
from tests import make
from tests.web.api import Api

pytestmark = [pytest.mark.engines, pytest.mark.django_db(transaction=True)]
Act = Callable[[], object]


class Thread:
    """``act`` in a thread with a connection of its own; `end` waits for it and raises what it raised."""

    def __init__(self, act: Act) -> None:
        self._act, self._error = act, []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._act()
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            self._error.append(error)
        finally:
            connections.close_all()

    def end(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self._error:
            raise self._error[0]


def until_waiting(count: int) -> None:
    """Until so many of this database's connections wait for a lock."""
    deadline = time.monotonic() + 20
    question = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute(question)
            if cursor.fetchone()[0] >= count:
                return
        time.sleep(0.02)
    raise AssertionError(f"never {count} waiting")


@contextlib.contextmanager
def holding(row: Artifact | Inventory) -> Iterator[None]:
    """Somebody else has the row locked meanwhile."""
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            type(row).objects.select_for_update().get(pk=row.pk)
            held.set()
            go_on.wait(30)

    thread = Thread(hold)
    assert held.wait(10)
    try:
        yield
    finally:
        go_on.set()
        thread.end()


def promoting(key: str, text: str = "") -> Act:
    def act() -> object:
        artifact = Artifact.objects.select_related("inventory").get(key=key)
        active = fit.active_version(artifact)
        step = Step("add", text=text or f"{key} said once more", polarity="signal")
        return curate.apply(artifact, [step], by=SYSTEM, base_version=active.number if active else None, reason="so")

    return act


def whole_and_in_order(inventory: Inventory) -> None:
    """Every release has its number, every artifact its versions in order, the active one fitted on what is in use."""
    numbers = list(Release.objects.filter(inventory=inventory).order_by("number").values_list("number", flat=True))
    assert numbers == list(range(1, len(numbers) + 1))
    for artifact in Artifact.objects.filter(inventory=inventory):
        versions = list(ClassifierVersion.objects.filter(artifact=artifact).order_by("number"))
        assert [v.number for v in versions] == list(range(1, len(versions) + 1))
        assert [v.to_release is None for v in versions] == [False] * (len(versions) - 1) + [True]
        fitted = {row["public_id"] for row in versions[-1].exemplars}
        promoted = Exemplar.objects.promoted().filter(artifact=artifact)
        assert fitted == {e.public_id for e in promoted if fit.in_fit(e, "generated")}


# ------------------------------------------------------------------------------------- each of these was a deadlock once
def test_going_back_as_a_whole_beside_a_promotion(postgresql_only: None) -> None:
    """The inventory was locked with the first artifact, the last artifact after it."""
    world = make.world()
    number = world.inventory.release
    with holding(world.change):
        back = Thread(lambda: releases.rollback_all(world.inventory, number, by=SYSTEM, reason="wrong turn"))
        until_waiting(1)  # it has cancel-order and comes to change-order
        promote = Thread(promoting("refund-status"))
        time.sleep(0.5)
    promote.end()
    back.end()
    whole_and_in_order(world.inventory)


def test_a_refit_of_all_beside_a_promotion(postgresql_only: None) -> None:
    """A new version's row needs its artifact to stay; the artifact's own writer had it locked and waited for the inventory."""
    world = make.world()
    for artifact in (world.cancel, world.refund):
        make.exemplar(artifact, "brought along")
    with holding(world.inventory):
        refit = Thread(lambda: refitting.refit(Inventory.objects.get(pk=world.inventory.pk), by=SYSTEM))
        until_waiting(1)
        promote = Thread(promoting("refund-status"))
        until_waiting(2)
    refit.end()
    with contextlib.suppress(ServiceError):  # version 2 came first
        promote.end()
    whole_and_in_order(world.inventory)


def test_a_new_dependency_beside_a_promotion_of_its_target(postgresql_only: None) -> None:
    world = make.world()
    with holding(world.inventory):
        link = Thread(
            lambda: artifacts.set_dependencies(world.cancel, by=SYSTEM, requires=["refund-status"], entails=[])
        )
        until_waiting(1)
        promote = Thread(promoting("refund-status"))
        until_waiting(2)
    link.end()
    promote.end()
    whole_and_in_order(world.inventory)


def test_a_row_that_points_at_what_is_locked_is_written_at_once(postgresql_only: None) -> None:
    """Live decisions and conversations do not wait for a promotion, nor the other way about."""
    world = make.world()

    def insert() -> None:
        make.conversation(world.others, "elsewhere", ["hello"])
        Release.objects.create(inventory=world.inventory, number=1_000, summary="points at the inventory")
        make.exemplar(world.cancel, "points at the artifact")

    with transaction.atomic():
        lock_artifact(world.cancel)
        Thread(insert).end()


def test_a_lock_that_is_not_to_be_had_is_503_for_pages_and_calls(signed_in: Any) -> None:
    world = make.world()
    author, api = signed_in(world.author), Api(world.inventory)
    page = "/i/tiny/policies/cancel-order/exemplars/apply/"
    form = {"steps": '[{"action": "add", "text": "call it off", "polarity": "signal"}]', "base_version": "1"}
    form |= {"key": "k" * 36, "reason": "so"}
    body = {"text": "stop the parcel", "polarity": "signal", "base_version": 1}
    before = (Release.objects.count(), Exemplar.objects.count())
    decided = embed.vectors(embed.encoder_for(world.inventory), ["call it off", "stop the parcel"])
    assert len(decided) == 2  # what is left to do needs the lock only
    with holding(world.inventory), connection.cursor() as cursor:
        sqlite = connection.vendor == "sqlite"
        cursor.execute("PRAGMA busy_timeout = 200" if sqlite else "SET lock_timeout = '200ms'")
        try:
            answers = [author.post(page, form), api("POST", "/artifacts/cancel-order/exemplars", body)]
        finally:
            cursor.execute("PRAGMA busy_timeout = 20000" if sqlite else "RESET lock_timeout")
    assert answers[0].status_code == answers[1].status == 503
    assert answers[0]["Retry-After"] == answers[1].headers["Retry-After"] == "1"
    assert (Release.objects.count(), Exemplar.objects.count()) == before
    assert author.post(page, form).status_code == 303
    assert api("POST", "/artifacts/cancel-order/exemplars", {**body, "base_version": 2}).status == 201


# ------------------------------------------------------------------------------------------------------ all of it at once
def at_once(acts: Sequence[Callable[[int], object]], rounds: int) -> None:
    """Each act in a thread of its own, ``rounds`` times; a refusal is an answer, a deadlock is not."""

    def repeated(act: Callable[[int], object]) -> Act:
        def run() -> None:
            for number in range(rounds):
                with contextlib.suppress(ServiceError):
                    act(number)

        return run

    for thread in [Thread(repeated(act)) for act in acts]:
        thread.end()


def test_promotions_a_refit_a_rollback_and_a_new_cut_off_at_once() -> None:
    world = make.world()
    pk, release = world.inventory.pk, world.inventory.release

    def fresh() -> Inventory:
        return Inventory.objects.get(pk=pk)

    def refit(number: int) -> object:
        make.exemplar(Artifact.objects.get(key="cancel-order"), f"brought along {number}")
        return refitting.refit(fresh(), by=SYSTEM)

    at_once(
        [
            refit,
            lambda number: releases.rollback_all(fresh(), release, by=SYSTEM, reason="again"),
            lambda number: inventories.update_inventory(fresh(), by=SYSTEM, theta=-number / 100),
            lambda number: promoting("refund-status", f"once more {number}")(),
            lambda number: promoting("change-order", f"once more {number}")(),
        ],
        rounds=4,
    )
    refitting.refit(fresh(), by=SYSTEM)
    whole_and_in_order(world.inventory)
