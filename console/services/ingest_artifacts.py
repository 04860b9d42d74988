"""Ingest artifacts: one file = one release with one change per artifact; the same file again changes nothing."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from django.db import transaction

from console.models import Artifact, ArtifactText, Exemplar, ExemplarStatus, Inventory, Polarity
from console.models import Source as From
from console.services import artifacts
from console.services.actor import Actor
from console.services.errors import Invalid
from console.services.ingest import Place, Progress, Report, records_of
from console.services.revision import lock_artifacts, revision
from sq_core import readers
from sq_core.readers import RowError


@dataclass(frozen=True)
class _Row:
    place: Place
    new: artifacts.NewArtifact
    offered: tuple[str, ...]  # phrases that the file brings as ready-made signals


def import_artifacts(
    inventory: Inventory,
    source: Path | Iterable[readers.ArtifactText | RowError],
    *,
    by: Actor,
    progress: Progress | None = None,
) -> Report:
    """Add the artifacts of a file; a known key with another name or text is edited (``updated``), an equal one is a
    duplicate, one of another kind is refused. Good rows are kept, bad ones listed.
    """
    report = Report("artifacts")
    rows: dict[str, _Row] = {}
    for place, record in records_of(source, read_file, report):
        report.read += 1
        row = _checked(place, record, report)
        if row is not None:
            _keep(rows, row, report)
        if progress:
            progress(report.read)
    if rows:
        _write(inventory, rows, report, by=by)
    return report.done()


def read_file(path: Path) -> Iterator[readers.ArtifactText | RowError]:
    """JSON lines, or the skills of a folder (or of one SKILL.md)."""
    skills = path.is_dir() or path.suffix == ".md"
    return readers.read_skills(path) if skills else readers.read_policies(path)


def _checked(place: Place, record: readers.ArtifactText, report: Report) -> _Row | None:
    try:
        new = artifacts.checked_artifact(key=record.key, name=record.name, text=record.text, kind=record.kind)
    except Invalid as error:
        field = "id" if error.field == "key" else error.field
        report.reject(RowError(*place, field, error.message, error.hint))
        return None
    return _Row(place, replace(new, replaced=record.replaced), record.signals)


def _keep(rows: dict[str, _Row], row: _Row, report: Report) -> None:
    known = rows.get(row.new.key)
    if known is None:
        rows[row.new.key] = row
    elif known.new == row.new:
        report.duplicates += 1
    else:
        report.reject(
            RowError(
                *row.place, "id", f"{row.new.key} stands in line {known.place[1]} already.", "Give each its own id."
            )
        )


def _write(inventory: Inventory, rows: dict[str, _Row], report: Report, *, by: Actor) -> None:
    """Lock what may change (artifacts first, then the inventory), see what differs, and make one release of it."""
    with transaction.atomic():
        locked = lock_artifacts(inventory, Artifact.objects.filter(inventory=inventory, key__in=rows))
        known = {a.key: a for a in Artifact.objects.filter(inventory=inventory, key__in=rows)}
        for key in [key for key, artifact in known.items() if artifact.kind != rows[key].new.kind]:
            report.reject(_other_kind(rows.pop(key), known.pop(key)))
        texts = {t.artifact_id: t for t in ArtifactText.objects.current().filter(artifact__in=known.values())}
        added = [row for key, row in rows.items() if key not in known]
        edits = {}
        for key, artifact in known.items():
            differs = _difference(rows[key], texts[artifact.pk])
            if differs:
                edits[key] = differs
        report.stored, report.updated = len(added), len(edits)
        report.duplicates += len(known) - len(edits)
        report.replaced_characters = sum(row.new.replaced for row in added) + sum(rows[k].new.replaced for k in edits)
        if not added and not edits:
            return
        summary = f"Import: {len(added)} added, {len(edits)} changed"
        with revision(inventory, by=by, summary=summary, locked=locked) as r:
            position = artifacts.next_position(inventory)
            for number, row in enumerate(added):
                artifact = artifacts.add(r, row.new, position=position + number)
                _offer(artifact, row.offered)
                after = {"name": row.new.name, "text": row.new.text, "kind": row.new.kind, "mode": row.new.mode}
                r.change(
                    action="create", object_type="artifact", object_id=artifact.key, artifact=artifact, after=after
                )
            for key, differs in edits.items():
                artifacts.edit_in(r, known[key], texts[known[key].pk], differs)


def _difference(row: _Row, text: ArtifactText) -> dict[str, str]:
    """What the file changes; mode, fit set and status are not the file's to change."""
    now, wanted = {"name": text.name, "text": text.text}, {"name": row.new.name, "text": row.new.text}
    return {field: value for field, value in wanted.items() if now[field] != value}


def _other_kind(row: _Row, artifact: Artifact) -> RowError:
    return RowError(
        *row.place,
        "kind",
        f"{artifact.key} is of kind {artifact.kind} here, and a kind is fixed at creation.",
        f"Say {artifact.kind}, or give the new one its own id.",
    )


def _offer(artifact: Artifact, phrases: tuple[str, ...]) -> None:
    """Phrases of the file become suggested show examples: waiting for a yes or no, not fitted."""
    Exemplar.objects.bulk_create(
        Exemplar(
            artifact=artifact,
            polarity=Polarity.SIGNAL,
            text=text,
            text_digest=artifacts.exemplar_digest(text),
            source=From.IMPORTED,
            status=ExemplarStatus.CANDIDATE,
        )
        for text in dict.fromkeys(phrases)
    )
