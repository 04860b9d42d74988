"""Imports as runs: what is frozen, what a worker reads, what it reports, and that a lost worker costs nothing."""

import gzip
import io
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from console.models import (
    Artifact,
    Conversation,
    Exemplar,
    ItemState,
    Judge,
    Judgement,
    Message,
    Role,
    Run,
    RunState,
    Upload,
    UploadPart,
)
from console.presenters import runs as runs_shown
from console.presenters.data import FORMATS
from console.services import (
    import_preview,
    import_run,
    ingest,
    ingest_conversations,
    run_coordinator,
    run_kinds,
    run_work,
    runs,
    uploads,
)
from console.services.errors import Invalid, Unavailable
from console.services.import_rejected import rejected_rows
from sq_core.readers import CONVERSATION_FORMATS
from tests.core.reader_samples import inspect, intercom, line
from tests.make import World

pytestmark = pytest.mark.django_db
Json = dict[str, Any]


def talk(name: str, *says: str) -> Json:
    return {"id": name, "messages": [{"role": "user", "content": text} for text in says or ("hello",)]}


def lines(*rows: Json, encoding: str = "utf-8") -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode(encoding)


def store(world: World, data: bytes, name: str = "file.jsonl") -> Upload:
    return uploads.store_upload(world.inventory, io.BytesIO(data), name=name, by=world.by)[0]


def start(world: World, data: bytes, what: str, name: str = "file.jsonl", **params: Any) -> Run:
    params = {"what": what, "upload": store(world, data, name).public_id} | params
    return runs.create_run(world.inventory, "import", by=world.by, params=params)


def work(run: Run) -> Run:
    run_work.work(run.pk)
    run.refresh_from_db()
    return run


def result(run: Run) -> Json:
    assert run.result is not None
    return dict(run.result)


def counts(run: Run) -> tuple[int, ...]:
    return tuple(result(run)[name] for name in ("read", "stored", "duplicates", "rejected"))


# ----------------------------------------------------------------------------------------------------------- the plan
def test_the_plan_is_one_item_and_says_which_content(world: World) -> None:
    run = start(world, lines(talk("new-1")), "conversations")
    upload = Upload.objects.get()
    assert (run.state, run.total) == (RunState.QUEUED, 1)
    assert run.params == {
        "what": "conversations", "upload": upload.public_id, "encoding": "utf-8", "file": "file.jsonl",
        "sha256": upload.sha256,
    }  # fmt: skip
    assert [(item.key, item.payload) for item in run.items.all()] == [("file.jsonl", {"upload": upload.pk})]
    again = runs.run_again(run, by=world.by)
    assert again.params == run.params
    assert runs.forecast(world.inventory, "import", params=run.params).items == 1


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "params.what"),
        ({"what": "recipes"}, "params.what"),
        ({"what": "artifacts", "upload": None}, "params.upload"),
        ({"what": "artifacts", "upload": 7}, "params.upload"),
        ({"what": "artifacts", "upload": "abcdefghjkmn"}, "params.upload"),
        ({"what": "artifacts", "rubric": "sticky"}, "params.rubric"),
        ({"what": "conversations", "format": "csv"}, "params.format"),
        ({"what": "conversations", "encoding": "ebcdic"}, "params.encoding"),
        ({"what": "exemplars", "source": "dreamt"}, "params.source"),
        ({"what": "judgements", "rubric": "kind"}, "params.rubric"),
        ({"what": "judgements", "colour": "red"}, "params.colour"),
    ],
)
def test_impossible_params_name_their_field(world: World, params: Json, field: str) -> None:
    given = {"upload": store(world, b"{}").public_id} | params
    with pytest.raises(Invalid) as refused:
        runs.create_run(world.inventory, "import", by=world.by, params=given)
    assert refused.value.field == field
    assert refused.value.hint
    assert not Run.objects.exists()


def test_it_takes_no_scope_and_no_erased_or_foreign_file(world: World) -> None:
    upload = store(world, lines(talk("new-1")))
    params = {"what": "conversations", "upload": upload.public_id}
    with pytest.raises(Invalid, match="no scope"):
        runs.create_run(world.inventory, "import", by=world.by, params=params, scope={"artifacts": []})
    with pytest.raises(Invalid, match="There is no upload"):
        runs.create_run(world.others, "import", by=world.by, params=params)
    uploads.erase_upload(upload, by=world.by)
    with pytest.raises(Invalid, match="no longer kept"):
        runs.create_run(world.inventory, "import", by=world.by, params=params)


def test_judgements_take_a_reviewer_everything_else_an_author() -> None:
    assert run_kinds.role_for("import", {"what": "judgements"}) == Role.REVIEWER
    for what in ("artifacts", "exemplars", "conversations", None, []):
        assert run_kinds.role_for("import", {"what": what}) == Role.AUTHOR
    assert run_kinds.role_for("import", None) == Role.AUTHOR
    assert run_kinds.role_for("calibrate", {}) == Role.PUBLISHER


