"""Conversations: import, list, read, and why an artifact was selected at a turn or not."""

from datetime import UTC, datetime
from typing import Annotated, Any

from django.db import transaction
from ninja import Path

from console import tasks
from console.api.answers import ConversationAnswer, ConversationWhole, ReportAnswer, WhyAnswer
from console.api.auth import ApiRequest
from console.api.idempotency import idempotent
from console.api.pagination import page
from console.api.routes import Family
from console.api.schemas import PAGE, After, Conditions, Inv, Limit, Page, ReleaseName, SearchText, refuse_ignored
from console.api.shapes import release_of
from console.models import Conversation, Inventory, QueryState, Role
from console.services import conversation_list, conversations, why
from console.services.artifacts import get_artifact
from console.services.errors import Invalid, NotFound
from console.services.ingest import Report
from console.services.ingest_conversations import import_conversations
from sq_core.readers import read_conversations

router = Family("conversations")
TurnPath = Annotated[int, Path(ge=0, le=1_000_000)]
JSON_LINES = "application/x-ndjson"


def lines_body(what: str, example: dict[str, Any]) -> dict[str, Any]:
    """The body of an import in the OpenAPI document: one JSON object, an array of them, or JSON lines."""
    one = {"type": "object", "example": example}
    return {
        "requestBody": {
            "required": True,
            "description": f"{what}: one JSON object, an array of them, or JSON lines. See docs/formats.md.",
            "content": {
                "application/json": {"schema": {"anyOf": [one, {"type": "array", "items": {"type": "object"}}]}},
                JSON_LINES: {"schema": {"type": "string"}},
            },
        }
    }


def report_json(report: Report) -> dict[str, Any]:
    """The import's report. Raises Invalid when nothing at all could be read."""
    if report.rejected and not (report.changed or report.duplicates):
        first = report.errors[0]
        where = f"Line {first.line}: " if first.line else ""
        raise Invalid(
            f"Nothing was stored, {report.rejected} rejected. {where}{first.message}",
            field=first.field,
            hint=first.mend,
        )
    if not report.read:
        raise Invalid("The body is empty.", hint="Send one JSON object per line.")
    return report.to_json()


# ----------------------------------------------------------------------------------------------------------------- finding
def state_of(inventory: Inventory, name: str, user_turn: int) -> QueryState:
    """The query state of a conversation's user turn. Raises NotFound."""
    conversation = conversations.get_conversation(inventory, name)
    found = QueryState.objects.filter(conversation=conversation, user_turn=user_turn).first()
    if found is None:
        raise NotFound(
            f"{conversation.external_id} has no user turn {user_turn}.", field="user_turn", hint="Turns count from 0."
        )
    return found


# ------------------------------------------------------------------------------------------------------------------ calls
@router.route(
    "POST",
    "/conversations",
    "import_conversations",
    Role.AUTHOR,
    ReportAnswer,
    extra=lines_body("Conversations", {"id": "talk-1", "messages": [{"role": "user", "content": "hello"}]}),
)
@idempotent
def import_(request: ApiRequest, inv: Inv) -> Any:
    """At most 10 MB. A known conversation may only grow; good ones are stored, bad ones listed with line, field and mend.
    Their vectors are made in the background."""
    inventory = request.inventory
    report = import_conversations(inventory, read_conversations(request.body, filename="body"), by=request.caller.actor)
    if report.changed:
        transaction.on_commit(lambda: tasks.embed_pending.delay(inventory.pk), robust=True)
    return report_json(report)


def shape(rows: list[Conversation]) -> list[dict[str, Any]]:
    return [{**_facts(row), "messages": row.message_count} for row in rows]


def _facts(row: Conversation) -> dict[str, Any]:
    same = (
        "public_id", "scenario", "customer", "config", "channel", "started_at", "addresses_judge", "replaced_characters",
        "created_at",
    )  # fmt: skip
    return {
        "id": row.external_id,
        **{name: getattr(row, name) for name in same},
        "user_turns": row.user_turn_count,
    }


@router.route("GET", "/conversations", "list_conversations", Role.VIEWER, Page[ConversationAnswer])
def list_conversations(
    request: ApiRequest,
    inv: Inv,
    q: SearchText = "",
    f: Conditions = [],  # noqa: B006  # read, never written
    channel: SearchText | None = None,
    scenario: SearchText | None = None,
    customer: SearchText | None = None,
    addresses_judge: bool | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    after: After = None,
    limit: Limit = PAGE,
) -> Any:
    """Newest first. ``q`` asks for words of ids and messages, all of them; ``f`` for conditions as the console's addresses
    have them (``f=turns:gte:5&f=not.channel:is:voice``; ``or.`` joins one to the one before it); ``since`` and ``until`` are
    about the start of the conversation."""
    asks = conversation_list.wanted(request.inventory, q=q, f=f)
    refuse_ignored(asks.asked)
    rows = conversation_list.matching(request.inventory, asks)
    given = {
        "channel": channel, "scenario": scenario, "customer": customer, "addresses_judge": addresses_judge,
        "started_at__gte": aware("since", since), "started_at__lt": aware("until", until),
    }  # fmt: skip
    rows = rows.filter(**{name: value for name, value in given.items() if value is not None})
    return page(rows, "-id", after=after, limit=limit, shape=shape)


def aware(field: str, moment: datetime | None) -> datetime | None:
    """A time with its zone, in UTC. Raises Invalid without one, and where UTC has no such year."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise Invalid(f"{field} has no time zone.", field=field, hint="Write 2026-03-02T16:04:11Z.")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise Invalid(f"{field} lies outside of the years 1 to 9999.", field=field) from None


@router.route(
    "GET",
    "/conversations/{whole:conversation}/turns/{int:n}/why/{key}",
    "explain_turn",
    Role.VIEWER,
    WhyAnswer,
    also={503},
)
def explain(
    request: ApiRequest,
    inv: Inv,
    conversation: str,
    n: TurnPath,
    key: str,
    release: ReleaseName | None = None,
    as_of: datetime | None = None,
) -> Any:
    """Everything behind one outcome: margin, cut-off, views, exact terms per exemplar, what judges and people said."""
    found = why.explain(
        request.inventory,
        conversations.get_conversation(request.inventory, conversation),
        n,
        get_artifact(request.inventory, key),
        release=None if release is None else release_of(release),
        as_of=aware("as_of", as_of),
    )
    return found.to_json()


# Behind explain_turn: an id may hold slashes, and this address takes all that is left.
@router.route("GET", "/conversations/{whole:conversation}", "get_conversation", Role.VIEWER, ConversationWhole)
def get_conversation(request: ApiRequest, inv: Inv, conversation: str) -> Any:
    """By its public id or its own, slashes and all, with every message; a user turn carries its number and prefix digest."""
    row = conversations.get_conversation(request.inventory, conversation)
    states = {state.message_index: state for state in row.states.all()}
    messages = []
    for message in row.messages.all():
        state = states.get(message.index)
        messages.append(
            {
                "index": message.index,
                "role": message.role,
                "content": message.content,
                "at": message.at,
                "tool_calls": message.tool_calls,
                "call_id": message.call_id or None,
                "requestor": message.requestor or None,
                "visible_to_agent": message.visible_to_agent,
                "user_turn": state.user_turn if state else None,
                "prefix_digest": state.prefix_digest if state else None,
            }
        )
    return {**_facts(row), "metadata": row.metadata, "messages": messages}
