"""The judged log as arrays: read once per process, mined for one artifact after the other."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
    RunItem,
    StateView,
)
from console.services import caches, fit, table
from console.services.actor import for_run
from console.services.fit import Basis
from console.services.inventories import current_point
from console.services.judge_scope import Scope
from console.services.mine_scope import judge_of, scope_of
from sq_core.conversation import RENDERER_VERSION
from sq_core.mining_arrays import JudgedTurns

_logs = caches.Cache(2)
SCORES_BYTES = 64 * 2**20  # scores of one pass held at a time
KEPT_S = 600.0  # a run reads an artifact's labels once, though others judge meanwhile; retried later, again


@dataclass(frozen=True, eq=False)
class Log:
    """The user turns of an inventory for `sq_core.mining_arrays`, and the vector keys of their texts (sorted, distinct);
    ``scores``: what runs have read of it last (`Scores`)."""

    turns: JudgedTurns
    keys: NDArray[np.bytes_]
    scores: caches.Cache = field(default_factory=lambda: caches.Cache(2))

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


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores (S,) by artifact id, as one run read them: at that label revision, ``at`` by `time.monotonic`."""

    of: dict[int, NDArray[np.int8]]
    revision: int
    at: float


def scores_of(run: Run, log: Log, states: table.StateTable, artifact: int, judge: Judge, revision: int) -> Scores:
    """Scores of one judge version for the current texts of this artifact and others of the run: of each its newest prompt's.

    Judgements lie turn by turn, so those of one artifact are spread over all of them: many artifacts are read in one pass
    and kept while the run works on them. ``revision`` is the inventory's label revision.
    """
    group = _group_of(run, artifact, len(states))

    def read(held: Scores | None) -> Scores:
        if held is not None and (held.revision == revision or time.monotonic() - held.at < KEPT_S):
            return held
        return Scores(read_scores(states, group, judge), revision, time.monotonic())

    return log.scores.renew((run.pk, judge.pk, group), read)


def _group_of(run: Run, artifact: int, states: int) -> tuple[int, ...]:
    """The artifacts that are read together with this one: neighbours in the run's plan, as many as `SCORES_BYTES` holds."""
    size = max(1, SCORES_BYTES // max(1, states))
    rows = RunItem.objects.filter(run=run)
    position = rows.values_list("position", flat=True).get(key=Artifact.objects.only("key").get(pk=artifact).key)
    first = position - position % size
    payloads = rows.filter(position__gte=first, position__lt=first + size).values_list("payload", flat=True)
    return tuple(sorted({payload["artifact"] for payload in payloads}))


def read_scores(states: table.StateTable, artifacts: Sequence[int], judge: Judge) -> dict[int, NDArray[np.int8]]:
    """Scores (S,) for each of the artifacts in one pass over the judge's judgements; what was said last counts."""
    texts = dict(ArtifactText.objects.as_now().filter(artifact__in=artifacts).values_list("pk", "artifact_id"))
    held: dict[int, dict[str, bytearray]] = {artifact: {} for artifact in artifacts}
    newest: dict[int, str] = {}
    place = states.positions.get
    rows = Judgement.objects.filter(artifact_text__in=list(texts), judge=judge).order_by("pk")
    for text, state, prompt, score in rows.values_list(
        "artifact_text_id", "state_id", "prompt_version", "score"
    ).iterator(chunk_size=5_000):
        artifact = texts[text]
        newest[artifact] = prompt
        mine = held[artifact].get(prompt)
        if mine is None:
            mine = held[artifact][prompt] = bytearray(len(states))
        position = place(state)
        if position is not None:
            mine[position] = score
    none = bytearray(len(states))
    return {
        artifact: np.frombuffer(by_prompt.get(newest.get(artifact, ""), none), dtype=np.int8)
        for artifact, by_prompt in held.items()
    }


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
        revision = self.inventory.label_revision
        scores = scores_of(self.run, self.log, self.states, artifact.pk, self.judge, revision).of[artifact.pk]
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
