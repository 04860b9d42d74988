"""The workbench's Metrics tab: what its template needs, and its figures as JSON."""

import zoneinfo
from typing import Any

from django.http import HttpResponse, JsonResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET

from console.models import Inventory, Role
from console.permissions import Request, require
from console.presenters import figures_metrics as figures
from console.services import metrics as service
from console.services import workbench
from console.services.workbench import Ground
from console.views import as_of

LISTED = 31  # newest days of the table


def zone_of_reader() -> zoneinfo.ZoneInfo:
    return zoneinfo.ZoneInfo(timezone.get_current_timezone_name())


def context(request: Request, ground: Ground, here: Any) -> dict[str, Any]:
    if not ground.scored:
        return {"metrics": None}
    found = service.metrics(ground, zone_of_reader())
    bins = zip(found.histogram.edges[:-1], found.histogram.edges[1:], *found.histogram.counts.values(), strict=True)
    curve = found.curve
    marks = []
    if curve is not None:
        for target in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
            reached = [i for i, recall in enumerate(curve.recall) if recall >= target - 1e-9]
            best = max(reached, key=lambda i: curve.precision[i], default=None)
            if best is not None:
                marks.append((target, float(curve.precision[best]), float(curve.cutoff[best])))
    return {
        "metrics": found,
        "days": list(reversed(found.daily.days))[:LISTED],
        "days_n": len(found.daily.days),
        "bins": [row for row in bins if sum(row[2:])],
        "marks": marks,
        "figures_url": reverse("policy-metrics-figures", args=[request.inventory.slug, ground.artifact.key])
        + here.past,
        "target": request.inventory.target_recall,
    }


@require_GET
@require(Role.VIEWER)
def metrics_figures(request: Request, inventory: Inventory, key: str) -> HttpResponse:
    ground = workbench.ground(inventory, key, past=as_of.asked(request.GET, inventory).past)
    technical, found = request.user.technical_terms, {}
    if ground.scored:
        read = service.metrics(ground, zone_of_reader())
        found = {"histogram": figures.histogram_figure(read.histogram, technical=technical)}
        if read.daily.days:
            found["daily"] = figures.daily_figure(read.daily, technical=technical)
        if read.curve is not None:
            found["curve"] = figures.curve_figure(read.curve, target=inventory.target_recall, technical=technical)
    response = JsonResponse(found)
    response["Cache-Control"] = "private, no-cache"
    return response
