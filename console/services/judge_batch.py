"""Judging through a provider's batch API, at half the price, for runs that have until tomorrow.

A claim of items is sent as one batch under the run's label, and the items go back until it has ended. What was sent is found
at the provider again, by the item's row and by how many of its replies were read and found wanting: whoever takes the item
next neither sends it twice nor reads a bad reply twice.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from console.models import Attempt, Run
from console.providers import BatchModel, ChatModel, Key, ProviderError, Reply
from console.services.prompting import Prompt
from console.services.run_kind import Item

CLAIM = 2_000  # items sent as one batch
POLL_S = 300.0  # between two looks at a batch
DISCOUNT = 0.5  # of the price
AWAY = "unavailable"  # the provider's batch API could not be used: says nothing of an item's reply
# Outcomes of attempts that read no reply: these, a lost worker, a fault of ours.
NO_REPLY = ("ok", AWAY, "lost", "error")


@dataclass
class Exchange:
    """Answers by item; one that is not there yet is missing. ``full_price`` are those that came by an ordinary call."""

    answers: dict[int, Reply | ProviderError] = field(default_factory=dict)
    full_price: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Replay:
    """A chat model that says what was answered already."""

    name: str
    answer: Reply | ProviderError

    def complete(self, messages: Sequence[Mapping[str, str]], *, schema: Mapping[str, Any], schema_name: str) -> Reply:
        if isinstance(self.answer, ProviderError):
            raise self.answer
        return self.answer


def exchange(
    batches: BatchModel,
    chat: ChatModel,
    run: Run,
    items: Sequence[Item],
    prompt: Callable[[Item], Prompt | None],
    *,
    schema: Mapping[str, Any],
    schema_name: str,
) -> Exchange:
    """What batches that have ended say to these items; what is in none is sent now. ``prompt`` None = the matter is gone.

    Where it is not known yet how the server likes to be asked, one item is asked by an ordinary call first: a batch of
    which every line is refused would cost a night. A provider that cannot be used is the answer to all that were asked.
    """
    read = _read(items)
    wanted: dict[Key, Item] = {(item.pk, read[item.pk]): item for item in items}
    found, in_flight = Exchange(), set[Key]()
    try:
        for sent in batches.find(run.public_id, wanted.keys()):
            if not sent.ended:
                in_flight |= sent.keys
            for (pk, _), answer in sent.answers.items():
                found.answers.setdefault(pk, answer)
        orders = {
            key: built
            for key, item in sorted(wanted.items())
            if key not in in_flight and item.pk not in found.answers and (built := prompt(item)) is not None
        }
        if orders and not getattr(chat, "knows_way", True):
            key = next(iter(orders))
            found.answers[key[0]] = _asked(chat, orders.pop(key), schema, schema_name)
            found.full_price.add(key[0])
        while orders:
            n = batches.send(list(orders.items()), label=run.public_id, schema=schema, schema_name=schema_name)
            orders = dict(list(orders.items())[n:])
    except ProviderError as error:
        away = ProviderError(
            AWAY, error.message, passing=error.passing, status=error.status, retry_after=error.retry_after
        )
        for key in wanted.keys() - in_flight:
            found.answers.setdefault(key[0], away)
    return found


def _asked(chat: ChatModel, prompt: Prompt, schema: Mapping[str, Any], schema_name: str) -> Reply | ProviderError:
    try:
        return chat.complete(prompt, schema=schema, schema_name=schema_name)
    except ProviderError as error:
        return error


def _read(items: Sequence[Item]) -> Counter[int]:
    """Per item how many replies were read that could not be used."""
    rows = Attempt.objects.filter(item__in=[item.pk for item in items]).exclude(outcome__in=NO_REPLY)
    return Counter(rows.values_list("item_id", flat=True))
