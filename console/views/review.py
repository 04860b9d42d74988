"""Review (P7): queues with their progress, one item after the other by keys, answers taken back from any page."""

from datetime import timedelta
from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from console.forms import add_service_error
from console.forms.review import QueueForm
from console.models import Inventory, QueueKind, ReviewItem, ReviewQueue, Role
from console.permissions import Request, actor_of, require, wants_part
from console.presenters import review as shown
from console.presenters.agreement import Card, card
from console.services import filters, precision, review_items, review_queues, review_read
from console.services.agreement import queue_kappa
from console.services.errors import Invalid, ServiceError
from console.services.review_items import LAST, Given
from console.views import reveal
from console.views.frame import posted, say, whole


# --------------------------------------------------------------------------------------------------------------- the queues
@require_GET
@require(Role.VIEWER)
def review(request: Request, inventory: Inventory) -> HttpResponse:
    rows, following = review_queues.rows(inventory, before=whole(request.GET.get("after", "")))
    empty = not rows and not request.GET.get("after")
    context = {
        "rows": [(row, shown.kind(row.queue.kind)) for row in rows],
        "next": following,
        "empty": empty,
        "choices": shown.choices(inventory) if empty else [],
    }
    return render(request, "review/list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.AUTHOR)
def review_new(request: Request, inventory: Inventory) -> HttpResponse:
    """``?kind=`` which one is ticked, ``?f=`` conditions as the list of conversations has them."""
    asked = request.GET.get("kind", QueueKind.MISSES)
    kind = asked if asked in shown.KINDS else QueueKind.MISSES
    where = "\n".join(request.GET.getlist("f")[: filters.MOST])
    form = QueueForm(posted(request), inventory=inventory, initial={"kind": kind, "where": where})
    if form.is_bound and form.is_valid():
        try:
            made = review_queues.create_queue(inventory, form.asked(), by=actor_of(request), **form.options())
        except Invalid as error:
            add_service_error(form, error)
        else:
            say(request, _("%(name)s: %(n)s items.") % {"name": made.name, "n": f"{made.size:,}"})
            return redirect("review-queue", inventory.slug, made.public_id)
    context = {"form": form, "choices": shown.choices(inventory), "kind": form["kind"].value()}
    return render(request, "review/new.html", context, status=422 if form.errors else 200)


@require_GET
@require(Role.VIEWER)
def review_queue(request: Request, inventory: Inventory, queue: str) -> HttpResponse:
    found, now = review_queues.read(inventory, queue)
    standing = review_queues.standing(found, held=now.held > 0)
    closed = review_queues.closed(found)
    over = closed or now.left == 0
    nothing = over or "nothing" in request.GET
    context = {
        "queue": found,
        "kind": shown.kind(found.kind),
        "progress": now,
        "closed": closed,
        "nothing": shown.why_nothing(found, now, closed=closed) if nothing else "",
        "go_on": review_queues.sooner(inventory, found) if nothing else None,
        "people": standing.people,
        "per_hour": standing.per_hour,
        "words": [(shown.word(name), n) for name, n in sorted(standing.words.items(), reverse=True)],
        "facts": shown.settings(found),
        "flags": review_queues.open_flags(found) if now.aside else [],
        "agreed": _agreed(found),
        "sampled": precision.of_queue(found) if found.kind == QueueKind.EXTRAS and now.done else None,
        "may_start": not over and request.role.includes(Role.REVIEWER),
    }
    return render(request, "review/queue.html", context)


def _agreed(queue: ReviewQueue) -> Card | None:
    """κ so far, of an audit sample that somebody has answered."""
    if queue.kind != QueueKind.AUDIT:
        return None
    comparison = queue_kappa(queue.inventory, queue)
    return card(comparison, lambda name: "", "") if comparison.result.n else None


@require_POST
@require(Role.REVIEWER)
def review_start(request: Request, inventory: Inventory, queue: str) -> HttpResponse:
    return _on(request, review_queues.get_queue(inventory, queue))


@require_POST
@require(Role.AUTHOR)
def review_put_back(request: Request, inventory: Inventory, queue: str, item: str) -> HttpResponse:
    found = review_items.get_item(inventory, queue, item)
    review_queues.put_back(found.queue, found, by=actor_of(request))
    say(request, _("It is offered again."))
    return redirect("review-queue", inventory.slug, queue)


def _on(request: Request, queue: ReviewQueue) -> HttpResponse:
    """To the next item for this person, or to the queue's page that says why there is none."""
    item = review_items.claim(queue, by=actor_of(request))
    if item is not None:
        return _see(request, reverse("review-item", args=[request.inventory.slug, queue.public_id, item.public_id]))
    address = reverse("review-queue", args=[request.inventory.slug, queue.public_id]) + "?nothing=1"
    return _leave(request, address)


def _see(request: Request, address: str) -> HttpResponse:
    """As after any form: a request of htmx follows it and swaps what it finds there."""
    response = HttpResponseRedirect(address)
    response.status_code = 303
    return response


def _leave(request: Request, address: str) -> HttpResponse:
    """To another page as a whole."""
    if not wants_part(request):
        return _see(request, address)
    response = HttpResponse(status=204)
    response["HX-Redirect"] = address
    return response


# ----------------------------------------------------------------------------------------------------------------- an item
@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.REVIEWER)
def review_item(request: Request, inventory: Inventory, queue: str, item: str) -> HttpResponse:
    """``?all=1`` the whole conversation up to the turn. A POST answers, skips, flags, or adds what was kept as a draft."""
    if request.method == "POST":
        return _act(request, queue, item)
    return _item(request, queue, item)


