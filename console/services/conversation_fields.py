"""What conversations can be filtered by, in the one filter language: for pages, API, exports and bulk acts alike.

What a policy's classifier does at their turns is worked out from the score table, and on a long log (`table_sample`) taken
from recorded decisions: a list must not score half a million turns.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from django.db.models import BigIntegerField, Count, Exists, ExpressionWrapper, F, FloatField, OuterRef, Q, QuerySet
from django.db.models.functions import Cast, Substr
from django.utils.translation import gettext_lazy as _

from console.models import (
    Artifact,
    ArtifactSetting,
    ArtifactText,
    ClassifierVersion,
    Decision,
    Inventory,
    JudgeKind,
    Judgement,
    Mode,
    Note,
    QueryState,
    StateView,
    Status,
)
from console.services import notes, table
from console.services.filters import Field
from console.services.inventories import current_point
from console.services.saved_views import among
from console.services.search import ALL
from console.services.table_sample import is_long
from sq_core.conversation import RENDERER_VERSION
from sq_core.scoring import cut_off

NEWEST = 50_000  # recorded decisions that are looked through, on a long log, for what differs
OBJECT = notes.OBJECT  # object_type of notes and flags on one
FLAGS = {
    "judge": _("speaks to the reviewer"),
    "replaced": _("characters replaced"),
    "unscored": _("not scored"),
}
_NUMBER = {"is": "", "gt": "__gt", "gte": "__gte"}


def fields(inventory: Inventory) -> tuple[Field, ...]:
    """Costs no query: what a field needs is asked for when it is used."""
    return (
        Field("channel", _("Channel")),
        Field("scenario", _("Scenario")),
        Field("config", _("Source or configuration")),
        Field("customer", _("Customer")),
        Field("turns", _("Customer messages"), "number", column="user_turn_count"),
        Field("started", _("Start"), "time", column="started_at", hint="2026-11-30"),
        Field("flag", _("Mark"), "choice", q=lambda op, value: _flag(inventory, value), choices=FLAGS),
        Field("flagged", _("Flagged by people"), "flag", q=_either(lambda: _noted(inventory))),
        Field("labelled", _("Labelled by people"), "flag", q=_either(lambda: _labelled(inventory))),
        Field("judged", _("AI-reviewed, %"), "number", q=lambda op, value: _judged(inventory, op, value), hint="0–100"),
        Field("differs", _("AI reviewer and policy differ"), "flag", q=_either(lambda: _differs(inventory))),
        Field("fired", _("Policy selected"), "choice", q=lambda op, value: _fired(inventory, value), hint=_("its key")),
        Field(
            "needed", _("AI reviewer says needed"), "choice", q=lambda op, value: _needed(inventory, value),
            hint=_("a policy's key"),
        ),
        among(inventory, lambda ids: Q(public_id__in=ids)),
    )  # fmt: skip


def _either(found: Callable[[], Q]) -> Callable[[str, Any], Q]:
    return lambda op, value: found() if value else ~found()


def _flag(inventory: Inventory, value: str) -> Q:
    if value == "judge":
        return Q(addresses_judge=True)
    if value == "replaced":
        return Q(replaced_characters__gt=0)
    read = StateView.objects.filter(
        state=OuterRef("pk"), encoder_id=inventory.encoder_id, renderer_version=RENDERER_VERSION
    )
    waiting = QueryState.objects.filter(~Exists(read), conversation__inventory=inventory).order_by()
    return Q(pk__in=waiting.values("conversation_id")[:ALL])


def flags_on(inventory: Inventory) -> QuerySet[Note]:
    """Flags on conversations that nobody has seen to."""
    return Note.objects.filter(
        inventory=inventory, object_type=OBJECT, flag=True, draft=False, closed_at__isnull=True
    )  # fmt: skip


def _noted(inventory: Inventory) -> Q:
    """On itself, or on one of its messages."""
    turns = (
        notes.open_flags(inventory).filter(object_type=notes.TURN).annotate(whole=Substr("object_id", 1, 12)).order_by()
    )
    return Q(public_id__in=flags_on(inventory).values("object_id")) | Q(public_id__in=turns.values("whole"))


def _labelled(inventory: Inventory) -> Q:
    rows = Judgement.objects.filter(judge__inventory=inventory, judge__kind=JudgeKind.HUMAN)
    return Q(pk__in=rows.values("state__conversation_id")[:ALL])


# ----------------------------------------------------------------------------------------------------------- AI reviewer
def scores(inventory: Inventory) -> QuerySet[Judgement]:
    """What the inventory's AI reviewer says of policies as their texts read now."""
    texts = ArtifactText.objects.as_now().filter(artifact__inventory=inventory)
    return Judgement.objects.filter(judge=inventory.judge_id, artifact_text__in=texts)


def active_policies(inventory: Inventory) -> QuerySet[ArtifactSetting]:
    return ArtifactSetting.objects.current().filter(artifact__inventory=inventory, status=Status.ACTIVE)


