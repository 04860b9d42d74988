"""How much the readers hold of conversations that stand in several rows, until their source ends.

`MOST_HELD` bounds it: beyond, one error says so and no conversation of the source is given, for any of them might lack a
message.
"""

from __future__ import annotations

from sq_core.readers.jsonl import LARGEST_LINE, BadRowError

MOST_HELD = LARGEST_LINE  # characters of the texts of one source; each record counts `_EACH` more
_EACH = 256


class Held:
    """Counts what is held of one source; `field` is what its error names."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._size = 0
        self.full = False

    def add(self, *texts: str) -> None:
        """BadRowError once the bound is passed; then `full` is set, and nothing more is to be held."""
        self._size += _EACH + sum(map(len, texts))
        if self._size > MOST_HELD:
            self.full = True
            raise BadRowError(
                self._field,
                f"the conversations up to here hold more than {MOST_HELD >> 20} MB at once; none of them is read.",
                "Split the export so that every conversation is whole in its part.",
            )

    def drop(self, *texts: str) -> None:
        """What was held in place of something fuller."""
        self._size -= _EACH + sum(map(len, texts))
