"""Two imports at once: what a report calls stored is stored, and what clashes is a row error as one after the other."""

import contextlib
import threading
from typing import Any

import pytest
from django.db import connections
from django.db.models import QuerySet

from console.models import Inventory, Judgement
from console.services import ingest_judgements
from console.services.actor import SYSTEM
from console.services.ingest import Report
from console.services.ingest_judgements import import_judgements
from sq_core.readers import JudgementRow
from tests import make

pytestmark = [pytest.mark.engines, pytest.mark.django_db(transaction=True)]
TURNS = 4


@pytest.fixture
def inventory() -> Inventory:
    made = make.inventory()
    make.artifact(made, "pets")
    make.conversation(made, "talk", [f"turn {n}" for n in range(TURNS)])
    make.conversation(made, "earlier", ["hello"])
    make.judge(made, "earlier", 0, {"pets": 1}, name="judge")  # a judge that both would make lets only one in
    return made


def both(inventory: Inventory, monkeypatch: pytest.MonkeyPatch, rows: list[list[JudgementRow]]) -> list[Report]:
    """Both imports look at what is stored before either has written, unless one waits for the other."""
    real, met, reports = ingest_judgements._stored, threading.Barrier(2), []

    def looked(scores: Any) -> Any:
        found = real(scores)
        with contextlib.suppress(threading.BrokenBarrierError):  # the other one waits for this one's transaction
            met.wait(2)
        return found

    def load(mine: list[JudgementRow]) -> None:
        try:
            reports.append(import_judgements(Inventory.objects.get(pk=inventory.pk), mine, by=SYSTEM))
        finally:
            connections.close_all()

    monkeypatch.setattr(ingest_judgements, "_stored", looked)
    threads = [threading.Thread(target=load, args=(mine,)) for mine in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(reports) == 2
    return reports


def stored() -> "QuerySet[Judgement]":
    return Judgement.objects.filter(state__conversation__external_id="talk")


def scores(score: int, *, backwards: bool = False) -> list[JudgementRow]:
    turns = range(TURNS)[::-1] if backwards else range(TURNS)
    return [JudgementRow("talk", turn, "judge", {"pets": score}) for turn in turns]


def test_other_scores_for_the_same_pairs_are_refused(inventory: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = both(inventory, monkeypatch, [scores(1), scores(5, backwards=True)])
    assert sorted((r.stored, r.rejected) for r in reports) == [(0, TURNS), (TURNS, 0)]
    assert len(set(stored().values_list("score", flat=True))) == 1
    refused = next(r for r in reports if r.rejected)
    assert "already judged" in refused.errors[0].message


def test_the_same_scores_are_stored_once_and_counted_once(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = both(inventory, monkeypatch, [scores(5), scores(5, backwards=True)])
    assert sorted((r.stored, r.duplicates) for r in reports) == [(0, TURNS), (TURNS, 0)]
    assert stored().count() == TURNS