def _judged(inventory: Inventory, op: str, percent: float) -> Q:
    """The share of (turn, policy) pairs that have a score: counted once for all conversations that have any."""
    if percent < 0 or (op == "lt" and percent == 0):
        return Q() if op in ("gt", "gte") else Q(pk__in=[])
    if op in ("lt", "lte"):
        return ~_judged(inventory, "gte" if op == "lt" else "gt", percent)
    if op == "is" and percent == 0:
        return ~_judged(inventory, "gt", 0)
    if op == "gte" and percent == 0:
        return Q()
    pair = ExpressionWrapper(
        F("state_id") * 1_000_003 + F("artifact_text__artifact_id"), output_field=BigIntegerField()
    )
    share = (
        Cast(Count(pair, distinct=True), FloatField())
        * 100.0
        / (Cast(F("state__conversation__user_turn_count"), FloatField()) * max(active_policies(inventory).count(), 1))
    )
    counted = (
        scores(inventory)
        .order_by()
        .values("state__conversation_id", "state__conversation__user_turn_count")
        .annotate(share=share)
        .filter(**{f"share{_NUMBER[op]}": float(percent)})
    )
    return Q(pk__in=counted.values("state__conversation_id")[:ALL])


def _needed(inventory: Inventory, key: str) -> Q:
    if inventory.judge is None:
        return Q(pk__in=[])
    rows = scores(inventory).filter(artifact_text__artifact__key=key, score__gte=inventory.judge.pass_mark)
    return Q(pk__in=rows.values("state__conversation_id")[:ALL])


# ------------------------------------------------------------------------------------------------------------ classifier
def _versions(inventory: Inventory, **which: Any) -> Iterable[ClassifierVersion]:
    """Those that decide now."""
    auto = active_policies(inventory).filter(mode=Mode.AUTO).values("artifact_id")
    return ClassifierVersion.objects.current().filter(artifact__inventory=inventory, artifact__in=auto, **which)


def _fired(inventory: Inventory, key: str) -> Q:
    """At any of their turns: as recorded, and while the log is small as it is worked out now."""
    said = Decision.objects.filter(
        artifact__inventory=inventory, artifact__key=key, fired=True, discovery__state__isnull=False
    )
    recorded = Q(pk__in=said.values("discovery__state__conversation_id")[:ALL])
    always = active_policies(inventory).filter(artifact__key=key)
    unfitted = ClassifierVersion.objects.current().filter(artifact=OuterRef("artifact"))
    if always.filter(Q(mode=Mode.ALWAYS) | Q(Q(mode=Mode.AUTO), ~Exists(unfitted))).exists():
        return Q(user_turn_count__gt=0)
    point = current_point(inventory)
    if point.centre is None or is_long(inventory):
        return recorded
    states = table.state_table(inventory, point.centre)
    found: set[int] = set()
    for version in _versions(inventory, artifact__key=key, centre=point.centre):
        margins = table.margins_of(table.classifier_of(version), states, table.pooling_of(point))
        found.update(states.conversation_ids[margins > cut_off(point.theta, version.offset)].tolist())
    return recorded | Q(pk__in=sorted(found))


def _differs(inventory: Inventory) -> Q:
    """The classifier selects what the AI reviewer does not need, or the other way round, at any turn."""
    if inventory.judge is None:
        return Q(pk__in=[])
    point = current_point(inventory)
    if point.centre is None:
        return Q(pk__in=[])
    if is_long(inventory):
        return Q(pk__in=_recorded_differences(inventory).values("discovery__state__conversation_id")[:ALL])
    states = table.state_table(inventory, point.centre)
    labels, found = table.all_labels(inventory, states), np.zeros(len(states), dtype=bool)
    for version in _versions(inventory, centre=point.centre):
        mine = labels[version.artifact_id]
        margins = table.margins_of(table.classifier_of(version), states, table.pooling_of(point))
        found |= mine.judged & ((margins > cut_off(point.theta, version.offset)) != mine.relevant)
    return Q(pk__in=np.unique(states.conversation_ids[found]).tolist())


def _recorded_differences(inventory: Inventory) -> QuerySet[Decision]:
    """Among the newest recorded decisions, those that the AI reviewer's score speaks against."""
    same = scores(inventory).filter(
        state=OuterRef("discovery__state"), artifact_text__artifact=OuterRef("artifact"), repeat=0
    )
    mark = inventory.judge.pass_mark if inventory.judge else 4
    newest = Decision.objects.filter(artifact__in=Artifact.objects.filter(inventory=inventory)).order_by("-pk")
    return Decision.objects.filter(
        Q(Exists(same.filter(score__lt=mark)), fired=True) | Q(Exists(same.filter(score__gte=mark)), fired=False),
        pk__in=newest.values("pk")[:NEWEST],
    )
