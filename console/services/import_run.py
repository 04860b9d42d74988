"""The import run: one item, the file, read as a stream by whichever worker takes it.

The importers write in pieces and know what is there: a file whose worker died is read again from its start and adds
nothing twice. Pause and cancel are seen while it is read.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import DatabaseError

from console.models import AuditEvent, Inventory, Release, Role, Run, RunKind, Source, Upload
from console.models.judgement import Rubric
from console.services import uploads
from console.services.actor import for_run
from console.services.database_trouble import database_trouble, file_trouble
from console.services.errors import Invalid, ServiceError, Unavailable
from console.services.import_file import OPTIONS, WHATS, import_rows
from console.services.ingest import Report
from console.services.run_kind import PENDING, Context, Forecast, Item, ItemDraft, Ordinary, Outcome, say_how_far
from console.services.upload_text import ENCODINGS
from sq_core.readers import CONVERSATION_FORMATS

Json = dict[str, Any]
SHOWN = 200  # row errors of a run's result; its item keeps all that the report listed
LOOK_EVERY_S = 2.0
ROLES = {"artifacts": Role.AUTHOR, "exemplars": Role.AUTHOR, "conversations": Role.AUTHOR, "judgements": Role.REVIEWER}
_CHOICES: dict[str, Sequence[str]] = {
    "encoding": ENCODINGS, "format": CONVERSATION_FORMATS, "source": Source.values, "rubric": Rubric.values,
}  # fmt: skip
_DERIVED = ("file", "sha256")  # what the upload says, frozen with the plan


class _Stopped(Exception):
    """The run was paused or cancelled while its file was being read."""


class Import(Ordinary):
    """``{"what", "upload", "format"?, "rubric"?, "source"?, "encoding"?}``."""

    kind, role = RunKind.IMPORT, Role.REVIEWER
    calls_model = False
    batch, lease_s, tries = 1, 120, 5

    def role_for(self, params: Json) -> Role:
        """Judgements are a reviewer's to bring, what policies are made of an author's."""
        return ROLES.get(str(params.get("what")), Role.AUTHOR)

    def check(self, inventory: Inventory, scope: Json, params: Json) -> Json:
        if scope:
            raise Invalid("An import has no scope.", field="scope", hint="Leave it out.")
        what = params.get("what")
        if what not in WHATS:
            raise Invalid(
                "Say what the file holds." if what is None else f"There is no import of {str(what)[:40]!r}.",
                field="params.what", hint=f"One of {', '.join(WHATS)}.",
            )  # fmt: skip
        upload = _upload(inventory, params.get("upload"))
        given = {name: value for name, value in params.items() if value not in (None, "")}
        known = {"what", "upload", "encoding", *OPTIONS[what], *_DERIVED}
        if extra := sorted(set(given) - known):
            raise Invalid(
                f"{extra[0]!r:.60} does not go with {what}.", field=f"params.{extra[0]}"[:60], hint="Leave it out."
            )
        for name, choices in _CHOICES.items():
            if name in given and given[name] not in choices:
                raise Invalid(
                    f"{name} is {str(given[name])[:40]!r}.", field=f"params.{name}",
                    hint=f"One of {', '.join(choices)}, or leave it out.",
                )  # fmt: skip
        options = {name: given[name] for name in OPTIONS[what] if name in given}
        encoding = given.get("encoding") or upload.guess.get("encoding", "utf-8")
        about = {"upload": upload.public_id, "encoding": encoding, "file": upload.name, "sha256": upload.sha256}
        return {"what": what, **about, **options}

    def plan(self, inventory: Inventory, scope: Json, params: Json) -> Iterable[ItemDraft]:
        upload = _upload(inventory, params["upload"])
        yield ItemDraft(key=upload.name, payload={"upload": upload.pk})

    def forecast(self, inventory: Inventory, scope: Json, params: Json) -> Forecast:
        return Forecast(items=1, calls=0)

    def prepare(self, run: Run, items: Sequence[Item]) -> Context:
        return Context(run, run.inventory)

    def perform(self, context: Context, item: Item) -> Outcome:
        run, params = context.run, context.run.params
        upload = Upload.objects.select_related("inventory").filter(pk=item.payload["upload"]).first()
        if upload is None or not upload.readable:
            return Outcome(code="gone", message="The file is no longer kept. Upload it again.")
        before = Inventory.objects.get(pk=run.inventory_id)
        by = for_run(run)
        options = {name: params[name] for name in OPTIONS[params["what"]] if name in params}
        try:
            with uploads.plain_file(upload, encoding=params["encoding"]) as path:
                report = import_rows(before, params["what"], path, by=by, options=options, progress=_Watch(run).look)
        except _Stopped:
            return Outcome(code=PENDING, again=True, retry_after=0.0)
        except Unavailable as error:
            return Outcome(code="unavailable", message=error.message, again=True)
        except ServiceError as error:
            return Outcome(code="unreadable", message=f"{error.message} {error.hint}".strip())
        except DatabaseError as error:
            return Outcome(code="unavailable", message=f"{database_trouble(error).said}.", again=True)
        except OSError as error:
            return Outcome(code="unavailable", message=f"{file_trouble(error).said}.", again=True)
        return Outcome(value=_result(upload, run, report, again=item.attempt > 1 or _was_resumed(run)))

    def store(self, context: Context, done: Sequence[tuple[Item, Outcome]]) -> list[Json | None]:
        return [outcome.value for _, outcome in done]

    def settle(self, run: Run) -> Json:
        """The report with its first row errors, and the release that it made."""
        found: Json = run.items.values_list("result", flat=True).first() or {}
        if not found:
            return {}
        made = Release.objects.filter(
            inventory=run.inventory_id, actor=run.actor, summary__startswith="Import: ", at__gte=run.started_at,
            at__lte=run.finished_at,
        )  # fmt: skip
        if found["what"] == "artifacts" and found["stored"] + found["updated"]:
            found["release"] = made.order_by("-number").values_list("number", flat=True).first()
        return {**found, "errors": found["errors"][:SHOWN]}


def _upload(inventory: Inventory, public_id: object) -> Upload:
    """The upload of the params. Raises Invalid."""
    field = "params.upload"
    if not isinstance(public_id, str) or not public_id:
        raise Invalid("No file is named.", field=field, hint="Upload one first, on the page Data or over the API.")
    found = Upload.objects.filter(inventory=inventory, public_id=public_id, complete=True).first()
    if found is None:
        raise Invalid(f"There is no upload {public_id[:40]!r} here.", field=field, hint="Upload the file first.")
    if not found.readable:
        raise uploads.gone(found)
    return found


class _Watch:
    """Says every few seconds how far the reading is and sees whether the run is still wanted; called between pieces, never
    inside a transaction."""

    def __init__(self, run: Run) -> None:
        self._run, self._next = run, time.monotonic() + LOOK_EVERY_S

    def look(self, read: int) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + LOOK_EVERY_S
        if not say_how_far(self._run, f"{read:,} {self._run.params['what']} read so far."):
            raise _Stopped


def _was_resumed(run: Run) -> bool:
    return AuditEvent.objects.filter(object_type="run", object_id=run.public_id, action="run.resume").exists()


def _result(upload: Upload, run: Run, report: Report, *, again: bool) -> Json:
    found = report.to_json()
    found.pop("kind")
    return {
        "what": run.params["what"],
        "file": upload.name,
        "upload": upload.public_id,
        **found,
        "listed": len(report.errors),
        "again": again,  # an earlier reading was lost or stopped: what it had stored counts as a duplicate here
    }


KIND = Import()
