"""Precision corrected by a blind human sample of what was selected though the judge found it not needed.

The judge finds T of the selected pairs needed and F not. Of a random sample of n of those F, people find k needed. Then

    precision = (T + F · k/n) / (T + F)

and its interval is that of the share k/n (Wilson, 95 %), put through the same line. What the judge finds needed is taken as
needed: the figure corrects one side only, so it is an upper bound where the judge calls needed what is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Z = 1.959963984540054  # 95 %


@dataclass(frozen=True, slots=True)
class Corrected:
    """``plain`` is T / (T + F). The corrected value and its ends are None without an answer."""

    plain: float | None
    value: float | None
    low: float | None
    high: float | None


def corrected_precision(needed: int, not_needed: int, found: int, asked: int) -> Corrected:
    """``needed`` = T, ``not_needed`` = F, ``found`` = k of ``asked`` = n. Raises ValueError for counts that cannot be."""
    if min(needed, not_needed, found, asked) < 0 or found > asked:
        raise ValueError(f"{found} of {asked} found needed, beside {needed} and {not_needed}: no such counts")
    selected = needed + not_needed
    if not selected:
        return Corrected(None, None, None, None)
    plain = needed / selected
    if not asked:
        return Corrected(plain, None, None, None)
    low, high = wilson(found, asked)
    value, low, high = ((needed + not_needed * share) / selected for share in (found / asked, low, high))
    return Corrected(plain, value, low, high)


def wilson(k: int, n: int) -> tuple[float, float]:
    """The 95 % score interval of a share k / n."""
    share, whole = k / n, 1 + Z * Z / n
    middle = (share + Z * Z / (2 * n)) / whole
    half = Z / whole * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)
