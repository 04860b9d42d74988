"""The first steps: a guided way through the main job on the sample, with its progress read from the database."""

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from console.models import Inventory, Role
from console.permissions import Request, actor_of, inventories_of, role_of, signed_in
from console.presenters import tour
from console.services import accounts, sample
from console.services.errors import Conflict
from console.views.frame import say

YEAR = 365 * 24 * 3600


@require_GET
@signed_in
def start(request: Request) -> HttpResponse:
    steps = tour.progress(request.user, request.session.get(tour.SESSION, []))
    context = {
        "steps": steps,
        "member": role_of(request.user, steps.inventory) if steps.inventory else None,
        "others": [i for i in inventories_of(request.user) if i.slug != tour.INVENTORY],
        "policy": tour.POLICY,
        "hidden": request.COOKIES.get(tour.COOKIE) == "off",
    }
    return render(request, "start/start.html", context)


@require_GET
@signed_in
def go(request: Request, step: str) -> HttpResponse:
    """Open the page of a step, and note that it was opened."""
    steps = tour.progress(request.user, request.session.get(tour.SESSION, []))
    if steps.inventory is None or steps.state is None or role_of(request.user, steps.inventory) is None:
        raise Http404
    slug, conversation = steps.inventory.slug, steps.state.conversation.public_id
    pages = {
        "firing": reverse("conversation", args=[slug, conversation]) + f"?t={tour.TURN}#t{tour.TURN}",
        "why": reverse("why", args=[slug, conversation, tour.TURN, tour.POLICY]),
        "promote": reverse("policy", args=[slug, tour.POLICY]) + f"?turn={steps.state.pk}#turn-{steps.state.pk}",
        "undo": reverse("undo", args=[slug, steps.change.public_id]) if steps.change else reverse("start"),
        "own": reverse("policy-new", args=[slug]),
    }
    if step not in pages:
        raise Http404
    if step in tour.OPENED:
        request.session[tour.SESSION] = sorted({*request.session.get(tour.SESSION, []), step})
    return redirect(pages[step])


LOOP_SLUGS = 20


@require_POST
@signed_in
def loop(request: Request) -> HttpResponse:
    """A copy of the sample's policies and conversations with nothing else, for whoever may write in the sample."""
    steps = tour.progress(request.user, request.session.get(tour.SESSION, []))
    role = role_of(request.user, steps.inventory) if steps.inventory else None
    if role is None or not role.includes(Role.AUTHOR):
        raise Http404
    by = actor_of(request)
    taken = set(Inventory.objects.filter(slug__startswith="sky-loop").values_list("slug", flat=True))
    free = [slug for n in range(1, LOOP_SLUGS + 1) if (slug := f"sky-loop-{n}") not in taken]
    if not free:
        raise Conflict(_("There are enough copies."), hint=_("Go on in one of them."))
    made = sample.load_bare(free[0], by=by)
    accounts.set_role(request.user, made, Role.ADMIN, by=by)
    say(request, _("A copy without examples and judgements. Generate, judge, mine: every run kind works, recorded."))
    return redirect("runs", inv=made.slug)


@require_POST
@signed_in
def dismiss(request: Request) -> HttpResponse:
    """Take the first steps off the home page, or put them back; /start/ itself stays."""
    hide = request.POST.get("hide") == "1"
    response = redirect("front")
    if hide:
        response.set_cookie(tour.COOKIE, "off", max_age=YEAR, samesite="Lax", secure=request.is_secure(), httponly=True)
        say(request, _("First steps are off the home page; the link below every page keeps them."))
    else:
        response = redirect("start")
        response.delete_cookie(tour.COOKIE, samesite="Lax")
    return response
