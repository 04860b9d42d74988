"""Re-centring as a shadow comparison: what a new centre would change, before anybody decides to have it (paper 2.1).

The centre is frozen, so that adding an artifact moves no other one. As texts come and go it drifts from their mean; a
new one refits everything and is a migration of its own. Nothing here is written anywhere or changes what it is given.
Pins are left out: their vectors are centred anew as well, and run as tests when the migration is activated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sq_core.classifier import Classifier
from sq_core.embedding import Centre, Vectors, ZeroVector, centre_and_normalise, make_centre
from sq_core.fitting import ClassWeight, FitError, fit_classifier
from sq_core.offset import Choice, choose_offset
from sq_core.scoring import Float, Pooling, ViewTable, cut_off, state_margins

Bools = NDArray[np.bool_]


class RecentringError(ValueError):
    """Parts that do not belong together, or an exemplar that the new centre leaves without a direction."""


@dataclass(frozen=True, slots=True, eq=False)
class CurrentVersion:
    """One artifact as it is: its classifier around the old centre, and what that was fitted on.

    signals (n₊, d) and anti_signals (n₋, d) are the encoder's own vectors, not centred; (n, k, d) for exemplars that
    are the mean of k views. C, class_weight and exemplar_weights (n₊ + n₋,) as at that fit.
    """

    key: str
    classifier: Classifier
    signals: Vectors
    anti_signals: Vectors
    C: float = 1.0
    class_weight: ClassWeight = None
    exemplar_weights: ArrayLike | None = None


@dataclass(frozen=True, slots=True)
class Drift:
    """From the old centre to the new: their cosine, both norms, and the length of the difference.

    `cosine` is NaN where one of them is 0.
    """

    cosine: float
    old_norm: float
    new_norm: float
    distance: float


@dataclass(frozen=True, slots=True, eq=False)
class Flips:
    """Rows of the states that start and that stop firing."""

    started: NDArray[np.intp]
    stopped: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.started) + len(self.stopped)


@dataclass(frozen=True, slots=True, eq=False)
class ShadowVersion:
    """One artifact around the new centre: `classifier` carries the re-chosen offset, `choice` says what that held.

    `at_same_cut_off`: flips with the offset of the old version; `after_offset`: with the new one. `cosine` is that of
    the old and the new weights. `fired` counts the states that fire today.
    """

    key: str
    classifier: Classifier
    choice: Choice
    cosine: float
    fired: int
    at_same_cut_off: Flips
    after_offset: Flips


@dataclass(frozen=True, slots=True, eq=False)
class Shadow:
    """The centre that would be, how far it is from the old, and every artifact around it, in the order given."""

    centre: Centre
    drift: Drift
    versions: tuple[ShadowVersion, ...]
    states: int


def recentre_shadow(
    texts: Vectors,
    current: Sequence[CurrentVersion],
    states: ViewTable,
    *,
    old: Centre,
    theta: float,
    pooling: Pooling,
    relevant: ArrayLike | None = None,
) -> Shadow:
    """Refit `current` around the mean of `texts` (A, d) and compare every decision on `states`.

    texts: the encoder's vectors of all artifact texts there are now. states: views as the encoder gave them, S states;
    they also are the background on which the firing share is held. relevant (S, N): judged turns of scenarios that gave
    the artifact no exemplar; from 20 on, its recall there is held instead (`sq_core.offset`).

    Raises `RecentringError` naming the artifact, and what `make_centre` and `fit_classifier` raise.
    """
    needed = np.zeros((len(states), len(current)), dtype=bool) if relevant is None else np.asarray(relevant, dtype=bool)
    if needed.shape != (len(states), len(current)):
        raise RecentringError(
            f"relevant has shape {needed.shape}; expected {len(states)} states by {len(current)} artifacts"
        )
    new = make_centre(texts)
    before, after = _centred(states, old), _centred(states, new)
    versions = tuple(
        _version(each, before, after, new, theta, pooling, needed[:, column]) for column, each in enumerate(current)
    )
    return Shadow(new, drift(old, new), versions, len(states))


def drift(old: Centre, new: Centre) -> Drift:
    """How far `new` is from `old`. Raises `RecentringError` for centres of two dimensions."""
    if old.dimension != new.dimension:
        raise RecentringError(f"the old centre has {old.dimension} dimensions, the new one {new.dimension}")
    lengths = float(np.linalg.norm(old.vector)), float(np.linalg.norm(new.vector))
    product = lengths[0] * lengths[1]
    cosine = float(old.vector @ new.vector) / product if product else float("nan")
    return Drift(cosine, *lengths, float(np.linalg.norm(new.vector - old.vector)))


def _version(
    each: CurrentVersion,
    before: ViewTable,
    after: ViewTable,
    centre: Centre,
    theta: float,
    pooling: Pooling,
    relevant: Bools,
) -> ShadowVersion:
    try:
        sides = _exemplars(each.signals, centre), _exemplars(each.anti_signals, centre)
        fit = fit_classifier(*sides, each.C, each.class_weight, exemplar_weights=each.exemplar_weights)
    except (ZeroVector, FitError) as error:
        raise RecentringError(f"artifact {each.key}: {error}") from error
    old, new = each.classifier, Classifier.from_fit(fit, each.classifier.offset)
    cutoff = cut_off(theta, old.offset)
    margins = (
        state_margins(old.weights, old.bias, before, pooling),
        state_margins(new.weights, new.bias, after, pooling),
    )
    choice = choose_offset(
        parent_background=margins[0],
        new_background=margins[1],
        parent_relevant=margins[0][relevant],
        new_relevant=margins[1][relevant],
        parent_cutoff=cutoff,
        theta=theta,
    )
    lengths = float(np.linalg.norm(old.weights)) * float(np.linalg.norm(new.weights))
    return ShadowVersion(
        key=each.key,
        classifier=replace(new, offset=choice.offset),
        choice=choice,
        cosine=float(old.weights @ new.weights) / lengths if lengths else float("nan"),
        fired=int(np.count_nonzero(margins[0] > cutoff)),
        at_same_cut_off=_flips(margins[0] > cutoff, margins[1] > cutoff),
        after_offset=_flips(margins[0] > cutoff, margins[1] > cut_off(theta, choice.offset)),
    )


def _flips(before: Bools, after: Bools) -> Flips:
    return Flips(np.flatnonzero(after & ~before), np.flatnonzero(before & ~after))


def _exemplars(rows: Vectors, centre: Centre) -> Float:
    """Centred unit vectors (n, d); of exemplars with several views the mean of theirs."""
    given = np.asarray(rows)
    unit = centre_and_normalise(given.reshape(-1, given.shape[-1]), centre).astype(np.float64)
    return unit if given.ndim < 3 else np.asarray(unit.reshape(given.shape).mean(axis=1))


def _centred(states: ViewTable, centre: Centre) -> ViewTable:
    return replace(states, cumulative=_views(states.cumulative, centre), turns=_views(states.turns, centre))


def _views(rows: Vectors, centre: Centre) -> Vectors:
    """Centred unit vectors; a text that sits on the centre says nothing and gives 0, as in `Bundle.discover`."""
    try:
        return centre_and_normalise(rows, centre)
    except ZeroVector as error:
        if len(rows) == 1:
            return np.zeros_like(rows, dtype=np.float32)
        at = error.row
        parts = (rows[:at], rows[at : at + 1], rows[at + 1 :])
        return np.concatenate([_views(part, centre) for part in parts if len(part)])