# --------------------------------------------------------------------------------------------------------- the four kinds
def test_conversations_with_a_report_of_what_was_not_good(world: World) -> None:
    data = lines(talk("new-1"), talk("new-1", "hello", "more"), {"id": "bad"}, talk("new-2")) + b"{broken\n"
    run = work(start(world, data, "conversations"))
    assert (run.state, counts(run)) == (RunState.COMPLETE, (5, 2, 0, 2))
    assert result(run)["grown"] == 1
    assert [(e["file"], e["line"], e["field"]) for e in result(run)["errors"]] == [
        ("file.jsonl", 3, "messages"),
        ("file.jsonl", 5, ""),
    ]
    assert all(error["message"] and error["mend"] for error in result(run)["errors"])
    assert {c.external_id for c in Conversation.objects.filter(external_id__startswith="new")} == {"new-1", "new-2"}
    again = work(runs.run_again(run, by=world.by))
    assert counts(again) == (5, 0, 3, 2)
    assert result(again)["again"] is False


def test_saved_runs_are_recognised_and_named_after_their_file(world: World) -> None:
    rows = [{"task_id": 1, "trial": 0, "reward": 1, "traj": [{"role": "user", "content": "hi"}]}]
    run = work(start(world, gzip.compress(json.dumps(rows).encode()), "conversations", "march.json.gz"))
    assert counts(run) == (1, 1, 0, 0)
    assert Conversation.objects.get(external_id="march-1-0").scenario == "task-1"
    wrong = work(start(world, lines(talk("new-1")), "conversations", format="tau"))
    assert counts(wrong) == (1, 0, 0, 1)
    assert wrong.params["format"] == "tau"


def test_policies_make_a_release_that_the_report_names(world: World) -> None:
    data = lines({"id": "gift-cards", "text": "Gift cards are not paid out."}, {"id": "No Key", "text": "x"})
    run = work(start(world, data, "artifacts"))
    world.inventory.refresh_from_db()
    assert counts(run) == (2, 1, 0, 1)
    assert result(run)["release"] == world.inventory.release
    assert Artifact.objects.filter(inventory=world.inventory, key="gift-cards").exists()
    again = work(runs.run_again(run, by=world.by))
    assert counts(again) == (2, 0, 1, 1)
    assert "release" not in result(again)


def test_a_skill_file_is_an_artifact(world: World) -> None:
    text = "---\nname: Gift wrap\ndescription: Wraps a parcel.\ntriggers:\n  - wrap it please\n---\n"
    run = work(start(world, text.encode(), "artifacts", "SKILL.md"))
    assert counts(run) == (1, 1, 0, 0)
    assert Artifact.objects.get(key="gift-wrap").kind == "skill"


NLU = """nlu:
- intent: gift_wrap
  examples: |
    - wrap it [please](politeness)
- intent: empty
  examples: ""
- synonym: parcel
  examples: |
    - box
"""


def test_intents_of_a_yaml_file_become_policies_and_what_was_wrong_comes_back(world: World) -> None:
    upload = store(world, NLU.encode(), "nlu.yml")
    assert (upload.guess["what"], upload.guess["format"]) == ("artifacts", "rasa")
    seen = import_preview.preview(upload, what="artifacts", encoding="utf-8", options={}, by=world.by)
    assert [(row.line, row.outcome) for row in seen.rows] == [(2, "new"), (5, "rejected")]
    run = work(start(world, NLU.encode(), "artifacts", "nlu.yml"))
    assert counts(run) == (2, 1, 0, 1)
    offered = Exemplar.objects.get(artifact__key="gift-wrap")
    assert (offered.text, offered.status) == ("wrap it please", "candidate")
    (again,) = rejected_rows(upload, encoding="utf-8", lines=[5])
    assert json.loads(again) == {"intent": "empty", "examples": ""}


def test_every_format_has_its_words() -> None:
    assert tuple(FORMATS) == CONVERSATION_FORMATS


def test_sessions_of_traces_are_conversations(world: World) -> None:
    def trace(number: int, *says: str) -> Json:
        asked = [{"role": "user", "content": text} for text in says]
        seen = {"type": "GENERATION", "startTime": "2026-01-01T10:00:00Z", "input": json.dumps(asked), "output": "ok"}
        at = f"2026-01-0{number}T10:00:00Z"
        return {"trace": {"id": f"t{number}", "sessionId": "s-1", "timestamp": at}, "observations": [seen]}

    data = lines(trace(2, "where is it"), trace(1, "hello"), {"trace": {"id": "t3"}, "observations": []})
    upload = store(world, data, "traces.jsonl")
    assert (upload.guess["what"], upload.guess["format"]) == ("conversations", "langfuse")
    run = work(start(world, data, "conversations", "traces.jsonl"))
    assert counts(run) == (2, 1, 0, 1)
    row = Conversation.objects.get(external_id="s-1")
    assert (row.message_count, row.user_turn_count) == (4, 2)
    assert list(row.messages.values_list("content", flat=True)) == ["hello", "ok", "where is it", "ok"]


