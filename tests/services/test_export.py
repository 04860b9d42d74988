"""What goes out: files that an import elsewhere makes the same of, cells that no spreadsheet runs, releases kept whole."""

import csv
import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from console.models import (
    Artifact,
    AuditEvent,
    Conversation,
    Exemplar,
    ExemplarStatus,
    Inventory,
    Judgement,
    QueryState,
)
from console.services import artifacts, curate, export, freeze, human_labels, refitting
from console.services.actor import SYSTEM
from console.services.csv_lines import csv_lines
from console.services.errors import NotFound
from console.services.import_file import import_rows
from console.services.ingest import Report
from console.services.ingest_conversations import import_conversations
from console.services.ingest_judgements import import_judgements
from console.services.plan import Step
from sq_core.readers import JudgementRow, read_conversations, read_exemplars, read_policies
from tests import make
from tests.make import World

pytestmark = pytest.mark.django_db
Json = dict[str, Any]
WHATS = {
    "policies": "artifacts", "conversations": "conversations", "exemplars": "exemplars", "judgements": "judgements",
}  # fmt: skip
ODD: Json = {
    "id": "odd-1",
    "scenario": "refunds",
    "customer": "c-7",
    "config": "agent-2",
    "channel": "web",
    "started_at": "2026-03-02T17:04:11+01:00",
    "metadata": {"tags": ["a", {"deep": 1.5}], "reward": 0.0},
    "plain": "goes into the metadata",
    "messages": [
        {"role": "system", "content": "You are kind."},
        {"role": "user", "content": '=cmd|"/c calc"!A0, "quoted"\nand a second line', "at": 1772467451000},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "t1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}]},
        {"role": "tool", "tool_call_id": "t1", "content": {"found": [1, 2]}},
        {"role": "user", "content": "@everyone 👍 “so”", "requestor": "user", "visible_to_agent": False},
        {"role": "user", "content": [{"type": "text", "text": "-1 is"}, {"type": "text", "text": "\tno answer"}]},
    ],
}  # fmt: skip


def rows(inventory: Inventory, kind: str, release: int | None = None) -> list[Json]:
    found = export.source(inventory, release)
    return [json.loads(line) for line in export.lines(found, kind, "jsonl")]


def bare(found: list[Json]) -> list[Json]:
    """Without what says where it is from."""
    return [{name: value for name, value in row.items() if name != "exported"} for row in found]


def cells(inventory: Inventory, kind: str, release: int | None = None) -> list[dict[str, str]]:
    text = b"".join(export.lines(export.source(inventory, release), kind, "csv")).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def label(world: World, score: int) -> None:
    human_labels.give_label(world.inventory, world.talks["talk-1"], 1, world.cancel, score, by=world.by, reason="so")


@pytest.fixture
def lived(world: World) -> World:
    """The world with odd logs, labels of people, chosen pairs, and examples of every status."""
    import_conversations(world.inventory, read_conversations([json.dumps(ODD)]), by=SYSTEM)
    label(world, 5)
    chosen = JudgementRow("odd-1", 0, make.JUDGE, {"cancel-order": 2}, chosen=True, reasons={"cancel-order": "no"})
    digest = QueryState.objects.get(conversation__external_id="odd-1", user_turn=1).prefix_digest
    proven = JudgementRow("odd-1", 1, "strict", {"cancel-order": 3}, prefix_digest=digest, pass_mark=3, rubric="sticky")
    assert not import_judgements(world.inventory, [chosen, proven], by=SYSTEM).rejected
    mined = make.exemplar(world.cancel, "call it off", source="mined")
    origin = QueryState.objects.get(conversation__external_id="odd-1", user_turn=0)
    facts = {"origin": origin, "mining_rule": "whole_conversation/1", "label_horizon": 1}
    Exemplar.objects.filter(pk=mined.pk).update(**facts)
    rejected = make.exemplar(world.cancel, "never this")
    Exemplar.objects.filter(pk=rejected.pk).update(status=ExemplarStatus.REJECTED)
    return world


# ------------------------------------------------------------------------------------------------------- there and back
def test_json_lines_make_the_same_elsewhere_and_export_as_the_same_again(lived: World, tmp_path: Path) -> None:
    copy = make.inventory("copy")
    for kind, what in WHATS.items():
        path = tmp_path / f"{kind}.jsonl"
        path.write_bytes(b"".join(export.lines(export.source(lived.inventory), kind, "jsonl")))
        report = import_rows(copy, what, path, by=SYSTEM, options={})
        assert (report.rejected, report.duplicates) == (0, 0), (kind, report.errors)
        assert report.stored > 0
    for kind in WHATS:
        assert bare(rows(copy, kind)) == bare(rows(lived.inventory, kind)), kind
    theirs, ours = (
        list(
            Conversation.objects.filter(inventory=inv).order_by("external_id").values_list(
                "external_id", "digest", "metadata", "started_at", "message_count", "user_turn_count"
            )
        )
        for inv in (copy, lived.inventory)
    )  # fmt: skip
    assert theirs == ours
    for kind, what in WHATS.items():  # and into where it came from it brings nothing
        given = [json.dumps(row) for row in rows(lived.inventory, kind)]
        path = tmp_path / "again.jsonl"
        path.write_text("\n".join(given))
        report = import_rows(lived.inventory, what, path, by=SYSTEM, options={})
        assert (report.changed, report.rejected) == (0, 0), (kind, report.errors)


