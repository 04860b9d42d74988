"""What people have decided of (turn, policy), laid over what the AI reviewer says: figures count the decision where there is
one. Witnesses stay apart in storage: a decision is a row of its own, and nobody's score is touched by it."""

import copy
from typing import TYPE_CHECKING

import numpy as np
from django.db.models import Exists, F, OuterRef, Q

from console.models import ArtifactText, Inventory, ReviewDecision

if TYPE_CHECKING:
    from console.services.table import Labels, StateTable

NEEDED, NOT_NEEDED = 5, 1


def rows(inventory: Inventory) -> dict[tuple[int, int], bool]:
    """(artifact, state) → needed, by the newest decision made while the artifact's text read as it does now: one query."""
    asked_then = ArtifactText.objects.as_now().filter(
        Q(to_release__isnull=True) | Q(to_release__gte=OuterRef("item__queue__release")),
        artifact=OuterRef("item__artifact"),
        from_release__lte=OuterRef("item__queue__release"),
    )
    found = ReviewDecision.objects.filter(Exists(asked_then), item__queue__inventory=inventory).order_by("pk")
    named = found.annotate(artifact=F("item__artifact"), state=F("item__state"))
    return {(a, s): needed for a, s, needed in named.values_list("artifact", "state", "needed")}


def over(
    decisions: dict[tuple[int, int], bool], states: "StateTable", labels: "dict[int, Labels]"
) -> "dict[int, Labels]":
    """The labels with these decisions in them, and no others; the same object where there is none."""
    found, own = labels, set[int]()
    for (artifact, state), needed in decisions.items():
        position = states.positions.get(state)
        if position is None or artifact not in labels:
            continue
        if artifact not in own:
            found = copy.copy(labels) if found is labels else found
            found[artifact] = labels[artifact].with_decided(np.zeros(len(states), dtype=np.int8))
            own.add(artifact)
        decided = found[artifact].decided
        assert decided is not None  # noqa: S101
        decided[position] = NEEDED if needed else NOT_NEEDED
    return found
