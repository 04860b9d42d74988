"""The process's memory of the database: built once, bounded, forgotten as a whole."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from console.services import caches
from console.services.errors import Unavailable

pytestmark = pytest.mark.django_db


def test_everything_kept_is_forgotten_at_once() -> None:
    one, other = caches.Cache(4), caches.Cache(4, most=100, bytes_of=len)
    one.put("key", 1)
    other.put("key", b"bytes")
    caches.clear_all()
    assert one.peek("key") is other.peek("key") is None


def test_threads_that_want_one_value_wait_for_the_one_that_builds_it() -> None:
    cache, built, begun = caches.Cache(4), [], threading.Event()

    def build() -> str:
        begun.set()
        time.sleep(0.2)
        built.append(1)
        return "value"

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(cache.get, "key", build)
        assert begun.wait(5)
        others = [pool.submit(cache.get, "key", build) for _ in range(6)]
        assert pool.submit(cache.get, "another", lambda: "at once").result(5) == "at once"
        assert [f.result(5) for f in (first, *others)] == ["value"] * 7
    assert len(built) == 1
    assert not cache._builders


def test_a_build_that_fails_is_tried_by_the_next() -> None:
    cache, tries = caches.Cache(4), []

    def build() -> str:
        tries.append(1)
        time.sleep(0.05)
        if len(tries) == 1:
            raise Unavailable("away")
        return "value"

    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(cache.get, "key", build) for _ in range(2)]
        assert sorted(str(f.exception(5) or f.result(5)) for f in found) == ["away", "value"]


def test_inside_a_transaction_nobody_waits_for_another_thread() -> None:
    """This test's own transaction: a builder elsewhere may need what it has locked."""
    cache, go_on = caches.Cache(4), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(cache.get, "key", lambda: go_on.wait(5) and "theirs")
        assert cache.get("key", lambda: "own") == "own"
        go_on.set()
        assert other.result(5) == "theirs"


def test_a_cache_holds_so_many_values_and_bytes_and_always_the_newest() -> None:
    cache = caches.Cache(3, most=100, bytes_of=len)
    for name, size in (("a", 40), ("b", 40), ("c", 10)):
        cache.get(name, partial(bytes, size))
    assert len(cache) == 3
    assert cache.get("a", lambda: b"never built") == bytes(40)  # and is the newest used now
    cache.get("d", lambda: b"x" * 30)  # one value and 20 bytes too many: b goes
    assert len(cache) == 3
    assert cache.get("b", lambda: b"again") == b"again"
    assert cache.get("e", lambda: b"x" * 500) == b"x" * 500
    assert len(cache) == 1
    cache.clear()
    assert len(cache) == 0