def test_an_example_keeps_where_it_was_said_and_how_far_labels_were_read(lived: World) -> None:
    (given,) = (row for row in rows(lived.inventory, "exemplars") if row["text"] == "call it off")
    told = {
        "origin": {"conversation": "odd-1", "user_turn": 0},
        "mining_rule": "whole_conversation/1",
        "label_horizon": 1,
    }
    assert told.items() <= given.items()
    (cell,) = (row for row in cells(lived.inventory, "exemplars") if row["text"] == "call it off")
    assert (cell["mining_rule"], cell["label_horizon"]) == ("whole_conversation/1", "1")
    late = make.inventory("late")
    lines = {kind: [json.dumps(row) for row in rows(lived.inventory, kind)] for kind in WHATS}
    read = {"artifacts": read_policies, "exemplars": read_exemplars, "conversations": read_conversations}

    def take(kind: str, what: str) -> Report:
        return import_rows(late, what, read[what](lines[kind]), by=SYSTEM, options={})

    take("policies", "artifacts")
    assert not take("exemplars", "exemplars").rejected  # its conversation is not there yet
    mine = Exemplar.objects.get(artifact__inventory=late, text="call it off")
    assert (mine.origin, mine.mining_rule, mine.label_horizon) == (None, "whole_conversation/1", 1)
    take("conversations", "conversations")
    again = take("exemplars", "exemplars")
    assert (again.updated, again.rejected) == (1, 0)
    mine.refresh_from_db()
    assert mine.origin is not None
    assert (mine.origin.conversation.external_id, mine.origin.user_turn) == ("odd-1", 0)
    assert not take("exemplars", "exemplars").changed
    bad = json.dumps(
        {**bare([given])[0], "text": "other", "origin": {"conversation": "odd-1", "user_turn": 9}, "label_horizon": 9}
    )
    (error,) = import_rows(late, "exemplars", read_exemplars([bad], "f"), by=SYSTEM, options={}).errors
    assert (error.field, error.line) == ("origin.user_turn", 1)
    assert "0 to 1; the file says 9" in error.message


def test_every_row_says_where_it_is_from(lived: World) -> None:
    release = lived.inventory.release
    for kind in WHATS:
        for row in rows(lived.inventory, kind):
            assert (row["exported"]["inventory"], row["exported"]["release"]) == ("tiny", release)
    policy = rows(lived.inventory, "policies")[0]["exported"]
    assert (policy["text_revision"], policy["version"], policy["mode"]) == (1, 1, "auto")
    assert rows(lived.inventory, "exemplars")[0]["exported"]["version"] == 1
    assert rows(lived.inventory, "judgements")[0]["exported"]["text_revisions"]["cancel-order"] == 1
    for kind in WHATS:
        assert {row["release"] for row in cells(lived.inventory, kind)} == {str(release)}


def test_what_is_in_use_goes_into_json_lines_and_everything_into_csv(lived: World) -> None:
    artifacts.archive_artifact(lived.refund, by=lived.by)
    artifacts.edit_artifact(lived.change, by=lived.by, text="Another text by now.")
    lived.inventory.refresh_from_db()
    assert [row["id"] for row in rows(lived.inventory, "policies")] == ["cancel-order", "change-order"]
    table = cells(lived.inventory, "policies")
    assert [(row["id"], row["status"]) for row in table][2] == ("refund-status", "archived")
    used = {row["text"] for row in rows(lived.inventory, "exemplars")}
    assert "call it off" in used
    assert "never this" not in used
    assert {row["artifact"] for row in rows(lived.inventory, "exemplars")} == {"cancel-order", "change-order"}
    assert {"never this"} == {row["text"] for row in cells(lived.inventory, "exemplars") if row["status"] == "rejected"}
    scored = {key for row in rows(lived.inventory, "judgements") for key in row["scores"]}
    assert scored == {"cancel-order"}  # those of an archived policy or an older text would mean something else there
    every = cells(lived.inventory, "judgements")
    assert len(every) == Judgement.objects.count()
    assert {row["current_text"] for row in every if row["artifact"] == "change-order"} == {"False"}
    assert {row["current_text"] for row in every if row["artifact"] == "cancel-order"} == {"True"}


