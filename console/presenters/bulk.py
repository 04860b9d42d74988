"""The cost-and-scope sheet that stands before an act on many rows of a list."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.models import Inventory, Role
from console.presenters import forecasts
from console.services.filters import Extent

SHOWN = 12  # rows that a sheet names


@dataclass(frozen=True)
class Act:
    """What can be done to many rows at once, and the role it takes; ``kind`` where it is a run."""

    label: Any
    line: Any
    needs: Role
    kind: str = ""


@dataclass(frozen=True)
class Sheet:
    """What an act would take, of which rows, before it is started."""

    do: str
    act: Act
    extent: Extent
    names: Sequence[str]
    more: int
    scope: Mapping[str, Any]
    ahead: forecasts.Ahead | None


def sheet(
    inventory: Inventory,
    acts: Mapping[str, Act],
    do: str,
    extent: Extent,
    names: Sequence[str],
    scope: Mapping[str, Any],
) -> Sheet:
    """``scope`` is that of the run, ``names`` what its rows are called, in their order."""
    act = acts[do]
    ahead = forecasts.ahead(inventory, act.kind, scope, {}) if act.kind and names else None
    return Sheet(do, act, extent, names[:SHOWN], max(0, len(names) - SHOWN), scope, ahead)
