"""A refit of many policies beside people who decide meanwhile: no decision is lost, and none stops the others' versions."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db.models import F

from console.models import Artifact, ClassifierVersion, ExemplarStatus, Inventory, Release
from console.services import curate, fit, refitting
from console.services.actor import SYSTEM
from console.services.artifacts import exemplar_digest
from console.services.errors import Conflict
from console.services.ingest_exemplars import import_exemplars
from console.services.plan import Step
from sq_core.readers import ExemplarRow
from tests import make
from tests.make import SIGNALS, World

ADDED = "they want the whole order called off"
DECIDED = "annul what I bought on monday"


@pytest.fixture
def imported(world: World) -> World:
    """Two policies with an example that no version has seen."""
    make.exemplar(world.cancel, ADDED)
    make.exemplar(world.change, "another size, please")
    return world


def digests(artifact: Artifact) -> set[str]:
    version = fit.active_version(artifact)
    assert version is not None
    return {row["digest"] for row in version.exemplars}


def promote(artifact: Artifact, text: str = DECIDED) -> curate.Applied:
    active = fit.active_version(artifact)
    step = Step("add", text=text, polarity="signal")
    return curate.apply(artifact, [step], by=SYSTEM, base_version=active.number if active else None, reason="so")


def before(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, acts: "Iterator[Callable[[], object] | None]"
) -> None:
    """The next act happens just before each call of ``name``; None and the end do nothing."""
    real = getattr(module, name)

    def inner(*args: Any, **kwargs: Any) -> Any:
        act = next(acts, None)
        if act is not None:
            act()
        return real(*args, **kwargs)

    monkeypatch.setattr(module, name, inner)


def test_a_promotion_while_a_refit_embeds_is_in_the_newest_version(
    imported: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(monkeypatch, fit.embed, "encode", iter([lambda: promote(imported.cancel)]))
    versions = refitting.refit(imported.inventory, by=imported.by)
    assert exemplar_digest(DECIDED) in digests(imported.cancel)
    assert exemplar_digest(ADDED) in digests(imported.cancel)
    assert [v.artifact.key for v in versions] == ["change-order"]  # the promotion has taken the imported one in


def test_a_rejection_while_a_refit_embeds_is_not_undone(imported: World, monkeypatch: pytest.MonkeyPatch) -> None:
    taken_out = imported.exemplar(imported.cancel, SIGNALS["cancel-order"][0])

    def retire() -> None:
        step = Step("retire", exemplar=taken_out.public_id)
        curate.apply(imported.cancel, [step], by=imported.by, base_version=1, reason="it misleads")

    before(monkeypatch, fit.embed, "encode", iter([retire]))
    refitting.refit(imported.inventory, by=imported.by)
    taken_out.refresh_from_db()
    assert taken_out.status == ExemplarStatus.RETIRED
    assert taken_out.text_digest not in digests(imported.cancel)


def test_a_promotion_after_the_drafts_stops_nobody_s_version(imported: World, monkeypatch: pytest.MonkeyPatch) -> None:
    drafted: list[str] = []
    real = fit.draft_version

    def told(basis: fit.Basis, *args: Any, **kwargs: Any) -> fit.Draft:
        drafted.append(basis.artifact.key)
        return real(basis, *args, **kwargs)

    def meanwhile() -> None:
        promote(imported.refund, "the money is not there")
        make.exemplar(imported.refund, "no refund yet")
        Inventory.objects.update(exemplar_revision=F("exemplar_revision") + 1)
        drafted.clear()

    monkeypatch.setattr(fit, "draft_version", told)
    before(monkeypatch, refitting, "lock_artifacts", iter([meanwhile]))
    releases = Release.objects.count()
    versions = refitting.refit(imported.inventory, by=imported.by)
    assert {v.artifact.key: v.number for v in versions} == {"cancel-order": 2, "change-order": 2, "refund-status": 3}
    assert drafted == ["refund-status"], "only what has moved is worked out again"
    assert Release.objects.count() == releases + 2


def test_labels_given_meanwhile_are_in_every_version_s_figures(
    imported: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge() -> None:
        make.judge(imported.inventory, "talk-5", 1, {"cancel-order": 5}, name="second")
        Inventory.objects.update(judge=None)

    before(monkeypatch, refitting, "lock_artifacts", iter([judge]))
    for version in refitting.refit(imported.inventory, by=imported.by):
        assert version.metrics["judge"] == ""
        assert version.metrics["n"] == 0


def test_where_somebody_decides_every_time_the_last_try_is_made_under_the_lock(
    imported: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = range(refitting.UNLOCKED_TRIES + 1)
    before(
        monkeypatch,
        refitting,
        "lock_artifacts",
        iter([lambda n=n: promote(imported.cancel, f"{DECIDED} {n}") for n in tries]),
    )
    versions = refitting.refit(imported.inventory, by=imported.by)
    assert [v.artifact.key for v in versions] == ["change-order"]
    assert {exemplar_digest(f"{DECIDED} {n}") for n in tries} <= digests(imported.cancel)


def test_what_has_no_vector_at_the_last_try_is_named_and_the_others_get_theirs(
    imported: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bring(number: int) -> None:
        import_exemplars(
            imported.inventory, [ExemplarRow("cancel-order", "signal", f"off with it {number}")], by=imported.by
        )

    tries = range(refitting.UNLOCKED_TRIES + 1)
    before(monkeypatch, refitting, "lock_artifacts", iter([lambda n=n: bring(n) for n in tries]))
    with pytest.raises(Conflict, match=r"added meanwhile to cancel-order\.") as left:
        refitting.refit(imported.inventory, by=imported.by)
    assert "All other policies are fitted" in left.value.hint
    active = fit.active_version(imported.change)
    assert active is not None
    assert active.number == 2
    assert [v.artifact.key for v in refitting.refit(imported.inventory, by=imported.by)] == ["cancel-order"]


def test_a_refit_with_nothing_to_do_writes_nothing(world: World) -> None:
    releases = Release.objects.count()
    assert refitting.refit(world.inventory, by=world.by) == []
    assert Release.objects.count() == releases
    assert ClassifierVersion.objects.count() == 3
