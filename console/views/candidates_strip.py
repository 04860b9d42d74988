"""What decisions on candidates would change, as one strip over their policies; and taking them, a version per policy."""

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import OperationalError, transaction
from django.http import HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from console.forms.posted import posted_json
from console.models import Artifact, Inventory, Role
from console.permissions import Request, actor_of, require, wants_part
from console.presenters.changes import Newer, made_meanwhile
from console.services import answered, artifacts, candidates_decide, curate, fit, idempotency
from console.services.candidates import waiting
from console.services.candidates_decide import Decided
from console.services.curate import Applied
from console.services.database_trouble import as_refusal
from console.services.errors import Conflict, Invalid, Malformed, ServiceError
from console.services.filters import Extent, extent
from console.services.idempotency import InFlight
from console.services.impact import Impact
from console.services.revision import lock_artifacts
from console.views.candidates import NONE_OFFERED, asked_of, back_to, best_k, list_context, list_of, query_of
from console.views.candidates_tray import Tray
from console.views.frame import say, whole
from console.views.workbench_changes import reason_of, record_of, sentence
from console.views.workbench_strip import listed

TOLD = 3  # results told one by one


# --------------------------------------------------------------------------------------------------------- what will change
@dataclass
class Look:
    """One policy's part of the strip: the decisions, their effect, or why they cannot be taken."""

    decided: Decided
    base: int | None
    impact: Impact | None = None
    error: ServiceError | None = None
    newer: Newer | None = None
    held_back: int = 0  # of the best: together they would cost needed turns

    @property
    def kept(self) -> str:
        """What the form carries of it."""
        rows = [[exemplar.public_id, decision] for exemplar, decision in self.decided.rows]
        return json.dumps({"policy": self.decided.artifact.key, "base": self.base, "rows": rows}, separators=(",", ":"))

    @property
    def turns(self) -> dict[str, Any]:
        return listed(self.impact)

    def wanting(self, target: float) -> bool:
        """Whether the eye belongs here first: refused, a reason needed, or recall under the target before it."""
        if self.impact is None or self.error is not None or self.impact.needs_reason(target):
            return True
        return self.impact.recall_before is not None and self.impact.recall_before < target

    def reason_needed(self, target: float) -> bool:
        return self.impact is not None and self.impact.needs_reason(target)


@dataclass(frozen=True)
class _Asked:
    """What is looked at: decisions, policies left out, K of "the best K", and what all that matched were then."""

    decisions: dict[str, str]
    left: int = 0
    top: int = 0
    extent: Extent | None = None


@require_POST
@require(Role.AUTHOR)
def preview(request: Request, inventory: Inventory) -> HttpResponse:
    """What the gathered decisions, the best of each policy, or one on all that match would change: one strip, one version
    per policy."""
    asked = _decisions(request)
    if not asked.decisions:
        hint = str(NONE_OFFERED) if asked.top else _("Decide on a row first.")
        raise Invalid(_("There is nothing to look at."), field="tray", hint=hint)
    found, gone = candidates_decide.decided(inventory, asked.decisions)
    most = candidates_decide.POLICIES
    candidates_decide.in_order(inventory, found[:most])
    looks = [_look(request, one, together=bool(asked.top)) for one in found[:most]]
    looks.sort(key=lambda look: not look.wanting(inventory.target_recall))
    return _strip(request, looks, asked=asked, gone=len(gone), left=asked.left + max(0, len(found) - most))


def _decisions(request: Request) -> _Asked:
    """From a strip looked at again, from "the best K", of all that match, else from the tray."""
    if "p" in request.POST:
        return _Asked({c: d for _key, _base, rows in _parts(request) for c, d in rows}, extent=_extent(request))
    filters = asked_of(request.inventory, query_of(list_of(request))).filters
    if "top" in request.POST:
        k = best_k(request.POST["top"])
        decisions, left = candidates_decide.best(request.inventory, filters, k)
        return _Asked(decisions, left, k)
    if "all" in request.POST:
        shown = _extent(request) or Extent(0, "")
        return _Asked(candidates_decide.of_all(request.inventory, filters, request.POST["all"], shown), extent=shown)
    return _Asked(Tray(request).decisions)


def _extent(request: Request) -> Extent | None:
    """What all that matched were when the form was made; None for a form that is not about all of them."""
    if "digest" not in request.POST:
        return None
    return Extent(whole(request.POST.get("count", "")) or 0, request.POST["digest"][:64])


