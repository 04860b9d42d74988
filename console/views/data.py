"""Data, import: a file comes in, is looked at, and is imported by a run; what was rejected can be taken out again."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from console.forms.imports import ImportForm
from console.forms.runs import add_run_error
from console.models import Inventory, Role, Run, RunKind, Upload
from console.permissions import Request, actor_of, may_reveal, refused, require, wants_part
from console.presenters import data as shown
from console.services import import_preview, import_rejected, redaction, runs, uploads
from console.services.csv_lines import csv_lines
from console.services.errors import Conflict, Invalid, NotFound, ServiceError, TooLarge
from console.services.run_kinds import role_for
from console.views.frame import say, whole
from console.views.runs import wake

ACCEPT = ".jsonl,.json,.ndjson,.csv,.parquet,.yml,.yaml,.gz,.md,application/json"
REJECTED = ("file", "line", "field", "message", "mend")


def tabs(inventory: Inventory, current: str) -> list[dict[str, Any]]:
    pages = (("data", _("Import")), ("data-export", _("Export")), ("data-freeze", _("Freeze")))
    return [
        {"url": reverse(name, args=[inventory.slug]), "label": label, "current": name == current, "n": None}
        for name, label in pages
    ]


# ----------------------------------------------------------------------------------------------------------- a file comes
@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.VIEWER)
def data(request: Request, inventory: Inventory) -> HttpResponse:
    """The files that came; a POST keeps one (reviewers) and goes on to the look at it."""
    if request.method == "POST" and not request.role.includes(Role.REVIEWER):
        return refused(request, Role.REVIEWER)
    error: ServiceError | None = None
    if request.method == "POST":
        try:
            upload, new = _kept(request, inventory)
        except (Invalid, TooLarge, Conflict) as refusal:
            error = refusal
        else:
            if not new:
                say(request, _("This content is here already, as %(name)s.") % {"name": upload.name})
            return redirect("data-upload", inventory.slug, upload.public_id)
    files = shown.files(
        inventory, before=whole(request.GET.get("after", "")) or 0, technical=request.user.technical_terms
    )
    context = {
        "tabs": tabs(inventory, "data"),
        "files": files,
        "error": error,
        "accept": ACCEPT,
        "limit": settings.UPLOAD_LIMIT // uploads.MEGABYTE,
        "kept_days": settings.UPLOAD_KEPT_DAYS,
    }
    return render(request, "data/import.html", context, status=error.status if error else 200)


def _kept(request: Request, inventory: Inventory) -> tuple[Upload, bool]:
    file = request.FILES.get("file")
    if getattr(request, "upload_too_large", False):
        uploads.check_size(settings.UPLOAD_LIMIT + 1)
    if file is None:
        raise Invalid(_("No file was chosen."), field="file", hint=_("Choose one and send it again."))
    with uploads.spooled(file.chunks(uploads.PART)) as spooled:
        return uploads.store_upload(inventory, spooled, name=file.name or "", by=actor_of(request))


# ------------------------------------------------------------------------------------------------------- the look at it
@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.REVIEWER)
def data_upload(request: Request, inventory: Inventory, upload: str) -> HttpResponse:
    """``?what=``, ``encoding``, ``format``, ``source``, ``rubric``: what it is taken for. ``do``: start, or erase."""
    found = uploads.get_upload(inventory, upload)
    if request.method == "POST" and request.POST.get("do") == "erase":
        return _erase(request, inventory, found)
    starts = request.method == "POST"
    given: Mapping[str, Any] = request.POST if starts else request.GET
    form = ImportForm(given, guess=found.guess, technical=request.user.technical_terms)
    valid = form.chosen and form.is_valid()
    needs = role_for(RunKind.IMPORT, {"what": given.get("what") or found.guess.get("what")})
    if starts and valid:
        if not request.role.includes(needs):
            return refused(request, needs)
        run = _start(request, inventory, found, form)
        if run is not None:
            return redirect("run", inventory.slug, run.public_id)
    preview, trouble = _preview(request, found, form) if valid and found.readable else (None, None)
    context = {
        "upload": found,
        "file": shown.file(found, technical=request.user.technical_terms),
        "form": form,
        "look": preview,
        "trouble": trouble,
        "needs": needs,
        "kept_days": settings.UPLOAD_KEPT_DAYS,
    }
    failed = starts or (form.chosen and bool(given) and not valid)
    template = "data/upload.html#look" if wants_part(request) else "data/upload.html"
    return render(request, template, context, status=422 if failed else 200)


def _preview(request: Request, upload: Upload, form: ImportForm) -> tuple[shown.Look | None, ServiceError | None]:
    what = form.cleaned_data["what"]
    try:
        found = import_preview.preview(
            upload, what=what, encoding=form.cleaned_data["encoding"], options=form.options(), by=actor_of(request)
        )
    except (Invalid, TooLarge) as error:
        return None, error
    return shown.look(found, what), None


def _start(request: Request, inventory: Inventory, upload: Upload, form: ImportForm) -> Run | None:
    """The run, or None with the reason on the form."""
    try:
        run = runs.create_run(
            inventory, RunKind.IMPORT, by=actor_of(request), params={"upload": upload.public_id, **form.params()}
        )
    except Invalid as error:
        add_run_error(form, error)
        return None
    wake(run)
    return run


def _erase(request: Request, inventory: Inventory, upload: Upload) -> HttpResponse:
    uploads.erase_upload(upload, by=actor_of(request))
    say(request, _("%(name)s is erased; what was imported from it stays.") % {"name": upload.name})
    return redirect("data", inventory.slug)


# ---------------------------------------------------------------------------------------------------- what was rejected
@require_GET
@require(Role.REVIEWER)
def data_rejected(request: Request, inventory: Inventory, run: str, form: str) -> HttpResponseBase:
    """``csv``: the reasons. ``jsonl``: the rows themselves, to be mended, while the file is kept."""
    found = runs.get_run(inventory, run)
    result = found.items.values_list("result", flat=True).first() if found.kind == RunKind.IMPORT else None
    if form not in ("csv", "jsonl") or not result or not result.get("errors"):
        raise NotFound(_("This run has rejected nothing."))
    if redaction.rules_of(inventory) is not None:  # the rows hold what people see hidden, and are no good without it
        if not may_reveal(request):
            return refused(request, Role(inventory.reveal_role))
        why = _("rejected rows of run %(run)s") % {"run": run}
        redaction.note_clear(inventory, by=actor_of(request), what=f"rejected.{form}", reason=why)
    if form == "csv":
        return _file(f"rejected-{run}.csv", "text/csv", csv_lines(REJECTED, result["errors"]))
    upload = uploads.get_upload(inventory, found.params["upload"])
    if not upload.readable:
        raise uploads.gone(upload)
    lines = {error["line"] for error in result["errors"]}
    rows = import_rejected.rejected_rows(upload, encoding=found.params["encoding"], lines=lines)
    return _file(f"rejected-{run}.jsonl", "application/x-ndjson", rows)


def _file(name: str, kind: str, pieces: Iterator[Any]) -> StreamingHttpResponse:
    response = StreamingHttpResponse(pieces, content_type=f"{kind}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
