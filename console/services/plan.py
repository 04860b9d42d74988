"""What a set of curation steps does to one artifact's exemplars and pins, worked out in memory: nothing here writes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone

from console.models import (
    Artifact,
    ArtifactSetting,
    Exemplar,
    ExemplarStatus,
    Message,
    Pin,
    Polarity,
    QueryState,
    Source,
    ViewKind,
)
from console.models.base import new_public_id
from console.services import redaction
from console.services.actor import Actor
from console.services.artifacts import checked_exemplar, current_setting, exemplar_digest
from console.services.embed import to_message
from console.services.errors import Conflict, Invalid, NotFound
from sq_core.conversation import render

SNAPSHOT = ("polarity", "status", "kept", "decided_by_person")


@dataclass(frozen=True)
class Step:
    """One decision. ``action``: add, promote, reject, restore, retire, keep, unkeep, edit, move, pin, unpin.

    ``exemplar`` is a public id; ``add`` takes ``text`` or ``state`` (the query state whose newest message it is, or with
    ``whole`` the whole chat so far) and ``polarity``; ``pin`` takes an exemplar or a state; ``unpin`` an exemplar, or the
    pin's own public id as ``pin``.
    """

    action: str
    exemplar: str | None = None
    text: str | None = None
    polarity: str | None = None
    state: int | None = None
    whole: bool = False
    source: str = Source.WRITTEN
    bound: float | None = None
    pin: str | None = None
    reason: str = ""


@dataclass
class PinDraft:
    exemplar: Exemplar | None
    state: QueryState | None
    text: str
    bound: float | None


@dataclass
class Plan:
    """The exemplars as they would be; ``touched`` maps public ids to (snapshot before or None, exemplar after)."""

    artifact: Artifact
    by: Actor
    exemplars: dict[str, Exemplar]
    setting: ArtifactSetting
    fit_set: str
    touched: dict[str, tuple[dict[str, Any] | None, Exemplar]] = field(default_factory=dict)
    new_pins: list[PinDraft] = field(default_factory=list)
    dropped_pins: list[Pin] = field(default_factory=list)
    cured: list[int] = field(default_factory=list)
    turns: dict[int, tuple[QueryState, str]] = field(
        default_factory=dict
    )  # the states that steps name, with their message
    forces_version: bool = False  # a pin makes a version even when the weights stay the same

    def touch(self, exemplar: Exemplar) -> None:
        if exemplar.public_id not in self.touched:
            before = snapshot(exemplar) if exemplar.pk else None
            self.touched[exemplar.public_id] = (before, exemplar)

    def find(self, public_id: str | None) -> Exemplar:
        if public_id is None or public_id not in self.exemplars:
            raise NotFound(f"There is no example {public_id!r} in {self.artifact.key}.", field="exemplar")
        return self.exemplars[public_id]


def snapshot(exemplar: Exemplar) -> dict[str, Any]:
    return {"text": exemplar.text[:300]} | {name: getattr(exemplar, name) for name in SNAPSHOT}


def side(value: str | None) -> str:
    """A polarity, hyphen or underscore. Raises Invalid for anything else."""
    normal = (value or "").replace("-", "_")
    if normal not in Polarity.values:
        raise Invalid(f"{value!r} is no side of a policy.", field="polarity", hint="Use signal or anti_signal.")
    return normal


def start_plan(artifact: Artifact, by: Actor) -> Plan:
    """The present exemplars and settings; nothing decided yet."""
    setting = current_setting(artifact)
    exemplars = {e.public_id: e for e in Exemplar.objects.filter(artifact=artifact)}
    return Plan(artifact=artifact, by=by, exemplars=exemplars, setting=setting, fit_set=setting.fit_set)


def make_plan(artifact: Artifact, steps: Sequence[Step], by: Actor) -> Plan:
    """Apply ``steps`` in order to the present exemplars, in memory. Raises Invalid, NotFound or Conflict."""
    if not steps:
        raise Invalid("There is nothing to do.", field="changes", hint="Name at least one change.")
    plan = start_plan(artifact, by)
    plan.turns = _turns(artifact, {step.state for step in steps if step.state is not None})
    for step in steps:
        action = ACTIONS.get(step.action)
        if action is None:
            raise Invalid(f"{step.action!r} is no action.", field="action", hint=f"Use one of {', '.join(ACTIONS)}.")
        action(plan, step)
    return plan


# ------------------------------------------------------------------------------------------------------------- the actions
def _decide(plan: Plan, exemplar: Exemplar, status: str) -> None:
    plan.touch(exemplar)
    exemplar.status = status
    exemplar.decided_by = plan.by.user
    exemplar.decided_by_person = plan.by.is_person or plan.by.name.startswith("token:")
    exemplar.decided_at = timezone.now()


def _add_given(plan: Plan, step: Step) -> None:
    """What somebody gave as text was perhaps copied from a page that hides parts of it."""
    if step.text is not None:
        redaction.refuse_places(plan.artifact.inventory, step.text)
    _add(plan, step)


def _add(plan: Plan, step: Step) -> None:
    state, own = _turn(plan, step.state) if step.state is not None else (None, "")
    if state and step.whole:
        own = _chat(state)
    text = checked_exemplar(own if step.text is None else step.text.strip())  # a stored message is kept whole
    polarity = side(step.polarity)
    digest = exemplar_digest(text)
    known = next((e for e in plan.exemplars.values() if e.text_digest == digest), None)
    if known is None:
        known = Exemplar(
            public_id=new_public_id(),
            artifact=plan.artifact,
            polarity=polarity,
            text=text,
            text_digest=digest,
            view_kind=ViewKind.CUMULATIVE if state and step.whole else ViewKind.USER_TURN,
            source=Source.MINED if state else step.source,
            origin=state,
        )
        plan.exemplars[known.public_id] = known
    elif known.status == ExemplarStatus.PROMOTED:
        where = "show" if known.polarity == Polarity.SIGNAL else "don't-show"
        hint = "Nothing to do." if known.polarity == polarity else "Move it to the other side instead."
        raise Invalid(f"This text is already a {where} example of {plan.artifact.key}.", field="text", hint=hint)
    _decide(plan, known, ExemplarStatus.PROMOTED)
    known.polarity = polarity
    if known.origin_id is None:
        known.origin = state
    if state and polarity == Polarity.SIGNAL:
        plan.cured.append(state.pk)


def _promote(plan: Plan, step: Step) -> None:
    exemplar = plan.find(step.exemplar)
    polarity = side(step.polarity) if step.polarity else exemplar.polarity
    if exemplar.status == ExemplarStatus.PROMOTED:
        if polarity == exemplar.polarity:
            raise Invalid("This example is already in use.", field="exemplar", hint="Nothing to do.")
        _move(plan, step)
        return
    _decide(plan, exemplar, ExemplarStatus.PROMOTED)
    exemplar.polarity = polarity
    if exemplar.origin_id and polarity == Polarity.SIGNAL:
        plan.cured.append(exemplar.origin_id)


def _reject(plan: Plan, step: Step) -> None:
    exemplar = plan.find(step.exemplar)
    if exemplar.status == ExemplarStatus.REJECTED:
        raise Invalid("This example is rejected already.", field="exemplar", hint="Restore it to decide again.")
    _decide(plan, exemplar, ExemplarStatus.REJECTED)


def _restore(plan: Plan, step: Step) -> None:
    exemplar = plan.find(step.exemplar)
    if exemplar.status not in {ExemplarStatus.REJECTED, ExemplarStatus.RETIRED}:
        raise Invalid(
            f"A {exemplar.status} example cannot be restored.", field="exemplar", hint="Only rejected or retired ones."
        )
    _decide(plan, exemplar, ExemplarStatus.CANDIDATE)


def _retire(plan: Plan, step: Step) -> None:
    exemplar = plan.find(step.exemplar)
    if exemplar.status != ExemplarStatus.PROMOTED:
        raise Invalid(
            "Only an example in use can be retired.", field="exemplar", hint="Reject a suggested one instead."
        )
    _decide(plan, exemplar, ExemplarStatus.RETIRED)


def _move(plan: Plan, step: Step) -> None:
    exemplar = plan.find(step.exemplar)
    if exemplar.status != ExemplarStatus.PROMOTED:
        raise Invalid(
            "Only an example in use can change sides.", field="exemplar", hint="Promote it to the side you mean."
        )
    _decide(plan, exemplar, ExemplarStatus.PROMOTED)
    other = Polarity.ANTI_SIGNAL if exemplar.polarity == Polarity.SIGNAL else Polarity.SIGNAL
    exemplar.polarity = other
    if other == Polarity.SIGNAL and exemplar.origin_id:
        plan.cured.append(exemplar.origin_id)


def _edit(plan: Plan, step: Step) -> None:
    """A new exemplar in the old one's place; the old one is retired."""
    old = plan.find(step.exemplar)
    text = checked_exemplar(redaction.restored(plan.artifact.inventory, old.text, (step.text or "").strip()))
    if exemplar_digest(text) == old.text_digest:
        raise Invalid("The text is the same as before.", field="text", hint="Change it, or cancel.")
    if old.status not in {ExemplarStatus.PROMOTED, ExemplarStatus.CANDIDATE}:
        raise Invalid("Only an example in use or a suggested one can be edited.", field="exemplar")
    _decide(plan, old, ExemplarStatus.RETIRED)
    _add(plan, Step(action="add", text=text, polarity=old.polarity, source=Source.WRITTEN))
    new = next(e for e in plan.exemplars.values() if e.text_digest == exemplar_digest(text))
    new.replaces = old


