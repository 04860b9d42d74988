"""Conversations: the list with its import, and one conversation with what was selected at each of its turns."""

from typing import Any
from urllib.parse import urlencode

from django.db import transaction
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from console import tasks
from console.models import Inventory, Role, ViewPage
from console.permissions import Request, actor_of, refused, require, wants_part
from console.presenters import conversations as shown
from console.presenters import conversations_acts, filter_bar
from console.services import conversation_list as lists
from console.services import conversations as service
from console.services import embed
from console.services.conversation_fields import FLAGS, fields
from console.services.conversations import Policy, Talk
from console.services.errors import Unavailable
from console.services.human_labels import judge_name
from console.services.ingest import Report
from console.services.ingest_conversations import import_conversations
from console.views import reveal, saved_views
from console.views.frame import whole
from sq_core.readers import read_conversations

MOST_BYTES = 10 * 1024 * 1024
AT_ONCE = 200  # states embedded in the request; more are left to the worker
ERRORS_SHOWN = 50
MOST_KEPT = 4_000  # characters of a list's query that its rows carry along


# ------------------------------------------------------------------------------------------------------------------- list
@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.VIEWER)
def conversations(request: Request, inventory: Inventory) -> HttpResponse:
    """The list; a POST imports a file (authors) and shows its report above the list."""
    report: dict[str, Any] = {}
    status = 200
    if request.method == "POST":
        if not request.role.includes(Role.AUTHOR):
            return refused(request, Role.AUTHOR)
        report = _import(request)
        status = 422 if report.get("refused") else 200
    if request.method == "GET" and (address := filter_bar.added(request.GET)) is not None:
        return redirect(request.path + address)
    saved_views.opened(request, ViewPage.CONVERSATIONS)
    asks = lists.wanted(
        inventory, q=request.GET.get("q", ""), f=request.GET.getlist("f"), sort=request.GET.get("sort", "")
    )
    page = lists.page(inventory, asks, after=request.GET.get("after", "")[:12])
    part = wants_part(request) and request.method == "GET"
    context = {
        "page": page,
        "wanted": asks,
        "bar": _bar(request, inventory, asks, page),
        "names": service.names_of(page.ground.bundle),
        "operating_point": page.ground.point,
        "walk": _walk(request),
        "acts": [(do, act.label) for do, act in conversations_acts.ACTS.items() if request.role.includes(act.needs)],
        "query": request.GET.urlencode(),
        "shelf": None if part else saved_views.shelf(request, ViewPage.CONVERSATIONS),
        "part": part,
        **report,
    }
    return render(
        request, "conversations/list.html#rows" if part else "conversations/list.html", context, status=status
    )


def _bar(request: Request, inventory: Inventory, asks: lists.Wanted, page: lists.Page) -> filter_bar.Bar:
    sort = request.GET.get("sort", "")
    switches = {f"flag:is:{name}": (label, None) for name, label in FLAGS.items()}
    return filter_bar.bar(
        request.GET,
        asks.asked,
        fields(inventory),
        ignored=[(f"sort={sort}", _("no order of this list"))] if sort != asks.sort else [],
        switches=switches | {"differs:is:yes": (_("AI reviewer and policy differ"), None)},
        shown=len(page.rows),
        total=page.total,
        more=page.more,
    )


def _walk(request: Request) -> str:
    """What a conversation's own page needs of this list's address to lead on to the next one: "?in=…"."""
    kept = [(name, value) for name in ("q", "f", "sort") for value in request.GET.getlist(name) if value]
    return "?" + urlencode({"in": urlencode(kept, errors="replace")}) if kept else "?in="


def _import(request: Request) -> dict[str, Any]:
    file = request.FILES.get("file")
    if file is None or not file.size:
        return {"refused": _("Choose a file that holds one conversation per line."), "open_import": True}
    if file.size > MOST_BYTES:
        text = _("The file has %(mb)s MB; at most 10 are taken here. Use the command for larger ones.")
        return {"refused": text % {"mb": f"{file.size / 1024 / 1024:.1f}"}, "open_import": True}
    inventory, name = request.inventory, file.name or ""
    report = import_conversations(inventory, read_conversations(file.read(), filename=name), by=actor_of(request))
    return {"report": report, "errors": report.errors[:ERRORS_SHOWN], "scored": _score(inventory, report)}


def _score(inventory: Inventory, report: Report) -> str:
    """What became of the vectors: made now, left to the worker, or waiting for the encoder."""
    if not report.changed:
        return ""
    waiting = embed.pending_states(inventory).count()
    if waiting > AT_ONCE:
        transaction.on_commit(lambda: tasks.embed_pending.delay(inventory.pk), robust=True)
        return _("%(n)s turns are not scored yet: the worker reads them in the background.") % {"n": waiting}
    try:
        done = embed.embed_states(inventory)
    except Unavailable as error:
        return _("Not scored yet, %(n)s turns wait: %(error)s") % {"n": waiting, "error": error.message}
    return _("%(n)s turns scored.") % {"n": done} if done else ""


