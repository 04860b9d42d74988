"""Score: the one margin, its pooling over views and the winning view (paper 2.2, Eq. 2 and Algorithm 2).

``z = pool over views of (w·q) + b``, rounded to 1e-6; it fires iff ``z > θ + offset``, strictly. Every dot product
here is `exact_dots`: float64 products of the stored float32 numbers, one BLAS ``ddot`` per pair, so that no number
depends on which other rows are scored with it. `margin`, `margins` and `state_margins` therefore agree bit for bit
(docs/adr/0004).

Ties between views go to the latest user turn; the cumulative view wins only alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sq_core.classifier import Classifier, ViewKind

Float = NDArray[np.float64]
Vectors = NDArray[np.float32]
MARGIN_DIGITS = 6
_CHUNK = 1 << 20  # numbers held at once by the paths that may meet very long logs
_BLOCK = 1 << 16  # 512 kB as float64


class ScoringError(ValueError):
    """Vectors, views or a pooling that cannot be scored; the text says what was given and what was expected."""


@dataclass(frozen=True, slots=True, eq=False)
class Views:
    """The views of one query state: `vectors` (v, d) centred unit rows, their kinds, and the user turn each belongs to.

    A cumulative view's user turn is the t of its prefix. The state's t is the largest user turn present.
    """

    vectors: Vectors
    kind: tuple[ViewKind, ...]
    user_turn: tuple[int, ...]

    def __post_init__(self) -> None:
        rows = np.shape(self.vectors)
        if len(rows) != 2 or not rows[0] == len(self.kind) == len(self.user_turn):
            raise ScoringError(
                f"views: vectors of shape {rows} with {len(self.kind)} kinds and {len(self.user_turn)} user turns; "
                "expected (v, d), v and v"
            )

    @classmethod
    def of_turns(cls, vectors: ArrayLike) -> Self:
        """Rows (v, d) as the user-turn views 0 … v-1."""
        rows = np.asarray(vectors, dtype=np.float32)
        return cls(rows, (ViewKind.USER_TURN,) * len(rows), tuple(range(len(rows))))

    @property
    def turn(self) -> int:
        """The user turn t of the state; -1 without views."""
        return max(self.user_turn, default=-1)


@dataclass(frozen=True, slots=True)
class Pooling:
    """How the views of a state make one number.

    `mode` max or mean; which views count: the cumulative one, the user turns (all, or the `last` k of them); a user
    turn u at state t is discounted by ``age_discount · (t - u)``.
    """

    mode: Literal["max", "mean"] = "max"
    cumulative: bool = True
    user_turns: bool = True
    last: int | None = None
    age_discount: float = 0.0

    def __post_init__(self) -> None:
        if self.mode not in ("max", "mean"):
            raise ScoringError(f"pooling mode is {self.mode!r}; expected 'max' or 'mean'")
        if not (self.cumulative or self.user_turns):
            raise ScoringError("pooling has no views; keep the cumulative view, the user turns, or both")
        if self.last is not None and (self.last < 1 or not self.user_turns):
            raise ScoringError(f"pooling over the last {self.last} user turns; expected at least 1, with user turns on")
        if not (math.isfinite(self.age_discount) and self.age_discount >= 0):
            raise ScoringError(f"age_discount is {self.age_discount!r}; expected a finite number, 0 or more")

    def first_turn(self, turn: int) -> int:
        """The earliest user turn that counts at state `turn`."""
        return 0 if self.last is None else max(0, turn - self.last + 1)

    def to_json(self) -> dict[str, Any]:
        """``{mode, views: [cumulative, user_turns | {last: k}], age_discount}``."""
        turns: list[Any] = [{"last": self.last} if self.last is not None else "user_turns"] if self.user_turns else []
        views = (["cumulative"] if self.cumulative else []) + turns
        return {"mode": self.mode, "views": views, "age_discount": self.age_discount}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote. Raises `ScoringError` on anything else."""
        views = record.get("views", ["cumulative", "user_turns"])
        windows = [view["last"] for view in views if isinstance(view, Mapping) and set(view) == {"last"}]
        named = [view for view in views if view in ("cumulative", "user_turns")]
        last = windows[0] if windows else None
        unknown = set(record) - {"mode", "views", "age_discount"}
        if (
            unknown
            or len(named) + len(windows) != len(views)
            or (windows and (len(windows) > 1 or type(last) is not int))
        ):
            raise ScoringError(
                f"pooling {dict(record)!r}; expected mode, views [cumulative, user_turns | {{last: k}}], age_discount"
            )
        turns = "user_turns" in named or bool(windows)
        discount = float(record.get("age_discount", 0.0))
        return cls(record.get("mode", "max"), "cumulative" in named, turns, last, discount)


