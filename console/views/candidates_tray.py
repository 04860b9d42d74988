"""Decisions on candidates that are gathered before any is written: kept in the person's session, per inventory."""

from collections import Counter
from collections.abc import Iterable

from django.utils.translation import gettext as _

from console.models import Inventory
from console.permissions import Request
from console.services import candidates_decide
from console.services.candidates_decide import Decided
from console.services.errors import Invalid

NAME = "candidates"
MOST = 500


class Tray:
    """What was decided and not applied yet: public id -> signal, anti_signal or reject, in the order of deciding."""

    def __init__(self, request: Request) -> None:
        self._request, self._slug = request, request.inventory.slug
        held = request.session.get(NAME)
        mine = held.get(self._slug) if isinstance(held, dict) else None
        self.decisions: dict[str, str] = dict(mine) if isinstance(mine, dict) else {}

    def put(self, ids: Iterable[str], decision: str) -> None:
        """Raises Invalid where the tray is full."""
        for public_id in ids:
            self.decisions.pop(public_id, None)
            self.decisions[public_id] = decision
        if len(self.decisions) > MOST:
            raise Invalid(
                _("%(n)s decisions wait; apply them first.") % {"n": MOST}, field="candidate",
                hint=_("Look at what will change."),
            )  # fmt: skip
        self._save()

    def take(self, ids: Iterable[str]) -> None:
        for public_id in ids:
            self.decisions.pop(public_id, None)
        self._save()

    def clear(self) -> None:
        self.decisions = {}
        self._save()

    def _save(self) -> None:
        held = self._request.session.get(NAME)
        kept = dict(held) if isinstance(held, dict) else {}
        if self.decisions:
            kept[self._slug] = self.decisions
        else:
            kept.pop(self._slug, None)
        self._request.session[NAME] = kept

    def contents(self, inventory: Inventory) -> "Contents":
        """The decisions by policy; those that somebody else has taken meanwhile fall out."""
        if not self.decisions:
            return Contents([], 0)
        found, gone = candidates_decide.decided(inventory, self.decisions)
        if gone:
            self.take(gone)
        return Contents(found, len(gone))


class Contents:
    """The tray as its bar tells it."""

    def __init__(self, policies: list[Decided], gone: int) -> None:
        self.policies, self.gone = policies, gone
        self.counts = Counter(decision for policy in policies for _exemplar, decision in policy.rows)

    @property
    def by_policy(self) -> dict[str, int]:
        """Decisions per policy's key."""
        return {policy.artifact.key: len(policy.rows) for policy in self.policies}

    @property
    def n(self) -> int:
        return sum(self.counts.values())

    @property
    def signals(self) -> int:
        return self.counts["signal"]

    @property
    def anti_signals(self) -> int:
        return self.counts["anti_signal"]

    @property
    def rejected(self) -> int:
        return self.counts["reject"]
