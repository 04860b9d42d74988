"""Evidence: kept once and never changed, out byte for byte, in only when it is what it says; measured by runs and read back."""

import io
import json
import zipfile
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, transaction

from console.models import (
    AuditEvent,
    Evidence,
    EvidenceCheck,
    EvidenceClaim,
    EvidenceFile,
    EvidenceOrigin,
    EvidenceScorecard,
    Inventory,
    Judge,
    Judgement,
    Run,
    RunState,
)
from console.services import evidence as service
from console.services import evidence_data, evidence_run, evidence_zip, run_work, runs
from console.services.actor import Actor
from console.services.errors import Invalid, NotFound, TooLarge
from console.services.ingest_conversations import import_conversations
from sq_core.causal.stability import check_causality
from sq_core.evidence.bundle import HEAD, STAMP
from sq_core.evidence.verifying import verify
from tests import make
from tests.evidence_toy import SHORT, SQ, edited, files, logs, packed, trace_bundle
from tests.fakes import FakeEncoder
from tests.make import World

pytestmark = pytest.mark.django_db
ANA = Actor("ana")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def inv(db: None) -> Inventory:
    return make.inventory("traces")


def kept(inv: Inventory, **more: Any) -> Evidence:
    values: dict[str, Any] = {"by": ANA, "origin": EvidenceOrigin.COMMAND, "written_at": NOON} | more
    return service.store_bundle(inv, trace_bundle(), **values)[0]


# -------------------------------------------------------------------------------------------------------------- storing
def test_a_bundle_is_kept_once_with_its_files_and_its_rows(inv: Inventory) -> None:
    found = kept(inv)
    assert (found.name, found.system, found.held + found.failed + found.untested) == ("toy", "traces", 2)
    assert (found.rows, found.groups) == (96, 24)
    assert service.files_of(found) == files()
    assert found.digest == trace_bundle().digest
    assert EvidenceScorecard.objects.filter(evidence=found).count() == len(trace_bundle().scorecards)
    assert EvidenceCheck.objects.count() == 9
    assert EvidenceClaim.objects.count() == 2
    again, new = service.store_bundle(
        inv, trace_bundle(), by=Actor("bob"), origin=EvidenceOrigin.FILE, written_at=datetime.now(UTC)
    )
    assert (again, new, again.written_at, again.actor) == (found, False, NOON, "ana")
    assert AuditEvent.objects.filter(action="evidence.store").count() == 1
    assert kept(make.inventory("elsewhere")).pk != found.pk


def test_the_bundle_is_read_back_the_same_from_the_database(inv: Inventory) -> None:
    found = service.bundle_of(kept(inv))
    assert found.files() == trace_bundle().files()
    verify(found)


@pytest.mark.parametrize("model", [Evidence, EvidenceFile, EvidenceScorecard, EvidenceCheck, EvidenceClaim])
def test_nothing_kept_can_be_changed_and_all_goes_with_its_inventory(inv: Inventory, model: Any) -> None:
    kept(inv)
    field = "digest" if model is EvidenceFile else "name" if model is not EvidenceScorecard else "method"
    with pytest.raises(DatabaseError, match="evidence is never changed"), transaction.atomic():
        model.objects.update(**{field: "another"})
    inv.delete()
    assert not model.objects.exists()


@pytest.mark.parametrize("values", [{"coverage": None}, {"coverage": 1.5}, {"coverage": 0.4, "mrr": 0.5}])
def test_the_database_holds_no_scorecard_without_its_coverage_or_above_it(inv: Inventory, values: Any) -> None:
    found = kept(inv)
    row = {"evidence": found, "position": 99, "method": "m", "world": "w", "figures": {}, "mrr": None} | values
    with pytest.raises(IntegrityError), transaction.atomic():
        EvidenceScorecard.objects.create(**row)


