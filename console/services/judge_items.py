"""The plan of a judge run: its items in the order that a provider's prefix cache likes, and what was left out."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from console.services.judge_scope import (
    Scope,
    Target,
    Version,
    chosen_columns,
    judged_pairs,
    revisions,
    states_of,
)
from console.services.run_kind import ItemDraft

Json = dict[str, Any]
Pair = tuple[int, int]  # state, artifact


@dataclass
class Tally:
    """What a plan met and left out."""

    pairs: int = 0
    judged: int = 0
    repeats: int = 0
    conversations: int = 0
    notes: list[str] = field(default_factory=list)


def drafts(scope: Scope, params: Json, tally: Tally) -> Iterator[ItemDraft]:
    """The items conversation by conversation, turn by turn, artifact by artifact: the order that caches best."""
    version = Version(params["judge"], params["prompt_version"])
    artifacts = revisions(scope.inventory)
    chosen = chosen_columns(scope, version) if scope.by_margin else None
    for page in scope.pages():
        ids = [pk for pk, _ in page]
        judged = judged_pairs(scope, version, ids, artifacts)
        repeated = judged_pairs(scope, version, ids, artifacts, repeat=1) if params["repeat_sample"] else set()
        states = states_of(ids)
        for conversation, name in page:
            targets = [
                target
                for target in scope.targets
                if (scope.takes(name, target) if chosen is None else conversation in chosen.get(target.artifact, ()))
            ]
            tally.conversations += bool(targets)
            for state, turn in states[conversation] if targets else ():
                yield from _of_state(state, f"{_short(name)}/{turn}", targets, params, judged, repeated, tally)


def _of_state(
    state: int,
    place: str,
    targets: Sequence[Target],
    params: Json,
    judged: set[Pair],
    repeated: set[Pair],
    tally: Tally,
) -> Iterator[ItemDraft]:
    fresh = [target for target in targets if (state, target.artifact) not in judged]
    tally.pairs += len(fresh)
    tally.judged += len(targets) - len(fresh)
    yield from _grouped(state, place, fresh, params["per_call"], repeat=0)
    if params["repeat_sample"]:
        again = [
            target
            for target in targets
            if (state, target.artifact) not in repeated and _drawn(params, place, target.key)
        ]
        tally.repeats += len(again)
        yield from _grouped(state, place, again, params["per_call"], repeat=1)


def _grouped(state: int, place: str, targets: Sequence[Target], size: int, *, repeat: int) -> Iterator[ItemDraft]:
    for start in range(0, len(targets), size):
        group = targets[start : start + size]
        key = f"{place} {group[0].key}" + (f" +{len(group) - 1}" if len(group) > 1 else "")
        payload: Json = {"state": state, "texts": [target.revision for target in group]}
        yield ItemDraft(key, payload | ({"repeat": repeat} if repeat else {}), repeat)


def _short(name: str) -> str:
    """A conversation's id, short enough for an item's key and still its own."""
    return name if len(name) <= 110 else f"{name[:96]}~{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def _drawn(params: Json, place: str, artifact: str) -> bool:
    """Whether this pair belongs to the share that is judged twice."""
    name = f"repeat\0{params['seed']}\0{place}\0{artifact}"
    rank = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")
    return rank < float(params["repeat_sample"]) * 2**64
