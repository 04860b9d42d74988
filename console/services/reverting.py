"""Take one change back, whatever it changed: the inverse of that one act on the present state, in a release of its own.

What came after it stays; where that decided on the same thing again, it is refused and the later decision stands. The change
that takes back points at the one taken back, which can be taken back once; taking the taking back back does it again.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from console.models import Change, Role
from console.services.actor import SYSTEM, Actor
from console.services.curate import Applied, refusing_collisions
from console.services.errors import Conflict, Invalid
from console.services.ways_back import EXEMPLARS, REFIT, Preview, way_back

PUBLISHERS = {"rollback", "rollback_all", "refit"}  # going back to an earlier version or release takes a publisher


@dataclass(frozen=True)
class Reverted:
    """``change`` is the new one; ``applied`` its version and effect, where it is about a policy's examples or version."""

    change: Change
    applied: Applied | None = None


# ------------------------------------------------------------------------------------------------------------ what it takes
def why_not(change: Change) -> Invalid | None:
    """Why a change of this kind can never be taken back, with the mend; None where it can. Asks the database nothing."""
    try:
        way_back(change)
    except Invalid as error:
        return error
    return None


def has_impact(change: Change) -> bool:
    """Whether its preview is the effect on one policy's turns."""
    return why_not(change) is None and way_back(change) in (EXEMPLARS, REFIT)


def roots(changes: Iterable[Change]) -> dict[int, tuple[Change, int]]:
    """Per change (by row id) the act at the end of its chain, and how often that was taken back and done again: 0 for the
    act itself, 1 for its undo, 2 for the redo. One query for each link that any of them has.
    """
    result = {change.pk: (change, 0) for change in changes}
    while following := {act.reverts_id for act, _ in result.values() if act.reverts_id}:
        found = Change.objects.in_bulk(following)
        for pk, (act, times) in result.items():
            if act.reverts_id:
                result[pk] = (found[act.reverts_id], times + 1)
    return result


def needed_role(change: Change) -> Role:
    """The role that the act itself takes."""
    return role_of_act(roots([change])[change.pk][0])


def role_of_act(act: Change) -> Role:
    own = act.object_type in {"operating_point", "inventory", "release"} or act.action in PUBLISHERS
    return Role.PUBLISHER if own else Role.AUTHOR


# ------------------------------------------------------------------------------------------------------- preview and revert
def preview(change: Change, *, by: Actor = SYSTEM) -> Preview:
    """Writes nothing. Raises as `revert` does, but for what only the writing finds."""
    way = way_back(change)
    _refuse_twice(change)
    return way.preview(change, by)


def revert(change: Change, *, by: Actor, reason: str = "", base_version: int | None = None) -> Reverted:
    """Write the inverse, with one change that points at this one, an audit row and a release, or nothing.

    ``base_version`` is the version that was looked at, where examples change; None = whatever is active now. Raises Conflict
    when it was taken back already or decided on again since, Invalid when it cannot be taken back, or leads where the same
    act by hand would be refused.
    """
    way = way_back(change)
    _refuse_twice(change)
    with refusing_collisions():
        applied = way.revert(change, by, reason.strip() or f"Undo of {change.action}", base_version)
    change.inventory.refresh_from_db()
    made = applied.change if applied else Change.objects.select_related("release", "artifact").get(reverts=change)
    return Reverted(made, applied)


def _refuse_twice(change: Change) -> None:
    if Change.objects.filter(reverts=change).exists():
        raise Conflict("This change was taken back already.", hint="Look at the history.")
