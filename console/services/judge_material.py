"""What a judge is shown: query states with their prefixes, artifact texts, and the prompt made of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from console.models import ArtifactText, Guideline, Message, QueryState
from console.services import prompts_judge
from console.services.embed import to_message
from console.services.prompts_judge import Asked
from sq_core import conversation as log
from sq_core.artifact_text import artifact_text
from sq_core.causal.states import QueryState as SeenState
from sq_core.causal.states import check_view


@dataclass(frozen=True)
class Material:
    """A query state as the judge sees it."""

    state: QueryState
    prefix: tuple[log.Message, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Revision:
    """An artifact text as the judge sees it."""

    pk: int
    artifact: int
    asked: Asked


def material_of(states: Iterable[int]) -> dict[int, Material]:
    """The prefixes of these states; what was erased meanwhile is missing."""
    rows = list(QueryState.objects.filter(pk__in=set(states)).select_related("conversation"))
    last: dict[int, int] = {}
    for row in rows:
        last[row.conversation_id] = max(last.get(row.conversation_id, 0), row.message_index)
    messages: dict[int, list[log.Message]] = {pk: [] for pk in last}
    for message in Message.objects.filter(conversation__in=last, index__lte=max(last.values(), default=0)).order_by(
        "index"
    ):
        if message.index <= last[message.conversation_id]:
            messages[message.conversation_id].append(to_message(message))
    found = {}
    for row in rows:
        prefix = tuple(messages[row.conversation_id][: row.message_index + 1])
        flags = tuple(prompts_judge.flags(prefix)) if row.conversation.addresses_judge else ()
        found[row.pk] = Material(row, prefix, flags)
    return found


def revisions_of(texts: Iterable[int]) -> dict[int, Revision]:
    rows = ArtifactText.objects.filter(pk__in=set(texts)).select_related("artifact")
    return {
        row.pk: Revision(
            row.pk, row.artifact_id, Asked(row.artifact.key, artifact_text(row.artifact.kind, row.name, row.text))
        )
        for row in rows
    }


def prompt_of(material: Material, revisions: Sequence[Revision], guideline: Guideline) -> list[dict[str, str]]:
    """Raises CausalityError where a message after the user turn would be shown."""
    state = material.state
    seen = SeenState(state.conversation.external_id, state.user_turn, state.message_index, state.prefix_digest)
    check_view(seen, material.prefix)
    return prompts_judge.messages(
        material.prefix, [each.asked for each in revisions], guideline, prefix_digest=material.state.prefix_digest
    )
