"""What a process keeps in memory of the database, and one way to forget all of it."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast
from weakref import WeakSet

from django.db import transaction

T = TypeVar("T")
MEGABYTE = 2**20
_every: WeakSet["Cache"] = WeakSet()


def clear_all() -> None:
    """Forget everything that is kept under row numbers: for a database that was put in another's place."""
    for cache in list(_every):
        cache.clear()


class Cache:
    """A small thread-safe LRU; who asks for a value that another thread is building waits for that one.

    Inside a transaction nobody waits: the builder may need what the transaction has locked.

    It holds at most ``size`` values and, where ``bytes_of`` weighs them, at most ``most`` bytes: a long log must not fill
    the memory with what nobody asks for any more. The newest value is always kept.
    """

    def __init__(self, size: int, *, most: int = 0, bytes_of: Callable[[Any], int] = lambda value: 0) -> None:
        self._size, self._most, self._bytes_of, self._lock = size, most, bytes_of, threading.Lock()
        self._rows: OrderedDict[Hashable, Any] = OrderedDict()
        self._bytes = 0
        self._builders: dict[Hashable, threading.RLock] = {}  # one for each value being built
        _every.add(self)

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: Hashable, build: Callable[[], T]) -> T:
        with self._lock:
            if key in self._rows:
                self._rows.move_to_end(key)
                return cast("T", self._rows[key])
        with self._building(key):
            with self._lock:
                if key in self._rows:
                    return cast("T", self._rows[key])
            return self._keep(key, build())

    @contextmanager
    def _building(self, key: Hashable) -> Iterator[None]:
        if transaction.get_connection().in_atomic_block:
            yield
            return
        with self._lock:
            builder = self._builders.setdefault(key, threading.RLock())
        with builder:
            try:
                yield
            finally:
                with self._lock:
                    self._builders.pop(key, None)

    def _keep(self, key: Hashable, value: T) -> T:
        with self._lock:
            if key in self._rows:
                self._bytes -= self._bytes_of(self._rows.pop(key))
            self._rows[key] = value
            self._bytes += self._bytes_of(value)
            while len(self._rows) > self._size or (self._bytes > self._most and len(self._rows) > 1):
                self._bytes -= self._bytes_of(self._rows.popitem(last=False)[1])
        return value

    def peek(self, key: Hashable) -> Any:
        """What is held under the key, or None."""
        with self._lock:
            if key in self._rows:
                self._rows.move_to_end(key)
            return self._rows.get(key)

    def put(self, key: Hashable, value: Any) -> None:
        self._keep(key, value)

    def renew(self, key: Hashable, build: Callable[[T | None], T]) -> T:
        """What ``build`` makes of the value held under the key (None where there is none), held in its place."""
        with self._building(key):
            with self._lock:
                held = cast("T | None", self._rows.get(key))
            return self._keep(key, build(held))

    def clear(self) -> None:
        with self._lock:
            self._rows.clear()
            self._bytes = 0


def committed(cache: Cache, key: Hashable, build: Callable[[], T]) -> T:
    """From the cache, but not inside a transaction: what it has written may never come to be."""
    return build() if transaction.get_connection().in_atomic_block else cache.get(key, build)
