"""The first steps on the sample: five things to do, each checked against what is in the database or was opened."""

from collections.abc import Collection
from dataclasses import dataclass

from console.models import Artifact, Change, ClassifierVersion, Inventory, QueryState, User
from console.services.redaction import masked

# The missed turn of the tour, fixed by a test: the first message of sky-112 needs modify-flight and does not get it.
INVENTORY, POLICY, CONVERSATION, TURN = "sky-airline", "modify-flight", "sky-112", 0
SESSION, COOKIE = "tour", "tour"  # steps whose page was opened; "off" once the reader has taken them off the home page
OPENED = ("firing", "why")  # steps that are done by opening a page


@dataclass(frozen=True)
class Progress:
    """Which steps are done, by name, and what the pages of the steps need."""

    inventory: Inventory | None
    state: QueryState | None
    message: str  # what the customer wrote at that turn
    done: dict[str, bool]
    version: int | None
    change: Change | None

    @property
    def now(self) -> str:
        """The first step that is not done; "" when all are."""
        return next((name for name, done in self.done.items() if not done), "")

    @property
    def count(self) -> int:
        return sum(self.done.values())

    @property
    def total(self) -> int:
        return len(self.done)


def progress(user: User, opened: Collection[str]) -> Progress:
    """Where ``user`` is. ``opened`` are the steps whose page they opened (kept in their session)."""
    inventory = Inventory.objects.filter(slug=INVENTORY).first()
    state = QueryState.objects.filter(
        conversation__inventory=inventory, conversation__external_id=CONVERSATION, user_turn=TURN
    ).select_related("conversation").first() if inventory else None  # fmt: skip
    message = _message(state) if state else ""
    promoted = _promotion(user, inventory, message)
    undone = promoted is not None and Change.objects.filter(reverts=promoted).exists()
    artifact = Artifact.objects.filter(inventory=inventory, key=POLICY).first() if inventory else None
    version = ClassifierVersion.objects.current().filter(artifact=artifact).first() if artifact else None
    return Progress(
        inventory=inventory,
        state=state,
        message=masked(inventory, message),
        done={
            "firing": "firing" in opened,
            "why": "why" in opened,
            "promote": promoted is not None,
            "undo": undone,
            "own": Change.objects.filter(user=user, action="create", object_type="artifact").exists(),
        },
        version=version.number if version else None,
        change=promoted,
    )


def _message(state: QueryState) -> str:
    found = state.conversation.messages.filter(index=state.message_index).values_list("content", flat=True).first()
    return found or ""


def _promotion(user: User, inventory: Inventory | None, message: str) -> Change | None:
    """The user's newest change that took the tour's missed message into use."""
    if inventory is None or not message:
        return None
    changes = Change.objects.filter(
        inventory=inventory, artifact__key=POLICY, user=user, action__in=["add", "promote", "curate"]
    ).order_by("-pk")
    start = message[:300]  # as a change's snapshot of an example keeps it
    for change in changes[:50]:
        exemplars = (change.after or {}).get("exemplars", {})
        if any(e.get("text") == start and e.get("polarity") == "signal" for e in exemplars.values()):
            return change
    return None
