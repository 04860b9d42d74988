"""Store what mining one artifact gave: new candidates, what is known already counted, what contradicts itself told."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from django.db.models import Count, F
from numpy.typing import NDArray

from console.models import Artifact, Exemplar, ExemplarStatus, Inventory, Polarity, Run, Source, ViewKind
from console.services.artifacts import EXEMPLAR_LIMIT, exemplar_digest
from console.services.impact import state_texts
from console.services.mine_log import Ground
from console.services.mine_scope import Json, rule_of, words_of
from console.services.revision import lock_inventory
from sq_core.mining_arrays import Rows, label_horizon, near_duplicates

SAMPLE = 5  # conflicts told of
Texts = dict[int, tuple[str, str, int, str]]


@dataclass
class Found:
    """What mining one artifact gave, by positions of the state table, and why it is not more."""

    signals: Rows
    anti_signals: Rows
    reason: str = ""
    numbers: Json = field(default_factory=dict)
    conflicts: list[tuple[int, int]] = field(default_factory=list)
    conflicting: int = 0


def store_found(ground: Ground, artifact: Artifact, found: Found) -> Json:
    """The new candidates of one artifact, inside the caller's transaction; what is known is counted. Safe to repeat."""
    lock_inventory(ground.inventory)  # as everybody who writes examples: of two with the same text one comes second
    rows = [
        *((int(p), Polarity.SIGNAL) for p in found.signals),
        *((int(p), Polarity.ANTI_SIGNAL) for p in found.anti_signals),
    ]
    states = ground.states.state_ids
    texts = state_texts([int(states[p]) for p, _ in rows] + [int(states[p]) for pair in found.conflicts for p in pair])
    horizons = _horizons(ground, [p for p, _ in rows])
    drafts: dict[str, tuple[int, Exemplar]] = {}
    unusable = 0
    for (position, polarity), horizon in zip(rows, horizons, strict=True):
        state = int(states[position])
        text = texts[state][3]
        if not text.strip() or len(text) > EXEMPLAR_LIMIT:
            unusable += 1
            continue
        digest = exemplar_digest(text)
        drafts.setdefault(
            digest,
            (
                position,
                Exemplar(
                    artifact=artifact, polarity=polarity, text=text, text_digest=digest, view_kind=ViewKind.USER_TURN,
                    source=Source.MINED, status=ExemplarStatus.CANDIDATE, origin_id=state, run=ground.run,
                    mining_rule=rule_of(ground.run.params), label_horizon=int(horizon),
                ),
            ),
        )  # fmt: skip
    known, conflicts = _sort_out(ground.run, artifact, drafts)
    fresh = [exemplar for _, exemplar in drafts.values()]
    Exemplar.objects.bulk_create(fresh, ignore_conflicts=True)  # somebody may add the same text at this moment
    kept = dict(
        Exemplar.objects.filter(artifact=artifact, run=ground.run, text_digest__in=list(drafts)).values_list(
            "text_digest", "public_id"
        )
    )
    given = {digest: draft for digest, draft in drafts.items() if digest in kept}
    if fresh:
        Inventory.objects.filter(pk=ground.inventory.pk).update(exemplar_revision=F("exemplar_revision") + 1)
    sides = Counter(exemplar.polarity for _, exemplar in given.values())
    numbers: Json = {**found.numbers, "known": sum(known.values()), "unusable": unusable}
    material = _material(artifact)
    numbers |= {"signals": material[Polarity.SIGNAL], "anti_signals": material[Polarity.ANTI_SIGNAL]}
    numbers["minimum"] = ground.inventory.minimum_material
    reason = found.reason
    if not reason and not given:
        reason = "all_known"
    elif not reason and ground.run.params["mode"] == "plain" and min(material.values()) < numbers["minimum"]:
        reason = "under_minimum"
    result: Json = {
        "signals": sides[Polarity.SIGNAL],
        "anti_signals": sides[Polarity.ANTI_SIGNAL],
        "known": dict(known),
        "conflicts": found.conflicting + len(conflicts),
        "conflict_sample": (conflicts + _mined_conflicts(ground, found, texts))[:SAMPLE],
        "clusters": _clusters(ground, given, kept),
        "numbers": numbers,
        "reason": reason,
        "words": words_of(reason, numbers),
    }
    return result


def _horizons(ground: Ground, positions: Sequence[int]) -> NDArray[np.int64]:
    params, rows = ground.run.params, np.array(positions, dtype=np.intp)
    looks_ahead = params["mode"] == "plain" and params["recipe"] == "paper" and params["rule"] == "whole_conversation"
    return label_horizon(ground.turns, rows, "whole_conversation" if looks_ahead else "running")


def _sort_out(run: Run, artifact: Artifact, drafts: dict[str, tuple[int, Exemplar]]) -> tuple[Counter[str], list[Json]]:
    """Take out of ``drafts`` what is an exemplar already: counted by what was decided on it, or told as a conflict."""
    known: Counter[str] = Counter()
    conflicts: list[Json] = []
    rows = Exemplar.objects.filter(artifact=artifact, text_digest__in=list(drafts)).exclude(run=run)
    for digest, polarity, status in rows.values_list("text_digest", "polarity", "status"):
        _, draft = drafts.pop(digest)
        if polarity == draft.polarity or status in (ExemplarStatus.REJECTED, ExemplarStatus.RETIRED):
            known[str(status)] += 1
        else:
            conflicts.append({"text": draft.text[:120], "mined": draft.polarity, "is": polarity, "status": status})
    return known, conflicts


def _mined_conflicts(ground: Ground, found: Found, texts: dict[int, tuple[str, str, int, str]]) -> list[Json]:
    """Messages that were relevant in one place and irrelevant in another."""
    told = []
    for signal, other in found.conflicts:
        (a, _, t, text), (b, _, u, _) = (texts[int(ground.states.state_ids[p])] for p in (signal, other))
        told.append({"text": text[:120], "relevant": f"{a}/{t}", "irrelevant": f"{b}/{u}"})
    return told


def _clusters(ground: Ground, given: dict[str, tuple[int, Exemplar]], kept: dict[str, str]) -> list[list[str]]:
    """The candidates that are nearly the same as another, by public id, cluster by cluster."""
    digests = list(given)
    if not digests:
        return []
    numbers = near_duplicates(ground.turns.vectors[[given[digest][0] for digest in digests]])
    groups: dict[int, list[str]] = {}
    for digest, number in zip(digests, numbers, strict=True):
        groups.setdefault(int(number), []).append(kept[digest])
    return [group for group in groups.values() if len(group) > 1]


def _material(artifact: Artifact) -> dict[str, int]:
    """Exemplars from real chats by side, in use or waiting: what the minimum material is counted on."""
    rows = Exemplar.objects.filter(
        artifact=artifact, source=Source.MINED, status__in=[ExemplarStatus.CANDIDATE, ExemplarStatus.PROMOTED]
    )
    counts = dict(rows.values_list("polarity").annotate(n=Count("id")).values_list("polarity", "n"))
    return {side.value: counts.get(side.value, 0) for side in Polarity}
