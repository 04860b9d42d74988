"""Ingest judgements: scores of (query state, artifact) by a judge or a person, checked against their prefix."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from django.db import transaction
from django.db.models import F

from console.models import Artifact, Inventory, Judge, JudgeKind, Judgement, QueryState, Rubric
from console.services.actor import Actor
from console.services.errors import Invalid
from console.services.ingest import PIECE, Place, Progress, Report, Trail, records_of
from console.services.revision import lock_inventory
from sq_core.causal.states import JudgementError, check_judgement
from sq_core.causal.states import QueryState as SeenState
from sq_core.conversation import clean_text
from sq_core.readers import JudgementRow, RowError, read_judgements

REASON_LIMIT = 10_000
REMEMBERED = 5_000  # conversations whose states are kept at hand while a file is read
Key = tuple[int, int, int, str, int]  # state, artifact text, judge, prompt version, repeat


@dataclass(frozen=True)
class _State:
    pk: int
    message_index: int
    digest: str


@dataclass
class _Context:
    """What the rows of one import are looked up in."""

    inventory: Inventory
    by: Actor
    rubric: str | None
    report: Report
    texts: Mapping[str, int]  # artifact key -> current text revision
    judges: dict[str, Judge] = field(default_factory=dict)
    states: dict[tuple[str, int], _State] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)  # conversation -> number of user turns


@dataclass(frozen=True)
class _Score:
    """One good score on its way into the database."""

    place: Place
    artifact: str
    row: Judgement

    @property
    def key(self) -> Key:
        row = self.row
        return (row.state_id, row.artifact_text_id, row.judge_id, row.prompt_version, row.repeat)


def import_judgements(
    inventory: Inventory,
    source: Path | Iterable[JudgementRow | RowError],
    *,
    by: Actor,
    rubric: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Store scores for the artifacts' current texts. ``rubric`` is how new judges of this file scored (current-need).

    Bad scores are listed, the others of their row kept. A score that is there already is a duplicate; another score
    under the same judge, prompt version and repeat is rejected. The first model judge becomes the inventory's.
    """
    if rubric is not None and rubric not in Rubric.values:
        raise Invalid(f"rubric is {rubric!r}.", field="rubric", hint=f"Choose one of {', '.join(Rubric.values)}.")
    report = Report("judgements")
    keys = Artifact.objects.filter(inventory=inventory, texts__to_release__isnull=True).values_list("key", "texts__id")
    context = _Context(inventory, by, rubric, report, dict(keys))
    batch: list[tuple[Place, JudgementRow]] = []
    size = 0
    with Trail(inventory, report, by=by) as trail:
        for place, record in records_of(source, read_judgements, report):
            report.read += len(record.scores)
            if batch and size + len(record.scores) > PIECE:
                _store(context, batch, trail)
                batch, size = [], 0
                if progress:
                    progress(report.read)
            batch.append((place, record))
            size += len(record.scores)
        _store(context, batch, trail, last=True)
    inventory.refresh_from_db(fields=["label_revision", "judge"])
    return report.done()


def _store(context: _Context, batch: list[tuple[Place, JudgementRow]], trail: Trail, *, last: bool = False) -> None:
    """One piece: the inventory locked, so that of two imports of one pair the second sees the first one's score."""
    if not batch:
        return
    _look_up(context, {record.conversation for _, record in batch})
    with transaction.atomic():
        lock_inventory(context.inventory)
        scores = [score for place, record in batch for score in _scores(context, place, record)]
        stored = _stored(scores)
        fresh: dict[Key, _Score] = {}
        for score in scores:
            known = stored.get(score.key)
            if known is None:
                stored[score.key] = score.row.score
                fresh[score.key] = score
            elif known == score.row.score:
                context.report.duplicates += 1
            else:
                context.report.reject(_clash(score, known))
        Judgement.objects.bulk_create([score.row for score in fresh.values()], batch_size=PIECE)
        context.report.stored += len(fresh)
        if fresh:
            Inventory.objects.filter(pk=context.inventory.pk).update(label_revision=F("label_revision") + 1)
        trail.more = {"judges": sorted(context.judges)}
        trail.piece(last=last)


def _look_up(context: _Context, conversations: set[str]) -> None:
    """The states of conversations not met yet; forgotten again when a long file has met many."""
    missing = conversations - set(context.turns)
    if len(context.turns) > REMEMBERED:
        context.states.clear()
        context.turns.clear()
        missing = conversations
    rows = QueryState.objects.filter(
        conversation__inventory=context.inventory, conversation__external_id__in=missing
    ).values_list("conversation__external_id", "user_turn", "pk", "message_index", "prefix_digest")
    for external_id, turn, pk, message_index, digest in rows:
        context.states[external_id, turn] = _State(pk, message_index, digest)
        context.turns[external_id] = max(context.turns.get(external_id, 0), turn + 1)


def _stored(scores: list[_Score]) -> dict[Key, int]:
    """What is stored already of these keys."""
    rows = Judgement.objects.filter(
        state__in={score.row.state_id for score in scores}, judge__in={score.row.judge_id for score in scores}
    ).values_list("state_id", "artifact_text_id", "judge_id", "prompt_version", "repeat", "score")
    return {(state, text, judge, version, repeat): score for state, text, judge, version, repeat, score in rows}