def test_a_newer_bundle_of_the_same_plan_supersedes_and_changes_nothing(inv: Inventory) -> None:
    old = kept(inv)
    newer = service.store_files(
        inv,
        edited("costs", lambda costs: costs[0].update(tokens=1)),
        by=ANA,
        origin=EvidenceOrigin.RUN,
        written_at=NOON,
    )[0]
    listed, following = service.list_evidence(inv)
    assert [(row.evidence, row.newest) for row in listed] == [(newer, True), (old, False)]
    assert following is None
    assert service.read_evidence(old).newer == newer
    assert service.read_evidence(newer).newer is None
    first, after = service.list_evidence(inv, size=1)
    assert ([row.evidence for row in first], after) == ([newer], newer.pk)
    assert [row.evidence for row in service.list_evidence(inv, before=after, size=1)[0]] == [old]


def test_reading_one_takes_five_queries(inv: Inventory, django_assert_num_queries: Any) -> None:
    found = kept(inv)
    with django_assert_num_queries(6):
        read = service.read_evidence(service.get_evidence(inv, found.public_id))
    assert read.size == sum(map(len, files().values()))
    assert read.contract["violations"] == 0
    with pytest.raises(NotFound):
        service.get_evidence(make.inventory("elsewhere"), found.public_id)


# ------------------------------------------------------------------------------------------------------------- as a file
def zipped(found: Evidence) -> bytes:
    return b"".join(evidence_zip.as_zip(found, by=ANA))


def test_a_bundle_goes_out_byte_for_byte_and_comes_in_elsewhere_as_the_same(inv: Inventory) -> None:
    found = kept(inv)
    data = zipped(found)
    assert data == zipped(found)
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        inside = {name.rpartition("/")[2]: file.read(name) for name in file.namelist()}
    assert inside.pop(STAMP) == b"2026-03-01T12:00:00+00:00\n"
    assert inside == files()
    other = make.inventory("elsewhere")
    came, new = evidence_zip.import_zip(other, io.BytesIO(data), by=ANA)
    assert (came.digest, new, came.written_at, came.origin) == (found.digest, True, NOON, "file")
    assert zipped(came) == data
    assert evidence_zip.import_zip(other, io.BytesIO(packed(files(), folder="")), by=ANA) == (came, False)


HOSTILE = [
    (b"", "no zip"),
    (b"PK\x03\x04 and no more", "no zip"),
    (packed({"readme.txt": b"hello"}), "bundle.json is missing"),
    (packed(files() | {"rows.csv": b"row\n"}), "rows.csv is not what was written"),
    (packed(edited("scorecards", lambda cards: cards[0].pop("coverage"))), "coverage"),
    (packed({f"{n}.txt": b"" for n in range(200)}), "200 files"),
    (packed({"a/bundle.json": b"{}", "b/bundle.json": b"{}"}), "twice"),
]


@pytest.mark.parametrize(("data", "said"), HOSTILE)
def test_what_is_no_bundle_is_refused_and_leaves_nothing(inv: Inventory, data: bytes, said: str) -> None:
    with pytest.raises(Invalid) as refusal:
        evidence_zip.import_zip(inv, io.BytesIO(data), by=ANA)
    assert said in refusal.value.message
    assert refusal.value.field == "file"
    assert not Evidence.objects.exists()


def test_a_zip_that_unpacks_to_too_much_is_not_unpacked(inv: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence_zip, "UNPACKED_LIMIT", 1_000_000)
    bomb = packed({HEAD: b" " * 5_000_000})
    assert len(bomb) < 10_000
    with pytest.raises(TooLarge, match="Unpacked"):
        evidence_zip.import_zip(inv, io.BytesIO(bomb), by=ANA)
    monkeypatch.setattr(evidence_zip, "PACKED_LIMIT", 100)
    with pytest.raises(TooLarge):
        evidence_zip.import_zip(inv, io.BytesIO(bomb), by=ANA)


@pytest.mark.parametrize("stamp", [b"", b"soon", b"2999-01-01T00:00:00+00:00", b"2026-03-01T12:00:00", b"\xff"])
def test_a_stamp_that_cannot_be_is_taken_for_now(inv: Inventory, stamp: bytes) -> None:
    came = evidence_zip.import_zip(inv, io.BytesIO(packed(files() | {STAMP: stamp})), by=ANA)[0]
    assert abs((came.written_at - datetime.now(UTC)).total_seconds()) < 60


