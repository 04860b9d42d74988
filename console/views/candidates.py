"""Candidates (P8): what was suggested, decided on row by row into a tray; the tray, or the best of each policy, is then
looked at as one change per policy and applied."""

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.db import OperationalError
from django.http import HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from console.forms.posted import posted_json
from console.models import Artifact, Change, Inventory, Polarity, Role, Source
from console.permissions import Request, actor_of, require, wants_part
from console.presenters import candidates as shown
from console.presenters import labels
from console.services import answered, artifacts, candidates, curate, fit, idempotency
from console.services.candidates import Decided, Filters
from console.services.curate import Applied
from console.services.database_trouble import as_refusal
from console.services.errors import Conflict, Invalid, Malformed, ServiceError
from console.services.idempotency import InFlight
from console.services.impact import Impact
from console.services.run_kinds import KINDS as KINDS_OF_RUN
from console.views.candidates_tray import Tray
from console.views.frame import say, whole
from console.views.workbench_changes import reason_of, sentence
from console.views.workbench_strip import listed

KINDS = {"signal": Polarity.SIGNAL.value, "anti": Polarity.ANTI_SIGNAL.value}
DECISIONS = {"show": Polarity.SIGNAL.value, "dont_show": Polarity.ANTI_SIGNAL.value, "reject": "reject"}
DEFAULT_K, MOST_K = 5, 50
TOLD = 3  # results told one by one


# ------------------------------------------------------------------------------------------------------------------- list
@require_GET
@require(Role.VIEWER)
def candidate_list(request: Request, inventory: Inventory) -> HttpResponse:
    """``?policy=`` a key, ``?kind=signal|anti``, ``?run=`` a run's id, ``?source=generated|mined``, ``?after=`` a cursor."""
    context = _context(request, request.GET)
    template = "candidates/list.html#body" if wants_part(request) else "candidates/list.html"
    return render(request, template, context)


@dataclass(frozen=True)
class Asked:
    """What the address asks for; ``ignored`` are the parts of it that mean nothing here."""

    filters: Filters
    after: str
    ignored: list[str]


def _asked(inventory: Inventory, query: QueryDict) -> Asked:
    ignored = [f"{name}={query[name]}" for name in query if name not in {"policy", "kind", "run", "source", "after"}]
    values = {name: query.get(name, "") for name in ("policy", "kind", "run", "source")}
    known: dict[str, Callable[[str], bool]] = {
        "policy": lambda value: Artifact.objects.filter(inventory=inventory, key=value).exists(),
        "kind": lambda value: value in KINDS,
        "run": lambda value: value.isalnum() and len(value) <= 12,
        "source": lambda value: value in {Source.GENERATED, Source.MINED},
    }
    for name, value in values.items():
        if value and not known[name](value):
            ignored.append(f"{name}={value}")
            values[name] = ""
    filters = Filters(values["policy"], KINDS.get(values["kind"], ""), values["run"], values["source"])
    return Asked(filters, query.get("after", ""), ignored)


def _context(request: Request, query: QueryDict) -> dict[str, Any]:
    inventory, asked = request.inventory, _asked(request.inventory, query)
    page = candidates.page(inventory, asked.filters, after=asked.after)
    tray = Tray(request)
    contents = tray.contents(inventory)
    base = reverse("candidates", args=[inventory.slug])
    address = base + (f"?{query.urlencode()}" if query else "")

    def link(**changes: str | None) -> str:
        changed = query.copy()
        changed.pop("after", None)
        for name, value in changes.items():
            changed.pop(name, None)
            if value:
                changed[name] = value
        return f"{base}?{changed.urlencode()}" if changed else base

    nothing = None if page.rows else candidates.why_nothing(inventory, asked.filters)
    return {
        "page": page,
        "groups": shown.rows(page.groups, tray.decisions),
        "wanted": asked,
        "asked_kind": query.get("kind", "") if asked.filters.kind else "",
        "address": address,
        "chips": shown.chips(asked.filters, link),
        "first": link() if asked.after else None,
        "next": f"{link()}{'&' if '?' in link() else '?'}after={page.next}" if page.next else None,
        "tray": contents,
        "may_write": request.role.includes(Role.AUTHOR),
        "k": DEFAULT_K,
        "most_k": MOST_K,
        "nothing": shown.nothing(nothing, _start_url(request, nothing.run)) if nothing else None,
    }


def _start_url(request: Request, kind: str) -> str:
    """Where a run of that kind is started; "" for who may not start it."""
    if not kind or not request.role.includes(Role(KINDS_OF_RUN[kind].role)):
        return ""
    return f"{reverse('run-new', args=[request.inventory.slug])}?kind={kind}"


