"""The judged pairs of one evaluation as compressed columns: what error lists and comparisons are read from.

No pickle: a numpy archive of plain arrays. A row is one (query state, policy) that the judge has scored.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from console.models import Evaluation
from console.services.caches import Cache

FIRED, LEFT_OUT, RELEVANT, RELEVANT_RUNNING = 1, 2, 4, 8
NEEDED = {"as-judged": RELEVANT, "running-max": RELEVANT_RUNNING}
FLOATS = np.float32
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pairs:
    """P rows in the order of (policy, state): state ids, policy numbers into ``keys``, scenario numbers into ``scenarios``.

    ``x`` (P,) margin − cut-off, ``score`` 1..5, ``flags`` the bits above. Left out: the conversation's scenario gave that
    policy's version an example, so the pair counts in no figure.
    """

    keys: tuple[str, ...]
    scenarios: tuple[str, ...]
    state: NDArray[np.int64]
    policy: NDArray[np.int32]
    scenario: NDArray[np.int32]
    x: NDArray[np.float32]
    score: NDArray[np.int8]
    flags: NDArray[np.uint8]

    def has(self, flag: int) -> Bools:
        return (self.flags & flag) > 0

    @property
    def counted(self) -> Bools:
        return ~self.has(LEFT_OUT)

    def to_bytes(self) -> bytes:
        held = io.BytesIO()
        np.savez_compressed(
            held, keys=np.array(self.keys, dtype=np.str_), scenarios=np.array(self.scenarios, dtype=np.str_),
            state=self.state, policy=self.policy, scenario=self.scenario, x=self.x, score=self.score, flags=self.flags,
        )  # fmt: skip
        return held.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Pairs":
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            columns: Mapping[str, Any] = {name: found[name] for name in found.files}
        keys, scenarios = (tuple(str(each) for each in columns[name]) for name in ("keys", "scenarios"))
        return cls(
            keys=keys, scenarios=scenarios, state=columns["state"], policy=columns["policy"],
            scenario=columns["scenario"], x=columns["x"], score=columns["score"], flags=columns["flags"],
        )  # fmt: skip


_held = Cache(8, most=256 * 2**20, bytes_of=lambda pairs: pairs.state.nbytes * 3)


def pairs_of(evaluation: Evaluation) -> Pairs:
    """Of a stored evaluation; it never changes, so it is kept (by an id that is never given again)."""

    def read() -> Pairs:
        return Pairs.from_bytes(bytes(Evaluation.objects.values_list("pairs", flat=True).get(pk=evaluation.pk)))

    return _held.get(evaluation.run.public_id, read)


def clear() -> None:
    _held.clear()
