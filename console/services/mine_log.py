"""The judged log as arrays: read once per process, mined for one artifact after the other."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from console.models import (
    Artifact,
    ArtifactText,
    Conversation,
    Discovery,
    Inventory,
    Judge,
    Judgement,
    Origin,
    Run,
    StateView,
)
from console.services import fit, table
from console.services.actor import for_run
from console.services.fit import Basis
from console.services.inventories import current_point
from console.services.judge_scope import Scope
from console.services.mine_scope import judge_of, scope_of
from sq_core.conversation import RENDERER_VERSION
from sq_core.mining_arrays import JudgedTurns

_logs = table.Cache(2)


@dataclass(frozen=True, eq=False)
class Log:
    """The user turns of an inventory for `sq_core.mining_arrays`, and the vector keys of their texts (sorted, distinct)."""

    turns: JudgedTurns
    keys: NDArray[np.bytes_]

    def codes_of(self, keys: Sequence[str]) -> NDArray[np.intp]:
        """Text codes of those keys that occur in the log."""
        wanted = np.array([key.encode() for key in keys], dtype=self.keys.dtype)
        places = np.searchsorted(self.keys, wanted)
        inside = places < len(self.keys)
        found: NDArray[np.intp] = places[inside][self.keys[places[inside]] == wanted[inside]]
        return found


def log_of(inventory: Inventory, states: table.StateTable) -> Log:
    """One pass over the log, kept per process as long as nothing was added to it."""
    return _logs.get(states.key, lambda: _read_log(inventory, states))


def _read_log(inventory: Inventory, states: table.StateTable) -> Log:
    keys = np.zeros(len(states), dtype="S64")
    rows = StateView.objects.filter(
        state__conversation__inventory=inventory,
        encoder_id=inventory.encoder_id,
        renderer_version=RENDERER_VERSION,
    ).values_list("state_id", "turn_key")
    for state, key in rows.iterator(chunk_size=5_000):
        position = states.positions.get(state)
        if position is not None:
            keys[position] = key.encode()
    distinct, text = np.unique(keys, return_inverse=True)
    return Log(JudgedTurns.of(states.conversation_ids, states.user_turns, text, states.views.turns), distinct)


def missing_turns(inventory: Inventory, conversations: NDArray[np.int64], turns: JudgedTurns) -> NDArray[np.int64]:
    """(C,) user turns that a conversation has and the table not: they are not embedded yet."""
    rows = Conversation.objects.filter(inventory=inventory).order_by("pk").values_list("pk", "user_turn_count")
    sizes = np.fromiter(rows.iterator(chunk_size=5_000), dtype=[("pk", "i8"), ("turns", "i8")])
    here = np.diff(np.append(turns.starts, len(turns)))
    missing: NDArray[np.int64] = np.maximum(sizes["turns"][np.searchsorted(sizes["pk"], conversations)] - here, 0)
    return missing


def scores_of(states: table.StateTable, artifact: int, judge: Judge) -> NDArray[np.int8]:
    """Scores (S,) of one judge version for the artifact's current text: its newest prompt's; 0 = not judged."""
    scores = np.zeros(len(states), dtype=np.int8)
    rows = Judgement.objects.filter(
        artifact_text__in=ArtifactText.objects.as_now().filter(artifact=artifact), judge=judge
    )
    newest = rows.order_by("-id").values_list("prompt_version", flat=True).first()
    if newest is None:
        return scores
    read = rows.filter(prompt_version=newest).order_by("id").values_list("state_id", "score")
    for state, score in read.iterator(chunk_size=5_000):
        position = states.positions.get(state)
        if position is not None:
            scores[position] = score
    return scores


def open_conversations(run: Run) -> NDArray[np.int64]:
    """Conversations that an agent asked about shortly before the run: a later turn may still come."""
    since = run.created_at - timedelta(hours=run.params["quiet_hours"])
    rows = Discovery.objects.filter(
        inventory=run.inventory, origin=Origin.LIVE, at__gt=since, at__lte=run.created_at, state__isnull=False
    )
    return np.fromiter(rows.values_list("state__conversation_id", flat=True).distinct(), dtype=np.int64)


# ---------------------------------------------------------------------------------------------------- what a run mines on
@dataclass(frozen=True, eq=False)
class Ground:
    """What one run mines on: the log, what scenarios and conversations count, and the inventory's state."""

    run: Run
    inventory: Inventory
    judge: Judge
    states: table.StateTable
    log: Log
    turns: JudgedTurns
    scope: Scope
    inside: NDArray[np.bool_] | None  # (C,) whether the scope's filters take the conversation; None = all

    def basis(self, artifact: Artifact) -> Basis:
        return fit.basis(artifact, inventory=self.inventory, whole=True)

    def scores(self, artifact: Artifact) -> NDArray[np.int8]:
        """(S,) the judge's scores for the artifact; 0 where it has not judged, or where the scope does not reach."""
        scores = scores_of(self.states, artifact.pk, self.judge)
        inside = self.inside
        if self.scope.sample or self.scope.but_not:
            target = next(t for t in self.scope.targets if t.artifact == artifact.pk)
            names = dict(Conversation.objects.filter(inventory=self.inventory).values_list("pk", "external_id"))
            first = self.states.conversation_ids[self.turns.starts]
            drawn = np.fromiter(
                (self.scope.takes(names[int(pk)], target) for pk in first), dtype=bool, count=len(first)
            )
            inside = drawn if inside is None else inside & drawn
        return scores if inside is None else np.where(inside[self.turns.group], scores, 0).astype(np.int8)


def ground_of(run: Run) -> Ground:
    """Raises ServiceError where the encoder is needed (for the first centre) and away."""
    inventory = fit.fresh_inventory(run.inventory_id)
    if current_point(inventory).centre is None:  # mining is the first step of the first fit here
        fit.ensure_centre(inventory, by=for_run(run))
        inventory = fit.fresh_inventory(run.inventory_id)
    centre = current_point(inventory).centre
    assert centre is not None  # noqa: S101
    states = table.state_table(inventory, centre, fresh=True)
    log = log_of(inventory, states)
    still_open = open_conversations(run)
    first = states.conversation_ids[log.turns.starts]
    scope = scope_of(inventory, run.scope)
    filtered = bool(set(run.scope) & {"conversations", "channel", "since", "until"})
    return Ground(
        run=run,
        inventory=inventory,
        judge=judge_of(inventory, run.params["judge"]),
        states=states,
        log=log,
        turns=replace(
            log.turns, finished=~np.isin(first, still_open), missing=missing_turns(inventory, first, log.turns)
        ),
        scope=scope,
        inside=np.isin(
            first, np.fromiter(scope.conversations().values_list("pk", flat=True).iterator(), dtype=np.int64)
        )
        if filtered
        else None,
    )