# ---------------------------------------------------------------------------------------------------------------- deciding
@require_POST
@require(Role.AUTHOR)
def decide(request: Request, inventory: Inventory) -> HttpResponse:
    """Put a decision into the tray, take it back, or empty the tray; nothing is written."""
    do, ids = request.POST.get("do", ""), [c for c in request.POST.getlist("candidate") if c.isalnum()][:500]
    tray = Tray(request)
    if do == "clear":
        tray.clear()
        return _list_again(request)
    ticked = [c for c in request.POST.getlist("tick") if c.isalnum()][:500]
    if "bulk" in request.POST:
        _put_ticked(inventory, tray, request.POST["bulk"], ticked)
        return _list_again(request)
    if len(ids) != 1 or do not in {*DECISIONS, "reject_cluster"}:
        raise Malformed(_("This form is not one of the page's."), hint=_("Load the page again."))
    changed = ids
    if do == "reject_cluster":
        changed = candidates.cluster_of(inventory, ids[0])
        tray.put(changed, "reject")
    elif tray.decisions.get(ids[0]) == DECISIONS[do]:
        tray.take(ids)  # the same button again takes it back
    else:
        tray.put(ids, DECISIONS[do])
    if not wants_part(request):
        return _back(request, anchor=request.POST.get("following", ""))
    return render(request, "candidates/decided.html", _acts(request, tray, ids[0], changed))


def _acts(request: Request, tray: Tray, first: str, changed: Sequence[str]) -> dict[str, Any]:
    """The buttons that changed, the pressed row's first."""
    inventory = request.inventory
    sides = dict(
        candidates.waiting(inventory, Filters()).filter(public_id__in=changed).values_list("public_id", "polarity")
    )
    alike = min(whole(request.POST.get("alike", "")) or 1, 10_000)

    def act(public_id: str, following: str = "") -> shown.Act:
        decision = tray.decisions.get(public_id, "")
        gone = public_id not in sides
        return shown.Act(public_id, sides.get(public_id, ""), decision, alike, following, gone)

    return {
        "first": act(first, request.POST.get("following", "")),
        "others": [act(public_id) for public_id in changed if public_id != first],
        "address": _next(request),
        "tray": tray.contents(inventory),
        "may_write": True,
    }


def _put_ticked(inventory: Inventory, tray: Tray, do: str, ticked: Sequence[str]) -> None:
    if not ticked:
        raise Invalid(_("No row is ticked."), field="tick", hint=_("Tick rows with x, all of them with *."))
    if do == "reject":
        tray.put(ticked, "reject")
    elif do == "suggested":
        sides = dict(
            candidates.waiting(inventory, Filters()).filter(public_id__in=ticked).values_list("public_id", "polarity")
        )
        for side in Polarity:
            tray.put([c for c in ticked if sides.get(c) == side], side.value)
    else:
        raise Malformed(_("This is no action for several rows."), field="bulk")


def _next(request: Request) -> str:
    """The list as it was addressed, from the form's ``next``."""
    base = reverse("candidates", args=[request.inventory.slug])
    try:
        parts = urlsplit(request.POST.get("next", ""))
    except ValueError:
        return base
    return base + (f"?{parts.query}" if parts.path == base and parts.query else "")


def _query(address: str) -> QueryDict:
    return QueryDict(urlsplit(address).query)


def _back(request: Request, *, anchor: str = "") -> HttpResponse:
    address = _next(request) + (f"#{anchor}" if anchor.replace("-", "").isalnum() else "")
    response = HttpResponseRedirect(address)
    response.status_code = 303
    return response


def _list_again(request: Request) -> HttpResponse:
    if not wants_part(request):
        return _back(request)
    return render(request, "candidates/list.html#body", _context(request, _query(_next(request))))


# --------------------------------------------------------------------------------------------------------- what will change
@dataclass
class Look:
    """One policy's part of the strip: the decisions, their effect, or why they cannot be taken."""

    decided: Decided
    base: int | None
    impact: Impact | None = None
    error: ServiceError | None = None
    newer: dict[str, Any] | None = None  # who made the version that came in between

    @property
    def kept(self) -> str:
        """What the form carries of it."""
        rows = [[exemplar.public_id, decision] for exemplar, decision in self.decided.rows]
        return json.dumps({"policy": self.decided.artifact.key, "base": self.base, "rows": rows}, separators=(",", ":"))

    @property
    def turns(self) -> dict[str, Any]:
        return listed(self.impact)

    def reason_needed(self, target: float) -> bool:
        return self.impact is not None and self.impact.needs_reason(target)


@require_POST
@require(Role.AUTHOR)
def preview(request: Request, inventory: Inventory) -> HttpResponse:
    """What the gathered decisions, or the best of each policy, would change: one strip, one version per policy."""
    decisions, left, top = _decisions(request)
    if not decisions:
        harmless = _("Nothing here is both new to its policy and without harm by itself. Decide row by row.")
        hint = harmless if top else _("Decide on a row first.")
        raise Invalid(_("There is nothing to look at."), field="tray", hint=hint)
    found, gone = candidates.decided(inventory, decisions)
    most = candidates.POLICIES
    looks = [_look(request, one) for one in found[:most]]
    return _strip(request, looks, gone=len(gone), left=left + max(0, len(found) - most), top=top)


