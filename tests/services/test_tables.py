"""Exported tables come back as the same data: CSV with its quoted formulas, Parquet with its types, whole or filtered."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.models import Artifact, Conversation, Exemplar, ExemplarStatus, Judgement, QueryState
from console.services import conversation_list, export, human_labels, parquet, tables, uploads
from console.services.actor import SYSTEM
from console.services.csv_lines import csv_lines, read_cell, safe_cell
from console.services.errors import Invalid, TooLarge, Unavailable
from console.services.import_file import import_rows, readable
from console.services.ingest_conversations import import_conversations
from console.services.ingest_judgements import import_judgements
from sq_core.readers import JudgementRow, read_conversations
from tests import make
from tests.services.test_export import ODD, WHATS, bare, rows

pytestmark = pytest.mark.django_db


@pytest.fixture
def lived(world: make.World) -> make.World:
    import_conversations(world.inventory, read_conversations([json.dumps(ODD)]), by=SYSTEM)
    human_labels.give_label(world.inventory, world.talks["talk-1"], 1, world.cancel, 4, by=world.by, reason="'so'\n=1")
    digest = QueryState.objects.get(conversation__external_id="odd-1", user_turn=1).prefix_digest
    proven = JudgementRow("odd-1", 1, "strict", {"cancel-order": 3}, prefix_digest=digest, pass_mark=3, rubric="sticky")
    chosen = JudgementRow("odd-1", 0, make.JUDGE, {"cancel-order": 2}, chosen=True, reasons={"cancel-order": "no"})
    assert not import_judgements(world.inventory, [chosen, proven], by=SYSTEM).rejected
    make.exemplar(world.cancel, "'=not a formula, an apostrophe first")
    make.exemplar(world.cancel, '+49 30 1234 is my number\r\nsecond line, "quoted"')
    rejected = make.exemplar(world.cancel, "never this")
    Exemplar.objects.filter(pk=rejected.pk).update(status=ExemplarStatus.REJECTED)
    return world


def write(world: make.World, kind: str, form: str, folder: Path, **which: Any) -> Path:
    path = folder / f"{kind}.{form}"
    path.write_bytes(b"".join(export.lines(export.source(world.inventory, **which), kind, form)))
    return path


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_makes_the_same_elsewhere(lived: make.World, tmp_path: Path, form: str) -> None:
    copy = make.inventory("copy")
    for kind, what in WHATS.items():
        with readable(write(lived, kind, form, tmp_path)) as plain:
            report = import_rows(copy, what, plain, by=SYSTEM, options={})
        assert report.rejected == 0, (kind, report.errors)
        assert report.stored > 0
    for kind in ("policies", "exemplars", "conversations"):
        assert bare(rows(copy, kind)) == bare(rows(lived.inventory, kind)), kind
    assert scores(copy) == scores(lived.inventory)
    digests = [
        list(Conversation.objects.filter(inventory=i).order_by("external_id").values_list("external_id", "digest"))
        for i in (copy, lived.inventory)
    ]
    assert digests[0] == digests[1]


def scores(inventory: Any) -> set[tuple[Any, ...]]:
    names = (
        "state__conversation__external_id", "state__user_turn", "artifact_text__artifact__key", "judge__name", "score",
        "reason", "prompt_version", "judge__pass_mark", "judge__rubric", "chosen", "digest_computed", "prefix_digest",
    )  # fmt: skip
    return set(Judgement.objects.filter(judge__inventory=inventory).values_list(*names))


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_only_what_the_filter_matches(lived: make.World, tmp_path: Path, form: str) -> None:
    asks = conversation_list.wanted(lived.inventory, f=["turns:gte:3"])
    which = {"conversations": conversation_list.matching(lived.inventory, asks)}
    names = {"talk-1", "talk-2"}
    copy = make.inventory("copy")
    for kind in ("policies", "conversations", "judgements"):
        with readable(write(lived, kind, form, tmp_path, **which)) as plain:
            assert import_rows(copy, WHATS[kind], plain, by=SYSTEM, options={}).rejected == 0
    assert set(Conversation.objects.filter(inventory=copy).values_list("external_id", flat=True)) == names
    assert {row[0] for row in scores(copy)} == names
    few = write(lived, "exemplars", form, tmp_path, keys=["refund-status"])
    with readable(few) as plain:
        report = import_rows(copy, "exemplars", plain, by=SYSTEM, options={})
    assert (report.stored, report.rejected) == (8, 0)
    nobody = write(lived, "policies", form, tmp_path, keys=[])
    assert Artifact.objects.filter(inventory=copy).count() == 3
    with readable(nobody) as plain:
        assert import_rows(make.inventory("none"), "artifacts", plain, by=SYSTEM, options={}).read == 0


def test_a_table_is_uploaded_as_the_lines_it_stands_for(lived: make.World, tmp_path: Path) -> None:
    for form in ("csv", "parquet"):
        path = write(lived, "conversations", form, tmp_path)
        with path.open("rb") as file:
            upload, new = uploads.store_upload(lived.inventory, file, name=path.name, by=SYSTEM)
        assert upload.name == "conversations.csv.jsonl"  # both stand for the same lines, so they are one upload
        assert new is (form == "csv")
        assert upload.guess["what"] == "conversations"
        assert upload.guess["lines"] == 6
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    with other.open("rb") as file:
        upload, new = uploads.store_upload(lived.inventory, file, name="other.csv", by=SYSTEM)
    assert (upload.name, new, upload.guess["what"]) == ("other.csv", True, "")  # as any file of no known kind


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('conversation,message,role,content\n"open', "unexpected end of data"),
        ("conversation,user_turn,artifact,score,judge\nc,one,a,5,j\n", "invalid literal"),
        ("conversation,user_turn,artifact,score,judge,chosen\nc,1,a,5,j,maybe\n", "not True or False"),
        ("conversation,message,role,content,metadata\nc,0,user,hi,{\n", "Expecting property name"),
    ],
)
def test_a_damaged_table_says_what_is_wrong(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(Invalid, match=why), readable(path):
        pass


def test_bounded_and_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,name,text,kind\n" + "a,b,c,policy\n" * 100)
    with pytest.raises(TooLarge), tables.as_lines(path, name="t.csv", most=1_000):
        pass
    broken = tmp_path / "t.parquet"
    broken.write_bytes(b"PAR1 no parquet")
    assert not tables.is_ours(broken, "t.parquet")
    with pytest.raises(Invalid), tables.as_lines(broken, name="t.parquet", most=1_000):
        pass
    monkeypatch.setattr(parquet, "available", lambda: False)
    with pytest.raises(Unavailable, match="pyarrow"):
        parquet.parquet_pieces(("a",), [])


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)))
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # a busy machine draws slowly
def test_every_text_comes_back_from_a_cell(texts: list[str]) -> None:
    for text in texts:
        quoted = safe_cell(text)
        assert isinstance(quoted, str)
        assert quoted[:1] not in "=+-@\t\r\n"
        assert read_cell(quoted) == text
    whole = "".join(csv_lines(["x"], ({"x": text} for text in texts)))
    read = [row["x"] for row in csv.DictReader(io.StringIO(whole, newline=""))]
    assert [read_cell(value) for value in read] == texts


def test_parquet_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP", 3)
    given_rows = [{"text": f"t{n}", "user_turn": n, "chosen": n % 2 == 0, "at": None} for n in range(10)]
    path = tmp_path / "x.parquet"
    pieces = list(parquet.parquet_pieces(("text", "user_turn", "chosen", "at"), given_rows))
    assert len(pieces) == 5  # four groups and the end
    path.write_bytes(b"".join(pieces))
    assert list(parquet.parquet_rows(path)) == given_rows
