"""P11, data: a file comes in, its first rows are looked at, a run imports it and reports; what goes out again."""

import csv
import gzip
import io
import json
import re
import zipfile
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from console.models import (
    Artifact,
    AuditEvent,
    Conversation,
    Exemplar,
    ExemplarStatus,
    Inventory,
    Judgement,
    Release,
    Run,
    RunState,
    Upload,
)
from console.services import curate, import_preview, run_work, upload_guess, uploads
from console.services.plan import Step
from tests import make
from tests.make import World

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
DATA = "/i/tiny/data/"
TALKS = [{"id": f"new-{n}", "messages": [{"role": "user", "content": f"hello, number {n}"}]} for n in range(3)]


def text(response: Any) -> str:
    data = response.getvalue() if response.streaming else response.content
    found: str = data.decode()
    return found


def lines(*rows: Any) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def bring(client: Client, data: bytes, name: str = "talks.jsonl") -> Any:
    return client.post(DATA, {"file": SimpleUploadedFile(name, data)})


def brought(client: Client, data: bytes, name: str = "talks.jsonl") -> str:
    response = bring(client, data, name)
    assert response.status_code == 302, text(response)
    address: str = response["Location"]
    return address


def work(run: Run) -> Run:
    run_work.work(run.pk)
    run.refresh_from_db()
    return run


def outcomes(page: str) -> list[str]:
    return re.findall(r'data-label="Would be"><span class="badge \w*">([^<]*)</span>', page)


# ----------------------------------------------------------------------------------------------------------- a file comes
def test_nothing_yet_says_what_a_file_may_hold(world: World, signed_in: Any) -> None:
    page = text(signed_in(world.author).get(DATA))
    assert "No file yet" in page
    assert "at most 200 MB" in page
    for words in ("Policies, skills, tools", "Examples", "Conversations", "Scores of reviewers"):
        assert f"<dt>{words}</dt>" in page
    assert re.search(r'href="/i/tiny/data/" aria-current="page"[^>]*>Data', page)
    assert "you can import scores of reviewers" in text(signed_in(world.reviewer).get(DATA))


def test_from_a_file_to_its_report(world: World, signed_in: Any, woken: list[int]) -> None:
    client = signed_in(world.author)
    address = brought(client, lines(*TALKS, {"id": "bad"}))
    assert not Run.objects.exists()
    page = text(client.get(address))
    assert "<h1" in page
    assert "talks.jsonl</h1>" in page
    assert "4 lines" in page
    assert outcomes(page) == ["new", "new", "new", "rejected"]
    assert "hello, number 2" in page
    assert "is missing; this row has" in page
    assert not Conversation.objects.filter(external_id__startswith="new").exists()
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page))
    response = client.post(address, {**fields, "do": "start"})
    run = Run.objects.get()
    assert response["Location"] == f"/i/tiny/runs/{run.public_id}/"
    assert (run.kind, run.actor, run.params["what"]) == ("import", "ada", "conversations")
    assert woken == [run.pk]
    assert "Conversations from talks.jsonl" in text(client.get(response["Location"]))
    work(run)
    report = text(client.get(response["Location"]))
    assert '>4</span><span class="what">conversations read' in report
    assert '<span class="figure text-bad">1</span><span class="what">rejected</span>' in report
    assert "is missing; this row has" in report
    assert Conversation.objects.filter(external_id__startswith="new").count() == 3
    listed = text(client.get(DATA))
    assert "complete" in listed
    assert "3 new, 1 rejected" in listed
    assert "talks.jsonl" in listed
    again = text(client.get(address))
    assert "Imported before:" in again
    assert outcomes(again)[:3] == ["known already"] * 3


def test_the_same_content_again_leads_to_the_same_file(world: World, signed_in: Any) -> None:
    client = signed_in(world.author)
    first = brought(client, lines(*TALKS))
    assert brought(client, lines(*TALKS), "other.jsonl") == first
    assert "This content is here already, as talks.jsonl." in text(client.get(first))
    assert Upload.objects.count() == 1


