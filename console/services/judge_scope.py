"""What a judge run is to look at: artifacts × conversations, narrowed by filter, age, sample or margin.

The unit of every choice is a column, one artifact over one whole conversation (or all of a conversation): mining needs
every turn of it judged, and lone states would bias what is measured on them. Choices are made by hashes of names, so that a
seed gives the same columns on every engine and on a log that has grown since.
"""

import hashlib
import heapq
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from console.models import (
    ArtifactText,
    ClassifierVersion,
    Conversation,
    Inventory,
    JudgeKind,
    Judgement,
    Mode,
    QueryState,
    Status,
)
from console.services import table
from console.services.errors import Invalid
from console.services.inventories import current_point
from sq_core.artifact_text import artifact_text
from sq_core.conversation import MessageError, parse_time

PAGE = 200  # conversations read at a time
EXACT_UP_TO = 1_000_000  # columns: beyond, a sample's size is only about what was asked for
LISTED = 10_000  # conversations that a scope may name
KEYS = ("artifacts", "conversations", "channel", "since", "until", "sample", "but_not", "by_margin", "unjudged_only")
COLUMN, CONVERSATION = "column", "conversation"
_AGE = re.compile(r"(\d{1,5})\s?([dh])")
Json = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """An artifact to judge: its current text revision, and what speaks for it."""

    artifact: int
    revision: int
    key: str
    text: str


@dataclass(frozen=True)
class Sample:
    """A random part: of the columns, or of whole conversations; exactly one of ``share`` and ``n``."""

    unit: str
    seed: int
    share: float | None
    n: int | None

    def rank(self, conversation: str, artifact: str) -> int:
        """A number below 2^64 that depends on the names and the seed alone."""
        name = f"{self.seed}\0{conversation}" + (f"\0{artifact}" if self.unit == COLUMN else "")
        return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")


@dataclass
class Scope:
    """A checked scope. ``takes`` says whether a column belongs to it."""

    inventory: Inventory
    targets: tuple[Target, ...]
    filters: Q  # of conversations
    unjudged_only: bool
    sample: Sample | None = None
    but_not: Sample | None = None
    by_margin: Mapping[str, int] = field(default_factory=dict)
    _most: dict[Sample, int] = field(default_factory=dict)

    def conversations(self) -> QuerySet[Conversation]:
        return Conversation.objects.filter(self.filters, inventory=self.inventory, user_turn_count__gt=0).order_by("pk")

    def pages(self) -> Iterator[list[tuple[int, str]]]:
        """(row id, external id) of the conversations, page by page in order of their rows."""
        last = 0
        while page := list(self.conversations().filter(pk__gt=last).values_list("pk", "external_id")[:PAGE]):
            yield page
            last = page[-1][0]

    def takes(self, conversation: str, target: Target) -> bool:
        """Whether the samples take this column (a choice by margin is made beforehand: `chosen_columns`)."""
        if self.sample and self.sample.rank(conversation, target.key) > self._limit(self.sample):
            return False
        return not (self.but_not and self.but_not.rank(conversation, target.key) <= self._limit(self.but_not))

    def _limit(self, sample: Sample) -> int:
        """The highest rank that is taken: exact for up to a million columns."""
        if sample not in self._most:
            self._most[sample] = self._find_limit(sample)
        return self._most[sample]

    def _find_limit(self, sample: Sample) -> int:
        keys = [target.key for target in self.targets] if sample.unit == COLUMN else [""]
        total = self.conversations().count() * len(keys)
        wanted = sample.n if sample.n is not None else max(1, round((sample.share or 0.0) * total))
        if not total or wanted >= total:
            return 2**64
        if total > EXACT_UP_TO:
            return int(wanted / total * 2**64)
        ranks = (sample.rank(name, key) for page in self.pages() for _, name in page for key in keys)
        return heapq.nsmallest(wanted, ranks)[-1]


