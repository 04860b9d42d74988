"""Full-text search in conversations: one question, the same answer on every engine, and where in a conversation it says so.

`ConversationWords` holds each conversation's different words. PostgreSQL looks in a GIN index, SQLite reads the column
through; both see whole words as `search_words` splits them, so nothing typed can be read as syntax.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, F, Lookup, OuterRef, Q, QuerySet, Subquery, TextField
from django.db.models.functions import Left

from console.models import Conversation, ConversationWords, Inventory, Message, QueryState
from console.services.redaction import masked
from console.services.search_words import MOST, Sought, marks, sought, words
from sq_core import conversation as log

# A limit that is never reached: it keeps PostgreSQL from walking a list row by row in the hope that one matches soon. What is
# looked for is found by its own index first.
ALL = 10_000_000
MOST_BYTES = 400_000  # of one conversation's words: PostgreSQL takes a megabyte
READ = 4_000  # characters of a message that are looked through for what to mark
MARGIN = 300  # characters read behind them
MESSAGES = 3_000  # of all conversations of a page
AROUND = 70  # characters shown on either side
PIECE = 200  # conversations whose words are written at once
LONGEST = 200  # characters of a question


class HasWords(Lookup):
    """``words__has="refund mon*"``: all the words, the starred one as a beginning. Words hold letters and digits only."""

    lookup_name = "has"

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[str | int, ...]]:
        lhs, params = self.process_lhs(compiler, connection)
        each = str(self.rhs).split()
        if connection.vendor == "postgresql":
            query = " & ".join(f"'{word[:-1]}':*" if word.endswith("*") else f"'{word}'" for word in each)
            return f"array_to_tsvector(string_to_array({lhs}, ' ')) @@ %s::tsquery", (*params, query)
        likes = [f"% {word[:-1]}%" if word.endswith("*") else f"% {word} %" for word in each]
        return " AND ".join([f"(' ' || {lhs} || ' ') LIKE %s"] * len(each)), (*list(params) * len(each), *likes)


TextField.register_lookup(HasWords)
INDEX = "array_to_tsvector(string_to_array(words, ' '))"  # the migration's, and what `HasWords` asks


def matching(question: str) -> Q:
    """Conversations (of a queryset of them) that say it; everything for a question without a word."""
    wanted = sought(question[:LONGEST])
    if not wanted:
        return Q()
    asked = " ".join([*wanted.whole, *([f"{wanted.start}*"] if wanted.start else [])])
    found = Q(pk__in=ConversationWords.objects.filter(words__has=asked).values("conversation_id")[:ALL])
    for phrase in wanted.phrases:  # only the messages of those
        said = Message.objects.filter(conversation=OuterRef("pk"), content__icontains=phrase)
        found &= Q(Exists(said))
    return found


# -------------------------------------------------------------------------------------------------------------- writing
def add_words(more: Sequence[tuple[Conversation, Sequence[log.Message]]]) -> None:
    """More of these conversations has been stored; inside the transaction that stores it. Two queries."""
    rows = ConversationWords.objects.filter(conversation__in=[c for c, _ in more]).values_list("pk", "words")
    known = {pk: set(text.split()) for pk, text in rows}
    made = []
    for conversation, messages in more:
        found = known.get(conversation.pk) or _of_names(conversation)
        for message in messages:
            found |= words(message.content)
        made.append(ConversationWords(conversation=conversation, words=_kept(found), upto=conversation.message_count))
    ConversationWords.objects.bulk_create(
        made, update_conflicts=True, unique_fields=["conversation"], update_fields=["words", "upto"]
    )


def _of_names(conversation: Conversation) -> set[str]:
    return words(f"{conversation.external_id} {conversation.scenario} {conversation.customer}")


def _kept(found: set[str]) -> str:
    text = " ".join(sorted(found))
    if len(text.encode()) > MOST_BYTES:
        text = text.encode()[:MOST_BYTES].decode(errors="ignore").rpartition(" ")[0]
    return text


def rebuild(rows: QuerySet[Conversation] | None = None) -> int:
    """The words of conversations that have none, in pieces (those that were stored some other way than by an import)."""
    left = (Conversation.objects.all() if rows is None else rows).filter(found_by__isnull=True).order_by("pk")
    done = 0
    while piece := list(left[:PIECE]):
        texts: dict[int, set[str]] = {c.pk: _of_names(c) for c in piece}
        said = Message.objects.filter(conversation__in=piece).values_list("conversation_id", "content")
        for pk, content in said.iterator(chunk_size=2_000):
            texts[pk] |= words(content)
        ConversationWords.objects.bulk_create(
            (ConversationWords(conversation=c, words=_kept(texts[c.pk]), upto=c.message_count) for c in piece),
            ignore_conflicts=True,
        )
        done += len(piece)
    return done


# --------------------------------------------------------------------------------------------------------------- showing
@dataclass(frozen=True)
class Hit:
    """The message of a conversation that has most of what is sought. ``parts``: (text, marked), plain text."""

    role: str
    message_index: int
    user_turn: int | None  # of the message, or of the customer's last one before it
    own: bool  # it is that customer message itself
    parts: tuple[tuple[str, bool], ...]


def hits(inventory: Inventory, conversations: Sequence[Conversation], question: str) -> dict[int, Hit]:
    """Per conversation (by row) of the inventory where it says it, as people see it. One query."""
    wanted = sought(question[:LONGEST])
    if not wanted or not conversations:
        return {}
    before = QueryState.objects.filter(conversation=OuterRef("conversation"), message_index__lte=OuterRef("index"))
    rows = (
        Message.objects.filter(conversation__in=conversations)
        .annotate(
            head=Left("content", READ + MARGIN),
            turn=Subquery(before.order_by("-message_index").values("user_turn")[:1]),
            asked=Subquery(before.order_by("-message_index").values("message_index")[:1]),
        )
        .order_by("conversation_id", F("index"))
        .values_list("conversation_id", "index", "role", "head", "turn", "asked")[:MESSAGES]
    )
    best: dict[int, tuple[int, Hit]] = {}
    for pk, index, role, head, turn, asked in rows:
        if next(marks(head, wanted), None) is None:
            continue  # what does not say it need not be hidden
        head = masked(inventory, head)[:READ]  # an address that the cut would halve is hidden whole
        found = list(marks(head, wanted))
        score = 2 * len({word for _, _, word in found}) + (role == "user")
        if found and score > best.get(pk, (0, None))[0]:
            best[pk] = score, Hit(role, index, turn, asked == index, _parts(head, found))
    return {pk: hit for pk, (_, hit) in best.items()}


def _parts(text: str, found: Sequence[tuple[int, int, str]]) -> tuple[tuple[str, bool], ...]:
    """A window of the text around the first mark, cut into marked and unmarked pieces."""
    low = max(0, found[0][0] - AROUND)
    high = min(len(text), found[0][1] + 2 * AROUND)
    parts, at = [], low
    for start, end, _ in found:
        if end > high:
            break
        parts += [(text[at:start], False), (text[start:end], True)]
        at = end
    parts.append((text[at:high] + ("…" if high < len(text) else ""), False))
    if low:
        parts[0] = ("…" + parts[0][0], False)
    return tuple((piece, marked) for piece, marked in parts if piece)


__all__ = ["LONGEST", "MOST", "Hit", "Sought", "add_words", "hits", "matching", "rebuild"]