def test_what_is_no_file_is_said_beside_the_field(world: World, signed_in: Any, settings: Any) -> None:
    client = signed_in(world.author)
    for response, status, words in (
        (client.post(DATA, {}), 422, "No file was chosen."),
        (bring(client, b""), 422, "The file is empty."),
        (bring(client, gzip.compress(lines(*TALKS))[:-4], "talks.jsonl.gz"), 422, "ends early"),
    ):
        page = text(response)
        assert response.status_code == status
        assert words in page
        assert 'aria-invalid="true"' in page
    settings.UPLOAD_LIMIT = 1024 * 1024
    large = bring(client, b"x" * (3 * 1024 * 1024))  # no byte beyond the limit is written down
    assert large.status_code == 413
    assert "larger than 1 MB" in text(large)
    assert not Upload.objects.exists()


def test_other_forms_take_small_files_only(world: World, signed_in: Any, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1024
    response = signed_in(world.author).post(
        "/i/tiny/conversations/", {"file": SimpleUploadedFile("a.jsonl", lines(*TALKS) * 20)}
    )
    assert "Choose a file" in text(response)
    assert not Conversation.objects.filter(external_id="new-1").exists()


def test_files_are_listed_page_by_page(world: World, signed_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.presenters.data.PAGE", 2)
    client = signed_in(world.author)
    for n in range(3):
        brought(client, lines(TALKS[n]), f"file-{n}.jsonl")
    first = text(client.get(DATA))
    assert [n for n in range(3) if f"file-{n}.jsonl" in first] == [1, 2]
    following = re.search(r'rel="next" href="([^"]+)"', first)
    assert following is not None
    assert [n for n in range(3) if f"file-{n}.jsonl" in text(client.get(DATA + following[1]))] == [0]


def test_the_list_takes_a_fixed_number_of_queries(
    world: World, signed_in: Any, django_assert_max_num_queries: Any
) -> None:
    client = signed_in(world.author)
    for n in range(3):
        brought(client, lines(TALKS[n]), f"file-{n}.jsonl")
    client.get(DATA)
    with django_assert_max_num_queries(9):
        client.get(DATA)


# -------------------------------------------------------------------------------------------------------- the look at it
def test_the_guess_can_be_changed_and_what_goes_with_it_follows(world: World, signed_in: Any) -> None:
    client = signed_in(world.author)
    address = brought(client, lines(*TALKS))
    page = text(client.get(address))
    assert '<option value="conversations" selected>' in page
    assert 'name="format"' in page
    part = client.get(address, {"what": "judgements", "encoding": "utf-8"}, headers=HTMX)
    assert part.status_code == 200
    assert "<html" not in text(part)
    assert 'name="rubric"' in text(part)
    assert 'name="format"' not in text(part)
    assert outcomes(text(part)) == ["rejected"] * 3
    assert "None of these rows can be used." in text(part)
    assert 'name="source"' in text(client.get(address, {"what": "exemplars", "encoding": "utf-8"}))
    wrong = client.get(address, {"what": "recipes", "encoding": "utf-8"})
    assert wrong.status_code == 422
    assert "recipes is not one of the available choices" in text(wrong)


def test_an_unknown_shape_says_its_fields(world: World, signed_in: Any) -> None:
    client = signed_in(world.author)
    page = text(client.get(brought(client, lines({"conversations": [], "tools": "x"}), "sharegpt.json")))
    assert "This is none of the four kinds of file." in page
    assert "<code>conversations, tools</code>" in page
    assert 'id="start"' not in page
    assert "This field is required" not in page
    assert "No row of it is a JSON object." in text(client.get(brought(client, b"hello world", "notes.txt")))


def test_encodings_are_guessed_shown_and_choosable(world: World, signed_in: Any) -> None:
    client = signed_in(world.author)
    row = json.dumps({"id": "neu", "messages": [{"role": "user", "content": "Grüße für 12 €"}]}, ensure_ascii=False)
    address = brought(client, row.encode("cp1252"))
    page = text(client.get(address))
    assert '<option value="latin-1" selected>' in page
    assert "Grüße für 12 €" in page
    other = text(client.get(address, {"what": "conversations", "encoding": "utf-8"}))
    assert "is not UTF-8" in other
    assert outcomes(other) == ["rejected"]
    mixed = f"{row}\n".encode() * 9 + f"{row}\n".encode("cp1252")
    assert "4 bytes are no UTF-8" in text(client.get(brought(client, mixed, "mixed.jsonl")))


def test_every_kind_is_looked_at_row_by_row_and_nothing_stays(world: World, signed_in: Any) -> None:
    client = signed_in(world.author)
    make.exemplar(world.cancel, "stop the order please")
    waiting = make.exemplar(world.cancel, "away with it")
    Exemplar.objects.filter(pk=waiting.pk).update(status=ExemplarStatus.CANDIDATE)
    before = [model.objects.count() for model in (Artifact, Exemplar, Conversation, Judgement, Release, AuditEvent)]
    cases: list[tuple[str, list[Any], list[str]]] = [
        ("policies.jsonl", [
            {"id": "cancel-order", "name": "Cancel order", "text": make.TEXTS["cancel-order"]},
            {"id": "change-order", "name": "Change order", "text": "Another text."},
            {"id": "gift-cards", "text": "Gift cards are not paid out."},
            {"id": "refund-status", "text": "x", "kind": "tool"},
        ], ["known already", "another text", "new", "rejected"]),
        ("examples.jsonl", [
            {"artifact": "cancel-order", "polarity": "signal", "text": "stop the order please"},
            {"artifact": "cancel-order", "polarity": "signal", "text": "away with it"},
            {"artifact": "cancel-order", "signals": ["a brand new one"], "anti_signals": ["stop the order please"]},
            {"artifact": "nobody", "signals": ["x"]},
        ], ["known already", "suggested, now used", "new", "rejected", "rejected"]),
        ("talks.jsonl", [
            {"id": "talk-3", "messages": [{"role": "user", "content": "something else"}]},
            {"id": "talk-5", "messages": [
                {"role": "user", "content": "I do not want the parcel any more, stop it"},
                {"role": "assistant", "content": "Let me have a look."}, {"role": "user", "content": "thanks"},
                {"role": "user", "content": "and goodbye"}]},
            {"id": "talk-9", "messages": [{"role": "assistant", "content": "Hello?"}]},
        ], ["rejected", "grows", "new"]),
        ("scores.jsonl", [
            {"conversation": "talk-1", "user_turn": 1, "judge": make.JUDGE, "scores": {"cancel-order": 5}},
            {"conversation": "talk-1", "user_turn": 0, "judge": "human:ada", "scores": {"cancel-order": 2, "pets": 1}},
            {"conversation": "talk-1", "user_turn": 9, "judge": "human:ada", "scores": {"cancel-order": 2}},
        ], ["known already", "partly rejected", "rejected"]),
    ]  # fmt: skip
    for name, rows, expected in cases:
        page = text(client.get(brought(client, lines(*rows), name)))
        assert outcomes(page) == expected, name
    assert "The customer says nothing in it." in text(client.get(brought(client, lines(*cases[2][1]), "talks.jsonl")))
    after = [model.objects.count() for model in (Artifact, Exemplar, Conversation, Judgement, Release, AuditEvent)]
    assert after[:-1] == before[:-1]
    assert after[-1] - before[-1] == len(cases)  # the files that came
    inventory = Inventory.objects.get(slug="tiny")
    assert (inventory.release, inventory.label_revision) == (
        world.inventory.release, world.inventory.label_revision,
    )  # fmt: skip


def test_a_skill_is_looked_at_too(world: World, signed_in: Any, woken: list[int]) -> None:
    client = signed_in(world.author)
    skill = "---\nname: Gift wrap\ndescription: Wraps a parcel.\n---\n"
    address = brought(client, skill.encode(), "SKILL.md")
    page = text(client.get(address))
    assert outcomes(page) == ["new"]
    assert "gift-wrap" in page
    client.post(address, {"what": "artifacts", "encoding": "utf-8", "do": "start"})
    report = text(client.get(f"/i/tiny/runs/{work(Run.objects.get()).public_id}/"))
    assert "policy, skill or tool read" in report
    assert f"#release-{Inventory.objects.get(slug='tiny').release}" in report


def test_of_a_long_file_the_first_rows_are_read(world: World, signed_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_guess, "HEAD", 2_000)
    client = signed_in(world.author)
    rows = [{"id": f"long-{n}", "messages": [{"role": "user", "content": "x" * 80}]} for n in range(200)]
    for name, data in (("long.jsonl", lines(*rows)), ("long.json", json.dumps(rows, indent=1).encode())):
        page = text(client.get(brought(client, data, name)))
        assert "The first 10 rows" in page
        assert outcomes(page) == ["new"] * 10
    monkeypatch.setattr(import_preview, "LONGEST", 0)
    assert outcomes(text(client.get(brought(client, lines(rows[0]), "one.jsonl")))) == ["too long to try"]


def test_rows_are_shown_as_text(world: World, signed_in: Any) -> None:
    client = signed_in(world.author)
    row = {"id": "<b>id</b>", "messages": [{"role": "user", "content": "<script>alert(1)</script>"}]}
    page = text(client.get(brought(client, lines(row, {"id": 1, "messages": "<i>"}), "<img src=x>.jsonl")))
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    for raw in ("<script>alert", "<img src=x", "<b>id</b>"):
        assert raw not in page


# ----------------------------------------------------------------------------------------------------------------- roles
def test_who_may_bring_look_and_import(world: World, signed_in: Any, woken: list[int]) -> None:
    viewer, reviewer, author = (signed_in(p) for p in (world.viewer, world.reviewer, world.author))
    assert bring(viewer, lines(*TALKS)).status_code == 403
    page = text(viewer.get(DATA))
    assert "takes the role Author" in page
    assert 'type="file"' not in page
    talks = brought(author, lines(*TALKS))
    assert viewer.get(talks).status_code == 403
    look = text(reviewer.get(talks))
    assert outcomes(look) == ["new"] * 3
    assert "Importing this takes the role Author." in look
    assert reviewer.post(talks, {"what": "conversations", "encoding": "utf-8", "do": "start"}).status_code == 403
    scores = lines({"conversation": "talk-1", "user_turn": 0, "judge": "human:rob", "scores": {"cancel-order": 2}})
    address = brought(reviewer, scores, "scores.jsonl")
    assert reviewer.post(address, {"what": "judgements", "encoding": "utf-8", "do": "start"}).status_code == 302
    run = work(Run.objects.get())
    assert Judgement.objects.get(judge__name="human:rob").score == 2
    assert "score read" in text(viewer.get(f"/i/tiny/runs/{run.public_id}/"))
    assert 'id="do-again"' in text(reviewer.get(f"/i/tiny/runs/{run.public_id}/"))
    stranger = signed_in(world.stranger)
    assert stranger.get(address).status_code == 404
    assert stranger.get(address.replace("/tiny/", "/others/")).status_code == 404
    assert "talks.jsonl" not in text(stranger.get("/i/others/data/"))


def test_an_import_is_planned_here_and_not_on_the_page_of_runs(world: World, signed_in: Any, woken: list[int]) -> None:
    client = signed_in(world.author)
    assert client.get("/i/tiny/runs/new/?kind=import")["Location"] == DATA
    assert client.post("/i/tiny/runs/new/?kind=import", {"params_json": "{}"})["Location"] == DATA
    assert "kind=import" not in text(client.get("/i/tiny/schedules/new/"))
    address = brought(client, lines(*TALKS))
    client.post(address, {"what": "conversations", "encoding": "utf-8", "do": "start"})
    run = work(Run.objects.get())
    assert client.get(f"/i/tiny/runs/new/?like={run.public_id}")["Location"] == address
    client.post(f"/i/tiny/runs/{run.public_id}/do/", {"do": "again"})
    assert Run.objects.count() == 2


# ----------------------------------------------------------------------------------------------------- rejected, erased
def reported(client: Client, data: bytes, name: str, **fields: str) -> Run:
    client.post(brought(client, data, name), {"encoding": "utf-8", "do": "start", **fields})
    return work(Run.objects.latest("pk"))


def test_the_rejected_rows_and_their_reasons_can_be_taken_out(world: World, signed_in: Any, woken: list[int]) -> None:
    client = signed_in(world.author)
    data = lines(TALKS[0], {"id": "=bad"}, TALKS[1]) + b"{broken\n\n" + lines({"id": "worse"})
    run = reported(client, data, "talks.jsonl", what="conversations")
    page = text(client.get(f"/i/tiny/runs/{run.public_id}/"))
    rows, reasons = (f"/i/tiny/runs/{run.public_id}/rejected.{form}" for form in ("jsonl", "csv"))
    assert rows in page
    assert reasons in page
    taken = client.get(rows)
    assert text(taken) == '{"id": "=bad"}\n{broken\n{"id": "worse"}\n'
    assert f'filename="rejected-{run.public_id}.jsonl"' in taken["Content-Disposition"]
    table = list(csv.DictReader(io.StringIO(text(client.get(reasons)), newline="")))
    assert [(row["file"], row["line"], row["field"]) for row in table] == [
        ("talks.jsonl", "2", "messages"), ("talks.jsonl", "4", ""), ("talks.jsonl", "6", "messages"),
    ]  # fmt: skip
    assert signed_in(world.viewer).get(rows).status_code == 403
    assert client.get(f"/i/tiny/runs/{run.public_id}/rejected.xml").status_code == 404
    uploads.erase_upload(Upload.objects.get(), by=world.by)
    assert client.get(rows).status_code == 422
    assert rows not in text(client.get(f"/i/tiny/runs/{run.public_id}/"))
    good = reported(client, lines(TALKS[2]), "good.jsonl", what="conversations")
    assert client.get(f"/i/tiny/runs/{good.public_id}/rejected.csv").status_code == 404


@pytest.mark.parametrize("indent", [None, 2])
def test_rejected_members_of_an_array_and_of_a_saved_run(
    world: World, signed_in: Any, woken: list[int], indent: int | None
) -> None:
    client = signed_in(world.author)
    array = json.dumps([TALKS[0], {"id": "bad"}], indent=indent).encode()
    run = reported(client, array, "array.json", what="conversations")
    assert text(client.get(f"/i/tiny/runs/{run.public_id}/rejected.jsonl")) == '{"id": "bad"}\n'
    saved = json.dumps({"info": {}, "simulations": [{"id": "s", "task_id": "1", "trial": 0}]}, indent=indent).encode()
    run = reported(client, saved, "saved.json", what="conversations")
    page = text(client.get(f"/i/tiny/runs/{run.public_id}/"))
    assert "No row of the file could be used: nothing was changed." in page
    assert json.loads(text(client.get(f"/i/tiny/runs/{run.public_id}/rejected.jsonl")))["id"] == "s"


def test_a_file_can_be_erased_at_once(world: World, signed_in: Any, woken: list[int]) -> None:
    client = signed_in(world.author)
    run = reported(client, lines(*TALKS), "talks.jsonl", what="conversations")
    address = f"{DATA}uploads/{Upload.objects.get().public_id}/"
    assert client.post(address, {"do": "erase"})["Location"] == DATA
    listed = text(client.get(DATA))
    assert "talks.jsonl is erased" in listed
    assert "erased 20" in listed
    page = client.get(address)
    assert page.status_code == 200
    assert "The content was erased on" in text(page)
    assert 'id="start"' not in text(page)
    assert client.post(address, {"what": "conversations", "encoding": "utf-8", "do": "start"}).status_code == 422
    again = client.post(f"/i/tiny/runs/{run.public_id}/do/", {"do": "again"})
    assert "is no longer kept" in text(again)
    assert Conversation.objects.filter(external_id__startswith="new").count() == 3


def test_a_file_that_is_being_imported_is_not_erased(world: World, signed_in: Any, woken: list[int]) -> None:
    client = signed_in(world.author)
    address = brought(client, lines(*TALKS))
    client.post(address, {"what": "conversations", "encoding": "utf-8", "do": "start"})
    assert 'id="erase"' not in text(client.get(address))
    assert client.post(address, {"do": "erase"}).status_code == 409
    assert "until the import has ended" in text(client.get(DATA))
    assert Run.objects.get().state == RunState.QUEUED


# ---------------------------------------------------------------------------------------------------------------- export
def test_each_kind_goes_out_in_every_form(world: World, signed_in: Any) -> None:
    client = signed_in(world.reviewer)
    page = text(client.get(f"{DATA}export/"))
    links = re.findall(r'href="(/i/tiny/data/export/\w+\.\w+)\?release=(\d+)"', page)
    assert len(links) == 12
    for address, release in links:
        response = client.get(f"{address}?release={release}")
        assert response.status_code == 200
        assert response.streaming
        assert b"".join(response)
        kind = address.rpartition("/")[2]
        name = f'filename="tiny-{kind.replace(".", f"-r{release}.")}"'
        assert name in response["Content-Disposition"]
    assert AuditEvent.objects.filter(action="data.export", actor="rob").count() == 12
    assert "Names and texts" in page


def test_who_may_take_what_out(world: World, signed_in: Any) -> None:
    viewer = signed_in(world.viewer)
    for tab in ("export", "freeze"):
        page = text(viewer.get(f"{DATA}{tab}/"))
        assert "Exporting takes the role Reviewer." in page
        assert "download" not in page
    assert viewer.get(f"{DATA}export/policies.csv").status_code == 403
    assert viewer.get(f"{DATA}freeze/release.zip").status_code == 403
    assert signed_in(world.stranger).get(f"{DATA}export/policies.csv").status_code == 404
    assert not AuditEvent.objects.filter(action="data.export").exists()


def test_an_older_release_is_asked_for_by_its_number(world: World, signed_in: Any) -> None:
    client = signed_in(world.author)
    before = world.inventory.release
    curate.apply(world.cancel, [Step("add", text="leave it be", polarity="signal")], by=world.by, base_version=1)
    page = text(client.get(f"{DATA}export/?release={before}"))
    assert f"As of release {before}" in page
    assert "They belong to no release" in page
    assert f"--release {before}" in page
    then = text(client.get(f"{DATA}export/exemplars.jsonl?release={before}"))
    assert "leave it be" not in then
    assert "leave it be" in text(client.get(f"{DATA}export/exemplars.jsonl"))
    for odd in ("99", "x", "9" * 40):
        shown = client.get(f"{DATA}export/?release={odd}")
        assert shown.status_code == 200
        assert f"There is no release {odd[:20]}; this is the newest." in text(shown)
        assert client.get(f"{DATA}export/policies.csv?release={odd}").status_code == 404
    assert client.get(f"{DATA}export/people.csv").status_code == 404
    assert client.get(f"{DATA}export/policies.xlsx").status_code == 404


def test_a_release_is_frozen(world: World, signed_in: Any) -> None:
    client = signed_in(world.reviewer)
    page = text(client.get(f"{DATA}freeze/"))
    release = world.inventory.release
    assert f"/i/tiny/releases/#release-{release}" in page
    assert "A release is a frozen state already" in page
    response = client.get(f"{DATA}freeze/release.zip?release={release}")
    archive = zipfile.ZipFile(io.BytesIO(response.getvalue()))
    assert archive.testzip() is None
    assert json.loads(archive.read("manifest.json"))["release"] == release
    assert f'filename="tiny-all-r{release}.zip"' in response["Content-Disposition"]
    assert AuditEvent.objects.get(action="data.export").label == "all"


def test_an_inventory_without_a_release_has_nothing_to_freeze(world: World, signed_in: Any) -> None:
    Inventory.objects.filter(pk=world.others.pk).update(release=0, live_release=0)
    Release.objects.filter(inventory=world.others).delete()
    client = signed_in(world.stranger)
    assert "No release yet" in text(client.get("/i/others/data/freeze/"))
    assert client.get("/i/others/data/freeze/release.zip").status_code == 404
    assert client.get("/i/others/data/export/").status_code == 200