def _look(request: Request, one: Decided, *, together: bool = False) -> Look:
    """``together``: as many of them as keep recall and pins when taken together."""
    active, by = fit.active_version(one.artifact), actor_of(request)
    look = Look(one, active.number if active else None)
    try:
        if together:
            target = request.inventory.target_recall
            look.impact, look.held_back = candidates_decide.within_target(one, by=by, target=target)
        else:
            look.impact = curate.preview(one.artifact, one.steps, by=by)
        look.base = look.impact.base_version
    except ServiceError as error:
        look.error = error
    return look


def _strip(
    request: Request,
    looks: list[Look],
    *,
    asked: _Asked | None = None,
    gone: int = 0,
    left: int = 0,
    status: int = 200,
) -> HttpResponse:
    target = request.inventory.target_recall
    part = wants_part(request)
    n = sum(len(look.decided.rows) for look in looks)
    context = {
        "looks": looks,
        "n": n,
        "versions": sum(look.impact is not None and look.impact.makes_version for look in looks),
        "conflicts": [look for look in looks if look.newer is not None],
        "gone": gone,
        "left": left,
        "top": asked.top if asked else 0,
        "extent": asked.extent if asked else _extent(request),
        "held_back": sum(look.held_back for look in looks),
        "target": target,
        "reason_needed": any(look.reason_needed(target) for look in looks),
        "reason": request.POST.get("reason", ""),
        "reason_missing": any(look.error is not None and look.error.field == "reason" for look in looks),
        "can_apply": any(look.error is None or look.error.field == "reason" for look in looks),
        "key": str(uuid.uuid4()),
        "address": list_of(request),
        "part": part,
        "first": 3,
    }
    return render(request, "candidates/strip.html" if part else "candidates/strip_page.html", context, status=status)


# ------------------------------------------------------------------------------------------------------------------ applying
def _parts(request: Request) -> list[tuple[str, int | None, list[tuple[str, str]]]]:
    """(policy, base version, (candidate, decision)…) of every policy in the strip's form. Raises Malformed."""
    bad = Malformed(_("This form is not one of the page's."), field="p", hint=_("Load the page again."))
    found = []
    for text in request.POST.getlist("p")[: candidates_decide.POLICIES]:
        try:
            row = posted_json(text)
            key, base, rows = row["policy"], row["base"], [(str(c), str(d)) for c, d in row["rows"]]
        except (ValueError, KeyError, TypeError):
            raise bad from None
        if not isinstance(key, str) or not (base is None or (type(base) is int and 0 < base < 10**9)):
            raise bad
        if not rows or len(rows) > 500 or any(d not in candidates_decide.DECISIONS for _c, d in rows):
            raise bad
        found.append((key, base, rows))
    return found


@require_POST
@require(Role.AUTHOR)
def apply(request: Request, inventory: Inventory) -> HttpResponse:
    """Take the decisions, policy by policy, each on the version it was shown for; what is refused is shown again.

    A decision on all that match is taken whole or not at all: refused where the list holds others by now.
    """
    asked = _parts(request)
    if not asked:
        raise Malformed(_("This form is not one of the page's."), field="p", hint=_("Load the page again."))
    shown = _extent(request)
    if shown is None:
        done, refused = _take(request, asked)
    else:
        with transaction.atomic():
            lock_artifacts(inventory, Artifact.objects.filter(inventory=inventory, key__in=[key for key, *_ in asked]))
            filters = asked_of(inventory, query_of(list_of(request))).filters
            now = extent(waiting(inventory, filters))
            if now != shown and not all(_answered(request, key) for key, *_ in asked):
                raise candidates_decide.moved(now, shown)
            done, refused = _take(request, asked)
            if refused:
                transaction.set_rollback(True)
                done = []
    Tray(request).take([c for key, _base, rows in asked if key in {row["policy"] for row in done} for c, _d in rows])
    if refused:
        return _refused(request, refused, done)
    return _done(request, done)


Part = tuple[str, int | None, list[tuple[str, str]]]


