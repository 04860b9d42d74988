"""Costs: the ledger of one month by source, day, model, policy and run, and as a file."""

import zoneinfo
from datetime import date
from typing import Any

from django.http import HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from console.models import Inventory, Role
from console.permissions import Request, require, wants_part
from console.presenters import costs as shown
from console.presenters import figures_pages
from console.services import costs
from console.services.csv_lines import csv_lines
from console.views.runs import tabs

COLUMNS = (
    "at", "source", "run", "policy", "model", "prompt_version", "recorded", "tokens_in", "tokens_cached", "tokens_out",
    "money",
)  # fmt: skip


@require_GET
@require(Role.VIEWER)
def costs_page(request: Request, inventory: Inventory) -> HttpResponse:
    """``?month=2026-03``, in the reader's zone; the newest by default."""
    zone = _zone()
    month, months = _month(request, inventory, zone)
    time = costs.month_of(month.year, month.month, zone)
    rows = costs.spends(inventory, *time, recorded=False)
    replayed = costs.spends(inventory, *time, recorded=True)
    heads = (
        ("source", _("Purpose")), ("model", _("Model")), ("day", _("Day")), ("run", _("Run")), ("policy", _("Policy")),
    )  # fmt: skip
    technical = request.user.technical_terms
    sources = costs.grouped(rows, "source")
    total = shown.Row(costs.sum_of(sources))
    again = costs.grouped(replayed, "source")
    tables = [
        {
            "name": name,
            "head": head,
            "title": _("By %(what)s") % {"what": head[:1].lower() + head[1:]},
            "rows": shown.rows(
                inventory, name, sources if name == "source" else costs.grouped(rows, name, zone), technical=technical
            ),
        }
        for name, head in (heads if total.line.calls else ())
    ]
    context: dict[str, Any] = {
        "tabs": tabs(request, inventory, "costs"), "month": month, "months": months, "total": total, "tables": tables,
        "replayed": shown.rows(inventory, "source", again, technical=technical),
        "replayed_n": costs.sum_of(again).calls,
    }  # fmt: skip
    return render(request, "costs/costs.html#month" if wants_part(request) else "costs/costs.html", context)


@require_GET
@require(Role.VIEWER)
def costs_figures(request: Request, inventory: Inventory) -> HttpResponse:
    """The month's money by day, as a figure."""
    zone = _zone()
    month, _months = _month(request, inventory, zone)
    rows = costs.spends(inventory, *costs.month_of(month.year, month.month, zone), recorded=False)
    lines = costs.grouped(rows, "day", zone)
    return JsonResponse({"days": figures_pages.costs_figure(lines, month)} if lines else {})


@require_GET
@require(Role.VIEWER)
def costs_file(request: Request, inventory: Inventory) -> HttpResponseBase:
    """The month's rows as CSV, one per model call; an empty money is an unknown price."""
    zone = _zone()
    month, _months = _month(request, inventory, zone)
    rows = costs.spends(inventory, *costs.month_of(month.year, month.month, zone))
    response = StreamingHttpResponse(csv_lines(COLUMNS, costs.ledger(rows)), content_type="text/csv; charset=utf-8")
    name = f"costs-{inventory.slug}-{month:%Y-%m}.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _zone() -> zoneinfo.ZoneInfo:
    return zoneinfo.ZoneInfo(timezone.get_current_timezone_name())


def _month(request: Request, inventory: Inventory, zone: zoneinfo.ZoneInfo) -> tuple[date, list[date]]:
    months = costs.months(inventory, zone)
    asked = request.GET.get("month", "")
    return next((month for month in months if f"{month:%Y-%m}" == asked), months[0]), months
