"""Notes as pages show them: where what they are on is, and their text with the names in it marked."""

from dataclasses import dataclass
from typing import Any

from django.urls import NoReverseMatch, reverse
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe

from console.models import Inventory, Note, User
from console.services.notes import KINDS, NAMED


@dataclass(frozen=True)
class Row:
    note: Note
    kind: Any  # what it is on, in a word
    url: str
    text: SafeString
    mine: bool

    @property
    def open(self) -> bool:
        return self.note.closed_at is None


def row(inventory: Inventory, note: Note, reader: User) -> Row:
    kind = KINDS[note.object_type][0] if note.object_type in KINDS else note.object_type
    return Row(
        note,
        kind,
        url_of(inventory, note.object_type, note.object_id, note.url),
        marked(note.text),
        note.by_id == reader.pk,
    )


def marked(text: str) -> SafeString:
    """Escaped, with every ``@name`` in a mark of its own."""
    parts, last = [], 0
    for found in NAMED.finditer(text):
        parts += [conditional_escape(text[last : found.start()]), format_html('<span class="at">{}</span>', found[0])]
        last = found.end()
    return mark_safe("".join([*parts, conditional_escape(text[last:])]))  # noqa: S308  # each part is escaped


def url_of(inventory: Inventory, kind: str, name: str, written_on: str = "") -> str:
    """The page of what a note is on; where there is none of its own, the page it was written on."""
    slug = inventory.slug
    try:
        match kind:
            case "artifact":
                return reverse("policy", args=[slug, name])
            case "conversation":
                return reverse("conversation", args=[slug, name])
            case "turn":
                conversation, number = name.split("/")
                return reverse("conversation", args=[slug, conversation]) + f"?t={int(number)}"
            case "exemplar":
                return reverse("note-on", args=[slug]) + f"?kind=exemplar&object={name}"
            case "run":
                return reverse("run", args=[slug, name])
            case "release" if int(name) > 1:
                return reverse("release-diff", args=[slug, int(name) - 1, int(name)])
            case "release":
                return reverse("releases", args=[slug])
            case "version":
                return reverse("policy-versions", args=[slug, name.split("/")[0]]) + f"#v{int(name.split('/')[1])}"
    except (NoReverseMatch, ValueError, IndexError):
        return ""
    return written_on if written_on.startswith(f"/i/{slug}/") else ""
