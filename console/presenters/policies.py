"""The policies list in the pages' words: the cost-and-scope sheet that stands before an act on many of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from console.models import Inventory, Role, RunKind
from console.presenters import forecasts
from console.services.filters import Extent
from console.services.run_kinds import KINDS

SHOWN = 12  # policies that a sheet names


@dataclass(frozen=True)
class Act:
    """What can be done to many policies at once, and the role it takes; ``kind`` where it is a run."""

    label: Any
    line: Any
    needs: Role
    kind: str = ""


ACTS: dict[str, Act] = {
    "generate": Act(_("Write examples"), _("A model writes show and don't-show examples from each text."),
                    Role(KINDS[RunKind.GENERATE].role), RunKind.GENERATE),
    "judge": Act(_("Review turns"), _("The AI reviewer says at each customer message whether they are needed."),
                 Role(KINDS[RunKind.JUDGE].role), RunKind.JUDGE),
    "mine": Act(_("Find examples in chats"), _("Turning points and look-alikes become suggested examples."),
                Role(KINDS[RunKind.MINE].role), RunKind.MINE),
    "mode": Act(_("Set the mode"), _("Decided by their examples, always on, or off."), Role.AUTHOR),
    "export": Act(_("Export"), _("As a file, with their examples."), Role.REVIEWER),
}  # fmt: skip


EXPORTS = (
    ("policies.jsonl", _("Policies, JSON lines: an import elsewhere makes the same of it")),
    ("policies.csv", _("Policies, CSV")),
    ("policies.parquet", _("Policies, Parquet")),
    ("exemplars.jsonl", _("Their examples, JSON lines")),
    ("exemplars.csv", _("Their examples, CSV")),
    ("exemplars.parquet", _("Their examples, Parquet")),
)


@dataclass(frozen=True)
class Sheet:
    """What an act would take, of which policies, before it is started."""

    do: str
    act: Act
    extent: Extent
    names: list[str]
    more: int
    ahead: forecasts.Ahead | None


def sheet(inventory: Inventory, do: str, extent: Extent, names: Mapping[str, str]) -> Sheet:
    """``names``: key → name of the policies, in the inventory's order."""
    act = ACTS[do]
    ahead = forecasts.ahead(inventory, act.kind, {"artifacts": list(names)}, {}) if act.kind and names else None
    shown = list(names.values())[:SHOWN]
    return Sheet(do, act, extent, shown, len(names) - len(shown), ahead)