# ------------------------------------------------------------------------------------------------------ what it is read of
def stored_log(inv: Inventory) -> None:
    report = import_conversations(inv, logs(), by=ANA)
    assert not report.rejected, report.errors[:2]


def test_the_stored_log_is_the_log_that_was_imported(inv: Inventory) -> None:
    stored_log(inv)
    found = {each.external_id: each for each in evidence_data.logs(inv)}
    for log in logs():
        own = found[log.external_id]
        assert (own.scenario, own.config) == (log.scenario, log.config)
        assert [(m.index, m.role, m.content, m.tool_calls, m.call_id) for m in own.messages] == [
            (m.index, m.role, m.content, m.tool_calls, m.call_id) for m in log.messages
        ]
    assert list(evidence_data.logs(inv, config="model-z")) == []


def test_every_stored_digest_is_held_against_the_messages(world: World) -> None:
    digests = evidence_data.stored_digests(world.inventory)
    found = check_causality(evidence_data.logs(world.inventory), stored_digests=digests)
    assert (found.holds, found.digests) == (True, 12)
    row = Judgement.objects.filter(state__conversation__external_id="talk-2", state__user_turn=1).first()
    assert row is not None
    Judgement.objects.filter(pk=row.pk).update(prefix_digest="f" * 64)
    digests = evidence_data.stored_digests(world.inventory)
    found = check_causality(evidence_data.logs(world.inventory), stored_digests=digests)
    assert [str(each) for each in found.violations] == [
        "trace talk-2, message 2: the prefix is not the one that was judged (other digest)"
    ]


def test_vectors_of_a_plan_are_kept_and_never_embedded_twice(db: None, encoder: FakeEncoder) -> None:
    told: list[tuple[int, int]] = []
    reading = evidence_data.stored_encoder("minilm", lambda done, total: told.append((done, total)))
    texts = [f"text number {n}" for n in range(700)]
    first = reading.encode(texts)
    assert told == [(512, 700), (700, 700)]
    asked = len(encoder.calls)
    assert (reading.encode(texts[::-1])[::-1] == first).all()
    assert len(encoder.calls) == asked
    assert reading.encode([]).shape == (0, reading.dimension)


def test_inputs_of_sq_are_named_by_digests_that_change_with_what_was_read(world: World) -> None:
    before = evidence_data.sq_inputs(world.inventory)
    assert set(before.digests) == {"artifacts", "conversations", "judgements", "exemplars"}
    assert before.second_judge is None
    assert dict(evidence_data.sq_inputs(world.inventory).digests) == dict(before.digests)
    judge = Judge.objects.get(inventory=world.inventory)
    row = Judgement.objects.filter(judge=judge).order_by("pk").first()
    assert row is not None
    row.pk, row.repeat, row.score = None, 1, 3
    row.save(force_insert=True)
    after = evidence_data.sq_inputs(world.inventory)
    assert after.second_judge is not None
    assert sorted(set(after.second_judge.ravel().tolist())) == [0, 3]
    assert dict(after.digests) == dict(before.digests)  # a second judging changes no label


# -------------------------------------------------------------------------------------------------------------- as a run
def done(inv: Inventory, **params: Any) -> Run:
    run = runs.create_run(inv, "evaluate", by=ANA, params=params)
    while run_work.work(run.pk):
        pass
    run.refresh_from_db()
    return run


def test_a_run_with_a_plan_keeps_its_evidence_and_again_the_same(inv: Inventory) -> None:
    stored_log(inv)
    run = done(inv, plan=SHORT)
    assert (run.state, run.params) == (RunState.COMPLETE, {"plan": SHORT, "encoders": []})
    found = Evidence.objects.get()
    assert run.result is not None
    assert (run.result["evidence"], run.result["new"], found.run) == (found.public_id, True, run.public_id)
    assert (found.origin, found.actor, found.rows) == ("run", "ana", 96)
    assert service.bundle_of(found).contract["sources"]["log"]["calls"] == 96
    again = done(inv, plan=SHORT)
    assert again.result is not None
    assert (again.result["evidence"], again.result["new"]) == (found.public_id, False)
    assert Evidence.objects.count() == 1


