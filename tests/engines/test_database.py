"""What the database itself enforces, on whichever of the two it is; and that the suite runs on a real one."""

import threading
import time
from pathlib import Path

import pytest
from django.db import DatabaseError, connection, connections, transaction

from console.models import Artifact, AuditEvent, Centre, ClassifierVersion, Exemplar, Inventory
from console.services import curate, refitting
from console.services.actor import SYSTEM, person
from console.services.audit import record
from console.services.errors import Conflict
from console.services.fit import active_version
from console.services.plan import Step
from tests import make

pytestmark = pytest.mark.engines


def audit_event() -> AuditEvent:
    return record(by=SYSTEM, action="test.made", object_type="test", object_id="1")


@pytest.mark.django_db
def test_the_database_is_a_server_or_a_file_with_a_write_ahead_log() -> None:
    if connection.vendor == "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA database_list")
        assert Path(cursor.fetchall()[0][2]).is_file()  # an in-memory database has no path
        assert cursor.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert cursor.execute("PRAGMA foreign_keys").fetchone() == (1,)


@pytest.mark.django_db
def test_nobody_waits_for_a_lock_for_ever() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout" if connection.vendor == "postgresql" else "PRAGMA busy_timeout")
        assert cursor.fetchone()[0] in {"20s", 20_000}


@pytest.mark.django_db
def test_an_audit_event_cannot_be_changed() -> None:
    event = audit_event()
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        AuditEvent.objects.filter(pk=event.pk).update(actor="somebody else")
    assert AuditEvent.objects.get(pk=event.pk).actor == ""


@pytest.mark.django_db
def test_an_audit_event_cannot_be_deleted_on_postgresql(postgresql_only: None) -> None:
    event = audit_event()
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        event.delete()
    assert AuditEvent.objects.filter(pk=event.pk).exists()


@pytest.mark.django_db
def test_the_kind_of_an_artifact_is_fixed(world: make.World) -> None:
    with pytest.raises(DatabaseError, match="kind of an artifact is fixed"), transaction.atomic():
        Artifact.objects.filter(pk=world.cancel.pk).update(kind="tool")
    world.cancel.position = 7
    world.cancel.save()  # every column, the kind as it is
    assert Artifact.objects.values_list("kind", "position").get(pk=world.cancel.pk) == ("policy", 7)


@pytest.mark.django_db
@pytest.mark.parametrize("field", ["bias", "offset", "number", "weight_hash"])
def test_a_classifier_version_is_fixed_but_for_its_last_release(world: make.World, field: str) -> None:
    version = active_version(world.cancel)
    assert version is not None
    value = {"bias": 9.0, "offset": 9.0, "number": 9, "weight_hash": "9"}[field]
    with pytest.raises(DatabaseError, match="immutable"), transaction.atomic():
        ClassifierVersion.objects.filter(pk=version.pk).update(**{field: value})
    assert ClassifierVersion.objects.filter(pk=version.pk).update(to_release=version.from_release) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("run", [1, 2])
def test_a_test_that_commits_leaves_nothing_behind(run: int) -> None:
    """Emptying the tables gets past the triggers: DELETE on SQLite, TRUNCATE on PostgreSQL."""
    assert AuditEvent.objects.count() == 0
    audit_event()
    assert AuditEvent.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_writer_waits_for_the_other_one_and_loses_no_update() -> None:
    inventory = make.inventory("shared")
    entered, go_on = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def first() -> None:
        try:
            with transaction.atomic():
                row = Inventory.objects.select_for_update().get(pk=inventory.pk)
                entered.set()
                go_on.wait(10)
                Inventory.objects.filter(pk=row.pk).update(log_revision=row.log_revision + 1)
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            failures.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=first)
    thread.start()
    assert entered.wait(10)
    threading.Timer(0.3, go_on.set).start()
    began = time.monotonic()
    with transaction.atomic():
        row = Inventory.objects.select_for_update().get(pk=inventory.pk)
        Inventory.objects.filter(pk=row.pk).update(log_revision=row.log_revision + 1)
    thread.join(10)
    assert failures == []
    assert time.monotonic() - began >= 0.25  # it did wait
    inventory.refresh_from_db()
    assert inventory.log_revision == 2


@pytest.mark.django_db(transaction=True)
def test_two_people_promoting_into_one_policy_at_once_lose_no_decision() -> None:
    world = make.world()
    base = active_version(world.cancel)
    assert base is not None
    barrier = threading.Barrier(2)
    outcomes: dict[str, object] = {}

    def promote(name: str, text: str) -> None:
        try:
            barrier.wait(10)
            step = Step("add", text=text, polarity="signal")
            by = person({"ada": world.author, "paul": world.publisher}[name])
            outcomes[name] = curate.apply(world.cancel, [step], by=by, base_version=base.number)
        except Conflict as conflict:
            outcomes[name] = conflict
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            outcomes[name] = error
        finally:
            connections.close_all()

    texts = {"ada": "drop the purchase, I changed my mind", "paul": "annul what I bought on monday"}
    threads = [threading.Thread(target=promote, args=pair) for pair in texts.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    applied = {name: done for name, done in outcomes.items() if isinstance(done, curate.Applied)}
    refused = {name for name, done in outcomes.items() if isinstance(done, Conflict)}
    assert applied.keys() | refused == texts.keys(), outcomes
    assert applied
    numbers = sorted(done.version.number for done in applied.values() if done.version)
    assert numbers == list(range(base.number + 1, base.number + 1 + len(applied)))
    newest = active_version(world.cancel)
    assert newest is not None
    fitted = {row["public_id"] for row in newest.exemplars}
    for name in applied:  # what was accepted is in the newest version, whoever came second
        assert Exemplar.objects.get(artifact=world.cancel, text=texts[name]).public_id in fitted
    for name in refused:  # what was refused left nothing
        assert not Exemplar.objects.filter(artifact=world.cancel, text=texts[name]).exists()


@pytest.mark.django_db(transaction=True)
def test_of_two_first_refits_at_once_each_is_whole_or_a_conflict() -> None:
    inventory = make.inventory("fresh")
    for key in ("pets", "bags"):
        make.artifact(inventory, key, signals=[f"about {key}"], anti_signals=["good day"])
    barrier = threading.Barrier(2)
    outcomes: list[object] = []

    def refit() -> None:
        try:
            barrier.wait(10)
            outcomes.append(len(refitting.refit(Inventory.objects.get(pk=inventory.pk), by=SYSTEM)))
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            outcomes.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=refit) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert len(outcomes) == 2
    assert all(isinstance(outcome, Conflict) or outcome in (0, 2) for outcome in outcomes), outcomes
    assert 2 in outcomes
    assert list(ClassifierVersion.objects.values_list("number", flat=True)) == [1, 1]
    assert Centre.objects.count() == 1
