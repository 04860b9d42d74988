"""What one has done oneself in an inventory, in any session: the newest changes and answers, each with its way back."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from console.models import Change, Inventory, ReviewAnswer, Role
from console.permissions import Request, require
from console.presenters import review as review_words
from console.presenters.changes import ChangeRow, change_rows
from console.services import review_items
from console.views.frame import local_next, say

LAST = 50


@dataclass(frozen=True)
class Row:
    """One of both; ``undo``: the address that shows what taking it back would change, "" where it cannot be."""

    at: datetime
    change: ChangeRow | None = None
    answer: ReviewAnswer | None = None
    word: str = ""
    undo: str = ""

    @property
    def newest_first(self) -> bool:
        """Whether `u` may take it back: a taking back is not taken back by the same key."""
        return self.answer is not None or (
            self.change is not None and self.undo != "" and self.change.change.reverts_id is None
        )


def _rows(request: Request, inventory: Inventory) -> list[Row]:
    """The newest 50 of both kinds, newest first."""
    user = request.user
    changes = (
        Change.objects.filter(inventory=inventory, user=user).select_related("artifact", "release").order_by("-pk")
    )
    told = change_rows(inventory, changes[:LAST], technical=user.technical_terms)
    rows = [Row(row.change.at, change=row, undo=_undo(request, row)) for row in told]
    if request.role.includes(Role.REVIEWER):
        answers = review_items.last_answers(inventory, user, size=LAST)
        rows += [Row(row.at, answer=row, word=str(review_words.word(row.word))) for row in answers]
    return sorted(rows, key=lambda row: row.at, reverse=True)[:LAST]


def _undo(request: Request, row: ChangeRow) -> str:
    if not row.undoable or not request.role.includes(row.needs):
        return ""
    return reverse("undo", args=[request.inventory.slug, row.change.public_id])


@require_GET
@require(Role.VIEWER)
def mine(request: Request, inventory: Inventory) -> HttpResponse:
    context: dict[str, Any] = {
        "rows": _rows(request, inventory),
        "most": LAST,
        "back": reverse("mine", args=[inventory.slug]),
    }
    return render(request, "mine/mine.html", context)


@require_GET
@require(Role.VIEWER)
def mine_undo(request: Request, inventory: Inventory) -> HttpResponse:
    """`u` on any page: to the effect of taking back one's newest act that can be, then back to ``?next=``."""
    here = reverse("mine", args=[inventory.slug])
    back = local_next(request, here)
    newest = next((row for row in _rows(request, inventory) if row.newest_first), None)
    if newest is None:
        say(request, _("Nothing of yours can be taken back here."))
        return redirect(back)
    if newest.answer is not None:  # taken back by a post, which this is not
        return redirect(f"{here}#answer-{newest.answer.public_id}")
    return redirect(f"{newest.undo}?{urlencode({'next': back})}")
