"""Evaluations as pages read them: the list of measurements, one of them, and its errors turn by turn. Nothing is worked out
again; `keep` is the one write, by the run that measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from console.models import Evaluation, Inventory, Run, RunKind
from console.services import evaluation_pairs as packed
from console.services.errors import Malformed, NotFound
from console.services.evaluation_overview import Overview
from console.services.impact import state_texts

LISTED, ERRORS = 20, 25
SIDES = ("missed", "extra")


def keep(run: Run, found: Overview) -> Evaluation:
    """Store what a run measured, inside its transaction; storing it again changes nothing."""
    kept, _ = Evaluation.objects.get_or_create(
        run=run,
        defaults={
            "inventory": run.inventory, "release": found.release, "summary": found.summary, "detail": found.detail,
            "pairs": found.pairs,
        },
    )  # fmt: skip
    return kept


@dataclass(frozen=True)
class Listed:
    """Runs of kind evaluate, newest first; ``evaluation`` is None for other tables, and while one is not done."""

    rows: list[tuple[Run, Evaluation | None]]
    next: int | None


def listed(inventory: Inventory, *, before: int | None = None) -> Listed:
    runs = Run.objects.filter(inventory=inventory, kind=RunKind.EVALUATE)
    if before is not None:
        runs = runs.filter(pk__lt=before)
    rows = list(
        runs.select_related("evaluation")
        .defer("result", "evaluation__detail", "evaluation__pairs")
        .order_by("-pk")[: LISTED + 1]
    )
    page = rows[:LISTED]
    return Listed(
        [(run, getattr(run, "evaluation", None)) for run in page], page[-1].pk if len(rows) > LISTED else None
    )


def measured(inventory: Inventory, *, most: int = 50) -> list[Evaluation]:
    """The newest finished ones, to choose from."""
    rows = Evaluation.objects.filter(inventory=inventory).select_related("run")
    return list(rows.defer("detail", "pairs", "run__result").order_by("-pk")[:most])


def get_evaluation(inventory: Inventory, run: str) -> Evaluation:
    """By its run's public id. Raises NotFound."""
    rows = Evaluation.objects.filter(inventory=inventory, run__public_id=run).select_related("run")
    found = rows.defer("pairs", "run__result").first()
    if found is None:
        raise NotFound("There is no such evaluation.", field="run", hint="Open the list of evaluations.")
    return found


# ----------------------------------------------------------------------------------------------------------------- errors
@dataclass(frozen=True)
class Turn:
    """One judged turn of a list: where it is, and how it stands for one policy."""

    state_id: int
    conversation: str
    conversation_public_id: str
    user_turn: int
    text: str
    policy: str
    score: int
    x: float  # margin − cut-off


@dataclass(frozen=True)
class Errors:
    side: str
    rows: list[Turn]
    total: int
    first: int  # the rank of the first row here, from 0
    next: int | None


def errors(evaluation: Evaluation, *, reading: str, after: Mapping[str, str], policy: str = "") -> list[Errors]:
    """Misses, then extras. The surest first: of misses the highest score, of extras the lowest, then the farthest from the
    cut-off.

    ``after`` holds a rank per side: the order of a stored evaluation never changes. Raises Malformed for an unreadable one.
    """
    pairs = packed.pairs_of(evaluation)
    needed, fired = pairs.has(packed.NEEDED[reading]), pairs.has(packed.FIRED)
    counted = pairs.counted
    if policy:
        counted = counted & (pairs.policy == (pairs.keys.index(policy) if policy in pairs.keys else -1))
    pages, places = [], []
    for side, mask, sign in (("missed", needed & ~fired, -1), ("extra", ~needed & fired, 1)):
        rows = np.flatnonzero(mask & counted)
        keys = (pairs.policy[rows], pairs.state[rows], -sign * pairs.x[rows], sign * pairs.score[rows].astype(int))
        order = rows[np.lexsort(keys)]
        start = rank_of(after.get(side, ""))
        pages.append(order[start : start + ERRORS])
        places.append((side, len(order), start, start + ERRORS if start + ERRORS < len(order) else None))
    found = turns(pairs, np.concatenate(pages))
    by_row = {(turn.state_id, turn.policy): turn for turn in found}
    at = [[by_row.get((int(pairs.state[r]), pairs.keys[pairs.policy[r]])) for r in page] for page in pages]
    return [
        Errors(side, [turn for turn in rows if turn is not None], total, start, following)
        for (side, total, start, following), rows in zip(places, at, strict=True)
    ]


def rank_of(after: str) -> int:
    if not after:
        return 0
    if not (after.isdecimal() and after.isascii() and len(after) < 10):
        raise Malformed("This page of the list cannot be found.", field="after", hint="Start from the first page.")
    return int(after)


def turns(pairs: packed.Pairs, rows: NDArray[np.intp]) -> list[Turn]:
    """These rows with their texts; a turn that was erased since is left out."""
    texts = state_texts([int(pairs.state[row]) for row in rows])
    found = []
    for row in rows:
        pk = int(pairs.state[row])
        if pk in texts:
            external, public, user_turn, text = texts[pk]
            key = pairs.keys[pairs.policy[row]]
            found.append(Turn(pk, external, public, user_turn, text, key, int(pairs.score[row]), float(pairs.x[row])))
    return found
