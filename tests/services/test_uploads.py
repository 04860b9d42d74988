"""Files in the database: stored in pieces, known by their content, unpacked and decoded as a stream, erased by a rule."""

import gzip
import io
import tracemalloc
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from console import tasks
from console.models import AuditEvent, RunState, Upload, UploadPart
from console.services import runs, upload_guess, upload_text, uploads
from console.services.errors import Conflict, Invalid, NotFound, TooLarge
from tests.make import World

LINE = b'{"id": "talk-9", "messages": [{"role": "user", "content": "where is my refund"}]}\n'
pytestmark = pytest.mark.django_db


def store(world: World, data: bytes, name: str = "talks.jsonl") -> Upload:
    return uploads.store_upload(world.inventory, io.BytesIO(data), name=name, by=world.by)[0]


def read(upload: Upload) -> bytes:
    return b"".join(uploads.pieces_of(upload))


# ------------------------------------------------------------------------------------------------------------- bringing
def test_a_file_is_kept_in_parts_and_read_back(world: World) -> None:
    data = LINE * 10_000
    upload = store(world, data)
    assert (upload.size, upload.complete, upload.by) == (len(data), True, "ada")
    assert upload.parts.count() == -(-len(data) // uploads.PART)
    assert max(len(part.data) for part in upload.parts.all()) == uploads.PART
    assert read(upload) == data
    event = AuditEvent.objects.get(action="upload.create")
    assert (event.object_id, event.label, event.actor) == (upload.public_id, "talks.jsonl", "ada")


def test_the_same_content_is_the_same_upload_under_its_first_name(world: World) -> None:
    first = store(world, LINE)
    again, new = uploads.store_upload(world.inventory, io.BytesIO(LINE), name="other.jsonl", by=world.by)
    assert (again.pk, again.name, new) == (first.pk, "talks.jsonl", False)
    assert UploadPart.objects.count() == 1
    elsewhere = uploads.store_upload(world.others, io.BytesIO(LINE), name="talks.jsonl", by=world.by)[0]
    assert elsewhere.pk != first.pk
    with pytest.raises(NotFound):
        uploads.get_upload(world.others, first.public_id)
    assert uploads.get_upload(world.inventory, first.public_id) == first


def test_an_upload_whose_writer_died_is_completed_by_the_same_file(world: World) -> None:
    data = LINE * 10_000
    upload = store(world, data)
    Upload.objects.filter(pk=upload.pk).update(complete=False)
    UploadPart.objects.filter(upload=upload, number__gte=1).delete()
    with pytest.raises(NotFound):
        uploads.get_upload(world.inventory, upload.public_id)
    assert uploads.store_upload(world.inventory, io.BytesIO(data), name="x", by=world.by) == (upload, True)
    assert read(upload) == data


def test_limits_are_kept(world: World, settings: Any) -> None:
    settings.UPLOAD_LIMIT = 1024 * 1024
    with pytest.raises(TooLarge, match="larger than 1 MB"):
        store(world, b"x" * (1024 * 1024 + 1))
    with pytest.raises(TooLarge), uploads.spooled(iter([b"x" * 600_000] * 2)):
        pass
    with uploads.spooled(iter([b"ab", b"c"])) as file:
        file.seek(0)
        assert file.read() == b"abc"
    with pytest.raises(Invalid, match="empty"):
        store(world, b"")
    assert not Upload.objects.exists()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("C:\\logs\\march.jsonl", "march.jsonl"),
        ("../../etc/passwd", "passwd"),
        ("a\x00b\n.jsonl", "a\ufffdb_.jsonl"),
        ("..", "upload.jsonl"),
        ("", "upload.jsonl"),
        ("x" * 300 + ".jsonl.gz", "x" * 191 + ".jsonl.gz"),
    ],
)
def test_names(given: str, kept: str) -> None:
    assert uploads.checked_name(given) == kept


def test_what_was_altered_is_not_read(world: World) -> None:
    upload = store(world, LINE)
    UploadPart.objects.filter(upload=upload).update(data=b"else")
    with pytest.raises(Invalid, match="no longer kept"):
        read(upload)


