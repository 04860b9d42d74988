"""Evidence: what was measured, with the claims that hold and those that do not; start a plan, bring a bundle, take one out."""

from typing import Any

from django.http import HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from console.forms.runs import CapForm
from console.models import Inventory, Role, RunKind
from console.permissions import Request, actor_of, refused, require
from console.presenters import evidence as shown
from console.presenters import evidence_words as words
from console.presenters.figures_evidence import forest_figure
from console.services import evidence, evidence_run, evidence_zip, runs, uploads
from console.services.errors import Invalid, ServiceError, TooLarge, Unavailable
from console.services.run_kinds import role_for
from console.views.frame import say, whole
from console.views.runs import wake
from sq_core.evidence.shipped import TEXT_LIMIT, shipped_plans

NEEDS = {"start": Role.REVIEWER, "import": Role.AUTHOR}


# ------------------------------------------------------------------------------------------------------------- the list
@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.VIEWER)
def evidence_list(request: Request, inventory: Inventory) -> HttpResponse:
    """``do=start`` with ``plan`` or ``text`` plans a run, within caps where the plan asks a model; ``do=import`` with a
    ``file`` keeps a bundle."""
    error: ServiceError | None = None
    asked = request.POST.get("do", "") if request.method == "POST" else ""
    if request.method == "POST":
        needed = NEEDS.get(asked, Role.REVIEWER)
        if not request.role.includes(needed):
            return refused(request, needed)
        try:
            return _started(request, inventory) if asked != "import" else _brought(request, inventory)
        except (Invalid, TooLarge, Unavailable) as refusal:
            error = refusal
    rows, following = evidence.list_evidence(inventory, before=whole(request.GET.get("after", "")))
    context = {
        "rows": [
            {"one": row.evidence, "newest": row.newest, "system": words.SYSTEMS[row.evidence.system],
             "origin": words.ORIGINS[row.evidence.origin], "encoder": shown.short_encoder(row.evidence.encoder_id)}
            for row in rows
        ],
        "next": following, "plans": list(shipped_plans()), "error": error, "asked": asked,
        "chosen": request.POST.get("plan", ""), "text": request.POST.get("text", "")[:TEXT_LIMIT],
        "caps": CapForm(request.POST if asked == "start" else None), "text_limit": TEXT_LIMIT,
        "limit": evidence_zip.PACKED_LIMIT // evidence_zip.MEGABYTE,
    }  # fmt: skip
    return render(request, "evidence/list.html", context, status=error.status if error else 200)


def _started(request: Request, inventory: Inventory) -> HttpResponse:
    text = request.POST.get("text", "")
    plan = text if text.strip() else request.POST.get("plan", "")
    evidence_run.check_plan(plan, field="text" if text.strip() else "plan")
    params = {"plan": plan}
    if not request.role.includes(needs := role_for(RunKind.EVALUATE, params)):
        return refused(request, needs)
    caps = CapForm(request.POST)
    if not caps.is_valid():
        raise Invalid(" ".join(str(said[0]) for said in caps.errors.values()), field=next(iter(caps.errors)))
    made = runs.create_run(inventory, RunKind.EVALUATE, by=actor_of(request), params=params, **caps.cleaned_data)
    wake(made)
    return redirect("run", inventory.slug, made.public_id)


def _brought(request: Request, inventory: Inventory) -> HttpResponse:
    file = request.FILES.get("file")
    if getattr(request, "upload_too_large", False):
        raise TooLarge(_("The file is too large."), field="file")
    if file is None:
        raise Invalid(_("No file was chosen."), field="file", hint=_("Choose one and send it again."))
    with uploads.spooled(file.chunks(uploads.PART)) as spooled:
        found, new = evidence_zip.import_zip(inventory, spooled, by=actor_of(request))
    said = _("%(name)s is kept. Its figures are those of its rows, its verdicts those of its checks.")
    say(request, (said if new else _("%(name)s was here already: the same bytes.")) % {"name": found.name})
    return redirect("evidence-one", inventory.slug, found.public_id)


# ---------------------------------------------------------------------------------------------------------- one evidence
@require_GET
@require(Role.VIEWER)
def evidence_page(request: Request, inventory: Inventory, evidence_id: str) -> HttpResponse:
    read = evidence.read_evidence(evidence.get_evidence(inventory, evidence_id))
    technical = request.user.technical_terms
    cards = [card.figures for card in read.scorecards]
    contrasts = shown.contrasts(read.comparisons, read.checks)
    context: dict[str, Any] = {
        "one": read.evidence, "read": read, "system": words.SYSTEMS[read.evidence.system],
        "origin": words.ORIGINS[read.evidence.origin], "claims": shown.claims(read.claims),
        "contrasts": contrasts, "spans": shown.span_names(contrasts), "encoder": shown.short_encoder(read.evidence.encoder_id),
        "worlds": shown.worlds(cards, technical=technical), "about": shown.about(cards[0]),
        "checks": shown.checks(read.checks), "matrices": shown.matrices(read.checks),
        "boundaries": shown.boundaries(read.checks, technical=technical),
        "rewriters": shown.rewriters(read.costs, read.scorecards), "gates": shown.gates(read.fits),
        "stages": shown.stages(read.contract), "sources": shown.sources(read.contract),
        "grouping": words.GROUPS.get(str(read.contract.get("group_by", "")), ""),
        "inputs": shown.inputs(read), "plan": read.inputs["plan"],
    }  # fmt: skip
    return render(request, "evidence/one.html", context)


@require_GET
@require(Role.VIEWER)
def evidence_figures(request: Request, inventory: Inventory, evidence_id: str) -> JsonResponse:
    """The forest plot; what is stored never changes, so neither does this."""
    read = evidence.read_evidence(evidence.get_evidence(inventory, evidence_id))
    response = JsonResponse({"forest": forest_figure(shown.contrasts(read.comparisons, read.checks))})
    response["Cache-Control"] = "private, max-age=3600"
    return response


@require_GET
@require(Role.VIEWER)
def evidence_file(request: Request, inventory: Inventory, evidence_id: str) -> HttpResponseBase:
    """The bundle as a zip."""
    found = evidence.get_evidence(inventory, evidence_id)
    found.inventory = inventory
    response = StreamingHttpResponse(evidence_zip.as_zip(found, by=actor_of(request)), content_type="application/zip")
    response["Content-Disposition"] = f'attachment; filename="{evidence_zip.folder_name(found)}.zip"'
    return response