def _keep(plan: Plan, step: Step) -> None:
    _set_kept(plan, step, kept=True)


def _unkeep(plan: Plan, step: Step) -> None:
    _set_kept(plan, step, kept=False)


def _set_kept(plan: Plan, step: Step, *, kept: bool) -> None:
    exemplar = plan.find(step.exemplar)
    plan.touch(exemplar)
    exemplar.kept = kept


def _pin(plan: Plan, step: Step) -> None:
    """Pin a query state, or an exemplar: a signal with the state it came from (or its own text), an anti-signal's place."""
    if step.bound is not None and not 0 < step.bound <= 1:
        raise Invalid("A pin's bound is a cosine above 0 and at most 1.", field="bound")
    if step.exemplar is None:
        state, message = _turn(plan, step.state)
        plan.new_pins.append(PinDraft(exemplar=None, state=state, text=message, bound=step.bound))
        return
    exemplar = plan.find(step.exemplar)
    if exemplar.polarity == Polarity.SIGNAL:
        if exemplar.status == ExemplarStatus.CANDIDATE:
            _promote(plan, Step(action="promote", exemplar=step.exemplar))
        elif exemplar.status != ExemplarStatus.PROMOTED:
            raise Invalid(
                f"A {exemplar.status} example cannot be pinned.", field="exemplar", hint="Restore and promote it first."
            )
        plan.new_pins.append(PinDraft(exemplar=exemplar, state=exemplar.origin, text=exemplar.text, bound=step.bound))
        plan.forces_version = True
    plan.touch(exemplar)
    exemplar.kept = True