def test_a_run_measures_sq_on_the_inventorys_own_judgements(world: World) -> None:
    run = done(world.inventory, plan=SQ)
    assert run.state == RunState.COMPLETE, run.items.values("error")
    found = Evidence.objects.get()
    assert (found.system, found.rows, found.groups, found.encoder_id) == ("sq", 12, 5, world.inventory.encoder_id)
    cards = EvidenceScorecard.objects.filter(evidence=found)
    assert {(card.method, card.world) for card in cards} == {
        (method, world_)
        for method in ("sq-generated", "sq-mined-states")
        for world_ in ("fitted", "with-generated-fallback", "unfitted-is-miss")
    }
    verdicts = dict(found.claims.values_list("name", "verdict"))
    assert verdicts["decoupled"] == "supported"
    assert (verdicts["mined-better"], verdicts["judge"]) == ("not tested", "not tested")  # 5 scenarios, one judge run


def test_removing_what_came_after_an_action_changes_no_stored_rank(inv: Inventory) -> None:
    stored_log(inv)
    plan = evidence_run.check_plan(SHORT)
    whole = evidence_run.measure(inv, plan)
    for row in inv.conversations.all():
        row.messages.filter(index=row.message_count - 1).delete()  # the last "thank you", after every action
    assert evidence_run.measure(inv, plan).rows == whole.rows


REFUSED = [
    ({"plan": "no-such-plan"}, "params.plan", "No plan is called"),
    ({"plan": 7}, "params.plan", "a name or a text"),
    ({"plan": "name = 1"}, "params.plan", "cannot be run"),
    ({"plan": SHORT.replace('"inventory"', '"file.jsonl"')}, "params.plan", "which a run cannot read"),
    ({"plan": SHORT, "release": 1}, "params.release", "no release"),
    ({"plan": SHORT, "encoders": "minilm"}, "params.encoders", "a list"),
    ({"plan": SHORT, "colour": "red"}, "params.colour", "no 'colour'"),
]


@pytest.mark.parametrize(("params", "field", "said"), REFUSED)
def test_a_plan_that_cannot_be_run_is_refused_before_it_is_planned(
    inv: Inventory, params: Any, field: str, said: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        runs.create_run(inv, "evaluate", by=ANA, params=params)
    assert (refusal.value.field, said in refusal.value.message) == (field, True)
    assert not Run.objects.exists()


def test_a_plan_without_its_data_fails_with_its_reason(inv: Inventory) -> None:
    run = done(inv, plan=SHORT)
    assert run.state in (RunState.FAILED, RunState.GAPS)
    assert run.items.values_list("error_code", "error").get() == (
        "unusable",
        "The source log holds no conversation. Import some first, on the page Data.",
    )
    assert not Evidence.objects.exists()


def test_a_log_that_breaks_the_contract_stops_the_run_with_trace_and_message(inv: Inventory) -> None:
    stored_log(inv)
    broken = inv.conversations.get(external_id="s0-0").messages.get(index=2)
    type(broken).objects.filter(pk=broken.pk).update(call_id="nobody-asked")
    run = done(inv, plan=SHORT)
    assert "trace s0-0, message 2" in run.items.values_list("error", flat=True).get()


def test_a_cancelled_run_is_left_between_two_steps(inv: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    stored_log(inv)
    monkeypatch.setattr(evidence_run, "LOOK_EVERY_S", 0.0)
    run = runs.create_run(inv, "evaluate", by=ANA, params={"plan": SHORT})
    seen = evidence_run.say_how_far

    def cancelled(row: Run, note: str) -> bool:
        runs.cancel_run(row, by=ANA)
        return seen(row, note)

    monkeypatch.setattr(evidence_run, "say_how_far", cancelled)
    run_work.work(run.pk)
    run.refresh_from_db()
    assert run.state in (RunState.CANCELLING, RunState.CANCELLED)
    assert not Evidence.objects.exists()


def test_stored_json_says_what_the_files_say(inv: Inventory) -> None:
    found = kept(inv)
    cards = json.loads(service.files_of(found)["scorecards.json"])
    assert [card.figures for card in found.scorecards.order_by("position")] == cards
