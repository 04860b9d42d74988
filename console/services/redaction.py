"""What of a conversation is hidden from people, and who sees one in the clear for a while. What is stored is never changed.

A text is hidden where it is shown, so that a cut never leaves half of an address; judges, generators, encoders, `discover`
and bundles read the whole text.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django.db import transaction
from django.utils import timezone

from console.models import Conversation, Inventory, Message, Reveal, Role, User
from console.services import audit
from console.services.actor import Actor
from console.services.errors import Invalid
from console.services.revision import lock_inventory
from sq_core import redaction as core
from sq_core.redaction import BUILT_IN, LONGEST_TERM, MOST_TERMS, PLACES, Piece, Rules

MINUTES = 15
MOST_REASON = 500
LATEST = 50  # conversations that a preview reads
EXAMPLES = 3
SHORT = 1_000  # characters of a text whose places are remembered
AROUND = 120  # characters of an example
# At which changes and results keep the beginning of a text: what stands at the end may be half of something.
KEPT_LENGTHS = frozenset({120, 200, 300, 600})
SAID = ("text", "reason", "content", "arguments", "message", "quote")  # names of fields that hold what people wrote


# -------------------------------------------------------------------------------------------------------------- hiding
def rules_of(inventory: Inventory | None) -> Rules | None:
    """What is looked for there; None while nothing is hidden. Worked out once for the row as it was read."""
    if inventory is None or not inventory.redaction:
        return None
    kept: Rules | None = inventory.__dict__.get("_rules")
    if kept is None:
        kinds = frozenset(kind for kind in inventory.redaction_kinds if kind in BUILT_IN)
        kept = inventory.__dict__["_rules"] = Rules(kinds, tuple(inventory.redaction_terms))
    return kept or None


def pieces(rules: Rules, text: str, length: int = 0, *, kept: bool = False) -> list[Piece]:
    """The text with its places, at most ``length`` characters of it as shown (0: all).

    ``kept``: it may be the beginning of a text that was cut when it was kept, and end in half of something.
    """
    text = _without_half(text) if kept else text
    if len(text) <= SHORT:
        return core.cut(_short(rules, text), length) if length else list(_short(rules, text))
    part = text if not length or len(text) <= 4 * length + 2_000 else text[: 4 * length + 2_000]
    found = core.pieces(part, rules)
    if part is not text and sum(len(piece.text) for piece in found) < length + 200:
        found = core.pieces(text, rules)  # much of its beginning is hidden
    return core.cut(found, length) if length else found


@lru_cache(maxsize=8_192)
def _short(rules: Rules, text: str) -> tuple[Piece, ...]:
    """A list, a map and a page after the other show the same messages."""
    return tuple(core.pieces(text, rules))


def masked(inventory: Inventory | None, text: str, length: int = 0, *, kept: bool = False) -> str:
    """The text as people see it, plain; cut after it is masked. Unchanged, and cut, while nothing is hidden."""
    rules = rules_of(inventory)
    if rules is None:
        return text if not length or len(text) <= length else text[: length - 1] + "…"
    return "".join(piece.text for piece in pieces(rules, text, length, kept=kept))


def masked_json(inventory: Inventory | None, value: Any, names: Iterable[str] = ()) -> Any:
    """The value with its texts masked: those under one of ``names``; without any all of them, as records keep them."""
    rules = rules_of(inventory)
    return value if rules is None else _masked(rules, value, frozenset(names), said=not names)


def _masked(rules: Rules, value: Any, names: frozenset[str], *, said: bool) -> Any:
    match value:
        case str():
            return core.redact(value if names else _without_half(value), rules) if said else value
        case Mapping():
            return {key: _masked(rules, item, names, said=said or key in names) for key, item in value.items()}
        case list() | tuple():
            return [_masked(rules, item, names, said=said) for item in value]
        case _:
            return value


def _without_half(text: str) -> str:
    """Of what was cut when it was kept, without the last word and a number at its end."""
    if len(text.rstrip("…")) not in KEPT_LENGTHS:
        return text
    words = text.rsplit(None, 1)[0] if len(text.split(None, 1)) > 1 else ""
    return words.rstrip("0123456789+-.()/ ") + "…"


def uncut(inventory: Inventory | None, text: str, at: int) -> int:
    """The place of a cut, moved to the beginning of what it would halve."""
    rules = rules_of(inventory)
    if rules is None or not 0 < at < len(text):
        return at
    return next((start for start, end, _kind in core.find_spans(text, rules) if start < at < end), at)


def restored(inventory: Inventory, original: str, edited: str) -> str:
    """What an editor who saw ``original`` masked means: each place stands for what it hides.

    All of a kind are kept, in their order, or none. Raises Invalid where it cannot be told what a place stands for.
    """
    rules = rules_of(inventory) or Rules(frozenset(BUILT_IN), tuple(inventory.redaction_terms))
    hidden: dict[str, list[str]] = {}
    for start, end, kind in core.find_spans(original, rules):
        hidden.setdefault(kind, []).append(original[start:end])
    text = edited
    for kind, place in PLACES.items():
        n = edited.count(place) - original.count(place)
        if n <= 0 or (not hidden.get(kind) and rules_of(inventory) is None):
            continue
        if n != len(hidden.get(kind, ())) or original.count(place):
            raise hidden_text(place)
        first, *parts = text.split(place)
        text = first + "".join(was + part for was, part in zip(hidden[kind], parts, strict=True))
    return text


def refuse_places(inventory: Inventory, text: str, *, field: str = "text") -> None:
    """Raises Invalid for a new text that was copied from what people see: it would be stored with its places."""
    if inventory.redaction:
        for place in PLACES.values():
            if place in text:
                raise hidden_text(place, field=field)


def hidden_text(place: str, *, field: str = "text") -> Invalid:
    return Invalid(
        f"{place} stands for something hidden here.", field=field,
        hint="Keep all hidden parts where they are, take all of a kind out, or write your own words.",
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- settings
def save(
    inventory: Inventory,
    *,
    by: Actor,
    on: bool,
    kinds: Iterable[str],
    terms: Iterable[str],
    reveal_role: str,
    reason: str,
) -> bool:
    """Change what is hidden and who may reveal it. Raises Invalid with the field. False when nothing differs."""
    values: dict[str, Any] = {
        "redaction": on, "redaction_kinds": sorted(set(kinds)), "redaction_terms": _terms(terms), "reveal_role": reveal_role,
    }  # fmt: skip
    if unknown := [kind for kind in values["redaction_kinds"] if kind not in BUILT_IN]:
        raise Invalid(f"There is no kind {unknown[0][:40]!r}.", field="kinds", hint=f"Use {', '.join(BUILT_IN)}.")
    if reveal_role not in Role.values:
        raise Invalid(f"There is no role {reveal_role[:40]!r}.", field="reveal_role", hint=f"Use {', '.join(Role)}.")
    if on and not values["redaction_kinds"] and not values["redaction_terms"]:
        raise Invalid("Nothing is looked for.", field="kinds", hint="Tick a kind, or give words of your own.")
    if not reason.strip():
        raise Invalid("There is no reason.", field="reason", hint="Say why, in a few words.")
    with transaction.atomic():
        locked = lock_inventory(inventory)
        before = {name: getattr(locked, name) for name in values}
        if before == values:
            return False
        Inventory.objects.filter(pk=locked.pk).update(**values)
        audit.record(
            by=by, action="inventory.redaction", object_type="inventory", object_id=inventory.slug, inventory=inventory.slug,
            label=inventory.name, before=_without_terms(before), after=_without_terms(values), reason=reason[:MOST_REASON],
        )  # fmt: skip
    for name, value in values.items():
        setattr(inventory, name, value)
    inventory.__dict__.pop("_rules", None)
    return True


def _without_terms(values: Mapping[str, Any]) -> dict[str, Any]:
    """How many there are: what is to be hidden does not belong into the audit."""
    return {**values, "redaction_terms": len(values["redaction_terms"])}


def _terms(given: Iterable[str]) -> list[str]:
    found = list(dict.fromkeys(" ".join(term.split()) for term in given if term.strip()))
    if len(found) > MOST_TERMS:
        raise Invalid(f"{len(found)} terms.", field="terms", hint=f"At most {MOST_TERMS}.")
    for term in found:
        if len(term) > LONGEST_TERM:
            raise Invalid(
                f"{term[:40]!r}… is {len(term)} characters.", field="terms", hint=f"At most {LONGEST_TERM} each."
            )
        if not any(sign.isalnum() for sign in term):
            raise Invalid(f"{term[:40]!r} has no letter or digit.", field="terms", hint="Give words or phrases.")
    return found


@dataclass(frozen=True)
class Preview:
    """What would be hidden in the latest conversations: messages by kind, and examples as they would be shown."""

    conversations: int
    messages: int
    hit: int
    kinds: dict[str, int]
    examples: list[list[Piece]]


def preview(inventory: Inventory, rules: Rules) -> Preview:
    """Of the ``LATEST`` conversations. Two queries; writes nothing."""
    latest = Conversation.objects.filter(inventory=inventory, erased_at=None).order_by("-pk")
    rows = list(latest.values_list("pk", flat=True)[:LATEST])
    texts = Message.objects.filter(conversation__in=rows).order_by("-conversation", "index")
    kinds: dict[str, int] = {}
    examples: list[list[Piece]] = []
    read = hit = 0
    for text in texts.values_list("content", flat=True):
        read += 1
        found = core.pieces(text, rules)
        here = {piece.kind for piece in found if piece.kind}
        hit += bool(here)
        for kind in here:
            kinds[kind] = kinds.get(kind, 0) + 1
        if here and len(examples) < EXAMPLES:
            examples.append(core.cut(_around(found), AROUND))
    return Preview(len(rows), read, hit, {kind: kinds[kind] for kind in PLACES if kind in kinds}, examples)


def _around(found: list[Piece]) -> list[Piece]:
    """From a little before the first place on."""
    first = next(n for n, piece in enumerate(found) if piece.kind)
    before = found[first - 1].text if first else ""
    short = Piece(before if len(before) <= AROUND // 2 else "…" + before[-AROUND // 2 :])
    return [*([short] if before else []), *found[first:]]


# -------------------------------------------------------------------------------------------------------------- reveal
def reveal(conversation: Conversation, *, by: Actor, reason: str, now: datetime | None = None) -> datetime:
    """Shows it in the clear to this person, and until when. Raises Invalid without a reason."""
    if by.user is None:
        raise Invalid("Only people can reveal a conversation.", hint="With a token, ask with reveal=true.")
    if not reason.strip():
        raise Invalid("There is no reason.", field="reason", hint="Say why you need it in the clear.")
    until = (now or timezone.now()) + timedelta(minutes=MINUTES)
    with transaction.atomic():
        Reveal.objects.filter(until__lte=now or timezone.now()).delete()
        Reveal.objects.update_or_create(user=by.user, conversation=conversation, defaults={"until": until})
        _told(conversation, by=by, action="conversation.reveal", reason=reason, after={"until": until.isoformat()})
    return until


def hide(conversation: Conversation, *, by: Actor) -> None:
    """Ends it before its time. Nothing where it has been ended."""
    with transaction.atomic():
        if Reveal.objects.filter(user=by.user, conversation=conversation).delete()[0]:
            _told(conversation, by=by, action="conversation.hide")


def revealed_until(conversation: Conversation, user: User, now: datetime | None = None) -> datetime | None:
    """One query."""
    rows = Reveal.objects.filter(user=user, conversation=conversation, until__gt=now or timezone.now())
    return rows.values_list("until", flat=True).first()


def note_clear(inventory: Inventory, *, by: Actor, what: str, reason: str) -> None:
    """Texts were given out in the clear: by which call or as which file."""
    with transaction.atomic():
        audit.record(
            by=by, action="conversation.reveal", object_type="inventory", object_id=inventory.slug, inventory=inventory.slug,
            label=what, reason=reason,
        )  # fmt: skip


def _told(conversation: Conversation, *, by: Actor, action: str, reason: str = "", after: Any = None) -> None:
    audit.record(
        by=by, inventory=conversation.inventory.slug, action=action, object_type="conversation",
        object_id=conversation.public_id, label=conversation.external_id, after=after, reason=reason.strip()[:MOST_REASON],
    )  # fmt: skip