PRESETS: Mapping[str, Pooling] = {
    "both": Pooling(),
    "cumulative": Pooling(user_turns=False),
    "max-over-turns": Pooling(cumulative=False),
    "cumulative+latest": Pooling(last=1),
    "age-discounted": Pooling(age_discount=0.1),
    "windowed": Pooling(last=3),
    "mean-latest": Pooling(mode="mean", last=1),
}


@dataclass(frozen=True, slots=True)
class ViewTerm:
    """One view's part in a margin: ``margin = Σ weight·value + b``.

    `value` is w·q minus `discount` (the age discount, 0 unless the pooling has one), so w·q = value + discount.
    """

    kind: ViewKind
    user_turn: int
    weight: float
    value: float
    discount: float = 0.0


@dataclass(frozen=True, slots=True)
class Margin:
    """A margin rounded to 1e-6, the terms that make it (max: the winner with weight 1), and every view's value.

    `all_values` keeps the order of the state's views; views that the pooling leaves out, and losers, have weight 0.
    """

    value: float
    views: tuple[ViewTerm, ...]
    all_values: tuple[ViewTerm, ...]


# ------------------------------------------------------------------------------------------------------- exact numbers
def exact_dots(rows: ArrayLike, vector: ArrayLike) -> Float:
    """Dot products over the last axis in float64, broadcasting as `numpy.vecdot` does.

    One ``ddot`` per pair: a result's bits depend on that pair alone, unlike those of a matrix product.
    """
    left = np.ascontiguousarray(rows, dtype=np.float64)
    right = np.ascontiguousarray(vector, dtype=np.float64)
    if not left.shape or not right.shape or left.shape[-1] != right.shape[-1]:
        raise ScoringError(f"vectors of shape {right.shape} against {left.shape}; expected the same last dimension")
    result: Float = np.asarray(np.vecdot(left, right))
    return result