def _decisions(request: Request) -> tuple[dict[str, str], int, int]:
    """(decisions, policies left out, K): from a strip looked at again, from "the best K", else from the tray."""
    if "p" in request.POST:
        return {c: d for _key, _base, rows in _parts(request) for c, d in rows}, 0, 0
    if "top" in request.POST:
        k = whole(request.POST["top"].strip())
        if k is None or not 1 <= k <= MOST_K:
            raise Invalid(_("Ask for 1 to %(n)s of each policy.") % {"n": MOST_K}, field="top")
        filters = _asked(request.inventory, _query(_next(request))).filters
        decisions, left = candidates.best(request.inventory, filters, k)
        return decisions, left, k
    return Tray(request).decisions, 0, 0


def _look(request: Request, one: Decided) -> Look:
    active = fit.active_version(one.artifact)
    look = Look(one, active.number if active else None)
    try:
        look.impact = curate.preview(one.artifact, one.steps, by=actor_of(request))
        look.base = look.impact.base_version
    except ServiceError as error:
        look.error = error
    return look


def _strip(
    request: Request, looks: list[Look], *, gone: int = 0, left: int = 0, top: int = 0, status: int = 200
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
        "top": top,
        "target": target,
        "reason_needed": any(look.reason_needed(target) for look in looks),
        "reason": request.POST.get("reason", ""),
        "reason_missing": any(look.error is not None and look.error.field == "reason" for look in looks),
        "can_apply": any(look.error is None or look.error.field == "reason" for look in looks),
        "key": str(uuid.uuid4()),
        "address": _next(request),
        "part": part,
        "first": 3,
    }
    return render(request, "candidates/strip.html" if part else "candidates/strip_page.html", context, status=status)


# ------------------------------------------------------------------------------------------------------------------ applying
def _parts(request: Request) -> list[tuple[str, int | None, list[tuple[str, str]]]]:
    """(policy, base version, (candidate, decision)…) of every policy in the strip's form. Raises Malformed."""
    bad = Malformed(_("This form is not one of the page's."), field="p", hint=_("Load the page again."))
    found = []
    for text in request.POST.getlist("p")[: candidates.POLICIES]:
        try:
            row = posted_json(text)
            key, base, rows = row["policy"], row["base"], [(str(c), str(d)) for c, d in row["rows"]]
        except (ValueError, KeyError, TypeError):
            raise bad from None
        if not isinstance(key, str) or not (base is None or (type(base) is int and 0 < base < 10**9)):
            raise bad
        if not rows or len(rows) > 500 or any(d not in candidates.DECISIONS for _c, d in rows):
            raise bad
        found.append((key, base, rows))
    return found


@require_POST
@require(Role.AUTHOR)
def apply(request: Request, inventory: Inventory) -> HttpResponse:
    """Take the decisions, policy by policy, each on the version it was shown for; what is refused is shown again."""
    asked = _parts(request)
    if not asked:
        raise Malformed(_("This form is not one of the page's."), field="p", hint=_("Load the page again."))
    tray, done, refused = Tray(request), [], []
    for key, base, rows in asked:
        artifact = artifacts.get_artifact(inventory, key)
        found, gone = candidates.decided(inventory, dict(rows))
        mine = next((one for one in found if one.artifact.pk == artifact.pk), None)
        known = _answered(request, key)
        if known is not None:
            done.append(known)
            tray.take([c for c, _decision in rows])
            continue
        if mine is None:
            tray.take(gone)
            continue
        try:
            done.append(_once(request, key, _write(request, artifact, mine, base)))
            tray.take([c for c, _decision in rows])
        except InFlight:
            raise
        except Conflict as error:
            look = _look(request, mine)
            look.error, look.newer = error, _newer(artifact, error)
            refused.append(look)
        except (ServiceError, OperationalError) as error:  # what was decided on other policies stands
            look = _look(request, mine)
            look.error = error if isinstance(error, ServiceError) else as_refusal(error)
            refused.append(look)
    if refused:
        return _refused(request, refused, done)
    return _done(request, done)


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
    written = done.change.inventory
    request.inventory.release, request.inventory.live_release = written.release, written.live_release
    return {
        "policy": key,
        "change": done.change.public_id,
        "version": done.version.number if done.version else None,
        "made": done.made_version,
        "fit_ms": done.fit_ms,
        "turns": done.impact.started_count + done.impact.stopped_count,
        "live": written.live_release == written.release,
    }


def _newer(artifact: Artifact, error: Conflict) -> dict[str, Any]:
    now = fit.active_version(artifact) if error.current_version else None
    change = now and Change.objects.filter(artifact=artifact, release__number=now.from_release).order_by("-id").first()
    return {"version": now, "what": labels.action(change.action) if change else ""}


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
            say(request, line["text"], undo=f"{undo}?next={_next(request)}" if undo else "")
        return _back(request)
    return HttpResponse(_beside(request, lines))


def _beside(request: Request, lines: list[dict[str, str]]) -> str:
    """The list as it is now, the header's facts and the results, each in its own place."""
    context = _context(request, _query(_next(request))) | {"oob": True, "lines": lines}
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
        context = _context(request, _query(_next(request))) | {"lines": lines, "keep_strip": True}
        response.write(render_to_string("candidates/listed.html", context, request))
        response.write(render_to_string("candidates/done.html", context, request))
    else:
        for line in _told(done):
            say(request, line["text"])
    return response
