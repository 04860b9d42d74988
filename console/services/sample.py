"""The shipped sample: an airline's policies with exemplars, invented conversations and a judge's scores."""

from collections.abc import Callable
from pathlib import Path

from django.db import transaction

from console.models import (
    Artifact,
    AuditEvent,
    Centre,
    Change,
    ClassifierVersion,
    Conversation,
    Discovery,
    Exemplar,
    Inventory,
    Judge,
    Judgement,
    OperatingPoint,
    Rubric,
    Source,
)
from console.services import audit, embed, refitting, sample_vectors
from console.services.actor import Actor
from console.services.calibrate import calibrate
from console.services.errors import Invalid
from console.services.ingest import Report
from console.services.ingest_artifacts import import_artifacts
from console.services.ingest_conversations import import_conversations
from console.services.ingest_exemplars import import_exemplars
from console.services.ingest_judgements import import_judgements
from console.services.inventories import create_inventory, current_point

FILES = Path(__file__).resolve().parent.parent / "sample"
SLUG, NAME = "sky-airline", "Sky Airline"
ENCODER = "minilm"  # the sample's θ and figures are this encoder's
BEGUN, DONE = "sample.begin", "sample.load"  # audit rows: what this loader made, and that it was finished
Progress = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much


def load_sample(*, by: Actor, progress: Progress | None = None) -> bool:
    """Make the inventory ``sky-airline`` with everything in it, fitted and calibrated; False when it is there already.

    A load that was killed is completed: every step adds what is missing and nothing twice. An inventory of that name
    that somebody else made is left alone. Raises Unavailable when the encoder is away.
    """
    inventory = Inventory.objects.filter(slug=SLUG).first()
    if inventory is not None and (_marked(inventory, DONE) or not _marked(inventory, BEGUN)):
        return False
    inventory = inventory or _begin(by=by)
    say = progress or (lambda label, done, total: None)
    steps = _steps(inventory, say, by=by)
    for number, (label, step) in enumerate(steps):
        say(label, number, len(steps))
        step()
        inventory.refresh_from_db()
    _mark(inventory, DONE, by=by)
    say("done", len(steps), len(steps))
    return True


def load_bare(slug: str, *, by: Actor, name: str = "") -> Inventory:
    """Another inventory of the sample's policies and conversations, with nothing else: no examples, no judgements, no fit.

    The recorded models know its texts, so the whole loop (generate, judge, mine, promote, calibrate) runs on it without a
    key. Raises what `create_inventory` raises.
    """
    inventory = create_inventory(slug, by=by, name=name or f"{NAME}, from nothing", encoder=ENCODER)
    sample_vectors.restore(inventory.encoder_id)
    _whole(import_artifacts(inventory, FILES / "policies.jsonl", by=by))
    _whole(import_conversations(inventory, FILES / "conversations.jsonl", by=by))
    embed.embed_states(inventory)
    inventory.refresh_from_db()
    return inventory


def _steps(inventory: Inventory, say: Progress, *, by: Actor) -> list[tuple[str, Callable[[], object]]]:
    """What is done in order, each step safe to repeat."""
    exemplars, judgements = FILES / "exemplars_generated.jsonl", FILES / "judgements.jsonl"
    generated, rubric = Source.GENERATED.value, Rubric.CURRENT_NEED.value

    def embed_turns() -> None:
        embed.embed_states(inventory, progress=lambda done, total: say("embedding turns", done, total))

    def choose_theta() -> None:
        if current_point(inventory).calibration is None:
            calibrate(inventory, by=by, reason="on the sample's own judgements")

    return [
        ("shipped vectors", lambda: sample_vectors.restore(inventory.encoder_id)),
        ("policies", lambda: _whole(import_artifacts(inventory, FILES / "policies.jsonl", by=by))),
        ("exemplars", lambda: _whole(import_exemplars(inventory, exemplars, by=by, exemplar_source=generated))),
        ("conversations", lambda: _whole(import_conversations(inventory, FILES / "conversations.jsonl", by=by))),
        ("embedding turns", embed_turns),
        ("judgements", lambda: _whole(import_judgements(inventory, judgements, by=by, rubric=rubric))),
        ("fitting policies", lambda: refitting.refit(inventory, by=by, reason="the sample's first fit")),
        ("calibrating θ", choose_theta),
    ]


def _whole(report: Report) -> None:
    """The shipped files are good; a damaged copy must not pass for the sample."""
    if report.rejected:
        raise Invalid(f"The shipped {report.kind} are damaged: {report.errors[0]}", hint="Restore the sample's files.")


def _begin(*, by: Actor) -> Inventory:
    with transaction.atomic():
        inventory = create_inventory(SLUG, by=by, name=NAME, encoder=ENCODER)
        _mark(inventory, BEGUN, by=by)
    return inventory


def _mark(inventory: Inventory, action: str, *, by: Actor) -> None:
    audit.record(
        by=by,
        action=action,
        object_type="inventory",
        object_id=str(inventory.pk),
        inventory=inventory.slug,
        label=inventory.name,
    )


def _marked(inventory: Inventory, action: str) -> bool:
    return AuditEvent.objects.filter(action=action, object_type="inventory", object_id=str(inventory.pk)).exists()


def remove_sample(*, by: Actor) -> bool:
    """Take the sample inventory away with all that people did in it (audit rows stay); False when there is none.

    Only for the demo's reset: everything else is archived or retired, never deleted.
    """
    with transaction.atomic():
        inventory = Inventory.objects.select_for_update().filter(slug=SLUG).first()
        if inventory is None or not _marked(inventory, BEGUN):
            return False
        Inventory.objects.filter(pk=inventory.pk).update(judge=None)
        Judgement.objects.filter(judge__inventory=inventory).delete()
        Judge.objects.filter(inventory=inventory).delete()
        Discovery.objects.filter(inventory=inventory).delete()
        Change.objects.filter(inventory=inventory).delete()
        ClassifierVersion.objects.filter(artifact__inventory=inventory).delete()
        OperatingPoint.objects.filter(inventory=inventory).delete()
        Centre.objects.filter(inventory=inventory).delete()
        Exemplar.objects.filter(artifact__inventory=inventory).delete()
        Conversation.objects.filter(inventory=inventory).delete()
        Artifact.objects.filter(inventory=inventory).delete()
        audit.record(
            by=by,
            action="sample.remove",
            object_type="inventory",
            object_id=str(inventory.pk),
            inventory=SLUG,
            label=NAME,
        )
        inventory.delete()
    return True
