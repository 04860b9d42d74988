"""Every row that an import stores is covered by an audit row of its own transaction, or of one before it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from console.models import Artifact, AuditEvent, Conversation, Exemplar, Inventory, Judgement
from console.services import ingest_artifacts, ingest_conversations, ingest_exemplars, ingest_judgements
from console.services.actor import Actor
from console.services.artifacts import exemplar_digest
from sq_core import conversation as log
from sq_core.readers import ArtifactText, ExemplarRow, JudgementRow
from tests import make

BY = Actor("ana", request_id="request-1")
PIECES = 3


class Killed(BaseException):
    """As good as kill -9: nothing of ours runs after it."""


@pytest.fixture
def inventory(db: None, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    """Small pieces; a policy and a conversation to import into."""
    made = make.inventory()
    make.artifact(made, "pets")
    make.conversation(made, "talk-0", [f"turn {n}" for n in range(6)])
    for module in (ingest_conversations, ingest_exemplars, ingest_judgements):
        monkeypatch.setattr(module, "PIECE", 2)
    return made


def conversations(inventory: Inventory) -> Any:
    rows = [log.Conversation(f"new-{n}", make.messages(["hello"])) for n in range(PIECES)]
    return ingest_conversations.import_conversations(inventory, rows, by=BY)


def exemplars(inventory: Inventory) -> Any:
    rows = [ExemplarRow("pets", "signal", f"my dog {n}") for n in range(2 * PIECES)]
    return ingest_exemplars.import_exemplars(inventory, rows, by=BY)


def judgements(inventory: Inventory) -> Any:
    rows = [JudgementRow("talk-0", n, "judge", {"pets": 5}) for n in range(2 * PIECES)]
    return ingest_judgements.import_judgements(inventory, rows, by=BY)


KINDS = [
    (conversations, ingest_conversations, Conversation),
    (exemplars, ingest_exemplars, Exemplar),
    (judgements, ingest_judgements, Judgement),
]


def events() -> list[tuple[str, str, str, Any]]:
    rows = AuditEvent.objects.filter(actor="ana").order_by("id")
    return [(row.action, row.object_id, row.request_id, row.after) for row in rows]


@pytest.mark.parametrize(("load", "module", "model"), KINDS)
def test_a_killed_import_has_its_opening_row(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch, load: Callable[[Inventory], Any], module: Any, model: Any
) -> None:
    real, calls, before = module._store, [], model.objects.count()

    def store(*args: Any, **kwargs: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise Killed
        real(*args, **kwargs)

    monkeypatch.setattr(module, "_store", store)
    monkeypatch.setattr(module.Trail, "__exit__", lambda *_: None)
    with pytest.raises(Killed):
        load(inventory)
    assert model.objects.count() > before
    kind = load.__name__
    assert events() == [(f"{kind}.import_begun", "tiny", "request-1", None)]
    monkeypatch.undo()
    load(inventory)  # completes it
    assert [action for action, *_ in events()] == [f"{kind}.import_begun", f"{kind}.import"]


@pytest.mark.parametrize(("load", "module", "model"), KINDS)
def test_an_import_of_many_pieces_opens_and_closes(
    inventory: Inventory, load: Callable[[Inventory], Any], module: Any, model: Any
) -> None:
    report = load(inventory)
    assert [action for action, *_ in events()] == [f"{report.kind}.import_begun", f"{report.kind}.import"]
    assert events()[1][3].items() >= report.counts().items()


@pytest.mark.parametrize(("load", "module", "model"), KINDS)
def test_an_import_of_one_piece_leaves_one_row_and_one_that_changes_nothing_none(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch, load: Callable[[Inventory], Any], module: Any, model: Any
) -> None:
    monkeypatch.setattr(module, "PIECE", 500)
    report = load(inventory)
    assert [action for action, *_ in events()] == [f"{report.kind}.import"]
    load(inventory)
    assert len(events()) == 1


@pytest.mark.parametrize(("load", "module", "model"), KINDS)
def test_a_piece_whose_audit_row_fails_is_not_stored(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch, load: Callable[[Inventory], Any], module: Any, model: Any
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise Killed

    before = model.objects.count()
    monkeypatch.setattr(module.Trail, "_record", fails)
    with pytest.raises(Killed):
        load(inventory)
    assert model.objects.count() == before


def test_an_import_that_is_stopped_closes_with_what_it_stored(inventory: Inventory) -> None:
    def stop(read: int) -> None:
        if read == 3:
            raise KeyboardInterrupt

    rows = [log.Conversation(f"new-{n}", make.messages(["hello"])) for n in range(5)]
    with pytest.raises(KeyboardInterrupt):
        ingest_conversations.import_conversations(inventory, rows, by=BY, progress=stop)
    assert [action for action, *_ in events()] == ["conversations.import_begun", "conversations.import"]
    after = events()[1][3]
    assert (after["stored"], after["stopped"]) == (Conversation.objects.count() - 1, True)


def test_a_long_conversation_has_its_row_before_its_rest(inventory: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any) -> None:
        raise Killed

    monkeypatch.setattr(ingest_conversations, "_store_rest", killed)
    monkeypatch.setattr(ingest_conversations.Trail, "__exit__", lambda *_: None)
    row = log.Conversation("long", make.messages(["one", "two", "three"]))
    with pytest.raises(Killed):
        ingest_conversations.import_conversations(inventory, [row], by=BY)
    assert Conversation.objects.filter(external_id="long").exists()
    assert [action for action, *_ in events()] == ["conversations.import_begun"]


def test_artifacts_come_whole_with_their_rows_or_not_at_all(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows() -> Iterator[ArtifactText]:
        for key in ("bags", "seats"):
            yield ArtifactText(key=key, name=key.title(), text=f"About {key}.", kind="policy", signals=(f"my {key}",))

    real, calls = ingest_artifacts._offer, []

    def offer(*args: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise Killed
        real(*args)

    monkeypatch.setattr(ingest_artifacts, "_offer", offer)
    with pytest.raises(Killed):
        ingest_artifacts.import_artifacts(inventory, rows(), by=BY)
    assert (Artifact.objects.count(), Exemplar.objects.count(), events()) == (1, 0, [])
    monkeypatch.undo()
    ingest_artifacts.import_artifacts(inventory, rows(), by=BY)
    assert [action for action, *_ in events()] == ["artifact.create"] * 2
    assert Exemplar.objects.get(text_digest=exemplar_digest("my bags")).artifact.key == "bags"
