"""The planner: an amount of money, the ways to spend it on reviews, and the runs of the one that is chosen."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from console.forms.plan import PlanForm
from console.forms.runs import add_run_error
from console.models import Inventory, ModelRole, Role
from console.permissions import Request, actor_of, require
from console.presenters.plans import Way
from console.services import judge_plan, judge_plan_start, models_setting
from console.services.errors import Invalid
from console.views.frame import say
from console.views.runs import wake


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.AUTHOR)
def run_plan(request: Request, inventory: Inventory) -> HttpResponse:
    """GET with an amount: what it buys. POST: the runs of one way, if it still is what was shown (``start``)."""
    setting = models_setting.get_model(inventory, ModelRole.JUDGE)
    priced = models_setting.cost(setting, 1, 1) is not None
    data = request.POST if request.method == "POST" else request.GET
    form = PlanForm(data if "measure" in data else None, priced=priced)
    ways: list[Way] = []
    if form.is_bound and form.is_valid():
        try:
            ways = [Way(plan) for plan in judge_plan.plans(inventory, **form.asked())]
        except Invalid as error:
            add_run_error(form, error)
    moved = request.method == "POST"
    chosen = next((way for way in ways if way.seen == request.POST.get("start")), None)
    if chosen is not None and chosen.plan.parts:
        asked = form.asked()
        made = judge_plan_start.start(
            inventory, chosen.plan, by=actor_of(request), money=asked.get("money"), tokens=asked.get("tokens")
        )
        for run in made:
            wake(run)
        n = len(made)
        say(request, ngettext("%(n)s run is planned.", "%(n)s runs are planned.", n) % {"n": n})
        return redirect("runs", inventory.slug)
    context: dict[str, Any] = {
        "form": form,
        "ways": ways,
        "setting": setting,
        "priced": priced,
        "moved": moved and ways,
    }
    return render(request, "runs/plan.html", context, status=422 if form.errors else 200)
