"""Read one policy's examples for its workbench: what each pulls, what the others say of it, how alike they are."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from django.db.models import QuerySet
from numpy.typing import NDArray

from console.models import Artifact, Change, Exemplar, ExemplarStatus, FitSet, Polarity, Source
from console.services import caches, embed, fit, table
from console.services.filters import Extent, extent
from console.services.workbench import Ground
from sq_core import embedding
from sq_core.attribution import leave_one_out, leave_one_out_estimate
from sq_core.embedding import vector_key

NEAR, SAME = 0.60, 0.95  # the paper's and the product's bounds of "much alike" and "nearly the same"
EXACT = 60  # examples up to which each is left out of a fit of its own: beyond, one factorisation estimates them all
PAGE = 100  # rows of each list at once
_AT_ONCE = 512
_PLACE = re.compile(r"([01])_(-?(?:inf|[0-9]{1,9}(?:\.[0-9]{1,20})?(?:e-?[0-9]{1,3})?))_(-?[0-9]{1,18})")
_left_out = caches.Cache(500)


@dataclass(frozen=True)
class ExampleRow:
    """One exemplar. Numbers are None where it is not in the active version, or has no vector yet."""

    exemplar: Exemplar
    alpha: float | None
    left_out: float | None  # its margin under the classifier fitted without it; beyond EXACT examples an estimate
    nearest: float | None  # cosine to the most similar other example in use
    nearest_text: str
    nearest_side: str
    pinned: bool
    in_fit: bool
    origin: tuple[str, str, int] | None  # conversation, its public id, user turn
    decided_by: str
    decided_at: datetime | None
    doubtful: bool  # the others put it on the other side of the cut-off, more surely than three quarters of its side

    @property
    def same(self) -> bool:
        return self.nearest is not None and self.nearest >= SAME

    @property
    def place(self) -> tuple[int, float, int]:
        """Where it stands in its list: the doubtful first, then by what the others say of it, then the newest."""
        if self.exemplar.status != ExemplarStatus.PROMOTED or not self.in_fit:
            return 1, 0.0, -self.exemplar.pk
        sign = 1.0 if self.exemplar.polarity == Polarity.SIGNAL else -1.0
        return int(not self.doubtful), sign * self.left_out if self.left_out is not None else -np.inf, -self.exemplar.pk


@dataclass(frozen=True)
class Diversity:
    """Of all pairs on one side, the share that is much alike or nearly the same; None under two examples."""

    pairs: int
    near: float | None
    same: float | None


@dataclass(frozen=True)
class Part:
    """``PAGE`` rows of a list that has ``total``; ``next`` leads on, empty at the end."""

    rows: Sequence[ExampleRow]
    total: int
    next: str


def part(rows: Sequence[ExampleRow], after: str = "") -> Part:
    """The rows behind the place that ``after`` names, whether or not one still stands there; all from the start without."""
    found = _PLACE.fullmatch(after)
    place = (int(found[1]), float(found[2]), int(found[3])) if found else None
    left = [row for row in rows if place is None or row.place > place]
    last = left[PAGE - 1].place if len(left) > PAGE else None
    return Part(left[:PAGE], len(rows), f"{last[0]}_{last[1]!r}_{last[2]}" if last else "")


@dataclass
class Examples:
    signals: list[ExampleRow] = field(default_factory=list)
    anti_signals: list[ExampleRow] = field(default_factory=list)
    candidates: list[ExampleRow] = field(default_factory=list)
    out: list[ExampleRow] = field(default_factory=list)  # rejected and retired
    resting: list[ExampleRow] = field(default_factory=list)  # promoted, but of a source that is not fitted now
    diversity: dict[str, Diversity] = field(default_factory=dict)
    alpha_span: float = 1.0
    estimated: bool = False  # the margins left out


def examples(ground: Ground) -> Examples:
    """Every exemplar of the policy, the doubtful ones of each side first; of a past release those that its version learnt
    from. Calls no encoder.
    """
    rows = list(
        Exemplar.objects.filter(artifact=ground.artifact)
        .select_related("origin__conversation", "decided_by")
        .order_by("-id")
    )
    if ground.past is not None:
        rows = ground.as_then(rows)
    vectors = _vectors(ground, rows)
    alphas = _alphas(ground)
    kept_out, estimated = left_out_margins(ground)
    pinned = {pin.exemplar_id for pin in ground.pins}
    used = [e for e in rows if e.status == ExemplarStatus.PROMOTED]
    doubted = _doubtful(used, kept_out, ground.cutoff)
    near = _nearest(rows, used, vectors)
    result = Examples(estimated=estimated)
    for e in rows:
        left, cosine = kept_out.get(e.public_id), near.get(e.pk)
        in_fit = ground.past is not None or fit.in_fit(e, ground.setting.fit_set)
        row = ExampleRow(
            exemplar=e,
            alpha=alphas.get(e.public_id),
            left_out=left,
            nearest=cosine[0] if cosine else None,
            nearest_text=cosine[1].text if cosine else "",
            nearest_side=cosine[1].polarity if cosine else "",
            pinned=e.pk in pinned,
            in_fit=in_fit,
            origin=_origin(e),
            decided_by=e.decided_by.get_username() if e.decided_by else "",
            decided_at=e.decided_at,
            doubtful=e.public_id in doubted,
        )
        _list_for(result, row).append(row)
    for listed in (result.signals, result.anti_signals):
        listed.sort(key=lambda row: row.place)
    result.alpha_span = max((abs(a) for a in alphas.values()), default=1.0)
    for side in Polarity:
        mine = [
            vectors[e.pk]
            for e in used
            if e.polarity == side and e.pk in vectors and fit.in_fit(e, ground.setting.fit_set)
        ]
        result.diversity[side.value] = diversity(mine)
    return result


WHOLE: dict[str, dict[str, Any]] = {  # the lists that a bulk action may be for as a whole
    "candidates": {"status": ExemplarStatus.CANDIDATE},
    "signals": {"status": ExemplarStatus.PROMOTED, "polarity": Polarity.SIGNAL},
    "anti_signals": {"status": ExemplarStatus.PROMOTED, "polarity": Polarity.ANTI_SIGNAL},
    "out": {"status__in": [ExemplarStatus.REJECTED, ExemplarStatus.RETIRED]},
}


def whole(artifact: Artifact, name: str) -> QuerySet[Exemplar]:
    """All of one list, in no order."""
    return Exemplar.objects.filter(artifact=artifact, **WHOLE[name])


def extents(artifact: Artifact) -> dict[str, Extent]:
    """Of each list that has rows, how many and which. One query."""
    rows = list(Exemplar.objects.filter(artifact=artifact).values_list("pk", "status", "polarity"))
    out = WHOLE["out"]["status__in"]
    ids = {
        "candidates": [pk for pk, status, _ in rows if status == ExemplarStatus.CANDIDATE],
        "signals": [pk for pk, status, side in rows if status == ExemplarStatus.PROMOTED and side == Polarity.SIGNAL],
        "anti_signals": [
            pk for pk, status, side in rows if status == ExemplarStatus.PROMOTED and side == Polarity.ANTI_SIGNAL
        ],
        "out": [pk for pk, status, _ in rows if status in out],
    }
    return {name: extent(mine) for name, mine in ids.items() if mine}


def _list_for(result: Examples, row: ExampleRow) -> list[ExampleRow]:
    status, polarity = row.exemplar.status, row.exemplar.polarity
    if status == ExemplarStatus.CANDIDATE:
        return result.candidates
    if status != ExemplarStatus.PROMOTED:
        return result.out
    if not row.in_fit:
        return result.resting
    return result.signals if polarity == Polarity.SIGNAL else result.anti_signals


def _origin(e: Exemplar) -> tuple[str, str, int] | None:
    if e.origin is None:
        return None
    return e.origin.conversation.external_id, e.origin.conversation.public_id, e.origin.user_turn


def _doubtful(used: Sequence[Exemplar], left: dict[str, float], cutoff: float | None) -> set[str]:
    """Per side the quarter that the others contradict most, as far as they do."""
    if cutoff is None:
        return set()
    found: set[str] = set()
    for side, sign in ((Polarity.SIGNAL, 1), (Polarity.ANTI_SIGNAL, -1)):
        mine = [
            (sign * (left[e.public_id] - cutoff), e.public_id)
            for e in used
            if e.polarity == side and e.public_id in left
        ]
        wrong = sorted(row for row in mine if row[0] < 0)
        found |= {public_id for _, public_id in wrong[: max(1, len(mine) // 4)]}
    return found


# ------------------------------------------------------------------------------------------------------------- the numbers
def _vectors(ground: Ground, rows: Sequence[Exemplar]) -> dict[int, NDArray[np.float64]]:
    """Centred unit vectors by row id, of those that have one."""
    if ground.point.centre is None or not rows:
        return {}
    keys = {e.pk: vector_key(ground.point.encoder_id, e.text) for e in rows}
    stored = embed.stored(sorted(set(keys.values())))
    found = [e.pk for e in rows if keys[e.pk] in stored]
    if not found:
        return {}
    matrix = embedding.centre_and_normalise(
        np.stack([stored[keys[pk]] for pk in found]), table.core_centre(ground.point.centre)
    ).astype(np.float64)
    return dict(zip(found, matrix, strict=True))


def _alphas(ground: Ground) -> dict[str, float]:
    version = ground.version
    if version is None:
        return {}
    values = np.frombuffer(bytes(version.alphas), dtype="<f8")
    return {row["public_id"]: float(a) for row, a in zip(version.exemplars, values, strict=True)}


def left_out_margins(ground: Ground) -> tuple[dict[str, float], bool]:
    """Each fitted exemplar's margin under the classifier fitted without it, by public id, and whether these are estimates;
    kept per version.
    """
    version = ground.version
    if version is None:
        return {}, False
    return _left_out.get(
        (version.pk, version.weight_hash, tuple(r["public_id"] for r in version.exemplars)), lambda: _leave_out(ground)
    )


def _leave_out(ground: Ground) -> tuple[dict[str, float], bool]:
    version = ground.version
    assert version is not None  # noqa: S101
    by_id = Exemplar.objects.in_bulk([row["id"] for row in version.exemplars])
    if len(by_id) < len(version.exemplars):
        return {}, False
    keys = [vector_key(version.encoder_id, by_id[row["id"]].text) for row in version.exemplars]
    stored = embed.stored(sorted(set(keys)))
    if any(key not in stored for key in keys):
        return {}, False
    matrix = embedding.centre_and_normalise(np.stack([stored[k] for k in keys]), table.core_centre(version.centre))
    signal = np.array([row["polarity"] == Polarity.SIGNAL for row in version.exemplars])
    weight = fit.core_weight(version.class_weight)
    estimated = len(keys) > EXACT
    without = leave_one_out_estimate if estimated else leave_one_out
    margins = without(matrix[signal], matrix[~signal], version.inverse_penalty, weight)
    order = [*np.flatnonzero(signal), *np.flatnonzero(~signal)]
    found = zip(order, margins, strict=True)
    return {version.exemplars[row]["public_id"]: float(m) for row, m in found if np.isfinite(m)}, estimated


def _nearest(
    rows: Sequence[Exemplar], used: Sequence[Exemplar], vectors: dict[int, NDArray[np.float64]]
) -> dict[int, tuple[float, Exemplar]]:
    """Per row the most similar other example in use, either side."""
    pool = [e for e in used if e.pk in vectors]
    if not pool:
        return {}
    matrix = np.stack([vectors[e.pk] for e in pool])
    place = {e.pk: column for column, e in enumerate(pool)}
    result = {}
    asked = [e for e in rows if e.pk in vectors]
    for start in range(0, len(asked), _AT_ONCE):
        piece = asked[start : start + _AT_ONCE]
        cosines = np.stack([vectors[e.pk] for e in piece]) @ matrix.T
        for row, e in enumerate(piece):
            if e.pk in place:
                cosines[row, place[e.pk]] = -2.0
        for e, best, cosine in zip(piece, cosines.argmax(axis=1), cosines.max(axis=1), strict=True):
            if cosine >= -1.0 - 1e-9:
                result[e.pk] = (float(cosine), pool[int(best)])
    return result


def diversity(vectors: Sequence[NDArray[np.float64]]) -> Diversity:
    n = len(vectors)
    if n < 2:
        return Diversity(0, None, None)
    matrix = np.stack(vectors)
    cosines = (matrix @ matrix.T)[np.triu_indices(n, 1)]
    return Diversity(len(cosines), float((cosines >= NEAR).mean()), float((cosines >= SAME).mean()))


# ------------------------------------------------------------------------------------------------------ sources and switch
@dataclass(frozen=True)
class FitChoice:
    """One setting of the source switch with what would be fitted under it."""

    value: str
    current: bool
    signals: int
    anti_signals: int
    ready: bool  # enough material on both sides


def fit_choices(ground: Ground) -> list[FitChoice]:
    """All three settings, counted on the examples in use."""
    used = list(Exemplar.objects.promoted().filter(artifact=ground.artifact))
    minimum = ground.inventory.minimum_material
    mined = Counter(e.polarity for e in used if e.source == Source.MINED)
    enough = all(mined[side] >= minimum for side in Polarity)
    result = []
    for value in FitSet:
        sides = Counter(e.polarity for e in used if fit.in_fit(e, value))
        both = all(sides[side] for side in Polarity)
        result.append(
            FitChoice(
                value=value.value,
                current=value == ground.setting.fit_set,
                signals=sides[Polarity.SIGNAL],
                anti_signals=sides[Polarity.ANTI_SIGNAL],
                ready=both and (value == FitSet.GENERATED or enough),
            )
        )
    return result


# ------------------------------------------------------------------------------------------------------------------ history
@dataclass(frozen=True)
class HistoryRow:
    """One change that touched an exemplar: what it was before and after."""

    change: Change
    before: dict[str, Any] | None
    after: dict[str, Any]


def history(artifact: Artifact, public_id: str, *, limit: int = 200) -> list[HistoryRow]:
    """The changes of one exemplar, newest first."""
    rows = Change.objects.filter(artifact=artifact).select_related("release", "user").order_by("-id")
    found = []
    for change in rows.iterator(chunk_size=200):
        after = ((change.after or {}).get("exemplars") or {}).get(public_id)
        if after is not None:
            before = ((change.before or {}).get("exemplars") or {}).get(public_id)
            found.append(HistoryRow(change, before, after))
            if len(found) == limit:
                break
    return found
