"""Exemplars and what is decided on them: promote, reject, restore, pin, unpin; each makes a version or changes nothing."""

from typing import Any

from ninja import Status

from console.api.answers import AppliedAnswer, ExemplarAnswer, ExemplarApplied, ImpactAnswer
from console.api.auth import ApiRequest
from console.api.conversations import state_of
from console.api.idempotency import answered_by
from console.api.pagination import page
from console.api.routes import Family
from console.api.schemas import (
    PAGE,
    Act,
    After,
    Edit,
    Inv,
    Limit,
    NewExemplar,
    Page,
    Polarity,
    Preview,
    PublicId,
    Source,
)
from console.api.schemas import (
    Status as ExemplarState,
)
from console.api.shapes import applied_again, applied_json, turn_json
from console.models import Exemplar, Inventory, Pin, Role
from console.services import answered, curate
from console.services.artifacts import get_artifact
from console.services.curate import Applied
from console.services.errors import Invalid, NotFound
from console.services.impact import impact_json
from console.services.plan import Step

router = Family("exemplars")


def shape(rows: list[Exemplar]) -> list[dict[str, Any]]:
    pinned = set(Pin.objects.current().filter(exemplar__in=rows).values_list("exemplar_id", flat=True))
    return [
        {
            "id": row.public_id,
            "text": row.text,
            "polarity": row.polarity,
            "source": row.source,
            "status": row.status,
            "pinned": row.pk in pinned,
            "kept": row.kept,
            "origin": turn_json(row.origin),
            "mining_rule": row.mining_rule,
            "label_horizon": row.label_horizon,
            "decided_by": row.decided_by.get_username() if row.decided_by else None,
            "decided_at": row.decided_at,
            "created_at": row.created_at,
        }
        for row in rows
    ]


def _exemplars() -> Any:
    return Exemplar.objects.select_related("origin__conversation", "decided_by")


@router.route("GET", "/{key}/exemplars", "list_exemplars", Role.VIEWER, Page[ExemplarAnswer])
def list_exemplars(
    request: ApiRequest,
    inv: Inv,
    key: str,
    status: ExemplarState | None = None,
    polarity: Polarity | None = None,
    source: Source | None = None,
    after: After = None,
    limit: Limit = PAGE,
) -> Any:
    """In the order they came. ``pinned``: its state must select; ``kept``: mining does not displace it."""
    rows = _exemplars().filter(artifact=get_artifact(request.inventory, key))
    given = {"status": status, "polarity": polarity, "source": source}
    rows = rows.filter(**{name: value for name, value in given.items() if value is not None})
    return page(rows, "id", after=after, limit=limit, shape=shape)


@router.route("GET", "/{key}/exemplars/{exemplar}", "get_exemplar", Role.VIEWER, ExemplarAnswer)
def get_exemplar(request: ApiRequest, inv: Inv, key: str, exemplar: PublicId) -> Any:
    artifact = get_artifact(request.inventory, key)
    found = _exemplars().filter(artifact=artifact, public_id=exemplar).first()
    if found is None:
        raise NotFound(f"There is no example {exemplar!r} in {artifact.key}.", field="exemplar")
    return shape([found])[0]


@router.route("POST", "/{key}/exemplars", "create_exemplar", Role.AUTHOR, ExemplarApplied, status=201, also={409, 503})
@answered_by(
    lambda request, written, inv, key, body: _created(
        request.inventory, key, answered.applied(answered.change_of(request.inventory, written))
    )
)
def create_exemplar(request: ApiRequest, inv: Inv, key: str, body: NewExemplar) -> Any:
    """A new exemplar, in use at once: the artifact is refitted in this request."""
    artifact = get_artifact(request.inventory, key)
    step = _adding(request.inventory, body)
    applied = curate.apply(
        artifact, [step], by=request.caller.actor, base_version=body.base_version, reason=body.reason
    )
    return _created(request.inventory, key, applied)


def _created(inventory: Inventory, key: str, applied: Applied) -> Status[Any]:
    made = _exemplars().get(artifact=get_artifact(inventory, key), public_id=applied.change.object_id)
    return Status(201, {**applied_json(applied), "exemplar": shape([made])[0]})


def _adding(inventory: Inventory, body: NewExemplar | Edit) -> Step:
    """The step that adds a text, or the message of a stored turn."""
    turn = body.conversation is not None or body.user_turn is not None
    if (body.text is not None) == turn:
        raise Invalid(
            "Give either a text or a turn.", field="text", hint="A turn is conversation and user_turn together."
        )
    source = body.source if isinstance(body, NewExemplar) else "written"
    if not turn:
        return Step("add", text=body.text, polarity=body.polarity, source=source)
    if body.conversation is None or body.user_turn is None:
        missing = "conversation" if body.conversation is None else "user_turn"
        raise Invalid("A turn is conversation and user_turn together.", field=missing, hint="Give both.")
    state = state_of(inventory, body.conversation, body.user_turn)
    return Step("add", state=state.pk, polarity=body.polarity, source=source)


def _step(inventory: Inventory, edit: Edit) -> Step:
    if edit.action == "add":
        return _adding(inventory, edit)
    if edit.action == "pin" and edit.conversation is not None and edit.user_turn is not None:
        return Step("pin", state=state_of(inventory, edit.conversation, edit.user_turn).pk)
    if edit.exemplar is None:
        raise Invalid(f"{edit.action} takes an exemplar.", field="changes.exemplar", hint="Give its id.")
    return Step(edit.action, exemplar=edit.exemplar, text=edit.text, polarity=edit.polarity)


@router.route("POST", "/{key}/preview", "preview_changes", Role.AUTHOR, ImpactAnswer, also={409, 503})
def preview(request: ApiRequest, inv: Inv, key: str, body: Preview) -> Any:
    """What the changes would do together: turns that start and stop, recall and precision, pins. Writes nothing."""
    steps = [_step(request.inventory, edit) for edit in body.changes]
    return impact_json(curate.preview(get_artifact(request.inventory, key), steps, by=request.caller.actor))


def _action(action: str, summary: str) -> None:
    """One route per action, so that each has its own operation id."""

    @router.route(
        "POST",
        f"/{{key}}/exemplars/{{exemplar}}/{action}",
        f"{action}_exemplar",
        Role.AUTHOR,
        AppliedAnswer,
        also={409, 503},
        summary=summary,
    )
    @answered_by(lambda request, written, **_: applied_again(request.inventory, written))
    def act(request: ApiRequest, inv: Inv, key: str, exemplar: PublicId, body: Act) -> Any:
        """Applied on ``base_version`` in one transaction: decision, refit, version, release, audit row. 409 names both
        versions when another one is active by now; nothing was written then."""
        if body.as_ is not None and action != "promote":
            raise Invalid(f"{action} takes no side.", field="as", hint="Leave it out.")
        applied = curate.apply(
            get_artifact(request.inventory, key),
            [Step(action, exemplar=exemplar, polarity=body.as_)],
            by=request.caller.actor,
            base_version=body.base_version,
            reason=body.reason,
        )
        return applied_json(applied)


for _name, _summary in (
    ("promote", "Use an exemplar, on its own side or as the other one"),
    ("reject", "Do not use it, and never suggest it again"),
    ("restore", "Back among the suggested ones"),
    ("pin", "It must be selected here: a test, and near-identical turns too"),
    ("unpin", "It is no test any more"),
):
    _action(_name, _summary)
