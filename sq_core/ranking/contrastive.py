"""The multi-positive objective and the fit of the adapter (TRACES 2.4).

Columns are unique candidates, so equal targets are one column; other correct ones are masked out. Neither is ever a
negative. Full batch, L-BFGS in float64, nothing is sampled: the same bytes on the same machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sq_core.ranking.state import Adapter, unit_states
from sq_core.ranking.worlds import Bools

Floats = NDArray[np.float64]
# Elements of one block of logits: what keeps the peak of a fit flat however many candidates there are.
BLOCK = 1 << 20
MOST_CANDIDATES = 20_000
INITIAL_SPREAD = 1.0


def multi_positive(logits: Floats, positives: Bools, allowed: Bools | None = None) -> tuple[Floats, Floats]:
    """Loss (N,) and its gradient on the logits (N, n).

    L = −1/|P| Σ_{p∈P} log(e^{s_p} / (e^{s_p} + Σ_{n∉P} e^{s_n})), over the columns `allowed` (N, n), all by default.
    Raises ValueError for a row without a positive.
    """
    count = positives.sum(axis=1)
    if (count == 0).any():
        raise ValueError(f"row {int(np.argmin(count))} has no positive; such rows are left out of training and counted")
    negatives = ~positives if allowed is None else ~positives & allowed
    top = np.max(np.where(negatives | positives, logits, -np.inf), axis=1, keepdims=True)
    shifted = np.clip(logits - top, -700.0, None)
    pulled = np.where(negatives, np.exp(np.minimum(shifted, 0.0)), 0.0)
    with np.errstate(divide="ignore"):
        others = np.log(pulled.sum(axis=1))
    row, column = np.nonzero(positives)
    own = shifted[row, column]
    whole = np.logaddexp(own, others[row])
    share = 1.0 / count[row]
    loss: Floats = np.bincount(row, weights=share * (whole - own), minlength=len(logits)).astype(np.float64)
    pressure = np.bincount(row, weights=share * np.exp(-whole), minlength=len(logits)).astype(np.float64)
    gradient: Floats = pulled * pressure[:, None]
    gradient[row, column] = -share * (1.0 - np.exp(own - whole))
    return loss, gradient


@dataclass(frozen=True, slots=True, eq=False)
class ContrastiveBatch:
    """queries (N, d), inputs (N, e) and has (N,) of the adapter, candidates (n, d), positives (N, n), all float64.

    `allowed` (N, n): the columns each row is contrasted with; None for all.
    """

    queries: Floats
    inputs: Floats
    has: Bools
    candidates: Floats
    positives: Bools
    allowed: Bools | None = None
    rank: int = 32
    temperature: float = 0.07
    l2: float = 1e-3

    @property
    def parameters(self) -> int:
        return int(self.rank * (self.inputs.shape[1] + self.queries.shape[1]))

    def blocks(self) -> Iterator[slice]:
        step = max(1, BLOCK // max(1, len(self.candidates)))
        for start in range(0, len(self.queries), step):
            yield slice(start, start + step)


def loss_and_gradient(theta: Floats, batch: ContrastiveBatch) -> tuple[float, Floats]:
    """Mean loss + l2/2 ‖W‖² and its gradient (parameters,); `theta` is W1 (e, k) then W2 (k, d), flattened."""
    split = batch.rank * batch.inputs.shape[1]
    w1 = theta[:split].reshape(-1, batch.rank)
    w2 = theta[split:].reshape(batch.rank, -1)
    loss, g1, g2 = 0.0, np.zeros_like(w1), np.zeros_like(w2)
    for part in batch.blocks():
        hidden = batch.inputs[part] @ w1
        residual = (hidden @ w2) * batch.has[part, None]
        state, norm = unit_states(batch.queries[part], residual)
        allowed = None if batch.allowed is None else batch.allowed[part]
        each, pull = multi_positive(state @ batch.candidates.T / batch.temperature, batch.positives[part], allowed)
        loss += float(each.sum())
        g = pull @ batch.candidates / batch.temperature
        # Through the normalisation; rows without a history, or without a direction, teach nothing.
        flows = batch.has[part] & (norm > 0)
        g = (g - state * (state * g).sum(axis=1, keepdims=True)) / np.where(norm > 0, norm, 1.0)[:, None]
        g *= flows[:, None]
        g2 += hidden.T @ g
        g1 += batch.inputs[part].T @ (g @ w2.T)
    n = len(batch.queries)
    gradient = np.concatenate([(g1 / n).ravel(), (g2 / n).ravel()]) + batch.l2 * theta
    return loss / n + 0.5 * batch.l2 * float(theta @ theta), gradient


def initial(batch: ContrastiveBatch, seed: int) -> Floats:
    """W1 random of about unit rows' length, W2 zero: training starts at the baseline exactly."""
    size = batch.rank * batch.inputs.shape[1]
    w1 = np.random.default_rng(seed).normal(0.0, INITIAL_SPREAD / np.sqrt(batch.inputs.shape[1]), size)
    return np.concatenate([w1, np.zeros(batch.rank * batch.queries.shape[1])])


def fit_adapter(batch: ContrastiveBatch, *, max_iter: int = 200, seed: int = 0) -> Adapter:
    """The adapter after at most `max_iter` steps of L-BFGS from `initial`.

    Raises ValueError for no rows, or more than 20,000 candidates (there one samples, which this does not do).
    """
    from scipy.optimize import OptimizeResult, minimize

    if len(batch.queries) == 0 or len(batch.candidates) > MOST_CANDIDATES:
        raise ValueError(f"{len(batch.queries)} rows and {len(batch.candidates)} candidates; expected 1.. and ..20,000")
    start = initial(batch, seed)
    if max_iter:
        options = {"maxiter": max_iter}
        found = minimize(loss_and_gradient, start, args=(batch,), jac=True, method="L-BFGS-B", options=options)
    else:
        found = OptimizeResult(x=start, fun=loss_and_gradient(start, batch)[0], nit=0)
    split = batch.rank * batch.inputs.shape[1]
    return Adapter(
        w1=found.x[:split].reshape(-1, batch.rank).copy(),
        w2=found.x[split:].reshape(batch.rank, -1).copy(),
        record={
            "rank": batch.rank,
            "temperature": batch.temperature,
            "l2": batch.l2,
            "max_iter": max_iter,
            "seed": seed,
            "iterations": int(found.nit),
            "loss": float(found.fun),
            "rows": len(batch.queries),
            "candidates": len(batch.candidates),
        },
    )
