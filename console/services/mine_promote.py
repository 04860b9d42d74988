"""What a mining run promotes by itself: into a draft release only, one version per artifact, and never a mix of sources."""

from collections import Counter
from contextlib import suppress
from typing import Any

from console.models import Artifact, Exemplar, ExemplarStatus, FitSet, GoLive, Inventory, Polarity, Run, Source
from console.services import curate, embed, fit
from console.services.actor import RUN_REQUEST, Actor
from console.services.artifacts import current_setting
from console.services.candidates_rank import Candidate, ground_of, ranked
from console.services.errors import ServiceError, Unavailable
from console.services.impact import Impact
from console.services.plan import Step

Json = dict[str, Any]
LISTED = 200


def promote(run: Run) -> Json:
    """Up to ``auto_promote`` signals per artifact, with up to ``negatives_per_signal`` look-alikes for each. Safe to
    repeat: what this run has promoted already counts.

    An artifact that learns from real chats gets them in a new version. One that learns from generated examples is
    switched to real chats with them, once both sides reach the minimum material. Everything else is left to people: a
    mix of sources, a broken pin, recall that would fall under the target.
    """
    inventory = fit.fresh_inventory(run.inventory_id)
    if inventory.go_live != GoLive.AFTER_REVIEW:
        return {"promoted": 0, "left_n": 0, "note": "Releases go live at once now, so nothing was promoted."}
    with suppress(Unavailable):  # said of each policy that has to wait for it
        embed.embed_examples(inventory)
    waiting = list(
        Exemplar.objects.filter(run=run, status=ExemplarStatus.CANDIDATE).select_related("origin__conversation")
    )
    artifacts = Artifact.objects.select_related("inventory").in_bulk({e.artifact_id for e in waiting})
    versions: list[Json] = []
    left: list[Json] = []
    promoted = 0
    for pk in sorted(artifacts, key=lambda pk: (artifacts[pk].position, pk)):
        listed = ranked(ground_of(inventory, [pk]), [e for e in waiting if e.artifact_id == pk])[pk]
        steps = _steps(run, artifacts[pk], listed)
        if not steps:
            continue
        done = _one(run, inventory, artifacts[pk], steps)
        if "version" in done:
            versions.append(done)
            promoted += len(steps)
        else:
            left.append(done)
        inventory = fit.fresh_inventory(run.inventory_id)
    return {"promoted": promoted, "versions": versions[:LISTED], "left": left[:LISTED], "left_n": len(left)}


def _steps(run: Run, artifact: Artifact, listed: list[Candidate]) -> list[Step]:
    """The best of each cluster that no example in use says already, up to the run's number on each side."""
    k, per_signal = run.params["auto_promote"], run.params["negatives_per_signal"]
    rows = Exemplar.objects.filter(run=run, artifact=artifact, status=ExemplarStatus.PROMOTED)
    had = Counter(rows.values_list("polarity", flat=True))
    room = {Polarity.SIGNAL: k - had[Polarity.SIGNAL], Polarity.ANTI_SIGNAL: k * per_signal - had[Polarity.ANTI_SIGNAL]}
    steps = []
    for candidate in listed:
        side = Polarity(candidate.exemplar.polarity)
        if candidate.offered and room[side] > 0:
            room[side] -= 1
            steps.append(Step("promote", exemplar=candidate.exemplar.public_id))
    return steps


def _one(run: Run, inventory: Inventory, artifact: Artifact, steps: list[Step]) -> Json:
    """One version, or why it is left to people."""

    def left(why: str) -> Json:
        return {"artifact": artifact.key, "why": why}

    fit_set = current_setting(artifact).fit_set
    if fit_set == FitSet.MIXED:
        return left("it learns from both sources, which a person chose")
    switch = FitSet.MINED.value if fit_set == FitSet.GENERATED else ""
    if switch and not _enough(inventory, artifact, steps):
        return left(f"under {inventory.minimum_material} examples from real chats on a side")
    by = Actor(request_id=RUN_REQUEST + run.public_id)  # nobody decided; the audit names the run
    try:
        effect = curate.preview(artifact, steps, by=by, fit_set=switch)
        why = _alarming(effect, inventory.target_recall)
        if why:
            return left(why)
        done = curate.apply(
            artifact,
            steps,
            by=by,
            base_version=effect.base_version,
            reason=f"promoted by mining run {run.public_id}",
            fit_set=switch,
        )
    except ServiceError as error:
        return left(error.message)
    number = done.version.number if done.version else None
    return {"artifact": artifact.key, "version": number, "examples": len(steps), "switched": bool(switch)}


def _enough(inventory: Inventory, artifact: Artifact, steps: list[Step]) -> bool:
    """Whether both sides have the minimum material once ``steps`` are taken."""
    promoted = Exemplar.objects.filter(artifact=artifact, source=Source.MINED)
    rows = promoted.filter(status=ExemplarStatus.PROMOTED) | promoted.filter(public_id__in=[s.exemplar for s in steps])
    counts = Counter(rows.values_list("polarity", flat=True))
    return all(counts[side] >= inventory.minimum_material for side in Polarity)


def _alarming(effect: Impact, target: float) -> str:
    if effect.broken_pins:
        return "a turn that must be selected would be missed"
    if effect.needs_reason(target):
        return f"recall would fall from {effect.recall_before:.2f} to {effect.recall_after:.2f}"
    return ""
