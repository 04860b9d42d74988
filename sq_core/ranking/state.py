"""What the history adds to a query (TRACES 2.4): a causal aggregate, a low-rank residual, a unit vector again."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sq_core.causal.vectors import HistoryIndex

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
NO_DIRECTION = 1e-8
# 1: adapter.npz with w1 and w2 (little-endian float64), adapter.json beside it. No pickle.
ADAPTER_VERSION = 1


@dataclass(frozen=True, slots=True)
class Aggregation:
    """``mean``; ``decay``: γ^age; ``attention``: softmax(β q·a − δ age). Weights of a row sum to 1."""

    kind: Literal["mean", "decay", "attention"] = "decay"
    gamma: float = 0.6
    beta: float = 1.0
    delta: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in ("mean", "decay", "attention") or not 0 < self.gamma <= 1:
            raise ValueError(f"{self}; expected mean, decay or attention, and 0 < gamma ≤ 1")


def history_weights(
    history: HistoryIndex, vectors: NDArray[np.floating], queries: NDArray[np.floating], how: Aggregation
) -> Floats:
    """The weight of every history entry (nnz,), as the page "why" can show it; each row's sum to 1."""
    row = np.repeat(np.arange(len(history)), np.diff(history.indptr))
    if how.kind == "mean":
        logit = np.zeros(len(row))
    elif how.kind == "decay":
        logit = history.ages * np.log(how.gamma)
    else:
        near = np.einsum("ij,ij->i", queries[row].astype(np.float64), vectors[history.indices].astype(np.float64))
        logit = how.beta * near - how.delta * history.ages
    top = np.full(len(history), -np.inf)
    np.maximum.at(top, row, logit)
    raw = np.exp(logit - top[row])
    weights: Floats = raw / np.bincount(row, weights=raw, minlength=len(history))[row]
    return weights


def aggregate(
    history: HistoryIndex,
    vectors: NDArray[np.floating],
    *,
    how: Aggregation,
    queries: NDArray[np.floating] | None = None,
) -> tuple[Floats, Bools]:
    """(m (N, d), has (N,)): the weighted mean of each row's history vectors; 0 and False for an empty history.

    vectors (H, d); `queries` (N, d) are read by ``attention`` alone.
    """
    asked = np.zeros((len(history), vectors.shape[1])) if queries is None else queries
    weights = history_weights(history, vectors, asked, how)
    mean = np.zeros((len(history), vectors.shape[1]))
    for at in range(len(history)):
        span = slice(int(history.indptr[at]), int(history.indptr[at + 1]))
        if span.stop > span.start:
            items = vectors[history.indices[span]].astype(np.float64)
            mean[at] = (weights[span, None] * items).sum(axis=0)
    return mean, np.diff(history.indptr) > 0


def unit_states(queries: Floats, residuals: Floats) -> tuple[Floats, Floats]:
    """(u, norm): (q + r)/‖q + r‖ row by row, and the norm (N,), 0 where q + r has no direction.

    Where r is exactly 0, or q + r has no direction, u is q, untouched.
    """
    moved = queries + residuals
    norm = np.sqrt((moved * moved).sum(axis=1))
    norm = np.where(norm < NO_DIRECTION, 0.0, norm)
    touched = residuals.any(axis=1) & (norm > 0)
    return np.where(touched[:, None], moved / np.where(norm > 0, norm, 1.0)[:, None], queries), norm


class StateModel(Protocol):
    """What may move a query: a plug-in of another kind needs no more than this."""

    def residuals(self, inputs: Floats, has: Bools) -> Floats:
        """r (N, d) from inputs (N, e); exactly 0 where `has` is False."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """How it was made."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Adapter:
    """r = has · (m W1) W2 with w1 (e, k) and w2 (k, d), no bias; `record` says how it was fitted."""

    w1: Floats
    w2: Floats
    record: Mapping[str, Any] = field(default_factory=dict)

    def residuals(self, inputs: Floats, has: Bools) -> Floats:
        found: Floats = (inputs @ self.w1 @ self.w2) * has[:, None]
        return found

    def describe(self) -> Mapping[str, Any]:
        return self.record

    def scores(self, queries: Floats, inputs: Floats, has: Bools, candidates: Floats) -> Floats:
        """u·c for every row and candidate (N, n)."""
        state, _ = unit_states(queries, self.residuals(inputs, has))
        found: Floats = state @ candidates.T
        return found


def save_adapter(adapter: Adapter, folder: Path) -> None:
    """adapter.npz and adapter.json in `folder`; the same adapter gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    np.savez(buffer, w1=adapter.w1.astype("<f8"), w2=adapter.w2.astype("<f8"))
    (folder / "adapter.npz").write_bytes(buffer.getvalue())
    record = {"version": ADAPTER_VERSION, **adapter.record}
    (folder / "adapter.json").write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def load_adapter(folder: Path) -> Adapter:
    """Inverse of `save_adapter`. ValueError for another version, or arrays that do not fit or are not finite."""
    record = json.loads((folder / "adapter.json").read_text(encoding="utf-8"))
    if record.pop("version", None) != ADAPTER_VERSION:
        raise ValueError(f"{folder}: expected an adapter of version {ADAPTER_VERSION}")
    with np.load(folder / "adapter.npz", allow_pickle=False) as arrays:
        w1, w2 = arrays["w1"], arrays["w2"]
    if (
        w1.ndim != 2
        or w2.ndim != 2
        or w1.shape[1] != w2.shape[0]
        or not (np.isfinite(w1).all() and np.isfinite(w2).all())
    ):
        raise ValueError(f"{folder}: w1 {w1.shape} and w2 {w2.shape} make no adapter")
    return Adapter(w1.astype(np.float64), w2.astype(np.float64), record)
