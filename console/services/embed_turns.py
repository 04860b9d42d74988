"""Embedding in the background, a slice at a time: after each the worker's other tasks have their turn.

One chain of slices per inventory: a slice that leaves something behind names its follower, by the moment it ended. A wake-up
that finds a living chain does nothing, and a follower that somebody has overtaken does nothing either.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from console.models import Heartbeat, Inventory
from console.services import embed

ALIVE = timedelta(seconds=60)  # a chain that has not moved for longer is taken over: its worker or its message was lost
MOST = 2_000  # states and examples that one slice looks up


@dataclass(frozen=True)
class Slice:
    """``done`` examples and states; ``turn`` names the follower, None where nothing is left or somebody else is about it."""

    done: int
    turn: str | None


def embed_slice(
    inventory: Inventory,
    *,
    turn: str | None = None,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], datetime] = timezone.now,
) -> Slice:
    """Embed what is pending for about ``seconds`` by ``clock``, one batch at least. ``turn`` None = woken from outside.

    Raises Unavailable when the encoder is away; the chain has ended then and the next wake-up begins another.
    """
    name = f"embed:{inventory.pk}"
    if not _claim(name, turn, now()):
        return Slice(0, None)
    left = False
    try:
        done = embed.embed_pending(inventory, limit=MOST, seconds=seconds, clock=clock)
        left = embed.is_pending(inventory)
    finally:
        if not left:
            Heartbeat.objects.filter(name=name).delete()
    ended = now()
    if not left or not Heartbeat.objects.filter(name=name).update(at=ended):
        return Slice(done, None)
    return Slice(done, ended.isoformat())


def _claim(name: str, turn: str | None, now: datetime) -> bool:
    """Whether this slice may begin: it is the chain's follower, or there is no chain that moves."""
    held = Heartbeat.objects.filter(name=name).first()
    if held is None:
        try:
            with transaction.atomic():
                Heartbeat.objects.create(name=name, at=now)
        except IntegrityError:
            return False
        return True
    if held.at.isoformat() != turn and now - held.at < ALIVE:
        return False
    return bool(Heartbeat.objects.filter(name=name, at=held.at).update(at=now))