def test_streams_of_a_connector_are_joined_in_preview_and_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = intercom([("user", "where is it"), ("assistant", "On its way."), ("user", "thanks")])
    lone = line(
        "conversation_parts",
        id=1,
        conversation_id=9,
        body="x",
        part_type="comment",
        created_at=1,
        author={"type": "bot"},
    )
    data = lines(lone, *rows)
    upload = store(world, data, "export.jsonl")
    assert (upload.guess["what"], upload.guess["format"]) == ("conversations", "intercom")
    monkeypatch.setattr("console.services.upload_guess.HEAD", len(data) - 1)  # a cut file: the last line is missing
    monkeypatch.setattr(import_preview, "SHOWN", 1)
    seen = import_preview.preview(upload, what="conversations", encoding="utf-8", options={}, by=world.by)
    assert [row.outcome for row in seen.rows] == ["rejected"]
    run = work(start(world, data, "conversations", "export.jsonl"))
    assert counts(run) == (2, 1, 0, 1)
    row = Conversation.objects.get(external_id="7")
    assert (row.message_count, row.user_turn_count, row.channel, row.customer) == (3, 2, "conversation", "u-1")
    assert result(run)["errors"][0]["field"] == "data.conversation_id"


def test_rejected_samples_of_a_log_come_back(world: World) -> None:
    (log,) = inspect([("user", "hi")])
    log["samples"].append({"id": "broken"})
    data = json.dumps(log, indent=1).encode()
    run = work(start(world, data, "conversations", "log.json"))
    assert counts(run) == (2, 1, 0, 1)
    (again,) = rejected_rows(store(world, data, "log.json"), encoding="utf-8", lines=[2])
    assert json.loads(again) == {"id": "broken"}


def test_exemplars_with_their_source(world: World) -> None:
    data = lines({"artifact": "cancel-order", "signals": ["away with it"]}, {"artifact": "nobody", "signals": ["x"]})
    run = work(start(world, data, "exemplars", source="imported"))
    assert counts(run) == (2, 1, 0, 1)
    assert Exemplar.objects.get(text="away with it").source == "imported"
    assert run.params["source"] == "imported"


def test_judgements_with_their_rubric(world: World) -> None:
    scores = {"cancel-order": 5, "pets": 1}
    data = lines({"conversation": "talk-1", "user_turn": 0, "judge": "other", "scores": scores})
    run = work(start(world, data, "judgements", rubric="sticky"))
    assert counts(run) == (2, 1, 0, 1)
    assert Judge.objects.get(name="other").rubric == "sticky"
    assert Judgement.objects.get(judge__name="other").by == "ada"


def test_a_latin_1_file_is_read_as_guessed_or_as_asked(world: World) -> None:
    data = lines(talk("neu-1", "Ich möchte stornieren, für 12 €"), encoding="cp1252")
    run = work(start(world, data, "conversations"))
    assert run.params["encoding"] == "latin-1"
    assert Message.objects.get(conversation__external_id="neu-1").content == "Ich möchte stornieren, für 12 €"
    asked = work(start(world, data, "conversations", encoding="utf-8"))
    assert counts(asked) == (1, 0, 0, 1)
    assert "not UTF-8" in result(asked)["errors"][0]["message"]
    wide = lines(talk("neu-2", "Grüße"), encoding="utf-16")
    assert counts(work(start(world, wide, "conversations"))) == (1, 1, 0, 0)


def test_the_first_errors_are_shown_and_all_are_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "LISTED", 300)
    run = work(start(world, lines(*[{"id": f"bad-{n}"} for n in range(500)]), "conversations"))
    assert counts(run) == (500, 0, 0, 500)
    assert (len(result(run)["errors"]), result(run)["listed"]) == (import_run.SHOWN, 300)
    kept = run.items.get().result
    assert kept is not None
    assert len(kept["errors"]) == 300


# ----------------------------------------------------------------------------------------------------- what goes wrong
class Killed(BaseException):
    """A worker that is gone in the middle: nothing is caught, nothing is cleaned up in the database."""


def many(n: int = 40) -> bytes:
    return lines(*[talk(f"new-{number}", *[f"message {m} of {number}" for m in range(30)]) for number in range(n)])


