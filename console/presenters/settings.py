"""What an inventory's settings page shows and cannot change: each with its value in words and the page that changes it."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.urls import reverse
from django.utils.translation import gettext as _

from console.models import ClassWeight, Inventory, RunKind, Schedule
from console.presenters import labels, words
from console.services.inventories import current_point, point_record


@dataclass(frozen=True)
class Fixed:
    """``how`` says why it is not changed here; ``url`` leads to where it is, "" where it never is."""

    label: str
    value: str
    how: str
    url: str = ""
    action: str = ""


def elsewhere(inventory: Inventory, *, technical: bool = False) -> list[Fixed]:
    point = point_record(current_point(inventory))
    runs = reverse("run-new", args=[inventory.slug]) + "?kind=calibrate"

    def said(field: str) -> tuple[str, str]:
        return labels.term(field, technical=technical), words.value_words(field, point[field], technical=technical)

    calibrated = _("Chosen by a run, from judged turns; by hand over the API.")
    formula = _("Fixed when the inventory was made.")
    weight = (
        _("both sides count alike")
        if inventory.class_weight == ClassWeight.BALANCED
        else _("each example counts alike")
    )
    return [
        Fixed(*said("theta"), calibrated, runs, _("Choose the cut-off")),
        Fixed(*said("pooling"), _("Part of the operating point; changed over the API, with a release.")),
        Fixed(*said("expiry"), _("Part of the operating point; changed over the API, with a release.")),
        Fixed(
            _("Taken into use without a person"), _automatic(inventory), _("Part of a schedule that finds examples in chats."),
            reverse("schedules", args=[inventory.slug]), _("Schedules"),
        ),
        Fixed(labels.term("encoder", technical=technical), inventory.encoder, _("Every vector and version is tied to it.")),
        Fixed(_("Weight of the sides"), weight, formula),
        Fixed(_("Inverse penalty C"), f"{inventory.inverse_penalty:g}", formula),
        Fixed(_("Address"), inventory.slug, formula),
    ]  # fmt: skip


def _automatic(inventory: Inventory) -> str:
    rows: Iterable[Schedule] = Schedule.objects.filter(inventory=inventory, kind=RunKind.MINE, enabled=True)
    most = [int(row.params.get("auto_promote") or 0) for row in rows]
    if not any(most):
        return _("nothing")
    return _("up to %(n)s examples per policy and run, where nothing gets worse") % {"n": max(most)}
