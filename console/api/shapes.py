"""Rows and results as JSON, where more than one family answers with them."""

from typing import Any

from django.db.models import prefetch_related_objects

from console.models import AuditEvent, Change, Inventory, QueryState
from console.services import answered
from console.services.curate import Applied
from console.services.fit import active_version
from console.services.impact import Flip, read_texts
from console.services.reverting import Reverted
from console.services.runtime import ReleaseName


def release_of(name: str) -> ReleaseName:
    """``live``, ``draft`` or a number, as written in an address."""
    return "live" if name == "live" else "draft" if name == "draft" else int(name)


def turn_json(state: QueryState | None) -> dict[str, Any] | None:
    """``state`` with its conversation selected."""
    if state is None:
        return None
    return {"conversation": state.conversation.external_id, "user_turn": state.user_turn}


def changed_json(started: list[Flip], stopped: list[Flip], *, counts: tuple[int, int]) -> dict[str, Any]:
    """The turns whose outcome changes; the lists show the first ones, the counts are exact."""
    return {
        "started": [{"conversation": flip.conversation, "user_turn": flip.user_turn} for flip in started],
        "stopped": [{"conversation": flip.conversation, "user_turn": flip.user_turn} for flip in stopped],
        "counts": {"started": counts[0], "stopped": counts[1]},
    }


def applied_json(applied: Applied) -> dict[str, Any]:
    effect = applied.impact
    read_texts(effect)
    return {
        "version": applied.version.number if applied.version else None,
        "made_version": applied.made_version,
        "changed": changed_json(effect.started, effect.stopped, counts=(effect.started_count, effect.stopped_count)),
        "fit_ms": round(applied.fit_ms, 3),
        "change": applied.change.public_id,
        "release": applied.change.release.number,
    }


def applied_again(inventory: Inventory, written: AuditEvent) -> dict[str, Any]:
    """The answer to a decision whose first one was lost."""
    return applied_json(answered.applied(answered.change_of(inventory, written)))


def reverted_json(done: Reverted) -> dict[str, Any]:
    if done.applied is not None:
        return applied_json(done.applied)
    change = done.change
    active = active_version(change.artifact) if change.artifact else None
    return {
        "version": active.number if active else None,
        "made_version": False,
        "changed": None,
        "fit_ms": 0.0,
        "change": change.public_id,
        "release": change.release.number,
    }


def change_rows(rows: list[Change]) -> list[dict[str, Any]]:
    prefetch_related_objects(rows, "release", "artifact", "reverts", "reverted_by")
    return [
        {
            "id": row.public_id,
            "release": row.release.number,
            "artifact": row.artifact.key if row.artifact else None,
            "action": row.action,
            "object_type": row.object_type,
            "object_id": row.object_id,
            "before": row.before,
            "after": row.after,
            "actor": row.actor,
            "reason": row.reason,
            "at": row.at,
            "reverts": row.reverts.public_id if row.reverts else None,
            "reverted_by": reverting.public_id if (reverting := getattr(row, "reverted_by", None)) else None,
        }
        for row in rows
    ]