def _clash(score: _Score, known: int) -> RowError:
    judge, version = score.row.judge.name, score.row.prompt_version
    return RowError(
        *score.place,
        f"scores.{score.artifact}",
        f"This pair is already judged {known} by {judge}, prompt {version}; the file says {score.row.score}.",
        "Give another prompt_version: a judgement is never overwritten.",
    )


# ------------------------------------------------------------------------------------------------------------- one row
def _scores(context: _Context, place: Place, record: JudgementRow) -> list[_Score]:
    """The good scores of a row; what is wrong with the row or one of its scores goes into the report."""
    size, report = max(1, len(record.scores)), context.report
    state = _state(context, place, record)
    judge = _judge(context, place, record) if not isinstance(state, RowError) else state
    if isinstance(state, RowError) or isinstance(judge, RowError):
        report.reject(state if isinstance(state, RowError) else judge, count=size)  # type: ignore[arg-type]
        return []
    good = []
    for key, value in record.scores.items():
        error = _score_error(context, place, key, value)
        if error is not None:
            report.reject(error)
            continue
        reason, replaced = clean_text(record.reasons.get(key, ""))
        report.replaced_characters += replaced
        row = Judgement(
            state_id=state.pk,
            artifact_text_id=context.texts[key],
            judge=judge,
            prompt_version=record.prompt_version or "1",
            score=value,
            reason=reason[:REASON_LIMIT],
            visible_upto=state.message_index,
            prefix_digest=state.digest,
            digest_computed=not record.prefix_digest,
            chosen=record.chosen,
            by=context.by.name,
        )
        good.append(_Score(place, key, row))
    return good


def _score_error(context: _Context, place: Place, key: str, value: object) -> RowError | None:
    where = f"scores.{key[:80]}"
    if key not in context.texts:
        return RowError(
            *place, where, f"There is no artifact {key[:80]!r}.", "Import the artifacts first, or mend the key."
        )
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 5:
        return RowError(*place, where, f"The score is {str(value)[:40]}.", "Give a whole number from 1 to 5.")
    return None


def _state(context: _Context, place: Place, record: JudgementRow) -> _State | RowError:
    turns = context.turns.get(record.conversation)
    shown = record.conversation[:80]
    if turns is None:
        return RowError(
            *place, "conversation", f"There is no conversation {shown!r} with a user turn.", "Import it first."
        )
    state = context.states.get((record.conversation, record.user_turn))
    if state is None:
        return RowError(
            *place,
            "user_turn",
            f"{shown} has {turns} user turns, 0 to {turns - 1}; the file says {record.user_turn}.",
            "Count user turns from 0.",
        )
    try:
        seen = SeenState(record.conversation, record.user_turn, state.message_index, state.digest)
        check_judgement(seen, record.visible_upto, record.prefix_digest or None)
    except JudgementError as error:
        return RowError(*place, error.field, *_another_prefix(record, state, error.field))
    return state


def _another_prefix(record: JudgementRow, state: _State, field: str) -> tuple[str, str]:
    """What was judged, what stands here, and the mend."""
    turn, shown = record.user_turn, record.conversation[:80]
    if field == "visible_upto":
        return (
            f"User turn {turn} of {shown} is message {state.message_index}, but the judge saw {record.visible_upto}.",
            "Judge the prefix that ends at the user turn, nothing later.",
        )
    return (
        f"User turn {turn} of {shown} was judged on another text: the file's digest is {record.prefix_digest}, "
        f"that of the messages here is {state.digest}.",
        "Import the conversation that was judged, judge this one, or leave the digest out if you are sure.",
    )


def _judge(context: _Context, place: Place, record: JudgementRow) -> Judge | RowError:
    """The judge of a row, made at its first score; a person is ``human`` or ``human:NAME``."""
    judge, rubric = context.judges.get(record.judge), record.rubric or context.rubric
    if judge is None:
        name = record.judge
        if record.pass_mark == 1:
            return RowError(*place, "pass_mark", "The pass mark is 1: everything would pass.", "Give 2 to 5.")
        if len(name) > 120 or not name.strip():
            return RowError(*place, "judge", "The judge's name is empty or too long.", "Give 1 to 120 characters.")
        kind = JudgeKind.MODEL if record.human is None else JudgeKind.HUMAN
        judge, _ = Judge.objects.get_or_create(
            inventory=context.inventory,
            name=name,
            defaults={
                "kind": kind,
                "rubric": rubric or Rubric.CURRENT_NEED,
                "pass_mark": record.pass_mark or 4,
            },
        )
        context.judges[name] = judge
        if kind == JudgeKind.MODEL:
            Inventory.objects.filter(pk=context.inventory.pk, judge__isnull=True).update(judge=judge)
    if rubric is not None and judge.rubric != rubric:
        return RowError(
            *place,
            "judge",
            f"{judge.name} scores by {judge.rubric} here, not {rubric}.",
            "Use another judge name.",
        )
    if record.pass_mark is not None and record.pass_mark != judge.pass_mark:
        return RowError(
            *place,
            "pass_mark",
            f"{judge.name} has the pass mark {judge.pass_mark} here, not {record.pass_mark}.",
            "Use another judge name for another pass mark.",
        )
    return judge
