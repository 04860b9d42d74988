"""Who may do what: a ladder of roles per inventory, asked before a view calls a service. Services do not ask."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast
from urllib.parse import urlencode

from django.db import OperationalError
from django.db.models import Case, Count, OuterRef, Subquery, When
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django_htmx.middleware import HtmxDetails

from console.models import Inventory, Membership, Role, Run, User
from console.services.actor import Actor, person
from console.services.database_trouble import as_refusal
from console.services.errors import Conflict, NotFound, ServiceError
from console.services.idempotency import Claim

P = ParamSpec("P")
LAST = "inventory"  # in the session
logger = logging.getLogger(__name__)


class Request(HttpRequest):
    """A signed-in person's request; ``inventory`` and ``role`` are set on an inventory's pages."""

    user: User
    htmx: HtmxDetails
    inventory: Inventory
    inventories: list[Inventory] | None  # all that are the person's; None: not read
    role: Role
    runs_at_work: int
    request_id: str
    claim: Claim | None
    in_clear: bool  # this page's own conversation is revealed to who reads it (`views.reveal`)


def role_of(user: Any, inventory: Inventory) -> Role | None:
    """The user's role there, or None for somebody who is not a member. Superusers are admins everywhere."""
    if not user.is_authenticated or not user.is_active:
        return None
    if user.is_superuser:
        return Role.ADMIN
    membership = Membership.objects.filter(user=user, inventory=inventory).first()
    return Role(membership.role) if membership else None


@dataclass(frozen=True)
class _Entered:
    """An inventory that somebody may enter. ``mine``: all that are theirs, by name; None for a superuser's, which are all.
    ``at_work``: its runs that have not ended and wait for nobody."""

    inventory: Inventory
    role: Role
    mine: list[Inventory] | None
    at_work: int


def _entered(user: User, slug: str) -> _Entered | None:
    """The inventory of that slug, with its judge: one query. None: not theirs, or not there."""
    working = Run.objects.working().order_by().values("inventory").annotate(n=Count("pk")).values("n")
    if user.is_superuser:
        rows = Inventory.objects.select_related("judge").filter(slug=slug)
        found = rows.annotate(at_work=Subquery(working.filter(inventory=OuterRef("pk")))).first()
        return _Entered(found, Role.ADMIN, None, found.at_work or 0) if found else None
    theirs = Membership.objects.select_related("inventory__judge").filter(user=user)
    here = Case(When(inventory__slug=slug, then=Subquery(working.filter(inventory=OuterRef("inventory")))))
    members = list(theirs.annotate(at_work=here))
    mine = sorted((row.inventory for row in members), key=lambda inventory: (inventory.name, inventory.slug))
    entered = (_Entered(m.inventory, Role(m.role), mine, m.at_work or 0) for m in members if m.inventory.slug == slug)
    return next(entered, None)


def inventories_of(user: Any) -> "list[Inventory]":
    """Those the user may see, by name."""
    if not user.is_authenticated:
        return []
    rows = Inventory.objects.order_by("name", "slug")
    return list(rows if user.is_superuser else rows.filter(memberships__user=user))


def last_inventory(request: HttpRequest) -> Inventory | None:
    """The one the person looked at last, if they still may; else their first."""
    mine = inventories_of(request.user)
    last = request.session.get(LAST)
    return next((inventory for inventory in mine if inventory.slug == last), mine[0] if mine else None)


def holders(inventory: Inventory, needed: Role) -> list[Membership]:
    """Who can: the members whose role includes ``needed``, highest first."""
    rows = Membership.objects.filter(inventory=inventory, user__is_active=True).select_related("user")
    able = [row for row in rows if Role(row.role).includes(needed)]
    return sorted(able, key=lambda row: (-Role(row.role).rank, row.user.get_username()))


def may_reveal(request: Request) -> bool:
    """Whether who asks has the role that sees what the inventory hides."""
    return request.role.includes(Role(request.inventory.reveal_role))


def actor_of(request: HttpRequest) -> Actor:
    """Who acts, under the key of the form that was sent (`claim`), if it has one."""
    held: Claim | None = getattr(request, "claim", None)
    actor = person(cast("User", request.user), getattr(request, "request_id", ""))
    role: Role | None = getattr(request, "role", None)
    actor = replace(actor, overrides=role is not None and role.includes(Role.PUBLISHER))
    return replace(actor, claim=held.record.pk) if held else actor