def _unpin(plan: Plan, step: Step) -> None:
    pins = Pin.objects.current().filter(artifact=plan.artifact)
    if step.pin is not None:
        found = list(pins.filter(public_id=step.pin))
        if not found:
            raise NotFound(f"There is no pin {step.pin!r} on {plan.artifact.key}.", field="pin")
    else:
        exemplar = plan.find(step.exemplar)
        found = list(pins.filter(exemplar=exemplar))
        if not found and not exemplar.kept:
            raise Invalid("This example is not pinned.", field="exemplar", hint="Nothing to do.")
        plan.touch(exemplar)
        exemplar.kept = False
    plan.dropped_pins.extend(found)


def _turns(artifact: Artifact, ids: set[int]) -> dict[int, tuple[QueryState, str]]:
    """The query states of these ids with their newest messages, in two questions however many there are."""
    if not ids:
        return {}
    states = list(QueryState.objects.filter(pk__in=ids, conversation__inventory=artifact.inventory_id))
    messages = Message.objects.filter(
        conversation__in={s.conversation_id for s in states}, index__in={s.message_index for s in states}
    )
    contents = {(c, index): text for c, index, text in messages.values_list("conversation_id", "index", "content")}
    return {s.pk: (s, contents[(s.conversation_id, s.message_index)]) for s in states}