def test_an_older_release_is_exported_as_it_was(lived: World) -> None:
    before = lived.inventory.release
    texts = {row["text"] for row in rows(lived.inventory, "exemplars")}
    curate.apply(lived.cancel, [Step("add", text="leave it be", polarity="signal")], by=lived.by, base_version=1)
    artifacts.edit_artifact(lived.cancel, by=lived.by, name="Calling off")
    lived.inventory.refresh_from_db()
    assert rows(lived.inventory, "policies")[0]["name"] == "Calling off"
    assert rows(lived.inventory, "policies", before)[0]["name"] == "Cancel order"
    assert "leave it be" in {row["text"] for row in rows(lived.inventory, "exemplars")}
    then = rows(lived.inventory, "exemplars", before)
    assert {row["text"] for row in then} == texts - {"call it off"}  # which no version was fitted on
    assert {row["exported"]["version"] for row in then} == {1}
    assert {row["version"] for row in cells(lived.inventory, "exemplars", before)} == {"1"}
    with pytest.raises(NotFound, match="no release 99"):
        export.source(lived.inventory, 99)


def test_an_empty_inventory_gives_empty_files() -> None:
    empty = make.inventory("empty")
    for kind in WHATS:
        assert rows(empty, kind) == []
        assert cells(empty, kind) == []
    assert set(export.counts(export.source(empty)).values()) == {0}


def test_counts_are_those_of_the_files(lived: World) -> None:
    found = export.counts(export.source(lived.inventory))
    assert found["policies"] == len(rows(lived.inventory, "policies")) == 3
    assert found["exemplars"] == len(rows(lived.inventory, "exemplars"))
    assert found["conversations"] == len(rows(lived.inventory, "conversations")) == 6
    assert found["judgements"] == len(cells(lived.inventory, "judgements"))
    in_use = sum(len(row["scores"]) for row in rows(lived.inventory, "judgements"))
    assert found["judgements"] == in_use


def test_the_newest_of_a_person_s_answers_counts(lived: World) -> None:
    label(lived, 2)
    theirs = [row for row in rows(lived.inventory, "judgements") if row["judge"] == "human:ada"]
    assert [(row["scores"], row["reasons"]) for row in theirs] == [({"cancel-order": 2}, {"cancel-order": "so"})]
    both = [row["score"] for row in cells(lived.inventory, "judgements") if row["judge"] == "human:ada"]
    assert both == ["5", "2"]


def test_nothing_of_others_and_no_unknown_kind(lived: World) -> None:
    text = b"".join(
        line for kind in WHATS for form in ("jsonl", "csv")
        for line in export.lines(export.source(lived.others), kind, form)
    ).decode()  # fmt: skip
    assert "order" not in text.replace("order_by", "")
    for kind, form in (("people", "csv"), ("policies", "xlsx")):
        with pytest.raises(NotFound):
            export.lines(export.source(lived.inventory), kind, form)


