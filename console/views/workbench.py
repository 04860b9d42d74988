"""The policy workbench: turns shown and missed, map, exemplars, versions. Each tab is a page, or its body for htmx."""

from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.http import parse_etags, quote_etag
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from console.models import Inventory, Role
from console.permissions import Request, require, wants_part
from console.presenters import figures
from console.services import workbench
from console.services.errors import Invalid
from console.services.workbench_map import LISTED, Map
from console.views import as_of, workbench_beside
from console.views.workbench_tabs import TABS, context_of, here_from, here_of, may_write, number


def page(request: Request, inventory: Inventory, key: str, tab: str) -> HttpResponse:
    """With ``?as_of=`` as it was at that time, for reading only."""
    back = as_of.asked(request.GET, inventory)
    ground = workbench.ground(inventory, key, past=back.past)
    context = context_of(request, ground, here_of(request, tab)) | {"as_of": back}
    template = TABS[tab].template
    return render(request, f"{template}#body" if wants_part(request) else template, context, status=back.status)


@require_GET
@require(Role.VIEWER)
def shown(request: Request, inventory: Inventory, key: str) -> HttpResponse:
    return page(request, inventory, key, "shown")


@require_GET
@require(Role.VIEWER)
def exemplars(request: Request, inventory: Inventory, key: str) -> HttpResponse:
    return page(request, inventory, key, "exemplars")


@require_GET
@require(Role.VIEWER)
def version_list(request: Request, inventory: Inventory, key: str) -> HttpResponse:
    """The versions; with two ticked (``?v=11&v=12``) their difference."""
    ticked = request.GET.getlist("v")
    if ticked:
        numbers = sorted({int(v) for v in ticked if v.isdecimal() and len(v) < 10})
        if len(numbers) != 2 or len(ticked) != 2:
            raise Invalid(_("Two versions are needed to compare."), field="v", hint=_("Tick exactly two."))
        return redirect("policy-diff", inventory.slug, key, *numbers)
    return page(request, inventory, key, "versions")


@require_GET
@require(Role.REVIEWER)
def history(request: Request, inventory: Inventory, key: str) -> HttpResponse:
    """What the audit has of the policy."""
    return page(request, inventory, key, "history")


@require_GET
@require(Role.VIEWER)
def metrics(request: Request, inventory: Inventory, key: str) -> HttpResponse:
    return page(request, inventory, key, "metrics")


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.VIEWER)
def map_page(request: Request, inventory: Inventory, key: str) -> HttpResponse:
    """The map's page, with ``?beside=`` two policies' maps of one chat; a POST is a selection on the plot (too long for an
    address) and answers with its list."""
    if request.method == "POST":
        here = here_from(request.POST.get("next", ""), inventory, key)
        ground = workbench.ground(inventory, key, past=as_of.asked(here.query, inventory).past)
        if not ground.scored:
            raise Http404
        drawn = Map(ground)
        among = [row for row in request.POST.get("ids", "").split(",") if row]
        rows, total = drawn.listed(among=among, size=4 * LISTED)
        context = {
            "ground": ground, "artifact": ground.artifact, "here": here, "points": rows, "total": total, "selected": True,
            "may_write": may_write(request, ground), "spans": 1.0,
        }  # fmt: skip
        return render(request, "policies/workbench/map.html#list", context)
    if request.GET.get("beside"):
        return workbench_beside.page(request, inventory, key)
    return page(request, inventory, key, "map")


@require_GET
@require(Role.VIEWER)
def map_points(request: Request, inventory: Inventory, key: str) -> HttpResponse:
    """The figures as JSON, with an ETag: the same map is sent once."""
    ground = workbench.ground(inventory, key, past=as_of.asked(request.GET, inventory).past)
    if not ground.scored:
        return JsonResponse({"map": None, "strip": None, "points": 0})
    preview = number(request.GET, "theta")
    technical = request.user.technical_terms
    drawn = Map(ground)
    etag = quote_etag(f"{drawn.etag(preview)}{'t' if technical else 'p'}")
    if etag in parse_etags(request.headers.get("If-None-Match", "")):
        response = HttpResponse(status=304)
    else:
        response = JsonResponse(figures.map_json(drawn, preview=preview, technical=technical))
    response["ETag"] = etag
    response["Cache-Control"] = "private, no-cache"
    return response
