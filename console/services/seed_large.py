"""A large made-up inventory for load tests: `seed_large` writes it, `bench.pages` reads it.

Texts are made-up words, vectors come from the synthetic encoder (its identity says so), scores follow which policy a turn
was made about. What stands on them is real: classifiers are fitted by `refitting.refit`, and every row is one that the pages,
`reproduce` and the exports take for what it is.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db import connection, transaction
from django.utils import timezone

from console.models import (
    Artifact,
    ArtifactSetting,
    ArtifactText,
    ClassifierVersion,
    Exemplar,
    ExemplarStatus,
    Inventory,
    Judge,
    JudgeKind,
    Polarity,
    Source,
)
from console.services import artifacts, audit, curate, inventories, refitting, seed_log, seed_talk, seed_work
from console.services.actor import Actor
from console.services.errors import Invalid
from console.services.plan import Step
from console.services.revision import revision
from console.services.seed_rows import Writer, public_id, reserve

PIECE = 500  # conversations written together: what is held in memory at once
SIDE = 8  # generated examples on each side of a policy
HISTORY = 12  # examples added to the first policy one by one
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Size:
    """What is asked for; ``scored`` is the share of conversations whose turns have vectors."""

    policies: int = 1_000
    conversations: int = 100_000
    turns: int = 600_000
    judgements: int = 2_000_000
    decisions: int = 3_000_000
    seed: int = 1
    dimension: int = 384
    scored: float = 1.0

    def check(self) -> None:
        """Raises Invalid with the first number that cannot be."""
        for name, least, most in (
            ("policies", 2, 10_000), ("conversations", 1, 10_000_000), ("turns", self.conversations, 100_000_000),
            ("judgements", 0, 100_000_000), ("decisions", 0, 1_000_000_000), ("seed", 0, 999_999_999),
            ("dimension", 2, 4_096),
        ):  # fmt: skip
            value = getattr(self, name)
            if not least <= value <= most:
                raise Invalid(f"{name} is {value}.", field=name, hint=f"Give a number from {least} to {most}.")
        if not 0 < self.scored <= 1:
            raise Invalid(f"scored is {self.scored}.", field="scored", hint="Give a share above 0 and at most 1.")
        if self.judgements > int(0.9 * self.turns * self.scored) * self.policies:
            raise Invalid(
                f"judgements is {self.judgements}.",
                field="judgements",
                hint="There are not that many pairs of a scored turn and a policy.",
            )


def seed_large(slug: str, size: Size, *, by: Actor, progress: Progress | None = None) -> Inventory:
    """A new inventory of that size. Pieces are committed as they are written: where it is killed, an inventory is left
    whose name says that it is unfinished. Raises Invalid where the slug is taken or a number cannot be.
    """
    size.check()
    say = progress or (lambda label, done, total: None)
    inventory = inventories.create_inventory(
        slug,
        by=by,
        name=f"{slug} (made up, unfinished)",
        encoder=f"synthetic:{size.seed}:{size.dimension}",
        load_test=True,
    )
    judges = [
        Judge.objects.create(inventory=inventory, name="made-up-judge", kind=JudgeKind.MODEL),
        Judge.objects.create(inventory=inventory, name="human:made-up", kind=JudgeKind.HUMAN),
    ]
    Inventory.objects.filter(pk=inventory.pk).update(judge=judges[0])
    inventory.refresh_from_db()
    policies = _policies(inventory, size, by=by)
    say("examples", 0, size.policies)
    _exemplars(policies, size)
    log = seed_log.Log(inventory, size, policies, judges)
    for done in log.write_conversations(PIECE):
        say("conversations", done, size.conversations)
    _analyse()
    say("fitting policies", 0, size.policies)
    refitting.refit(inventory, by=by, reason="made up for a load test")
    inventory.refresh_from_db()
    write_history(inventory, policies[0][0], size.seed, say, by=by)
    for done in seed_log.Decisions(log).write(PIECE):
        say("decisions", done, size.decisions)
    seed_work.write_work(inventory, size, by=by)
    _analyse()
    with transaction.atomic():
        inventory = inventories.update_inventory(inventory, by=by, name=f"{slug} (made up)")
        audit.record(
            by=by, action="inventory.seed", object_type="inventory", object_id=slug, inventory=slug, after=vars(size)
        )
    return inventory


def _analyse() -> None:
    """The planner must know what has been written; the autovacuum would tell it minutes later."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _policies(inventory: Inventory, size: Size, *, by: Actor) -> list[tuple[int, int]]:
    """(row of the artifact, row of its text), in one release."""
    first, text_first = reserve(Artifact, size.policies), reserve(ArtifactText, size.policies)
    numbers, now = range(size.policies), timezone.now()
    with transaction.atomic(), revision(inventory, by=by, summary=f"{size.policies} made-up policies") as step:
        Writer(Artifact, ("id", "inventory_id", "key", "position", "created_at")).write(
            (first + n, inventory.pk, f"policy-{n:05}", n, now) for n in numbers
        )
        Writer(ArtifactSetting, ("artifact_id", "from_release")).write((first + n, step.number) for n in numbers)
        texts = ("id", "artifact_id", "number", "name", "text", "digest", "from_release", "by", "at")
        Writer(ArtifactText, texts).write(
            (text_first + n, first + n, 1, name, text, artifacts.text_digest(name, text), step.number, by.name, now)
            for n in numbers
            for name, text in [_text(n)]
        )
        after = {"policies": size.policies}
        step.change(action="seed", object_type="inventory", object_id=inventory.slug, after=after)
    inventory.refresh_from_db()
    return [(first + n, text_first + n) for n in numbers]


def _text(policy: int) -> tuple[str, str]:
    words = seed_talk.words_of(policy)
    return f"Made-up policy {policy}", f"Where somebody says {', '.join(words)}: answer {seed_talk.word(policy)}."


def _exemplars(policies: Sequence[tuple[int, int]], size: Size) -> None:
    """Generated examples in use on both sides: of the policy, and of its neighbours or of nothing at all."""
    now = timezone.now()

    def rows() -> Iterator[tuple[Any, ...]]:
        for policy, (artifact, text_row) in enumerate(policies):
            rng = np.random.default_rng([size.seed, 2, policy])
            for n in range(2 * SIDE):
                other = seed_talk.neighbour(rng, policy, len(policies)) if n % 2 else seed_talk.NOTHING
                text = f"{seed_talk.said(rng, policy if n < SIDE else other)} ({n})"
                side = Polarity.SIGNAL if n < SIDE else Polarity.ANTI_SIGNAL
                yield public_id(), artifact, text_row, side.value, text, artifacts.exemplar_digest(text), now

    fields = ("public_id", "artifact_id", "artifact_text_id", "polarity", "text", "text_digest", "created_at")
    with transaction.atomic():
        Writer(Exemplar, fields, source=Source.GENERATED.value, status=ExemplarStatus.PROMOTED.value).write(rows())


def write_history(inventory: Inventory, artifact_pk: int, seed: int, say: Progress, *, by: Actor) -> None:
    """A history for one policy: examples added one by one, each a release of its own, as a person would."""
    artifact = Artifact.objects.select_related("inventory").get(pk=artifact_pk)
    rng = np.random.default_rng([seed, 5])
    for done in range(HISTORY):
        say("a history of versions", done, HISTORY)
        base = ClassifierVersion.objects.current().get(artifact=artifact)
        step = Step("add", text=f"{seed_talk.said(rng, artifact.position)} (+{done})", polarity=Polarity.SIGNAL.value)
        curate.apply(artifact, [step], by=by, base_version=base.number, reason="made up for a load test")