def wants_part(request: HttpRequest) -> bool:
    """An htmx request that is not htmx 2 restoring a page from the history: those get the whole page."""
    htmx = cast("Request", request).htmx
    return bool(htmx) and not htmx.history_restore_request


def to_sign_in(request: HttpRequest) -> HttpResponse:
    """The sign-in page, coming back here afterwards; an htmx request leaves the whole page for it."""
    back = request.get_full_path() if request.method in {"GET", "HEAD"} and not wants_part(request) else ""
    address = reverse("sign-in") + (f"?{urlencode({'next': back})}" if back and back != "/" else "")
    if wants_part(request):
        response = HttpResponse(status=204)
        response["HX-Redirect"] = address
        return response
    return HttpResponseRedirect(address)


def refused(request: Request, needed: Role) -> HttpResponse:
    """403: what role it takes, which one you have, and who can."""
    template = "_ui/forbidden.html" if wants_part(request) else "errors/403.html"
    context = {"needed": needed, "role": request.role, "holders": holders(request.inventory, needed)}
    return render(request, template, context, status=403)


def failed(request: HttpRequest, error: ServiceError) -> HttpResponse:
    """A service's refusal, as a page or as the fragment that takes the place of the target."""
    if isinstance(error, NotFound):
        raise Http404(error.message) from error
    part = "_ui/merge_card.html" if isinstance(error, Conflict) else "_ui/error.html"
    page = "errors/409.html" if isinstance(error, Conflict) else "errors/refused.html"
    response = render(request, part if wants_part(request) else page, {"error": error}, status=error.status)
    if (after := getattr(error, "retry_after", None)) is not None:
        response["Retry-After"] = str(after)
    return response


def refused_by_database(request: HttpRequest, error: OperationalError) -> HttpResponse:
    """503 for a lock that was not to be had, a deadlock, a server that is away; where this fails too, the page of
    `views.errors` answers."""
    logger.error("%s %s failed", request.method, request.path, exc_info=error)
    return failed(request, as_refusal(error))


def require(
    needed: Role,
) -> Callable[[Callable[Concatenate[Request, Inventory, P], HttpResponseBase]], Callable[..., HttpResponseBase]]:
    """``@require(Role.AUTHOR) def view(request, inventory, …)``: URLs give ``inv``, views get the Inventory.

    An inventory one is not a member of does not exist: 404, as for a wrong address.
    A ServiceError that the view lets through is answered here, and a database that refuses.
    """

    def decorate(
        view: Callable[Concatenate[Request, Inventory, P], HttpResponseBase],
    ) -> Callable[..., HttpResponseBase]:
        @wraps(view)
        def inner(any_request: HttpRequest, inv: str, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if not any_request.user.is_authenticated:
                return to_sign_in(any_request)
            request = cast("Request", any_request)
            entered = _entered(request.user, inv)
            if entered is None:
                raise Http404
            inventory, role = entered.inventory, entered.role
            request.inventory, request.role, request.inventories = inventory, role, entered.mine
            request.runs_at_work = entered.at_work
            if request.session.get(LAST) != inventory.slug:
                request.session[LAST] = inventory.slug
            if not role.includes(needed):
                return refused(request, needed)
            try:
                return view(request, inventory, *args, **kwargs)
            except ServiceError as error:
                return failed(request, error)
            except OperationalError as error:
                return refused_by_database(request, error)

        inner.needed = needed  # type: ignore[attr-defined]  # what the tests walk over
        return inner

    return decorate


def signed_in(view: Callable[Concatenate[Request, P], HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """For pages outside an inventory: anybody with an account."""

    @wraps(view)
    def inner(any_request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if not any_request.user.is_authenticated:
            return to_sign_in(any_request)
        request = cast("Request", any_request)
        last = last_inventory(any_request)
        if last is not None:  # its navigation stays around the page
            request.inventory, request.role = last, cast("Role", role_of(request.user, last))
        try:
            return view(request, *args, **kwargs)
        except ServiceError as error:
            return failed(request, error)
        except OperationalError as error:
            return refused_by_database(request, error)

    inner.needed = None  # type: ignore[attr-defined]
    return inner