def _turn(plan: Plan, pk: int | None) -> tuple[QueryState, str]:
    if pk is None or pk not in plan.turns:
        raise NotFound("There is no such turn in this inventory.", field="state")
    return plan.turns[pk]


def _chat(state: QueryState) -> str:
    """The prefix as the cumulative view reads it."""
    rows = Message.objects.filter(conversation_id=state.conversation_id, index__lte=state.message_index).order_by(
        "index"
    )
    return render([to_message(row) for row in rows])


ACTIONS: dict[str, Callable[[Plan, Step], None]] = {
    "add": _add_given,
    "promote": _promote,
    "reject": _reject,
    "restore": _restore,
    "retire": _retire,
    "keep": _keep,
    "unkeep": _unkeep,
    "edit": _edit,
    "move": _move,
    "pin": _pin,
    "unpin": _unpin,
}


# -------------------------------------------------------------------------------------------------------- going back
def restoring_plan(artifact: Artifact, by: Actor, *, before: dict[str, Any], after: dict[str, Any]) -> Plan:
    """The plan that takes one recorded change back: each exemplar it touched goes from ``after`` to ``before``.

    Raises Conflict where somebody has decided on one of them, on a pin or on the fit set again since; that decision stands.
    """
    plan = start_plan(artifact, by)
    if before.get("fit_set", "") != after.get("fit_set", ""):
        if plan.fit_set != after["fit_set"]:
            raise Conflict("The source of examples was changed again since.", hint="Take the later change back first.")
        plan.fit_set = before["fit_set"]
    plan.forces_version = before.get("version") != after.get("version")
    for public_id, then in after.get("exemplars", {}).items():
        exemplar = plan.exemplars.get(public_id)
        if exemplar is None:
            raise Conflict(f"The example {public_id} was erased since; this change cannot be taken back.")
        if snapshot(exemplar) != then:
            raise Conflict(
                f"The example {public_id} was decided on again since.", hint="Undo the later decision first."
            )
        plan.touch(exemplar)
        earlier = before["exemplars"].get(public_id)
        for name, value in (earlier or {"status": ExemplarStatus.RETIRED}).items():
            if name in SNAPSHOT:
                setattr(exemplar, name, value)
    _restore_pins(plan, added=after.get("pins_added", []), dropped=after.get("pins_dropped", []))
    return plan


def _restore_pins(plan: Plan, *, added: list[str], dropped: list[str]) -> None:
    current = list(Pin.objects.current().filter(artifact=plan.artifact))
    plan.dropped_pins.extend(pin for pin in current if pin.public_id in added)
    if len(plan.dropped_pins) < len(added):
        raise Conflict("What it pinned was unpinned since.", hint="Take the later change back first.")
    taken = {(pin.state_id, pin.exemplar_id) for pin in current}
    for pin in Pin.objects.filter(artifact=plan.artifact, public_id__in=dropped).select_related("exemplar", "state"):
        if (pin.state_id, pin.exemplar_id) in taken - {(None, None)}:
            raise Conflict("What it unpinned was pinned again since.", hint="Take the later change back first.")
        plan.new_pins.append(PinDraft(exemplar=pin.exemplar, state=pin.state, text=pin.text, bound=pin.bound))
