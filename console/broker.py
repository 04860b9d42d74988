"""The filesystem broker of the embedded default, with files that appear whole.

kombu creates a message's file first and writes it afterwards; a worker that looks in between reads an empty message and
ends with an error. The same holds for the table of an exchange when it is first
made. Here both are written under another name and then renamed or linked into place, which no reader can see half-done.
"""

import contextlib
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kombu.transport import filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    def _put(self, queue: str, payload: Any, **kwargs: Any) -> None:  # type: ignore[override]
        folder = Path(self.data_folder_out)
        name = f"{time.time_ns():020d}_{uuid.uuid4()}.{queue}.msg"  # sorted by name = in the order of sending
        with _new_file(folder, dumps(payload)) as written:
            written.rename(folder / name)

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        table = Path(self._exchange_file(exchange))  # type: ignore[attr-defined]  # newer than its stubs
        if not table.exists():
            table.parent.mkdir(exist_ok=True)
            with _new_file(table.parent, "[]") as written, contextlib.suppress(FileExistsError):
                table.hardlink_to(written)  # of two processes the first one wins
        super()._queue_bind(exchange, routing_key, pattern, queue)  # adds to the table under a lock


class Transport(filesystem.Transport):
    Channel = Channel


@contextlib.contextmanager
def _new_file(folder: Path, text: str) -> Iterator[Path]:
    """A written file beside those that are read, under a name that no reader looks for; gone afterwards."""
    path = folder / f".{uuid.uuid4()}.part"
    path.write_text(text, encoding="utf-8")
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
