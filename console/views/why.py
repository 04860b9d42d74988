"""Why a policy was selected at a turn or not: a page, a drawer of the conversation's page, a file for a ticket."""

import re
from datetime import datetime
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from console.models import Inventory, Role
from console.permissions import Request, require, wants_part
from console.presenters import why as words
from console.services import conversations, runtime, why
from console.services.artifacts import get_artifact
from console.services.errors import Invalid, NotFound
from console.services.human_labels import judge_name
from console.services.why import Why
from console.views import reveal
from console.views.as_of import moment_of
from sq_core.decision import Outcome

LISTED_TERMS, OTHERS = 200, 30


@require_GET
@require(Role.VIEWER)
def why_page(request: Request, inventory: Inventory, conversation: str, user_turn: int, key: str) -> HttpResponse:
    """``?as_of=`` a time in UTC, ``?release=`` live, draft or a number, ``?format=json|text`` a file to take away."""
    row = conversations.get_conversation(inventory, conversation)
    artifact = get_artifact(inventory, key)
    error, status = "", 200
    moment: datetime | None = None
    release: runtime.ReleaseName | None = None
    try:
        moment = moment_of(request.GET.get("as_of", ""))
        release = release_of(request.GET.get("release", ""))
        number = inventory.release if release is None and moment is None else release
        found = why.explain(inventory, row, user_turn, artifact, release=number, as_of=moment)
    except (Invalid, NotFound) as refusal:
        if refusal.field not in {"as_of", "release"}:
            raise
        error, status, moment, release = f"{refusal.message} {refusal.hint}".strip(), 422, None, None
        found = why.explain(inventory, row, user_turn, artifact)
    page = found.page
    assert page is not None  # noqa: S101  # `explain` has set it
    names = conversations.names_of(page.bundle)
    if request.GET.get("format") in {"json", "text"} and not error:
        return _file(request, request.GET["format"], found, name=names[key], span=page.span, names=names)
    context = {
        "why": found,
        "artifact": artifact,
        "name": names[key],
        "text": page.bundle.artifact(key).text,
        "names": names,
        "conversation": row,
        "state": page.state,
        "pinned": page.pinned,
        "message": page.message,
        "triage": words.triage(found),
        "missed": found.scored and not found.fired and words.judged_relevant(found),
        "lead": words.lead(found, technical=request.user.technical_terms),
        "sentence": words.sentence(found, span=page.span, names=names),
        "origin_text": words.origin_text(found),
        "differs": words.differs(found),
        "prior_text": words.prior_text(found.prior) if found.prior else "",
        "views": [(view, words.view_name(view, user_turn)) for view in found.views],
        "term_rows": _terms(found),
        "longest": max((abs(row.value) for row in found.terms), default=1.0) or 1.0,
        "judges": [w for w in found.witnesses if w.kind == "model"],
        "people": [w for w in found.witnesses if w.kind == "human"],
        "mine": next((w.score for w in found.witnesses if w.judge == judge_name(request.user)), None),
        "others": [] if wants_part(request) else _others(found),
        "others_listed": OTHERS,
        "as_of": request.GET.get("as_of", ""),
        "error": error,
        "scores": range(1, 6),
        "part": wants_part(request),
        **reveal.look(request, row),
    }
    return render(request, "why/drawer.html" if wants_part(request) else "why/why.html", context, status=status)


def release_of(text: str) -> runtime.ReleaseName | None:
    if not text:
        return None
    if text == "live" or text == "draft":
        return text  # type: ignore[return-value]
    if text.isdecimal() and text.isascii() and len(text) < 9:
        return int(text)
    raise Invalid(
        _("%(text)s is no release.") % {"text": text[:40]}, field="release", hint=_("Give live, draft or a number.")
    )


def _file(request: Request, kind: str, found: Why, *, name: str, **more: Any) -> HttpResponse:
    """Masked as the page is; a reveal, which is for reading, does not open it."""
    of = request.inventory
    body = words.to_json(found, of) if kind == "json" else words.to_text(found, name=name, inventory=of, **more)
    content_type = "application/json" if kind == "json" else "text/plain; charset=utf-8"
    response = HttpResponse(body, content_type=content_type)
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", found.conversation)[:60].strip("-.") or "conversation"
    extension = "json" if kind == "json" else "txt"
    response["Content-Disposition"] = (
        f'attachment; filename="why-{safe}-{found.user_turn}-{found.artifact}.{extension}"'
    )
    return response


def _terms(found: Why) -> list[dict[str, Any]]:
    """The terms, largest first, each with where its example came from."""
    origins = found.page.origins if found.page else {}
    flips = {row.exemplar for row in found.would_flip}
    return [
        {"row": row, "origin": origins.get(row.exemplar), "flips": row.exemplar in flips}
        for row in found.terms[:LISTED_TERMS]
    ]


def _others(found: Why) -> list[Outcome]:
    """The other policies selected at this turn under the same release, strongest first."""
    outcomes = found.page.outcomes if found.page else ()
    fired = [o for o in outcomes if o.fired and o.artifact != found.artifact]
    return sorted(fired, key=lambda o: (o.margin is None, (o.cutoff or 0.0) - (o.margin or 0.0), o.artifact))
