"""Saved views: a list's address under a name, for oneself or for everybody of the inventory; a shared selection of rows.

The address stays the only state: a view holds its query string, opening it means reading that. A selection is a view whose
query names itself ("f=among:is:<id>"), so that pages, exports and bulk acts read it as any other condition.
"""

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from console.models import Inventory, SavedView, User, ViewPage
from console.services import audit
from console.services.actor import Actor
from console.services.errors import Forbidden, Invalid, NotFound
from console.services.filters import Field
from sq_core.conversation import clean_text

NAME, QUERY, IDS = 80, 4_000, 10_000  # characters of a name and of a query; rows of a selection
MOST = 200  # views of one person and page
AMONG = "among"
_DROPPED = ("after", "view", "seen", "csrfmiddlewaretoken")


def visible(inventory: Inventory, user: User, page: str = "") -> QuerySet[SavedView]:
    """One's own and what others have shared, by name."""
    rows = SavedView.objects.filter(Q(owner=user) | Q(shared=True), inventory=inventory).select_related("owner")
    return (rows.filter(page=page) if page else rows).order_by("page", "name", "pk")


def get_view(inventory: Inventory, user: User, public_id: str, page: str = "") -> SavedView:
    """Raises NotFound: somebody's private view does not exist for others."""
    found = visible(inventory, user, page).filter(public_id=public_id).first()
    if found is None:
        raise NotFound("There is no such saved view, or it is not shared.", field="view")
    return found


def save_view(
    inventory: Inventory,
    page: str,
    *,
    by: Actor,
    name: str,
    query: str = "",
    ids: Sequence[str] = (),
    shared: bool = False,
) -> SavedView:
    """Keep an address under a name; with ``ids`` (public ids or keys) the selection alone. Raises Invalid."""
    owner = _person(by)
    if page not in ViewPage.values:
        raise Invalid(f"There is no list {page[:40]!r}.", field="page")
    if len(ids) > IDS:
        raise Invalid(f"{len(ids)} rows are selected; at most {IDS} are kept.", field="ids", hint="Use a filter.")
    with transaction.atomic():
        if SavedView.objects.filter(owner=owner, inventory=inventory, page=page).count() >= MOST:
            raise Invalid(
                f"You have {MOST} views of this list.", field="name", hint="Delete one that you no longer use."
            )
        view = SavedView(inventory=inventory, page=page, name=_name(name), owner=owner, shared=shared)
        view.query = urlencode({"f": f"{AMONG}:is:{view.public_id}"}) if ids else checked_query(query)
        view.ids = sorted(set(ids)) if ids else None
        _write(view)
        _record(view, by, "save", after=_fields(view))
    return view


def change_view(view: SavedView, *, by: Actor, name: str | None = None, shared: bool | None = None) -> SavedView:
    """Rename, share or take back one's own. Raises Forbidden for somebody else's, Invalid for a name that is taken."""
    _own(view, by)
    before = _fields(view)
    view.name = view.name if name is None else _name(name)
    view.shared = view.shared if shared is None else shared
    if _fields(view) != before:
        with transaction.atomic():
            _write(view)
            _record(view, by, "change", before=before, after=_fields(view))
    return view


def delete_view(view: SavedView, *, by: Actor) -> None:
    """Raises Forbidden for somebody else's."""
    _own(view, by)
    with transaction.atomic():
        _record(view, by, "delete", before=_fields(view))
        view.delete()


def checked_query(query: str) -> str:
    """A list's query without its place and what is nobody's. Raises Invalid."""
    pairs = [(name, value) for name, value in parse_qsl(query.lstrip("?")) if name not in _DROPPED]
    kept = urlencode([(clean_text(name)[0], clean_text(value)[0]) for name, value in pairs])
    if len(kept) > QUERY:
        raise Invalid(f"The address has {len(kept)} characters.", field="query", hint=f"At most {QUERY} are kept.")
    return kept


def _name(name: str) -> str:
    found = clean_text(name)[0].strip()
    if not 0 < len(found) <= NAME:
        raise Invalid(f"A name has 1 to {NAME} characters.", field="name")
    return found


def _person(by: Actor) -> User:
    if by.user is None:
        raise Invalid("A view belongs to a person.", hint="Sign in.")
    return by.user


def _own(view: SavedView, by: Actor) -> None:
    if view.owner_id != _person(by).pk:
        raise Forbidden(f"This view is {view.owner.get_username()}'s.", hint="Save it under a name of your own.")


def _write(view: SavedView) -> None:
    try:
        with transaction.atomic():
            view.save()
    except IntegrityError:
        raise Invalid(
            f"You have a view {view.name!r} of this list.", field="name", hint="Choose another name."
        ) from None


def _fields(view: SavedView) -> dict[str, Any]:
    return {"page": view.page, "name": view.name, "shared": view.shared, "query": view.query}


def _record(view: SavedView, by: Actor, what: str, *, before: Any = None, after: Any = None) -> None:
    audit.record(
        by=by, inventory=view.inventory.slug, action=f"view.{what}", object_type="view", object_id=view.public_id,
        label=view.name, before=before, after=after,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- selections
def ids_of(inventory: Inventory, public_id: str) -> list[str]:
    """The rows of a selection; none for what is no selection. Who knows its id may use it: it names rows, nothing more."""
    view = SavedView.objects.filter(inventory=inventory, public_id=public_id, ids__isnull=False).first()
    return list(view.ids or ()) if view else []


def selections(inventory: Inventory, page: str) -> dict[str, frozenset[str]]:
    """Every selection of a list, by its id."""
    rows = SavedView.objects.filter(inventory=inventory, page=page, ids__isnull=False).values_list("public_id", "ids")
    return {public_id: frozenset(ids or ()) for public_id, ids in rows}


def among(inventory: Inventory, q: Callable[[list[str]], Q]) -> Field:
    """The condition "one of a selection" of a list whose rows ``q`` finds by their public ids."""
    return Field(
        AMONG,
        _("Selection"),
        "choice",
        q=lambda op, value: q(ids_of(inventory, value)),
        hint=_("a saved selection's id"),
    )
