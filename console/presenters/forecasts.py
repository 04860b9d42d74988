"""What a run would take, in words, before it is started: items, calls, tokens, money, hours, and what is left out."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.models import Inventory, ModelProvider, ModelSetting
from console.presenters import amounts, labels
from console.presenters.runs import digest
from console.services import models_setting, runs
from console.services.errors import ServiceError
from console.services.run_kind import Forecast
from console.services.run_kinds import KINDS, model_of

ORDER = ("generate", "judge", "mine", "score", "evaluate", "calibrate", "import")


@dataclass(frozen=True)
class Ahead:
    """A forecast, or why there is none. ``seen`` names what it is a forecast of."""

    found: Forecast | None
    error: ServiceError | None
    setting: ModelSetting | None
    seen: str

    @property
    def calls_model(self) -> bool:
        return self.setting is not None

    @property
    def recorded(self) -> bool:
        return self.setting is not None and self.setting.provider == ModelProvider.RECORDED

    @property
    def needs_consent(self) -> bool:
        """Its price is not known, so that no cap on money can hold."""
        return (
            self.setting is not None and not self.recorded and None in (self.setting.price_in, self.setting.price_out)
        )

    @property
    def nothing(self) -> bool:
        return self.found is not None and not self.found.items

    @property
    def money(self) -> str:
        if self.found is None:
            return ""
        return amounts.money(None if self.found.money is None else Decimal(str(self.found.money)))

    @property
    def items(self) -> str:
        return amounts.figure(self.found.items) if self.found else ""

    @property
    def calls(self) -> str:
        return amounts.figure(self.found.calls) if self.found else ""

    @property
    def tokens_in(self) -> str:
        return amounts.tokens(self.found.tokens_in) if self.found else ""

    @property
    def tokens_out(self) -> str:
        return amounts.tokens(self.found.tokens_out) if self.found else ""

    @property
    def time(self) -> str:
        """How long the limits of the model make it at least; "" without limits."""
        seconds = self._seconds()
        return "" if seconds is None else amounts.span(seconds)

    def _seconds(self) -> float | None:
        if self.found is None or self.setting is None or self.recorded or not self.found.calls:
            return None
        tokens = self.found.tokens_in + self.found.tokens_out
        rates = [(self.found.calls, self.setting.requests_per_minute), (tokens, self.setting.tokens_per_minute)]
        minutes = [n / most for n, most in rates if most]
        return 60 * max(minutes) if minutes else None

    @property
    def short(self) -> str:
        """One line, for the list of kinds."""
        if self.found is None:
            return ""
        if self.recorded:
            return _("recorded answers are replayed: nothing is called, nothing is spent")
        if not self.found.calls:
            return _("calls no model and costs nothing")
        said = ngettext("%(n)s call", "%(n)s calls", self.found.calls) % {"n": self.calls}
        tokens = amounts.tokens(self.found.tokens_in + self.found.tokens_out)
        return _("%(calls)s, about %(tokens)s tokens, money: %(money)s") % {
            "calls": said, "tokens": tokens, "money": self.money,
        }  # fmt: skip


def ahead(inventory: Inventory, kind: str, scope: Mapping[str, Any], params: Mapping[str, Any]) -> Ahead:
    seen = digest(kind, json.dumps([scope, params], sort_keys=True, default=str))
    role = model_of(kind, dict(params))
    setting = models_setting.find_model(inventory, role) if role else None
    try:
        return Ahead(runs.forecast(inventory, kind, scope=dict(scope), params=dict(params)), None, setting, seen)
    except ServiceError as error:
        return Ahead(None, error, setting, seen)


@dataclass(frozen=True)
class KindCard:
    """A kind of run as the empty list and the first step of a new run explain it."""

    name: str
    label: str
    line: str
    needs: str  # the role
    ahead: Ahead | None


def kinds(
    inventory: Inventory, *, forecasts: bool, technical: bool = False, but: Collection[str] = ()
) -> list[KindCard]:
    """Every kind that there is ``but`` those, in the order of the loop; with what a first run would take."""
    names = sorted(set(KINDS) - set(but), key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    return [
        KindCard(
            name=name,
            label=labels.run_kind(name, technical=technical),
            line=str(labels.RUN_KINDS[name].line),
            needs=str(KINDS[name].role),
            ahead=ahead(inventory, name, {}, {}) if forecasts else None,
        )
        for name in names
    ]
