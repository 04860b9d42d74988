"""What conversations can be filtered by, in the one filter language: for pages, API, exports and bulk acts alike.

What a policy's classifier does at their turns is worked out from the score table while the log is small, and taken from
recorded decisions beyond `EXACT` turns: a list must not score a log of half a million turns.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from django.db.models import Count, Exists, ExpressionWrapper, F, FloatField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Cast, Coalesce, Substr
from django.db.models.lookups import (
    Exact,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
)
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
    Status,
)
from console.services import embed, notes, table
from console.services.filters import Field
from console.services.inventories import current_point
from console.services.saved_views import among
from sq_core.scoring import cut_off

EXACT = 50_000  # turns up to which outcomes are worked out for a filter
OBJECT = notes.OBJECT  # object_type of notes and flags on one
FLAGS = {
    "judge": _("speaks to the reviewer"),
    "replaced": _("characters replaced"),
    "unscored": _("not scored"),
}
_NUMBER = {"is": Exact, "gt": GreaterThan, "gte": GreaterThanOrEqual, "lt": LessThan, "lte": LessThanOrEqual}


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
    return Q(Exists(embed.pending_states(inventory).filter(conversation=OuterRef("pk"))))


def flags_on(inventory: Inventory) -> QuerySet[Note]:
    """Flags on conversations that nobody has seen to."""
    return Note.objects.filter(
        inventory=inventory, object_type=OBJECT, flag=True, draft=False, closed_at__isnull=True
    )  # fmt: skip


def _noted(inventory: Inventory) -> Q:
    """On itself, or on one of its messages."""
    turns = notes.open_flags(inventory).filter(object_type=notes.TURN).annotate(whole=Substr("object_id", 1, 12)).order_by()
    return Q(public_id__in=flags_on(inventory).values("object_id")) | Q(public_id__in=turns.values("whole"))


def _labelled(inventory: Inventory) -> Q:
    rows = Judgement.objects.filter(judge__inventory=inventory, judge__kind=JudgeKind.HUMAN)
    return Q(pk__in=rows.values("state__conversation_id"))


# ----------------------------------------------------------------------------------------------------------- AI reviewer
def scores(inventory: Inventory) -> QuerySet[Judgement]:
    """What the inventory's AI reviewer says of policies as their texts read now."""
    texts = ArtifactText.objects.as_now().filter(artifact__inventory=inventory)
    return Judgement.objects.filter(judge=inventory.judge_id, artifact_text__in=texts)


def active_policies(inventory: Inventory) -> QuerySet[ArtifactSetting]:
    return ArtifactSetting.objects.current().filter(artifact__inventory=inventory, status=Status.ACTIVE)


def _judged(inventory: Inventory, op: str, percent: float) -> Q:
    """The share of (turn, policy) pairs that have a score."""
    pair = ExpressionWrapper(F("state_id") * 1_000_003 + F("artifact_text__artifact_id"), output_field=FloatField())
    mine = scores(inventory).filter(state__conversation=OuterRef("pk")).order_by().values("state__conversation")
    counted = Coalesce(Subquery(mine.annotate(n=Count(pair, distinct=True)).values("n")), 0)
    policies = max(active_policies(inventory).count(), 1)
    share = Cast(counted, FloatField()) * 100.0 / (Cast(F("user_turn_count"), FloatField()) * policies)
    return Q(user_turn_count__gt=0) & Q(_NUMBER[op](share, float(percent)))


def _needed(inventory: Inventory, key: str) -> Q:
    if inventory.judge is None:
        return Q(pk__in=[])
    rows = scores(inventory).filter(artifact_text__artifact__key=key, score__gte=inventory.judge.pass_mark)
    return Q(pk__in=rows.values("state__conversation_id"))


# ------------------------------------------------------------------------------------------------------------ classifier
def _small(inventory: Inventory) -> bool:
    turns = QueryState.objects.filter(conversation__inventory=inventory)
    return turns[: EXACT + 1].count() <= EXACT


def _versions(inventory: Inventory, **which: Any) -> Iterable[ClassifierVersion]:
    """Those that decide now."""
    auto = active_policies(inventory).filter(mode=Mode.AUTO).values("artifact_id")
    return ClassifierVersion.objects.current().filter(artifact__inventory=inventory, artifact__in=auto, **which)


def _fired(inventory: Inventory, key: str) -> Q:
    """At any of their turns: as recorded, and while the log is small as it is worked out now."""
    said = Decision.objects.filter(
        artifact__inventory=inventory, artifact__key=key, fired=True, discovery__state__isnull=False
    )
    recorded = Q(pk__in=said.values("discovery__state__conversation_id"))
    always = active_policies(inventory).filter(artifact__key=key)
    unfitted = ClassifierVersion.objects.current().filter(artifact=OuterRef("artifact"))
    if always.filter(Q(mode=Mode.ALWAYS) | Q(Q(mode=Mode.AUTO), ~Exists(unfitted))).exists():
        return Q(user_turn_count__gt=0)
    point = current_point(inventory)
    if point.centre is None or not _small(inventory):
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
    if not _small(inventory):
        return Q(pk__in=_recorded_differences(inventory).values("discovery__state__conversation_id"))
    states = table.state_table(inventory, point.centre)
    labels, found = table.all_labels(inventory, states), np.zeros(len(states), dtype=bool)
    for version in _versions(inventory, centre=point.centre):
        mine = labels[version.artifact_id]
        margins = table.margins_of(table.classifier_of(version), states, table.pooling_of(point))
        found |= mine.judged & ((margins > cut_off(point.theta, version.offset)) != mine.relevant)
    return Q(pk__in=np.unique(states.conversation_ids[found]).tolist())


def _recorded_differences(inventory: Inventory) -> QuerySet[Decision]:
    same = scores(inventory).filter(
        state=OuterRef("discovery__state"), artifact_text__artifact=OuterRef("artifact"), repeat=0
    )
    mark = inventory.judge.pass_mark if inventory.judge else 4
    rows = Decision.objects.filter(artifact__in=Artifact.objects.filter(inventory=inventory))
    return rows.filter(
        Q(Exists(same.filter(score__lt=mark)), fired=True) | Q(Exists(same.filter(score__gte=mark)), fired=False)
    )