def dot_table(weights: ArrayLike, vectors: ArrayLike) -> Float:
    """`exact_dots` of every weight row (N, d) with every vector (v, d): (N, v).

    Weights stay float32 where they are stored; `_BLOCK` numbers at a time become float64, so they stay in the cache.
    """
    left, right = np.asarray(weights), np.ascontiguousarray(vectors, dtype=np.float64)
    result = np.empty((len(left), len(right)))
    step = max(1, _BLOCK // max(1, left.shape[-1]))
    for start in range(0, len(left), step):
        result[start : start + step] = exact_dots(left[start : start + step, None, :], right[None, :, :])
    return result


def round_margin(values: ArrayLike) -> Float:
    """`values` to 1e-6, without negative zero. Refuses NaN and infinity: a margin that never compares would hide a
    miss.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise ScoringError("a margin is NaN or infinite; check the vectors for NaN")
    rounded: Float = np.round(numbers, MARGIN_DIGITS) + 0.0
    return rounded


def cut_offs(theta: float, offsets: ArrayLike) -> Float:
    """θ + offset, rounded to 1e-9 so that 0.1 + 0.2 is the 0.3 it is meant to be and a tie stays a tie."""
    rounded: Float = np.round(theta + np.asarray(offsets, dtype=np.float64), 9) + 0.0
    return rounded


def cut_off(theta: float, offset: float = 0.0) -> float:
    """`cut_offs` of one classifier version."""
    return float(cut_offs(theta, offset))


def fires(margin: float, cutoff: float) -> bool:
    """Strictly above the cut-off."""
    return margin > cutoff


# ------------------------------------------------------------------------------------------------------------- pooling
def pool(dots: Float, discounts: Float, mode: str) -> tuple[Float, NDArray[np.intp]]:
    """Pool (N, k) dot products, columns in order of preference, less their (k,) discounts.

    Gives (N,) pooled values and (N,) winning columns: the first of the best. The mean has no winner (-1); it is an
    exactly rounded sum, independent of the order of the views. Raises `ScoringError` when k is 0.
    """
    if dots.shape[1] == 0:
        raise ScoringError("no view to score: the pooling leaves out every view of this state")
    net = dots - discounts
    if mode == "max":
        winners = net.argmax(axis=1)
        return net[np.arange(len(net)), winners], winners
    share = 1.0 / net.shape[1]
    pooled = np.array([math.fsum(row) for row in net * share], dtype=np.float64)
    return pooled, np.full(len(net), -1, dtype=np.intp)


def preference(views: Views, pooling: Pooling) -> tuple[NDArray[np.intp], Float]:
    """Columns of the views that count, the preferred first (latest user turn … earliest, then cumulative), and
    discounts.

    Of several cumulative views only that of the state's own turn counts.
    """
    turn = views.turn
    first = pooling.first_turn(turn) if pooling.user_turns else turn + 1
    rows = list(enumerate(zip(views.kind, views.user_turn, strict=True)))
    turns = [(u, column) for column, (kind, u) in rows if kind is ViewKind.USER_TURN and u >= first]
    turns.sort(key=lambda pair: -pair[0])
    whole = [column for column, (kind, u) in rows if kind is ViewKind.CUMULATIVE and u == turn and pooling.cumulative]
    ages = [turn - u for u, _ in turns] + [0] * len(whole)
    columns = np.array([column for _, column in turns] + whole, dtype=np.intp)
    return columns, pooling.age_discount * np.array(ages, dtype=np.float64)


def margins(weights: ArrayLike, biases: ArrayLike, views: Views, pooling: Pooling = Pooling()) -> Float:
    """Margins (N,) of N classifiers, weights (N, d) and biases (N,), at one query state; rounded to 1e-6."""
    columns, discounts = preference(views, pooling)
    pooled, _ = pool(dot_table(weights, views.vectors[columns]), discounts, pooling.mode)
    return round_margin(pooled + np.asarray(biases, dtype=np.float64))


def margin(classifier: Classifier, views: Views, pooling: Pooling = Pooling()) -> Margin:
    """The margin of one classifier at one query state, with the views that make it and every other view's value."""
    columns, discounts = preference(views, pooling)
    dots = dot_table(classifier.weights[None, :], views.vectors)[0]
    pooled, winners = pool(dots[columns][None, :], discounts, pooling.mode)
    value = float(round_margin(pooled + classifier.bias)[0])
    weights, less = np.zeros(len(dots)), np.zeros(len(dots))
    less[columns] = discounts
    weights[columns if winners[0] < 0 else columns[winners[0]]] = 1.0 if winners[0] >= 0 else 1.0 / len(columns)
    terms = tuple(
        ViewTerm(
            views.kind[row], views.user_turn[row], float(weights[row]), float(dots[row] - less[row]), float(less[row])
        )
        for row in range(len(dots))
    )
    return Margin(value, tuple(term for term in terms if term.weight), terms)


# ------------------------------------------------------------------------------------- one classifier over many states
@dataclass(frozen=True, slots=True, eq=False)
class ViewTable:
    """All states of many conversations: `cumulative` (S, d), `turns` (U, d) and where each row belongs.

    `state_conversation`, `state_turn` (S,) and `turn_conversation`, `turn_index` (U,) are integers; states and turns
    are each sorted by (conversation, turn).
    """

    cumulative: Vectors
    turns: Vectors
    state_conversation: NDArray[np.int64]
    state_turn: NDArray[np.int64]
    turn_conversation: NDArray[np.int64]
    turn_index: NDArray[np.int64]

    def __post_init__(self) -> None:
        for what, vectors, conversation, turn in (
            ("states", self.cumulative, self.state_conversation, self.state_turn),
            ("turns", self.turns, self.turn_conversation, self.turn_index),
        ):
            if np.ndim(vectors) != 2 or not len(vectors) == len(conversation) == len(turn):
                raise ScoringError(f"view table: {what} of different lengths, or vectors that are not (rows, d)")
            step, inner = np.diff(conversation), np.diff(turn)
            if np.any(step < 0) or np.any((step == 0) & (inner <= 0)):
                raise ScoringError(f"view table: {what} are not sorted by conversation and turn")

    @classmethod
    def of_turns(
        cls, cumulative: Vectors, turns: Vectors, conversation: NDArray[np.int64], turn: NDArray[np.int64]
    ) -> ViewTable:
        """Where every user turn is a state: `conversation`, `turn` (S,) place both."""
        return cls(cumulative, turns, conversation, turn, conversation, turn)

    def __len__(self) -> int:
        return len(self.state_turn)

    def spans(self, pooling: Pooling) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Per state, the half-open range of rows of `turns` that count under `pooling`."""
        stride = 2 + int(max(np.max(self.turn_index, initial=0), np.max(self.state_turn, initial=0)))
        keys = self.turn_conversation * stride + self.turn_index
        first = 0 if pooling.last is None else np.maximum(0, self.state_turn - pooling.last + 1)
        low = np.searchsorted(keys, self.state_conversation * stride + first, side="left")
        high = np.searchsorted(keys, self.state_conversation * stride + self.state_turn, side="right")
        return (low, high) if pooling.user_turns else (low, low)

    def views(self, state: int) -> Views:
        """The views of one state: its user turns in order, then its cumulative view."""
        low, high = (int(bound[state]) for bound in self.spans(Pooling()))
        turns = tuple(int(turn) for turn in self.turn_index[low:high])
        vectors = np.concatenate([self.turns[low:high], self.cumulative[state : state + 1]])
        kinds = (ViewKind.USER_TURN,) * len(turns) + (ViewKind.CUMULATIVE,)
        return Views(vectors, kinds, (*turns, int(self.state_turn[state])))


def state_margins(weights: ArrayLike, bias: float, table: ViewTable, pooling: Pooling = Pooling()) -> Float:
    """Margins (S,) of one classifier, weights (d,), at every state of `table`: bit for bit those of `margin`."""
    turns = _chunked_dots(table.turns, weights)
    whole = _chunked_dots(table.cumulative, weights) if pooling.cumulative else np.zeros(len(table))
    low, high = table.spans(pooling)
    pooled = np.empty(len(table))
    for start, stop in _chunks(high - low):
        states = slice(start, stop)
        count = high[states] - low[states]
        back = np.arange(int(count.max(initial=0)))  # the latest user turn first, as in `preference`
        rows = high[states, None] - 1 - back
        held = back < count[:, None]
        at = np.where(held, rows, 0)
        net = turns[at] - pooling.age_discount * (table.state_turn[states, None] - table.turn_index[at])
        pooled[states] = _pool_rows(net, held, whole[states] if pooling.cumulative else None, pooling.mode)
    return round_margin(pooled + bias)


def _pool_rows(net: Float, held: NDArray[np.bool_], whole: Float | None, mode: str) -> Float:
    """Pool ragged rows: `net` (s, k) where `held`, and `whole` (s,) beside them."""
    if whole is not None:
        net, held = np.column_stack([net, whole]), np.column_stack([held, np.ones(len(held), dtype=bool)])
    if not held.any(axis=1).all():
        raise ScoringError("no view to score: the pooling leaves out every view of a state")
    if mode == "max":
        best: Float = np.where(held, net, -np.inf).max(axis=1)
        return best
    return np.array([math.fsum(row[keep] * (1.0 / keep.sum())) for row, keep in zip(net, held, strict=True)])


def _chunked_dots(rows: Vectors, weights: ArrayLike) -> Float:
    """`exact_dots`, turning only some rows into float64 at a time."""
    step = max(1, _CHUNK // max(1, rows.shape[1]))
    parts = [exact_dots(rows[start : start + step], weights) for start in range(0, len(rows), step)]
    return np.concatenate(parts) if parts else np.empty(0)


def _chunks(counts: Sequence[int] | NDArray[np.intp]) -> Iterator[tuple[int, int]]:
    """Ranges of states whose padded rows stay below `_CHUNK` numbers together."""
    every, start = np.maximum(np.asarray(counts, dtype=np.int64), 1), 0
    while start < len(every):
        ahead = every[start : start + _CHUNK]  # no row is narrower than one number
        padded = np.maximum.accumulate(ahead) * np.arange(1, len(ahead) + 1)
        stop = start + max(1, int(np.searchsorted(padded, _CHUNK, side="right")))  # it only grows
        yield start, stop
        start = stop