def _act(request: Request, queue: str, public_id: str) -> HttpResponse:
    by, post = actor_of(request), request.POST
    item = review_items.get_item(request.inventory, queue, public_id, reader=request.user)
    do = post.get("do", "")
    try:
        if do == "skip":
            review_items.skip(item, by=by)
        elif do == "draft":
            return _saved(request, item, post.get("note", ""))
        elif do == "flag":
            review_items.flag(item, post.get("reason", ""), by=by)
        else:
            word = post.get("answer") or post.get("with", "")
            second = "second" in post
            given = review_items.answer(item, word, by=by, note=post.get("note", ""), second=second)
            if not given.kept:
                return _item(request, queue, public_id, status=409)
            following = post.get("ahead", "")[:40] if wants_part(request) else ""
            if following and review_items.claim_ahead(item.queue, following, by=by):
                return _went_on(request, item, given, following)
    except ServiceError as error:
        return _item(request, queue, public_id, error=error, status=error.status)
    return _on(request, item.queue)


def _saved(request: Request, item: ReviewItem, note: str) -> HttpResponse:
    """The note as it stands now is kept; where it is told depends on who asks."""
    at = review_items.keep_note(item, note, by=actor_of(request))
    if not wants_part(request):
        return _see(request, request.path)
    return render(request, "review/saved.html", {"note_at": at})


def _went_on(request: Request, item: ReviewItem, given: Given, following: str) -> HttpResponse:
    """The reader's page holds the next item already: what has changed beside it is all that is sent."""
    slug, queue = request.inventory.slug, item.queue
    here = reverse("review-item", args=[slug, queue.public_id, following])
    context = {
        "inventory": request.inventory,
        "following": following,
        "queue": queue,
        "reading": review_queues.progress(queue),
        "until": timezone.now() + timedelta(minutes=queue.minutes),
        "last": review_read.last_of(item, given),
        "here": here,
    }
    response = render(request, "review/went_on.html", context)
    response["HX-Push-Url"] = here
    return response


@require_GET
@require(Role.REVIEWER)
def review_ahead(request: Request, inventory: Inventory, queue: str, item: str) -> HttpResponse:
    """What would come after this item, for the page to hold while it is read; nothing is reserved. 204: nothing."""
    found = review_items.get_item(inventory, queue, item)
    following = review_items.ahead(found, by=actor_of(request))
    if following is None:
        return HttpResponse(status=204)
    return _item(request, queue, following, coming=True)


def _item(
    request: Request,
    queue: str,
    public_id: str,
    *,
    error: ServiceError | None = None,
    status: int = 200,
    coming: bool = False,
) -> HttpResponse:
    reading = review_read.read(request.inventory, queue, public_id, request.user, whole="all" in request.GET)
    part = coming or wants_part(request)
    context: dict[str, Any] = {
        "reading": reading,
        "item": reading.item,
        "queue": reading.item.queue,
        "lines": shown.lines(reading),
        "mine": reading.mine,
        "last": reading.mine or reading.last,
        "pressed": reading.mine.answer.word if reading.mine else "",
        "note": request.POST.get("note", "") or (reading.draft.note if reading.draft else reading.note),
        "note_at": reading.note_at,
        "words_with": [(value, text) for value, text in shown.WORDS.items() if value != "skip"],
        "error": error,
        "flagging": error is not None and error.field == "reason",
        "reason": request.POST.get("reason", ""),
        "here": reverse("review-item", args=[request.inventory.slug, queue, public_id]),
        "coming": coming,
        **reveal.look(request, reading.item.state.conversation),
        "part": part,
        "ahead": reverse("review-ahead", args=[request.inventory.slug, queue, public_id]),
    }
    template = "review/item.html#item" if part else "review/item.html"
    return render(request, template, context, status=status)


# ------------------------------------------------------------------------------------------------------------ my last ones
@require_GET
@require(Role.REVIEWER)
def review_mine(request: Request, inventory: Inventory) -> HttpResponse:
    """One's own last answers of any queue and session, each with its undo."""
    rows = review_items.last_answers(inventory, request.user)
    return render(request, "review/mine.html", {"rows": [(row, shown.word(row.word)) for row in rows], "most": LAST})


@require_POST
@require(Role.REVIEWER)
def review_undo(request: Request, inventory: Inventory, answer: str) -> HttpResponse:
    """Take it back and go to its item, which is open again."""
    row = review_items.undo(inventory, answer, by=actor_of(request))
    say(request, _("Taken back: %(word)s. It is open for you again.") % {"word": shown.word(row.word)})
    return _see(request, reverse("review-item", args=[inventory.slug, row.item.queue.public_id, row.item.public_id]))
