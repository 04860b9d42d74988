"""Files in and out, as the page Data shows them: uploads, the preview of one, the report of an import, what can be taken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from console.models import Inventory, Run, RunKind, Upload
from console.presenters import labels, run_words
from console.presenters.amounts import figure
from console.presenters.labels import Label
from console.presenters.run_words import State
from console.services import export, runs, uploads
from console.services.import_preview import Preview, Tried
from sq_core.conversation import user_turns

PAGE = 25
CLIP = 240  # characters of a text in a preview
Json = Mapping[str, Any]

# What a file may hold, in the order in which an empty inventory takes them.
WHATS: dict[str, Label] = {
    "artifacts": Label(_lazy("Policies, skills, tools"), _lazy("Artifacts")),
    "conversations": Label(_lazy("Conversations"), _lazy("Conversations")),
    "exemplars": Label(_lazy("Examples"), _lazy("Exemplars")),
    "judgements": Label(_lazy("Scores of reviewers"), _lazy("Judgements")),
}
EXPORTS: dict[str, Label] = {
    "policies": Label(_lazy("Policies"), _lazy("Artifacts")),
    "exemplars": WHATS["exemplars"],
    "conversations": WHATS["conversations"],
    "judgements": WHATS["judgements"],
}
# What `sq_core.readers.CONVERSATION_FORMATS` are called.
FORMATS: dict[str, Any] = {
    "jsonl": _lazy("JSON lines"),
    "tau": _lazy("Saved runs of τ-bench"),
    "openai": _lazy("OpenAI messages or responses"),
    "anthropic": _lazy("Anthropic messages"),
    "langfuse": _lazy("Langfuse traces"),
    "langsmith": _lazy("LangSmith runs"),
    "openinference": _lazy("OpenInference spans (Phoenix)"),
    "intercom": _lazy("Intercom conversations"),
    "zendesk": _lazy("Zendesk tickets"),
    "sharegpt": _lazy("ShareGPT"),
    "chatgpt": _lazy("ChatGPT export"),
    "rasa": _lazy("Rasa trackers or test stories"),
    "label-studio": _lazy("Label Studio chats"),
    "inspect": _lazy("Inspect logs"),
}
# Beside those, what a file of policies may be.
OTHER_FORMATS: dict[str, Any] = {
    **FORMATS,
    "parlant": _lazy("Parlant guidelines"),
    "botpress": _lazy("Botpress questions or intents"),
    "abcd": _lazy("ABCD guidelines"),
    "semantic-router": _lazy("Routes of semantic-router"),
    "rasa": _lazy("Rasa"),
}
OUTCOMES: dict[str, tuple[Any, str]] = {
    "new": (_lazy("new"), "ok"),
    "changed": (_lazy("another text"), "ok"),
    "grown": (_lazy("grows"), "ok"),
    "used": (_lazy("suggested, now used"), "ok"),
    "known": (_lazy("known already"), ""),
    "partly": (_lazy("partly rejected"), "warn"),
    "rejected": (_lazy("rejected"), "bad"),
    "": (_lazy("too long to try"), ""),
}


def what(name: str, *, technical: bool = False) -> str:
    return WHATS[name].text(technical=technical) if name in WHATS else _("not recognised")


# ------------------------------------------------------------------------------------------------------------- uploads
@dataclass(frozen=True)
class File:
    """An upload in a list: what it seems to hold, and what became of it."""

    upload: Upload
    what: str
    about: str
    run: Run | None  # its newest import
    state: State | None
    came: str  # what its newest import brought
    until: datetime | None  # when it is erased; None while an import of it goes on

    @property
    def badge(self) -> str:
        """Of its import: one that could use nothing has not gone well, complete as it is."""
        if self.run and _used_nothing(self.run.result or {}):
            return "warn"
        return self.state.badge if self.state else ""

    @property
    def erasable(self) -> bool:
        return self.upload.readable and (self.run is None or self.run.ended)


@dataclass(frozen=True)
class Files:
    rows: list[File]
    next: str | None


def files(inventory: Inventory, *, before: int = 0, technical: bool = False) -> Files:
    """Newest first; ``before`` so many are passed over."""
    found = list(uploads.list_uploads(inventory)[before : before + PAGE + 1])
    listed = found[:PAGE]
    newest = _newest_runs(inventory, listed)
    more = str(before + PAGE) if len(found) > PAGE else None
    return Files([_file(upload, newest.get(upload.public_id), technical) for upload in listed], more)


def file(upload: Upload, *, technical: bool = False) -> File:
    return _file(upload, _newest_runs(upload.inventory, [upload]).get(upload.public_id), technical)


def _newest_runs(inventory: Inventory, listed: Sequence[Upload]) -> dict[str, Run]:
    ids = [upload.public_id for upload in listed]
    rows = Run.objects.filter(inventory=inventory, kind=RunKind.IMPORT, params__upload__in=ids).order_by("id")
    return {run.params["upload"]: run for run in rows}


def _file(upload: Upload, run: Run | None, technical: bool) -> File:
    state = run_words.state(run, runs.progress(run), technical=technical) if run else None
    ended = run.finished_at if run else upload.at
    until = ended + timedelta(days=settings.UPLOAD_KEPT_DAYS) if ended and (run is None or run.ended) else None
    seems, came = what(upload.guess.get("what", ""), technical=technical), _came(run.result or {}) if run else ""
    return File(upload, seems, about(upload), run, state, came, until)


def _came(result: Json) -> str:
    """ "13 new, 4 rejected"."""
    if "read" not in result:
        return ""
    counts = (
        (result["stored"], _("%(n)s new")),
        (result["updated"], _("%(n)s changed")),
        (result["grown"], _("%(n)s grown")),
        (result["rejected"], _("%(n)s rejected")),
    )
    parts = [words % {"n": figure(n)} for n, words in counts if n]
    return ", ".join(parts) if result["stored"] + result["updated"] + result["grown"] else _nothing(parts)


def _used_nothing(result: Json) -> bool:
    used = sum(result.get(name, 0) for name in ("stored", "updated", "grown", "duplicates"))
    return bool(result.get("rejected")) and not used


def _nothing(parts: Sequence[str]) -> str:
    return ", ".join([_("nothing new"), *parts])


def about(upload: Upload) -> str:
    """ "2.3 MB, 1,204 lines, packed with gzip"."""
    guess = upload.guess
    parts = [filesizeformat(upload.size)]
    if (lines := guess.get("lines")) and guess.get("format") == "jsonl":
        words = ngettext("%(n)s line", "%(n)s lines", lines) % {"n": figure(lines)}
        parts.append(words if guess.get("lines_exact", True) else _("more than %(lines)s") % {"lines": words})
    if (form := guess.get("format")) != "jsonl" and form in OTHER_FORMATS:
        parts.append(str(OTHER_FORMATS[form]))
    if guess.get("gzip"):
        parts.append(_("packed with gzip"))
    return ", ".join(parts)


# ------------------------------------------------------------------------------------------------------------- preview
@dataclass(frozen=True)
class Cell:
    head: str
    text: str
    css: str = ""


@dataclass(frozen=True)
class Row:
    tried: Tried
    outcome: str
    badge: str
    cells: list[Cell]


@dataclass(frozen=True)
class Look:
    rows: list[Row]
    heads: list[tuple[str, str]]  # words, class
    more: bool
    counts: list[tuple[int, str, str]]  # number, words, badge

    @property
    def usable(self) -> bool:
        return any(row.tried.outcome != "rejected" for row in self.rows)


def look(found: Preview, kind: str) -> Look:
    """A preview as a table; a row that could not be read has no cells."""
    rows = [
        Row(tried, str(OUTCOMES[tried.outcome][0]), OUTCOMES[tried.outcome][1], _CELLS[kind](tried.record))
        if tried.record is not None
        else Row(tried, str(OUTCOMES["rejected"][0]), "bad", [])
        for tried in found.rows
    ]
    full = next((row.cells for row in rows if row.cells), [])
    counts = [(found.count(name), str(words), badge) for name, (words, badge) in OUTCOMES.items() if found.count(name)]
    return Look(rows, [(cell.head, "num" if "num" in cell.css else "") for cell in full], found.more, counts)


def _clip(text: str) -> str:
    return text if len(text) <= CLIP else f"{text[:CLIP].rstrip()} …"


def _artifact(record: Any) -> list[Cell]:
    return [
        Cell(_("Id"), record.key, "mono"),
        Cell(_("Kind"), record.kind),
        Cell(_("Name"), record.name),
        Cell(_("Text"), record.text, "quote"),
    ]


def _exemplar(record: Any) -> list[Cell]:
    return [
        Cell(_("Policy"), record.artifact, "mono"),
        Cell(_("Side"), labels.term(str(record.polarity.value))),
        Cell(_("Text"), record.text, "quote"),
    ]


def _conversation(record: Any) -> list[Cell]:
    turns = user_turns(record.messages)
    first = record.messages[turns[0]].content if turns else ""
    return [
        Cell(_("Id"), record.external_id, "mono"),
        Cell(_("Start"), f"{record.started_at:%Y-%m-%d %H:%M}" if record.started_at else "–", "nowrap wide"),
        Cell(_("Messages"), figure(len(record.messages)), "num"),
        Cell(_("By the customer"), figure(len(turns)), "num wide"),
        Cell(_("Customer's first message"), first or _("The customer says nothing in it."), "quote"),
    ]


def _judgement(record: Any) -> list[Cell]:
    scores = ", ".join(f"{key} {score}" for key, score in record.scores.items())
    return [
        Cell(_("Conversation"), record.conversation, "mono"),
        Cell(_("Customer message"), str(record.user_turn + 1), "num"),
        Cell(_("Reviewer"), record.judge),
        Cell(_("Scores"), _clip(scores), "quote"),
    ]


_CELLS = {
    "artifacts": _artifact, "exemplars": _exemplar, "conversations": _conversation, "judgements": _judgement,
}  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- report
@dataclass(frozen=True)
class Report:
    """What an import did. ``stats`` are (number, words, class of the figure)."""

    stats: list[tuple[str, str, str]]
    what: str
    errors: list[Json]
    rejected: int
    listed: int  # errors that can be downloaded
    replaced: int
    again: bool
    nothing: bool  # no row could be used
    release: int | None
    upload: Upload | None


def report(run: Run, *, technical: bool = False) -> Report | None:
    found: Json = run.result or {}
    if "read" not in found:
        return None
    upload = Upload.objects.filter(inventory=run.inventory_id, public_id=found["upload"]).first()
    stats = [
        (figure(found["read"]), _read(found["what"], found["read"], technical), ""),
        (figure(found["stored"]), _("new"), ""),
        (figure(found["updated"]), _("with another text") if found["what"] == "artifacts" else _("taken into use"), ""),
        (figure(found["grown"]), _("grown"), ""),
        (figure(found["duplicates"]), _("known already"), ""),
        (figure(found["rejected"]), _("rejected"), "text-bad" if found["rejected"] else ""),
    ]
    always = (stats[0][1], _("new"), _("known already"), _("rejected"))
    return Report(
        stats=[stat for stat in stats if stat[0] != "0" or stat[1] in always],
        what=found["what"],
        errors=list(found["errors"]),
        rejected=found["rejected"],
        listed=found["listed"],
        replaced=found["replaced_characters"],
        again=found["again"],
        nothing=_used_nothing(found),
        release=found.get("release"),
        upload=upload if upload and upload.readable else None,
    )


def _read(name: str, n: int, technical: bool) -> str:
    match name:
        case "artifacts":
            return ngettext("policy, skill or tool read", "policies, skills and tools read", n)
        case "exemplars" if technical:
            return ngettext("exemplar read", "exemplars read", n)
        case "exemplars":
            return ngettext("example read", "examples read", n)
        case "conversations":
            return ngettext("conversation read", "conversations read", n)
        case _:
            return ngettext("score read", "scores read", n)


# ------------------------------------------------------------------------------------------------------------- exports
@dataclass(frozen=True)
class Export:
    kind: str
    label: str
    line: str
    n: int


def exports(found: export.Source, *, technical: bool = False) -> list[Export]:
    counts = export.counts(found)
    lines = {
        "policies": _("Names and texts. CSV also holds what is archived, and each one's mode."),
        "exemplars": _("What is in use. CSV also holds suggestions and what was decided against."),
        "conversations": _("Every message. In CSV each message is a row, with its turn."),
        "judgements": _("What reviewers and people scored. CSV also holds second scores and those of earlier texts."),
    }
    return [Export(kind, EXPORTS[kind].text(technical=technical), lines[kind], counts[kind]) for kind in export.KINDS]