def test_a_long_log_is_written_in_pieces(
    lived: World, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    whole = rows(lived.inventory, "conversations"), rows(lived.inventory, "judgements")
    monkeypatch.setattr(export, "AT_ONCE", 4)
    assert (rows(lived.inventory, "conversations"), rows(lived.inventory, "judgements")) == whole
    monkeypatch.setattr(export, "AT_ONCE", 5_000)
    for number in range(60):
        make.conversation(lived.inventory, f"more-{number}", ["one", "two", "three"])
    found = export.source(lived.inventory)
    make.conversation(lived.inventory, "too-late", ["hello"])
    with django_assert_max_num_queries(4):
        names = [json.loads(line)["id"] for line in export.lines(found, "conversations", "jsonl")]
    assert len(names) == 66
    assert "too-late" not in names


# ------------------------------------------------------------------------------------------------------------------ CSV
def test_no_cell_begins_as_a_formula_and_numbers_stay_numbers(lived: World) -> None:
    said = {row["content"] for row in cells(lived.inventory, "conversations") if row["conversation"] == "odd-1"}
    assert '\'=cmd|"/c calc"!A0, "quoted"\nand a second line' in said
    assert "'@everyone 👍 “so”" in said
    assert "'-1 is\n\tno answer" in said
    dangerous = ["=1", "+1", "-1", "@a", "\ta", "\ra", "\na"]
    (line,) = list(csv.reader(io.StringIO("".join(csv_lines(["a"] * 7, [])), newline="")))
    assert line == ["a"] * 7
    text = "".join(csv_lines(["a", "b"], [{"a": value, "b": -1.5} for value in dangerous]))
    table = list(csv.reader(io.StringIO(text, newline="")))[1:]
    assert [row[0] for row in table] == [f"'{value}" for value in dangerous]
    assert {row[1] for row in table} == {"-1.5"}


def test_messages_are_rows_with_their_turn(lived: World) -> None:
    table = [row for row in cells(lived.inventory, "conversations") if row["conversation"] == "odd-1"]
    assert [(row["message"], row["user_turn"], row["role"]) for row in table] == [
        ("0", "", "system"), ("1", "0", "user"), ("2", "", "assistant"), ("3", "", "tool"), ("4", "", "user"),
        ("5", "1", "user"),
    ]  # fmt: skip
    assert json.loads(table[2]["tool_calls"]) == [{"id": "t1", "name": "look", "arguments": '{"a": 1}'}]
    assert table[4]["visible_to_agent"] == "False"
    assert len(table[5]["prefix_digest"]) == 64
    assert table[0]["started_at"] == "2026-03-02T16:04:11Z"


# --------------------------------------------------------------------------------------------------------------- frozen
def test_a_release_is_frozen_with_the_digest_of_each_file(lived: World) -> None:
    before = lived.inventory.release
    refitting.refit(lived.inventory, by=lived.by)
    lived.inventory.refresh_from_db()
    found = export.source(lived.inventory, before)
    archive = zipfile.ZipFile(io.BytesIO(b"".join(freeze.frozen(found))))
    assert archive.testzip() is None
    assert archive.namelist() == [*(f"{kind}.jsonl" for kind in export.KINDS), "manifest.json"]
    manifest = json.loads(archive.read("manifest.json"))
    assert (manifest["format"], manifest["inventory"], manifest["release"]) == (freeze.FORMAT, "tiny", before)
    for kind in WHATS:
        data = archive.read(f"{kind}.jsonl")
        assert manifest["files"][f"{kind}.jsonl"] == {
            "rows": data.count(b"\n"), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(),
        }  # fmt: skip
        assert data == b"".join(export.lines(found, kind, "jsonl"))
    assert {key: one["number"] for key, one in manifest["versions"].items()} == dict.fromkeys(make.TEXTS, 1)
    assert manifest["operating_point"]["encoder"] == lived.inventory.encoder_id
    assert b"".join(freeze.frozen(export.source(make.inventory("empty"))))[:2] == b"PK"


def test_the_archive_is_written_as_a_stream(lived: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freeze, "CHUNK", 100)
    pieces = list(freeze.frozen(export.source(lived.inventory)))
    assert len(pieces) >= 4
    assert zipfile.ZipFile(io.BytesIO(b"".join(pieces))).testzip() is None


# -------------------------------------------------------------------------------------------------------------- command
def test_the_command_writes_files_and_says_so_in_the_audit(lived: World, tmp_path: Path, capfdbinary: Any) -> None:
    for name in ("policies.jsonl", "policies.csv"):
        call_command("export", "tiny", "policies", str(tmp_path / name))
    assert len((tmp_path / "policies.jsonl").read_text().splitlines()) == 3
    assert (tmp_path / "policies.csv").read_text().startswith("id,name,text")
    call_command("export", "tiny", "all", str(tmp_path / "all.zip"), "--release", "1")
    assert zipfile.ZipFile(tmp_path / "all.zip").testzip() is None
    capfdbinary.readouterr()
    call_command("export", "tiny", "judgements", "-")
    assert all(json.loads(line)["judge"] for line in capfdbinary.readouterr().out.splitlines())
    events = AuditEvent.objects.filter(action="data.export").order_by("pk")
    assert [(e.label, e.after and e.after["format"], e.release) for e in events] == [
        ("policies", "jsonl", lived.inventory.release), ("policies", "csv", lived.inventory.release), ("all", "zip", 1),
        ("judgements", "jsonl", lived.inventory.release),
    ]  # fmt: skip
    for arguments, said in (
        (["policies", "x.xlsx"], "none of .jsonl, .csv and .parquet"),
        (["policies", "x.csv", "--release", "99"], "no release 99"),
        (["policies", str(tmp_path / "none" / "x.csv")], "cannot be written"),
    ):
        with pytest.raises(CommandError, match=said):
            call_command("export", "tiny", *arguments)


def test_artifacts_of_any_kind_keep_it(lived: World) -> None:
    artifacts.create_artifact(lived.inventory, by=SYSTEM, key="a-tool", name="A tool", text="Does it.", kind="tool")
    lived.inventory.refresh_from_db()
    found = {row["id"]: row["kind"] for row in rows(lived.inventory, "policies")}
    assert found["a-tool"] == "tool"
    assert Artifact.objects.filter(inventory=lived.inventory).count() == len(found)