def _take(request: Request, asked: list[Part]) -> tuple[list[dict[str, Any]], list[Look]]:
    """What was written, and what was refused."""
    inventory, tray = request.inventory, Tray(request)
    done: list[dict[str, Any]] = []
    refused: list[Look] = []
    for key, base, rows in asked:
        artifact = artifacts.get_artifact(inventory, key)
        found, gone = candidates_decide.decided(inventory, dict(rows))
        mine = next((one for one in found if one.artifact.pk == artifact.pk), None)
        known = _answered(request, key)
        if known is not None:
            done.append(known)
            continue
        if mine is None:
            tray.take(gone)
            continue
        try:
            done.append(_once(request, key, _write(request, artifact, mine, base)))
        except InFlight:
            raise
        except Conflict as error:
            look = _look(request, mine)
            look.error, look.newer = error, made_meanwhile(artifact, error)
            refused.append(look)
        except (ServiceError, OperationalError) as error:  # what was decided on other policies stands
            look = _look(request, mine)
            look.error = error if isinstance(error, ServiceError) else as_refusal(error)
            refused.append(look)
    return done, refused


def _write(request: Request, artifact: Artifact, mine: Decided, base: int | None) -> Callable[[], Applied]:
    return lambda: curate.apply(
        artifact, mine.steps, by=actor_of(request), base_version=base, reason=reason_of(request)
    )


def _held_as(request: Request, key: str) -> dict[str, Any]:
    body = json.dumps([request.POST.getlist("p"), request.POST.get("reason")]).encode()
    return {
        "caller": f"user:{request.user.pk}",
        "key": f"{request.POST.get('key', '')[:80]}:{key}",
        "path": request.path,
        "body": body,
    }


def _answered(request: Request, key: str) -> dict[str, Any] | None:
    """What was written for this policy under the form's key already: a re-post gets the first answer."""
    if not request.POST.get("key"):
        return None
    held = idempotency.claim(**_held_as(request, key))
    if held.written is not None:  # its answer was lost
        found = answered.applied(answered.change_of(request.inventory, held.written))
        record = _record(request, key, found)
        idempotency.keep(held, status=200, answer=json.dumps(record).encode())
        return record
    if held.answer is None:
        idempotency.give_back(held)
        return None
    answer: dict[str, Any] = json.loads(held.answer)
    return answer


def _once(request: Request, key: str, write: Callable[[], Applied]) -> dict[str, Any]:
    request.claim = held = idempotency.claim(**_held_as(request, key)) if request.POST.get("key") else None
    try:
        record = _record(request, key, write())
    except BaseException:
        if held is not None:
            idempotency.give_back(held)
        raise
    if held is not None:
        idempotency.keep(held, status=200, answer=json.dumps(record).encode())
    return record


def _record(request: Request, key: str, done: Applied) -> dict[str, Any]:
    return {"policy": key, **record_of(request, done)}


def _told(done: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """One line per policy with its undo; of many the first few, then their number."""
    lines = [
        {
            "text": f"{row['policy']}: {sentence(row) if row['made'] else _('done, its version stays')}",
            "undo": row["change"],
        }
        for row in done[:TOLD]
    ]
    if len(done) > TOLD:
        n = len(done) - TOLD
        text = ngettext("%(n)s more policy: see Releases", "%(n)s more policies: see Releases", n) % {"n": n}
        lines.append({"text": text, "undo": ""})
    return lines


def _done(request: Request, done: list[dict[str, Any]]) -> HttpResponse:
    lines = _told(done) or [{"text": _("All of it was decided already."), "undo": ""}]
    if not wants_part(request):
        for line in lines:
            undo = reverse("undo", args=[request.inventory.slug, line["undo"]]) if line["undo"] else ""
            say(request, line["text"], undo=f"{undo}?next={list_of(request)}" if undo else "")
        return back_to(request)
    return HttpResponse(_beside(request, lines))


def _beside(request: Request, lines: list[dict[str, str]]) -> str:
    """The list as it is now, the header's facts and the results, each in its own place."""
    context = list_context(request, query_of(list_of(request))) | {"oob": True, "lines": lines}
    context["focus"] = next((row.exemplar.public_id for row in context["page"].rows), "")
    return render_to_string("candidates/list.html#body", context, request) + render_to_string(
        "candidates/done.html", context, request
    )


def _refused(request: Request, looks: list[Look], done: list[dict[str, Any]]) -> HttpResponse:
    """The strip with what could not be taken; what was taken is told beside it."""
    status = max((look.error.status for look in looks if look.error), key=lambda code: (code == 409, code))
    response = _strip(request, looks, status=status if status in {409, 422} else 422)
    if wants_part(request):
        lines = _told(done)
        context = list_context(request, query_of(list_of(request))) | {"lines": lines, "keep_strip": True}
        response.write(render_to_string("candidates/listed.html", context, request))
        response.write(render_to_string("candidates/done.html", context, request))
    else:
        for line in _told(done):
            say(request, line["text"])
    return response
