"""OpenAI's batch API: many completions at half the price, done within a day.

Nothing is kept here. What was sent is found again by its label at the provider, so that a process that dies right after
sending has lost nothing and sends nothing twice.
"""

import json
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import openai

from console.providers import Key, ProviderError, Reply, Sent
from console.providers.openai_chat import OpenAIChat

ENDED = ("completed", "failed", "expired", "cancelled")
OLDEST_S = 3 * 86_400  # a batch lives a day; older ones are not looked at
MOST_BYTES = 90_000_000  # of a file: OpenAI takes 200 MB and 50,000 requests
VALUE, VALUES = 500, 14  # characters of a metadata value, and how many of them hold keys
UPLOAD_S = 300.0
KEPT = 4  # ended batches whose replies stay at hand
Answer = Reply | ProviderError


class OpenAIBatches:
    """The batches of one model. Raises ProviderError."""

    def __init__(self, chat: OpenAIChat) -> None:
        self._chat = chat
        self._ended: OrderedDict[str, dict[Key, Answer]] = OrderedDict()

    def find(self, label: str, keys: Collection[Key]) -> list[Sent]:
        """What was sent of these calls under this label, newest first."""
        found = []
        try:
            for batch in self._chat.client.batches.list(limit=100):
                if batch.created_at < time.time() - OLDEST_S:
                    break
                if own := self._of(batch, label).intersection(keys):
                    found.append(self._read(batch, own))
        except (openai.OpenAIError, ValueError) as error:
            raise self._chat.failure(error) from None
        return found

    def send(
        self,
        orders: Sequence[tuple[Key, Sequence[Mapping[str, str]]]],
        *,
        label: str,
        schema: Mapping[str, Any],
        schema_name: str,
    ) -> int:
        """Send the first of these calls as one batch, as many as fit; how many. The rest is the next batch's."""
        lines: list[bytes] = []
        taken: list[Key] = []
        size = 0
        for key, messages in sorted(orders, key=lambda order: order[0]):
            body = self._chat.request(messages, schema=schema, schema_name=schema_name)
            line = {"custom_id": f"{key[0]}-{key[1]}", "method": "POST", "url": "/v1/chat/completions", "body": body}
            data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
            if taken and size + len(data) > MOST_BYTES:
                break
            lines.append(data)
            taken.append(key)
            size += len(data)
        while len(packed := pack(taken)) > VALUES:
            del taken[len(taken) * 9 // 10 :]
        metadata = {"signalbox": label} | {f"k{number}": value for number, value in enumerate(packed)}
        client = self._chat.client.with_options(timeout=UPLOAD_S, max_retries=0)
        try:
            stored = client.files.create(file=("calls.jsonl", b"".join(lines[: len(taken)])), purpose="batch")
            client.batches.create(
                input_file_id=stored.id, endpoint="/v1/chat/completions", completion_window="24h", metadata=metadata
            )
        except (openai.OpenAIError, ValueError) as error:
            raise self._chat.failure(error) from None
        return len(taken)

    def cancel(self, label: str) -> int:
        """Ask the provider to stop what has not ended; how many batches."""
        stopped = 0
        try:
            for batch in self._chat.client.batches.list(limit=100):
                if batch.created_at < time.time() - OLDEST_S:
                    break
                if batch.status not in ENDED and self._of(batch, label):
                    self._chat.client.batches.cancel(batch.id)
                    stopped += 1
        except (openai.OpenAIError, ValueError) as error:
            raise self._chat.failure(error) from None
        return stopped

    def _of(self, batch: Any, label: str) -> frozenset[Key]:
        metadata = batch.metadata or {}
        return frozenset(unpacked(metadata)) if metadata.get("signalbox") == label else frozenset()

    def _read(self, batch: Any, keys: frozenset[Key]) -> Sent:
        if batch.status not in ENDED:
            return Sent(batch.id, False, keys)
        if batch.id not in self._ended:
            answers: dict[Key, Answer] = {}
            for file in (batch.output_file_id, batch.error_file_id):
                if file:
                    answers.update(self._lines(self._chat.client.files.content(file).text.splitlines()))
            self._ended[batch.id] = answers
            while len(self._ended) > KEPT:
                self._ended.popitem(last=False)
        self._ended.move_to_end(batch.id)
        answers, missing = self._ended[batch.id], self._missing(batch)
        return Sent(batch.id, True, keys, {key: answers.get(key, missing) for key in keys})

    def _lines(self, lines: Iterable[str]) -> Iterator[tuple[Key, Answer]]:
        for line in lines:
            try:
                row = json.loads(line)
                number, _, attempt = row["custom_id"].partition("-")
                key = (int(number), int(attempt))
            except (ValueError, KeyError, TypeError, AttributeError):
                continue  # then its key has no answer, which is said
            yield key, self._answer(row)

    def _answer(self, row: Mapping[str, Any]) -> Answer:
        response, error = row.get("response"), row.get("error")
        if not isinstance(response, Mapping):
            said = error.get("message") if isinstance(error, Mapping) else None
            return self._chat.error("server_error", f"the batch has no answer: {str(said)[:200]}", passing=True)
        status, body = response.get("status_code"), response.get("body")
        if status != 200:
            inner = body.get("error") if isinstance(body, Mapping) else None
            said = inner.get("message") if isinstance(inner, Mapping) else None
            return self._chat.by_status(status if type(status) is int else 500, str(said or "no reason given"))
        try:
            return self._chat.read(json.dumps(body))
        except ProviderError as bad:
            return bad

    def _missing(self, batch: Any) -> ProviderError:
        """What is said of a call that an ended batch holds no answer to."""
        reasons = [error.message for error in (batch.errors.data or [] if batch.errors else []) if error.message]
        said = f": {reasons[0][:200]}" if reasons else ""
        return self._chat.error("server_error", f"the batch ended ({batch.status}) without it{said}", passing=True)


_batches: WeakKeyDictionary[OpenAIChat, OpenAIBatches] = WeakKeyDictionary()


def batches_of(chat: OpenAIChat) -> OpenAIBatches:
    """The batches of a client, one object each, so that what has been read stays at hand."""
    return _batches.setdefault(chat, OpenAIBatches(chat))


def pack(keys: Sequence[Key]) -> list[str]:
    """Sorted keys as short texts, runs of following numbers as one piece: ``1000+500.0`` = 1000 to 1499, first try."""
    runs: list[list[int]] = []
    for number, attempt in keys:
        if runs and runs[-1][0] + runs[-1][1] == number and runs[-1][2] == attempt:
            runs[-1][1] += 1
        else:
            runs.append([number, 1, attempt])
    values = [""]
    for start, count, attempt in runs:
        piece = f"{start}+{count}.{attempt}"
        if len(values[-1]) + len(piece) + 1 > VALUE:
            values.append("")
        values[-1] += ("," if values[-1] else "") + piece
    return values


def unpacked(metadata: Mapping[str, str]) -> Iterator[Key]:
    """The keys again. Raises ValueError for what `pack` did not write."""
    for name, value in metadata.items():
        if name[:1] == "k" and name[1:].isdigit():
            for piece in value.split(","):
                start, _, rest = piece.partition("+")
                count, _, attempt = rest.partition(".")
                yield from ((int(start) + n, int(attempt)) for n in range(int(count)))