def test_a_worker_that_dies_is_taken_over_and_nothing_is_there_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(world, many(), "conversations")
    pieces, real = [0], ingest_conversations._store

    def dying(*args: Any, **named: Any) -> None:
        real(*args, **named)
        pieces[0] += 1
        if pieces[0] == 3:
            raise Killed

    monkeypatch.setattr(ingest_conversations, "_store", dying)
    with pytest.raises(Killed):
        run_work.work(run.pk)
    begun = Conversation.objects.filter(external_id__startswith="new-").count()
    assert 0 < begun < 40
    assert run.items.get().state == ItemState.CLAIMED
    later = timezone.now() + timedelta(seconds=200)
    assert run_coordinator.coordinate(later, only=run.pk) == [run.pk]
    run = work(run)
    assert (run.state, counts(run)) == (RunState.COMPLETE, (40, 40 - begun, begun, 0))
    assert result(run)["again"] is True
    assert Conversation.objects.filter(external_id__startswith="new-").count() == 40
    assert Message.objects.filter(conversation__external_id__startswith="new-").count() == 1_200


@pytest.mark.parametrize("act", ["cancel", "pause"])
def test_pause_and_cancel_are_seen_while_the_file_is_read(
    world: World, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    run = start(world, many(), "conversations")
    monkeypatch.setattr(import_run, "LOOK_EVERY_S", 0.0)
    pieces, real = [0], ingest_conversations._store

    def stored(*args: Any, **named: Any) -> None:
        real(*args, **named)
        pieces[0] += 1
        if pieces[0] == 2:
            (runs.cancel_run if act == "cancel" else runs.pause_run)(Run.objects.get(pk=run.pk), by=world.by)

    monkeypatch.setattr(ingest_conversations, "_store", stored)
    run = work(run)
    assert run.state == (RunState.CANCELLED if act == "cancel" else RunState.PAUSED)
    assert runs.progress(run).left == 1
    begun = Conversation.objects.filter(external_id__startswith="new-").count()
    assert 0 < begun < 40
    run = work(runs.resume_run(run, by=world.by))
    assert (run.state, counts(run)) == (RunState.COMPLETE, (40, 40 - begun, begun, 0))
    assert result(run)["again"] is True


def test_how_far_it_is_stands_beside_its_state_while_it_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(world, many(), "conversations")
    monkeypatch.setattr(import_run, "LOOK_EVERY_S", 0.0)
    seen, real = [], ingest_conversations._store

    def stored(*args: Any, **more: Any) -> Any:
        seen.append(runs_shown.head(Run.objects.get(pk=run.pk)))
        return real(*args, **more)

    monkeypatch.setattr(ingest_conversations, "_store", stored)
    run = work(run)
    assert run.state == RunState.COMPLETE
    said = [head.state.line for head in seen]
    assert said[2] == "24 conversations read so far."
    assert len({head.seen for head in seen}) == len(seen)  # so that a poll brings it
    assert run.note == ""


def test_a_file_that_is_gone_or_damaged_fails_with_its_reason(world: World) -> None:
    gone, damaged = (start(world, lines(talk(name)), "conversations") for name in ("new-1", "new-2"))
    uploads._drop_parts(Upload.objects.get(public_id=damaged.params["upload"]))
    Upload.objects.filter(public_id=gone.params["upload"]).update(erased_at=timezone.now())
    for run, code in ((gone, "gone"), (damaged, "unreadable")):
        run = work(run)
        assert (run.state, run.result) == (RunState.FAILED, {})
        assert [(group.code, group.n) for group in runs.error_groups(run)] == [(code, 1)]
        assert "Upload it again" in run.items.get().error


@pytest.mark.parametrize(
    "error",
    [OperationalError("database is locked"), OSError(28, "No space left on device"), Unavailable("away")],
)
def test_what_passes_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(run_work, "FIRST_BACKOFF_S", 0.0)
    run = start(world, lines(talk("new-1")), "conversations")
    troubles, real = [error], import_run.import_rows

    def troubled(*args: Any, **more: Any) -> Any:
        if troubles:
            raise troubles.pop()
        return real(*args, **more)

    monkeypatch.setattr(import_run, "import_rows", troubled)
    run = work(run)
    assert (run.state, counts(run)) == (RunState.COMPLETE, (1, 1, 0, 0))
    assert runs.tried_again(run) == [("unavailable", 1)]


def test_the_temporary_file_is_removed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []
    real = import_run.import_rows

    def watched(inventory: Any, what: str, path: Path, **more: Any) -> Any:
        seen.append(path)
        assert path.name == "file.jsonl"
        return real(inventory, what, path, **more)

    monkeypatch.setattr(import_run, "import_rows", watched)
    work(start(world, lines(talk("new-1")), "conversations"))
    assert not seen[0].parent.exists()
    assert UploadPart.objects.exists()