# -------------------------------------------------------------------------------------------------------------- checking
def read_scope(inventory: Inventory, scope: Json) -> Scope:
    """The scope as asked for, checked. Raises Invalid naming the field."""
    extra = sorted(set(scope) - set(KEYS))
    if extra:
        raise _bad(extra[0], f"There is no {extra[0][:40]!r} in a judge run's scope.", f"Use {', '.join(KEYS)}.")
    targets = targets_of(inventory, scope.get("artifacts"))
    margins = _by_margin(scope.get("by_margin"), targets)
    if margins:
        targets = tuple(target for target in targets if target.key in margins)
    return Scope(
        inventory=inventory,
        targets=targets,
        filters=_filters(inventory, scope),
        unjudged_only=_flag(scope, "unjudged_only"),
        sample=_sample(scope, "sample"),
        but_not=_sample(scope, "but_not"),
        by_margin=margins,
    )


def _bad(field_: str, message: str, hint: str) -> Invalid:
    return Invalid(message, field=f"scope.{field_}"[:60], hint=hint)


def _flag(scope: Json, name: str) -> bool:
    value = scope.get(name, False)
    if not isinstance(value, bool):
        raise _bad(name, f"{name} is {str(value)[:40]!r}.", "Give true or false.")
    return value


def _names(scope: Json, name: str) -> list[str] | None:
    value = scope.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise _bad(name, f"{name} is no list of names.", "Leave it out for all.")
    return list(dict.fromkeys(value))


def targets_of(inventory: Inventory, keys: Any) -> tuple[Target, ...]:
    """The named artifacts; without names those whose classifier decides (active, mode auto)."""
    names = _names({"artifacts": keys}, "artifacts")
    by_mode = {"artifact__settings__mode": Mode.AUTO} if names is None else {}
    rows = ArtifactText.objects.current().filter(  # one call: a second one would look at settings of other releases too
        artifact__inventory=inventory,
        artifact__settings__to_release__isnull=True,
        artifact__settings__status=Status.ACTIVE,
        **by_mode,
    )
    values = rows.order_by("artifact__position", "artifact_id").values_list(
        "artifact_id", "pk", "artifact__key", "artifact__kind", "name", "text"
    )
    found = [Target(a, pk, key, artifact_text(kind, name, text)) for a, pk, key, kind, name, text in values]
    if names is None:
        return tuple(found)
    by_key = {target.key: target for target in found}
    unknown = [name for name in names if name not in by_key]
    if unknown:
        raise _bad("artifacts", f"There is no active artifact {unknown[0][:80]!r}.", "Mend the key, or leave it out.")
    return tuple(target for target in found if target.key in set(names))


def _filters(inventory: Inventory, scope: Json) -> Q:
    """Conditions on conversations: named ones, a channel, begun since and until (by their arrival where not said)."""
    where = Q()
    names = _names(scope, "conversations")
    if names is not None:
        if len(names) > LISTED:
            raise _bad("conversations", f"{len(names)} conversations are named.", f"Name at most {LISTED}, or filter.")
        known = dict(
            Conversation.objects.filter(inventory=inventory, external_id__in=names).values_list("external_id", "pk")
        )
        unknown = [name for name in names if name not in known]
        if unknown:
            raise _bad("conversations", f"There is no conversation {unknown[0][:80]!r}.", "Mend the id.")
        where &= Q(pk__in=list(known.values()))
    channel = scope.get("channel")
    if channel is not None:
        if not isinstance(channel, str):
            raise _bad("channel", "The channel is no text.", "Leave it out for all.")
        where &= Q(channel=channel)
    since, until = _time(scope, "since"), _time(scope, "until")
    if since:
        where &= Q(started_at__gte=since) | Q(started_at__isnull=True, created_at__gte=since)
    if until:
        where &= Q(started_at__lt=until) | Q(started_at__isnull=True, created_at__lt=until)
    if since and until and since >= until:
        raise _bad("until", "It ends before it begins.", "Give a later time.")
    return where


