"""Decisions on candidates: steps per policy, the best of each, what a whole filter holds; nothing here writes.

Decisions on many are one set of steps per policy: previewed together, written as one version per policy (`curate`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from console.models import Artifact, ArtifactText, Exemplar, Inventory, Polarity
from console.services import curate, filters
from console.services.actor import Actor
from console.services.candidates import Filters, waiting, with_origin
from console.services.candidates_rank import ground_of, ranked
from console.services.errors import Conflict, Invalid
from console.services.impact import Impact
from console.services.plan import Step

POLICIES = 50  # that one decision on the best of each reaches
MOST_AT_ONCE = 500  # candidates under one decision on all that match
DECISIONS = (Polarity.SIGNAL.value, Polarity.ANTI_SIGNAL.value, "reject")


@dataclass
class Decided:
    """The steps for one policy; ``rows`` are (exemplar, decision) as they will be told."""

    artifact: Artifact
    name: str
    steps: list[Step] = field(default_factory=list)
    rows: list[tuple[Exemplar, str]] = field(default_factory=list)

    @property
    def used(self) -> int:
        return sum(decision != "reject" for _, decision in self.rows)

    def take(self, rows: list[tuple[Exemplar, str]]) -> None:
        """These decisions, in this order, in place of those it has."""
        self.rows, self.steps = [], []
        for exemplar, decision in rows:
            self.add(exemplar, decision)

    def add(self, exemplar: Exemplar, decision: str) -> None:
        self.rows.append((exemplar, decision))
        if decision == "reject":
            self.steps.append(Step("reject", exemplar=exemplar.public_id))
        else:
            self.steps.append(Step("promote", exemplar=exemplar.public_id, polarity=decision))


def decided(inventory: Inventory, decisions: Mapping[str, str]) -> tuple[list[Decided], list[str]]:
    """Decisions by candidate (public id: signal, anti_signal or reject) as steps per policy, in the inventory's order;
    and the ids of those that somebody has decided on meanwhile.
    """
    rows = {
        e.public_id: e
        for e in waiting(inventory, Filters())
        .filter(public_id__in=list(decisions))
        .select_related("artifact__inventory", "origin__conversation")
    }
    names = dict(
        ArtifactText.objects.current()
        .filter(artifact__in={e.artifact_id for e in rows.values()})
        .values_list("artifact_id", "name")
    )
    found: dict[int, Decided] = {}
    for public_id, decision in decisions.items():
        exemplar = rows.get(public_id)
        if exemplar is None or decision not in DECISIONS:
            continue
        mine = found.setdefault(
            exemplar.artifact_id, Decided(exemplar.artifact, names.get(exemplar.artifact_id, exemplar.artifact.key))
        )
        mine.add(exemplar, decision)
    order = sorted(found.values(), key=lambda d: (d.artifact.position, d.artifact.pk))
    return order, [public_id for public_id in decisions if public_id not in rows]


def best(inventory: Inventory, filters: Filters, k: int, *, most: int = POLICIES) -> tuple[dict[str, str], int]:
    """The ``k`` best of every policy under the filters, each on its proposed side, of those that are `offered`: one of each
    cluster. At most ``most`` policies; the second number is how many were left out for that.
    """
    rows = waiting(inventory, filters)
    artifacts = list(
        rows.order_by("artifact__position", "artifact_id").values_list("artifact_id", flat=True).distinct()
    )
    chosen = artifacts[:most]
    found = ranked(ground_of(inventory, chosen), list(with_origin(rows.filter(artifact__in=chosen))))
    taken: dict[str, str] = {}
    for artifact in chosen:
        leading = [c for c in found.get(artifact, []) if c.offered]
        taken.update({c.exemplar.public_id: str(c.exemplar.polarity) for c in leading[:k]})
    return taken, len(artifacts) - len(chosen)


def rest(inventory: Inventory, asked: Filters, taken: Mapping[str, str]) -> list[str]:
    """Public ids of what waits under the filters and is not among ``taken``."""
    ids = waiting(inventory, asked).order_by("pk").values_list("public_id", flat=True)
    return [public_id for public_id in ids if public_id not in taken]


def in_order(inventory: Inventory, found: list[Decided]) -> None:
    """Each policy's decisions in the order of the list, what is turned down last."""
    ground = ground_of(inventory, [one.artifact.pk for one in found])
    rows = with_origin(waiting(inventory, Filters()).filter(artifact__in=[one.artifact for one in found]))
    listed = ranked(ground, list(rows))
    for one in found:
        key = {c.exemplar.pk: c.key for c in listed.get(one.artifact.pk, [])}
        one.take(sorted(one.rows, key=lambda row: (row[1] == "reject", key.get(row[0].pk, ()))))


def within_target(one: Decided, *, by: Actor, target: float) -> tuple[Impact, int]:
    """Their effect together, after as many are held back (the last don't-show examples first) as it takes for recall to
    stay where it is or on the target and for every pin to hold; and how many were held back. Raises as `curate.preview`.
    """
    held = 0
    while True:
        impact = curate.preview(one.artifact, one.steps, by=by)
        used = [row for row in one.rows if row[1] != "reject"]
        if not impact.needs_reason(target) or len(used) < 2:
            return impact, held
        drop = max(1, len(used) // 4)
        used.reverse()
        last = sorted(used, key=lambda row: row[1] != Polarity.ANTI_SIGNAL)[:drop]
        gone = {exemplar.pk for exemplar, _decision in last}
        one.take([row for row in one.rows if row[0].pk not in gone])
        held += drop


# ------------------------------------------------------------------------------------------------------- all that matches
def of_all(inventory: Inventory, asked: Filters, decision: str, expected: filters.Extent) -> dict[str, str]:
    """One decision ("suggested": each on its proposed side) on everything under the filters, as it was shown.

    Raises Conflict where others have been added or decided on since, Invalid for more than one decision takes.
    """
    rows = list(waiting(inventory, asked).values_list("pk", "public_id", "polarity"))
    now = filters.extent(pk for pk, _public, _side in rows)
    if now != expected:
        raise moved(now, expected)
    if len(rows) > MOST_AT_ONCE:
        raise Invalid(
            f"{len(rows):,} are more than the {MOST_AT_ONCE} that are decided at once.", hint="Choose a policy."
        )
    if decision not in {"suggested", "reject"}:
        raise Invalid(f"There is no decision {decision[:40]!r} on all of them.", field="all")
    return {public: str(side) if decision == "suggested" else decision for _pk, public, side in rows}


def moved(now: filters.Extent, expected: filters.Extent) -> Conflict:
    hint = "Nothing was decided. Look at the list as it is now."
    if now.count == expected.count:
        return Conflict(f"Others are among these {now.count:,} now.", hint=hint)
    return Conflict(f"There are {now.count:,} now, not {expected.count:,}.", hint=hint)
