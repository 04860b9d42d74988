"""The whole loop on the sample's policies and conversations with the recorded models: no key, no network, from nothing."""

import pytest

from console.models import (
    ClassifierVersion,
    Exemplar,
    ExemplarStatus,
    Inventory,
    Judgement,
    Polarity,
    Run,
    RunState,
    Spend,
)
from console.services import curate, evaluate, fit, inventories, run_work, runs, sample
from console.services.actor import SYSTEM, Actor, person
from console.services.plan import Step
from tests import make

TALKS = 12


def done(inventory: Inventory, kind: str, by: Actor, **asked: object) -> Run:
    run = runs.create_run(inventory, kind, by=by, **asked)  # type: ignore[arg-type]
    while run_work.work(run.pk, seconds=60):
        pass
    run.refresh_from_db()
    inventory.refresh_from_db()
    assert run.state == RunState.COMPLETE, (kind, run.note, runs.error_groups(run))
    return run


@pytest.mark.django_db
def test_generate_judge_mine_promote_calibrate_and_the_change_is_seen() -> None:
    inventory = sample.load_bare("loop", by=SYSTEM)
    ana = person(make.user("ana", "publisher", inventory))
    assert not Exemplar.objects.filter(artifact__inventory=inventory).exists()

    generated = done(inventory, "generate", ana)
    assert generated.provider["provider"] == "recorded"
    assert Exemplar.objects.promoted().filter(artifact__inventory=inventory, source="generated").count() == 720
    assert ClassifierVersion.objects.current().filter(artifact__inventory=inventory).count() == 36  # the first fits
    assert runs.create_run(inventory, "generate", by=ana).total == 0  # no text has changed

    names = [f"sky-{number}" for number in range(101, 101 + TALKS)]
    judged = done(inventory, "judge", ana, scope={"conversations": names})
    pairs = Judgement.objects.filter(judge__inventory=inventory).count()
    assert pairs == judged.total > 0
    assert inventory.judge is not None
    assert inventory.judge.name.startswith("recorded:")
    assert not Spend.objects.filter(inventory=inventory, recorded=False).exists()
    assert judged.money == 0
    before = evaluate.evaluate(inventory, protocol="mined")

    done(inventory, "calibrate", ana, params={"target": 0.9})
    mined = done(inventory, "mine", ana)
    candidates = Exemplar.objects.filter(artifact__inventory=inventory, status=ExemplarStatus.CANDIDATE, run=mined)
    assert candidates.filter(polarity=Polarity.SIGNAL).exists()
    assert candidates.filter(polarity=Polarity.ANTI_SIGNAL).exists()
    assert set(candidates.values_list("source", flat=True)) == {"mined"}
    assert all(row.label_horizon is not None for row in candidates)

    # promote what was mined for the policy with the most material, and fit it on that alone
    artifact = max(fit.active_artifacts(inventory), key=lambda a: candidates.filter(artifact=a).count())
    steps = [Step("promote", exemplar=row.public_id) for row in candidates.filter(artifact=artifact)]
    active = fit.active_version(artifact)
    assert active is not None
    applied = curate.apply(artifact, steps, by=ana, base_version=active.number, reason="the best of the log")
    assert applied.version is not None
    assert applied.version.number == active.number + 1
    counts = applied.version.counts
    assert counts["signal"].get("mined", 0) + counts["anti_signal"].get("mined", 0) == len(steps)

    point = inventories.current_point(inventory)
    done(inventory, "calibrate", ana, params={"target": 0.95})
    assert inventories.current_point(inventory).number > point.number
    table = done(inventory, "evaluate", ana, params={"protocol": "mined"})
    assert table.result is not None
    figures = {row["method"]: row["auprc"] for row in table.result["rows"] if row["world"] == "fitted"}
    assert figures["sq-mined"] > figures["sq-generated"], "what evaluate shows of mined against generated examples"
    assert before["rows"] == table.result["rows"]  # a table of the protocol's own splits: curating does not move it
    score = done(inventory, "score", ana)
    assert score.result is not None
    assert score.result["turns"] == 406