def _time(scope: Json, name: str) -> datetime | None:
    """A time, or an age such as "7d" or "24h", counted back from now: what a schedule needs."""
    value = scope.get(name)
    if value is None or value == "":
        return None
    hint = "Write ISO 8601 such as 2026-03-02, or an age such as 7d or 24h."
    if isinstance(value, str) and (age := _AGE.fullmatch(value.strip())):
        number, unit = int(age[1]), age[2]
        return timezone.now() - (timedelta(days=number) if unit == "d" else timedelta(hours=number))
    try:
        time = parse_time(value, name) if isinstance(value, str) else None
    except MessageError:
        time = None
    if time is None:
        raise _bad(name, f"{name} is {str(value)[:40]!r}.", hint)
    return time.astimezone(UTC)


def _sample(scope: Json, name: str) -> Sample | None:
    value = scope.get(name)
    if value is None:
        return None
    hint = 'Write {"share": 0.1} or {"n": 100}, with a "seed" and, for whole conversations, "unit": "conversation".'
    if not isinstance(value, dict) or set(value) - {"share", "n", "seed", "unit"}:
        raise _bad(name, f"{name} is no sample.", hint)
    share, n, seed, unit = value.get("share"), value.get("n"), value.get("seed", 0), value.get("unit", COLUMN)
    if (share is None) == (n is None):
        raise _bad(name, "A sample is a share or a number, one of the two.", hint)
    if share is not None and (isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1):
        raise _bad(f"{name}.share", f"The share is {str(share)[:40]}.", "Give a number above 0 and at most 1.")
    if n is not None and (type(n) is not int or n < 1):
        raise _bad(f"{name}.n", f"The number is {str(n)[:40]}.", "Give a whole number of at least 1.")
    if type(seed) is not int:
        raise _bad(f"{name}.seed", f"The seed is {str(seed)[:40]!r}.", "Give a whole number.")
    if unit not in (COLUMN, CONVERSATION):
        raise _bad(f"{name}.unit", f"The unit is {str(unit)[:40]!r}.", f"Choose {COLUMN} or {CONVERSATION}.")
    return Sample(unit, seed, None if share is None else float(share), n)


def _by_margin(value: Any, targets: Iterable[Target]) -> dict[str, int]:
    if value is None:
        return {}
    known = {target.key for target in targets}
    if not isinstance(value, dict) or not value:
        raise _bad("by_margin", "by_margin is no object.", 'Write {"cancel-flight": 12}: columns per artifact.')
    for key, n in value.items():
        if key not in known:
            raise _bad("by_margin", f"There is no artifact {str(key)[:80]!r} in this scope.", "Mend the key.")
        if type(n) is not int or n < 1:
            raise _bad("by_margin", f"{key}: {str(n)[:40]} columns.", "Give a whole number of at least 1.")
    return dict(value)


# ---------------------------------------------------------------------------------------------------------------- judged
@dataclass(frozen=True)
class Version:
    """A judge version: whose judgements count as "judged already". A judge that has not judged yet has no row."""

    judge: str
    prompt: str

    def rows(self, inventory: Inventory) -> QuerySet[Judgement]:
        return Judgement.objects.filter(judge__inventory=inventory, judge__name=self.judge, prompt_version=self.prompt)


def revisions(inventory: Inventory) -> dict[int, int]:
    """Artifact id per id of a text revision that reads as its current one."""
    rows = ArtifactText.objects.as_now().filter(artifact__inventory=inventory)
    return dict(rows.values_list("pk", "artifact_id"))


def judged_pairs(
    scope: Scope, version: Version, conversations: list[int], artifacts: Mapping[int, int], *, repeat: int = 0
) -> set[tuple[int, int]]:
    """(state, artifact) pairs of these conversations judged already: by this version, or, where the scope says so, by any
    model. ``artifacts`` are the `revisions`.
    """
    rows = version.rows(scope.inventory).filter(repeat=repeat)
    if scope.unjudged_only and not repeat:
        rows = Judgement.objects.all().filter(judge__inventory=scope.inventory, judge__kind=JudgeKind.MODEL)
    pairs = rows.filter(state__conversation__in=conversations).values_list("state_id", "artifact_text_id")
    return {(state, artifacts[text]) for state, text in pairs.iterator(chunk_size=5_000) if text in artifacts}


