"""The cost-and-scope sheet that stands before an act on many conversations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from console.models import Inventory, Role, RunKind
from console.presenters import forecasts
from console.presenters.policies import Act
from console.services.filters import Extent
from console.services.run_kinds import KINDS

SHOWN = 12  # conversations that a sheet names
ACTS: dict[str, Act] = {
    "judge": Act(_("Review turns"), _("The AI reviewer says at each of their customer messages what is needed."),
                 Role(KINDS[RunKind.JUDGE].role), RunKind.JUDGE),
    "flag": Act(_("Flag"), _("Something is wrong with them: others see the flag and its reason until it is seen to."),
                Role.REVIEWER),
    "export": Act(_("Export"), _("As a file, or the scores of their turns."), Role.REVIEWER),
}  # fmt: skip
EXPORTS = (
    ("conversations.jsonl", _("Conversations, JSON lines: an import elsewhere makes the same of it")),
    ("conversations.csv", _("Their messages, CSV")),
    ("conversations.parquet", _("Their messages, Parquet")),
    ("judgements.jsonl", _("Scores of their turns, JSON lines")),
    ("judgements.csv", _("Scores of their turns, CSV")),
    ("judgements.parquet", _("Scores of their turns, Parquet")),
)


@dataclass(frozen=True)
class Sheet:
    """What an act would take, of which conversations, before it is started."""

    do: str
    act: Act
    extent: Extent
    names: Sequence[str]
    more: int
    ahead: forecasts.Ahead | None


def sheet(inventory: Inventory, do: str, extent: Extent, scope: Mapping[str, Any]) -> Sheet:
    """``scope``: a judge run's, with the conversations' own ids in the order of their rows."""
    act, names = ACTS[do], scope["conversations"]
    ahead = forecasts.ahead(inventory, act.kind, scope, {}) if act.kind and names else None
    return Sheet(do, act, extent, names[:SHOWN], max(0, len(names) - SHOWN), ahead)
