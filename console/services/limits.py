"""Requests and tokens a minute, per provider: shared by all workers through Redis, per process on the embedded default."""

import time
from functools import cache
from typing import Any

from django.conf import settings
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage, RedisStorage, Storage
from limits.strategies import SlidingWindowCounterRateLimiter

REQUESTS, TOKENS = "requests", "tokens"


@cache
def _limiter() -> SlidingWindowCounterRateLimiter:
    url: str = settings.REDIS_URL
    storage: Storage = RedisStorage(url, wrap_exceptions=False) if url else MemoryStorage()
    return SlidingWindowCounterRateLimiter(storage)


def take(provider: dict[str, Any], *, tokens: int, requests: int = 1) -> float:
    """Take calls of about ``tokens`` in all out of the provider's quota: 0.0, or the seconds until it is worth asking again.

    ``provider`` is a run's snapshot of its model setting. A call larger than a whole minute's tokens takes the minute.
    """
    who = f"{provider.get('base_url', '')}|{provider.get('model', '')}|{provider.get('key_name', '')}"
    wanted = [
        (REQUESTS, provider.get("requests_per_minute"), requests),
        (TOKENS, provider.get("tokens_per_minute"), max(1, tokens)),
    ]
    limits = [(RateLimitItemPerMinute(most), name, min(cost, most)) for name, most, cost in wanted if most]
    limiter = _limiter()
    for limit, name, cost in limits:
        if not limiter.test(limit, who, name, cost=cost):
            return max(0.2, min(60.0, limiter.get_window_stats(limit, who, name).reset_time - time.time()))
    for limit, name, cost in limits:
        limiter.hit(limit, who, name, cost=cost)
    return 0.0


def forget() -> None:
    """Start counting anew (tests; another Redis)."""
    _limiter.cache_clear()