def judged_turns(inventory: Inventory, version: Version) -> dict[tuple[int, int], int]:
    """Per column (conversation, artifact) the number of its turns judged by this version, where there are any."""
    artifacts = revisions(inventory)
    counts: dict[tuple[int, int], int] = {}
    rows = (
        version.rows(inventory)
        .filter(repeat=0)
        .values_list("state__conversation_id", "artifact_text_id")
        .annotate(n=Count("state_id", distinct=True))
        .order_by()
    )
    for conversation, text, n in rows.values_list("state__conversation_id", "artifact_text_id", "n"):
        if text in artifacts:
            column = (conversation, artifacts[text])
            counts[column] = counts.get(column, 0) + n
    return counts


def states_of(conversations: list[int]) -> dict[int, list[tuple[int, int]]]:
    """Per conversation its states as (row id, user turn), in order."""
    found: dict[int, list[tuple[int, int]]] = {pk: [] for pk in conversations}
    rows = QueryState.objects.filter(conversation__in=conversations).order_by("conversation_id", "user_turn")
    for conversation, state, turn in rows.values_list("conversation_id", "pk", "user_turn"):
        found[conversation].append((state, turn))
    return found


# --------------------------------------------------------------------------------------------------------------- margins
@dataclass(frozen=True, eq=False)
class ColumnMargins:
    """Of every embedded conversation (C,) the highest margin above the cut-off that an artifact reaches in it."""

    conversations: np.ndarray[Any, np.dtype[np.int64]]
    of: dict[int, np.ndarray[Any, np.dtype[np.float64]]]  # artifact id -> (C,); only artifacts with a version


def column_margins(inventory: Inventory, artifacts: Iterable[int]) -> ColumnMargins:
    """From the stored vectors and the newest versions; nothing is embedded and nothing is asked."""
    point = current_point(inventory)
    wanted = list(artifacts)
    if point.centre is None:
        return ColumnMargins(np.empty(0, dtype=np.int64), {})
    states = table.state_table(inventory, point.centre)
    if not len(states):
        return ColumnMargins(np.empty(0, dtype=np.int64), {})
    starts = np.flatnonzero(np.r_[True, states.conversation_ids[1:] != states.conversation_ids[:-1]])
    versions = ClassifierVersion.objects.current().filter(artifact__in=wanted, centre=point.centre)
    pooling = table.pooling_of(point)
    best = {}
    for version in versions:
        classifier = table.classifier_of(version)
        margins = table.margins_of(classifier, states, pooling) - classifier.offset - point.theta
        best[version.artifact_id] = np.maximum.reduceat(margins, starts)
    return ColumnMargins(states.conversation_ids[starts], best)


def chosen_columns(scope: Scope, version: Version) -> dict[int, set[int]]:
    """Per artifact id the conversations whose columns a scope by margin takes: the highest that are not judged whole."""
    margins = column_margins(scope.inventory, [target.artifact for target in scope.targets])
    done = judged_turns(scope.inventory, version)
    rows = scope.conversations().values_list("pk", "external_id", "user_turn_count")
    inside = {pk: (name, turns) for pk, name, turns in rows.iterator(chunk_size=5_000)}
    chosen: dict[int, set[int]] = {}
    for target in scope.targets:
        best = margins.of.get(target.artifact)
        if best is None:
            continue
        taken: set[int] = set()
        for place in np.argsort(-best, kind="stable"):
            conversation = int(margins.conversations[place])
            if len(taken) == scope.by_margin[target.key]:
                break
            if conversation not in inside:
                continue
            name, turns = inside[conversation]
            if done.get((conversation, target.artifact), 0) < turns and scope.takes(name, target):
                taken.add(conversation)
        chosen[target.artifact] = taken
    return chosen
