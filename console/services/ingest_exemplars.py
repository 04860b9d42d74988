"""Ingest exemplars: texts that a person or a generator gives for artifacts, promoted at once; no refit, no release."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from console.models import Artifact, ArtifactText, Exemplar, ExemplarStatus, Inventory, QueryState
from console.models import Source as From
from console.services import artifacts
from console.services.actor import Actor
from console.services.errors import Invalid
from console.services.ingest import PIECE, Place, Progress, Report, Trail, records_of
from console.services.redaction import masked, refuse_places
from console.services.revision import lock_inventory
from sq_core.readers import ExemplarRow, RowError, read_exemplars


@dataclass(frozen=True)
class _Text:
    place: Place
    artifact: Artifact
    polarity: str
    text: str
    source: str
    row: ExemplarRow

    @property
    def key(self) -> tuple[int, str]:
        return (self.artifact.pk, artifacts.exemplar_digest(self.text))


def import_exemplars(
    inventory: Inventory,
    source: Path | Iterable[ExemplarRow | RowError],
    *,
    by: Actor,
    exemplar_source: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Store exemplars, promoted. ``exemplar_source`` overrides what the file says (lists: generated; rows: written).

    A text that the artifact has already on that side is a duplicate, on the other side it is rejected; a suggested one
    (candidate) is promoted and counted as updated, as one is that learns here where it was said. Rejected and retired
    ones stay so. The caller refits.
    """
    if exemplar_source is not None and exemplar_source not in From.values:
        raise Invalid(
            f"source is {exemplar_source!r}.", field="source", hint=f"Choose one of {', '.join(From.values)}."
        )
    report = Report("exemplars")
    known = {a.key: a for a in Artifact.objects.filter(inventory=inventory)}
    batch: list[_Text] = []
    with Trail(inventory, report, by=by) as trail:
        for place, record in records_of(source, read_exemplars, report):
            report.read += 1
            item = _checked(inventory, place, record, known, exemplar_source, report)
            if item is not None:
                if len(batch) >= PIECE:
                    _store(inventory, batch, report, trail, by=by)
                    batch = []
                batch.append(item)
            if progress:
                progress(report.read)
        _store(inventory, batch, report, trail, by=by, last=True)
    return report.done()


def _checked(
    inventory: Inventory,
    place: Place,
    record: ExemplarRow,
    known: dict[str, Artifact],
    override: str | None,
    report: Report,
) -> _Text | None:
    artifact = known.get(record.artifact)
    if artifact is None:
        shown = record.artifact[:80]
        report.reject(RowError(*place, "artifact", f"There is no artifact {shown!r}.", "Import the artifacts first."))
        return None
    default = From.GENERATED if record.listed else From.WRITTEN
    try:
        text = artifacts.checked_exemplar(record.text)
        refuse_places(inventory, text)  # a masked export does not come back as examples of its own
    except Invalid as error:
        report.reject(RowError(*place, error.field, error.message, error.hint))
        return None
    report.replaced_characters += record.replaced
    return _Text(place, artifact, record.polarity, text, override or record.source or default, record)


def _store(
    inventory: Inventory, batch: list[_Text], report: Report, trail: Trail, *, by: Actor, last: bool = False
) -> None:
    if not batch:
        return
    with transaction.atomic():
        lock_inventory(inventory)
        rows = Exemplar.objects.filter(
            artifact__in={item.artifact.pk for item in batch}, text_digest__in={item.key[1] for item in batch}
        )
        stored = {(row.artifact_id, row.text_digest): row for row in rows}
        texts, origins = _current_texts(batch), _Origins(inventory, batch)
        fresh: list[Exemplar] = []
        for item in batch:
            old, error = stored.get(item.key), origins.error(item)
            if error is not None:
                report.reject(error)
            elif old is None:
                stored[item.key] = made = _exemplar(item, texts, origins, by=by)
                fresh.append(made)
            elif old.polarity != item.polarity:
                report.reject(_other_side(item, old))
            elif old.status == ExemplarStatus.CANDIDATE:
                _promote(old, by=by)
                origins.complete(item, old)
                report.updated += 1
            elif old.pk and origins.complete(item, old):
                report.updated += 1
            else:
                report.duplicates += 1
        Exemplar.objects.bulk_create(fresh)
        Inventory.objects.filter(pk=inventory.pk).update(exemplar_revision=F("exemplar_revision") + 1)
        report.stored += len(fresh)
        trail.piece(last=last)


def _current_texts(batch: list[_Text]) -> dict[int, int]:
    ids = {item.artifact.pk for item in batch}
    return dict(ArtifactText.objects.current().filter(artifact__in=ids).values_list("artifact_id", "pk"))


class _Origins:
    """The query states that a batch's examples name; a conversation that is not here yet gives none."""

    def __init__(self, inventory: Inventory, batch: list[_Text]) -> None:
        named = {item.row.origin[0] for item in batch if item.row.origin}
        rows = QueryState.objects.filter(conversation__inventory=inventory, conversation__external_id__in=named)
        self._states = {
            (name, turn): pk for name, turn, pk in rows.values_list("conversation__external_id", "user_turn", "pk")
        }
        self._turns: dict[str, int] = {}
        for name, _ in self._states:
            self._turns[name] = self._turns.get(name, 0) + 1

    def state(self, item: _Text) -> int | None:
        return self._states.get(item.row.origin) if item.row.origin else None

    def error(self, item: _Text) -> RowError | None:
        """Of a turn that a conversation here does not have."""
        if item.row.origin is None or item.row.origin in self._states or item.row.origin[0] not in self._turns:
            return None
        name, turn = item.row.origin
        count = self._turns[name]
        message = f"{name[:80]} has {count} user turns, 0 to {count - 1}; the file says {turn}."
        return RowError(*item.place, "origin.user_turn", message, "Count user turns from 0, or leave the origin out.")

    def take(self, item: _Text, row: Exemplar) -> None:
        row.origin_id, row.mining_rule = self.state(item), item.row.mining_rule
        row.label_horizon = item.row.label_horizon

    def complete(self, item: _Text, row: Exemplar) -> bool:
        """Where it came from, for a row that did not know: its conversation may come in after it."""
        if row.origin_id is not None or self.state(item) is None:
            return False
        self.take(item, row)
        row.save(update_fields=["origin", "mining_rule", "label_horizon"])
        return True


def _exemplar(item: _Text, texts: dict[int, int], origins: _Origins, *, by: Actor) -> Exemplar:
    (row,) = artifacts.written(item.artifact, {item.polarity: [item.text]}, by=by, source=item.source)
    origins.take(item, row)
    if item.source == From.GENERATED:
        row.artifact_text_id = texts[item.artifact.pk]
    return row


def _promote(row: Exemplar, *, by: Actor) -> None:
    row.status, row.decided_by, row.decided_by_person = ExemplarStatus.PROMOTED, by.user, True
    row.decided_at = timezone.now()
    row.save(update_fields=["status", "decided_by", "decided_by_person", "decided_at"])


def _other_side(item: _Text, old: Exemplar) -> RowError:
    said = masked(item.artifact.inventory, item.text, 60)
    return RowError(
        *item.place,
        "text",
        f"{item.artifact.key} has {said!r} as {old.get_polarity_display().lower()} already ({old.status}).",
        "Keep it on one side: move it in the console, or take it out of the file.",
    )