# ------------------------------------------------------------------------------------------------------ one conversation
@require_GET
@require(Role.VIEWER)
def conversation(request: Request, inventory: Inventory, conversation: str) -> HttpResponse:
    """``?t=`` the user turn from 0 (default: the last), ``?p=`` a policy's key, ``?sort=margin|disagreement``,
    ``?full=`` a message's index to show whole.
    """
    found = service.talk(inventory, conversation, user_turn=whole(request.GET.get("t", "")))
    context = context_of(request, found) | {"walked": _walked(request, found)}
    template = "conversations/turn.html" if wants_part(request) else "conversations/conversation.html"
    return render(request, template, context)


def _walked(request: Request, found: Talk) -> dict[str, str]:
    """Addresses of the list that led here, and of the conversations before and after this one in it (``?in=`` its query)."""
    if (kept := request.GET.get("in")) is None:
        return {}
    query = QueryDict(kept[:MOST_KEPT])
    asks = lists.wanted(request.inventory, q=query.get("q", ""), f=query.getlist("f"), sort=query.get("sort", ""))
    before, after = lists.beside(request.inventory, asks, found.conversation)
    tail = "?" + urlencode({"in": query.urlencode()})
    slug = request.inventory.slug
    walked = {name: reverse("conversation", args=[slug, public_id]) + tail
              for name, public_id in (("before", before), ("after", after)) if public_id}  # fmt: skip
    listed = reverse("conversations", args=[slug]) + (f"?{query.urlencode()}" if query else "")
    return walked | {"list": listed, "filtered": "yes" if asks.any else ""}


def context_of(request: Request, found: Talk, *, policy: str = "") -> dict[str, Any]:
    """What the conversation's page and its parts need; ``policy`` in place of the one the address chooses."""
    asked = request.GET.get("t", "")
    sort = request.GET.get("sort", "") if request.GET.get("sort") in shown.SORTS else "margin"
    groups = (
        shown.groups(
            found, found.at, sort, whole=request.GET.get("all") == "1", chosen=policy or request.GET.get("p", "")
        )
        if found.turns
        else []
    )
    rows = [row for group in groups for row in group.rows]
    chosen = _chosen(rows, policy or request.GET.get("p", ""))
    for group in groups:
        group.folded = group.folded and chosen not in group.rows
    key = chosen.key if chosen else ""
    full = {n for text in request.GET.getlist("full") if (n := whole(text)) is not None}
    turn = found.turns[found.at] if found.turns else None
    return {
        "talk": found,
        "conversation": found.conversation,
        "operating_point": found.ground.point,
        "names": service.names_of(found.bundle),
        "turn": turn,
        "wrong_turn": asked if asked and turn is not None and str(turn.user_turn) != asked else "",
        "rail": shown.rail(found, key),
        "transcript": shown.transcript(found, full=full, chosen=key),
        "groups": groups,
        "sort": sort,
        "sorts": shown.SORTS,
        "chosen": chosen,
        "mine": _mine(request, chosen),
        "transition": found.transition(key) if key else None,
        "links": _links(request, found, rows, key, sort),
        "scores": range(1, 6),
        **reveal.look(request, found.conversation),
    }


def _chosen(rows: list[Policy], key: str) -> Policy | None:
    return next((row for row in rows if row.key == key), rows[0] if rows else None)


def _mine(request: Request, chosen: Policy | None) -> int | None:
    name = judge_name(request.user)
    return next((o.score for o in chosen.people if o.judge == name), None) if chosen else None


def _links(request: Request, found: Talk, rows: list[Policy], key: str, sort: str) -> dict[str, str]:
    """The addresses beside this one: turn before and after, policy before and after."""
    keys = [row.key for row in rows]
    at = keys.index(key) if key in keys else -1
    base = reverse("conversation", args=[request.inventory.slug, found.conversation.public_id])

    def to(t: int, p: str) -> str:
        values = {"t": t, "p": p, "sort": "" if sort == "margin" else sort}
        return f"{base}?{urlencode({k: v for k, v in values.items() if v != ''} | walk)}"

    kept = request.GET.get("in")
    walk = {} if kept is None else {"in": kept[:MOST_KEPT]}
    tail = {"sort": sort} if sort != "margin" else {}
    links = {"here": to(max(found.at, 0), key), "base": base}
    links["walk"] = f"&{urlencode(walk)}" if walk else ""
    links["tail"] = (f"&{urlencode(tail)}" if tail else "") + links["walk"]
    if found.at > 0:
        links["turn_before"] = to(found.at - 1, key)
    if found.at < len(found.turns) - 1:
        links["turn_after"] = to(found.at + 1, key)
    if at > 0:
        links["policy_before"] = to(found.at, keys[at - 1])
    if 0 <= at < len(keys) - 1:
        links["policy_after"] = to(found.at, keys[at + 1])
    return links