def test_memory_stays_flat_for_a_large_file(world: World) -> None:
    size = 24 * 1024 * 1024
    with uploads.spooled(LINE * 1000 for _ in range(size // (1000 * len(LINE)))) as file:
        tracemalloc.start()
        upload = uploads.store_upload(world.inventory, file, name="large.jsonl", by=world.by)[0]
        with uploads.plain_file(upload, encoding="utf-8") as path:
            assert path.stat().st_size == upload.size
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 4 * upload_guess.HEAD + 2 * uploads.PARTS_AT_ONCE * uploads.PART, peak


# ------------------------------------------------------------------------------------------------- gzip and encodings
def plain(data: bytes, encoding: str = "utf-8", *, piece: int = 7, most: int = 1_000_000) -> bytes:
    pieces = (data[start : start + piece] for start in range(0, len(data), piece))
    return b"".join(upload_text.plain(pieces, encoding=encoding, most=most))


@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_gzip_is_unpacked_of_several_members_too(piece: int) -> None:
    data = LINE * 3_000
    assert plain(gzip.compress(data), piece=piece) == data
    assert plain(gzip.compress(data) + gzip.compress(b"more"), piece=piece) == data + b"more"
    assert plain(gzip.compress(b"padded") + b"\0" * 512, piece=piece) == b"padded"
    assert plain(gzip.compress(b""), piece=piece) == b""
    assert plain(b"\x1f", piece=piece) == b"\x1f"
    assert plain(b"", piece=piece) == b""


@pytest.mark.parametrize("damage", [lambda d: d[:-9], lambda d: d[:40] + b"\0" * 9 + d[49:], lambda d: d + b"rubbish"])
def test_a_damaged_gzip_file_is_refused_when_it_comes(world: World, damage: Any) -> None:
    data = gzip.compress(b"".join(b"%d" % (n * n) for n in range(3_000)))
    with pytest.raises(Invalid, match="gzip"):
        store(world, damage(data), "talks.jsonl.gz")
    assert not Upload.objects.exists()


def test_a_bomb_is_refused(world: World, settings: Any) -> None:
    settings.UPLOAD_LIMIT = 100_000
    with pytest.raises(TooLarge, match="gzip file holds more"):
        store(world, gzip.compress(b"\0" * 1_000_001), "bomb.gz")


def look(data: bytes) -> upload_text.Text:
    return upload_text.looked_at(iter([data[:100], data[100:]]), most=10**7)


def test_encodings_are_told_apart() -> None:
    text = "Grüße, ein Vorgang für 12 €\n" * 20
    assert look(text.encode()).encoding == "utf-8"
    assert look(text.encode("utf-8-sig")).encoding == "utf-8"
    assert look(text.encode("utf-16")).encoding == "utf-16"
    assert look(text.encode("utf-16-le")).encoding == "utf-16"
    assert look(text.encode("cp1252")).encoding == "latin-1"
    assert look(gzip.compress(text.encode("cp1252"))) == upload_text.Text("latin-1", True, 80, 20, True)
    assert look(b"plain ascii").encoding == "utf-8"
    assert look(b"").lines == 0


def test_one_broken_row_does_not_make_a_file_latin_1() -> None:
    found = look("Grüße\n".encode() * 50 + "Grüße\n".encode("latin-1"))
    assert (found.encoding, found.invalid, found.lines) == ("utf-8", 2, 51)
    cut = look("Grüß".encode()[:-1])
    assert (cut.encoding, cut.invalid, cut.lines) == ("utf-8", 1, 1)


def test_latin_1_becomes_utf_8_with_the_five_bytes_that_windows_leaves_open() -> None:
    assert plain("für 12 €".encode("cp1252"), "latin-1").decode() == "für 12 €"
    assert plain(b"\x81\x8d", "latin-1").decode() == "\x81\x8d"
    assert plain("ü".encode(), "utf-8") == "ü".encode()


def test_a_very_long_file_is_looked_at_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_text, "LOOKED_AT", 150)
    found = look(b"x\n" * 500)
    assert (found.whole, found.lines) == (False, 500)


# --------------------------------------------------------------------------------------------------------------- guesses
def test_what_a_file_seems_to_be_is_kept_with_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store(world, LINE * 3).guess == {
        "what": "conversations", "format": "jsonl", "encoding": "utf-8", "gzip": False, "lines": 3, "lines_exact": True,
        "invalid": 0, "fields": ["id", "messages"],
    }  # fmt: skip
    packed = store(world, gzip.compress(b'{"artifact": "a", "signals": ["x"]}'), "some.jsonl.gz").guess
    assert (packed["what"], packed["gzip"]) == ("exemplars", True)
    assert store(world, b"---\nname: a\n---\n", "SKILL.md").guess["format"] == "skill"
    assert store(world, b'[{"x": 1}]', "x.json").guess["what"] == ""
    monkeypatch.setattr(upload_guess, "HEAD", 300)
    assert store(world, LINE * 30).guess["what"] == "conversations"  # from its beginning alone


# --------------------------------------------------------------------------------------------------------------- erasing
def test_the_rule_erases_what_is_no_longer_needed(world: World) -> None:
    now = timezone.now()

    def erase(days: float) -> int:
        return uploads.erase_old(now + timedelta(days=days))

    unused = store(world, LINE)
    used = store(world, LINE * 2)
    run = runs.create_run(
        world.inventory, "import", by=world.by, params={"what": "conversations", "upload": used.public_id}
    )
    assert erase(6.9) == 0
    assert erase(7.1) == 1  # the run has not ended: its file stays
    unused.refresh_from_db()
    used.refresh_from_db()
    assert (unused.readable, used.readable) == (False, True)
    assert not unused.parts.exists()
    with pytest.raises(Conflict, match="is being imported"):
        uploads.erase_upload(used, by=world.by)
    run.state, run.finished_at = RunState.COMPLETE, now + timedelta(days=10)
    run.save()
    assert erase(16.9) == 0
    assert erase(17.1) == 1
    assert not UploadPart.objects.exists()
    assert Upload.objects.count() == 2  # what they were called, and whose they were, stays
    assert AuditEvent.objects.filter(action="upload.erase", actor="").count() == 2


def test_what_was_erased_can_be_brought_again(world: World) -> None:
    upload = store(world, LINE)
    uploads.erase_upload(upload, by=world.by)
    uploads.erase_upload(upload, by=world.by)
    assert AuditEvent.objects.filter(action="upload.erase").count() == 1
    with pytest.raises(Invalid, match="no longer kept"):
        read(upload)
    again, new = uploads.store_upload(world.inventory, io.BytesIO(LINE), name="again.jsonl", by=world.by)
    assert (again.pk, again.readable, new) == (upload.pk, True, True)
    assert read(again) == LINE


def test_leftovers_go(world: World) -> None:
    started = store(world, LINE)
    Upload.objects.filter(pk=started.pk).update(complete=False, at=timezone.now() - timedelta(days=2))
    half_erased = store(world, LINE * 2)
    Upload.objects.filter(pk=half_erased.pk).update(erased_at=timezone.now())
    assert tasks.erase_uploads() == 0
    assert not UploadPart.objects.exists()
    assert list(Upload.objects.all()) == [half_erased]


def test_an_erasure_that_races_with_the_same_file_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "_write_parts", lambda upload, file: None)
    with pytest.raises(Conflict, match="just being erased"):
        store(world, LINE)
