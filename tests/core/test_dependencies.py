"""Dependencies: nearest puller, transitive, deterministic, safe with cycles."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sq_core.dependencies import find_cycle, pulled_in

ALL = frozenset("abcdef")


def test_transitive_with_the_nearest_puller_named() -> None:
    links = {"a": ("b", "c"), "b": ("d",), "c": ("d",), "d": ("e",)}
    assert pulled_in(["a"], links, ALL) == {"b": "a", "c": "a", "d": "b", "e": "d"}


def test_what_fired_itself_is_not_pulled_in() -> None:
    assert pulled_in(["b", "a"], {"a": ("b",)}, ALL) == {}


def test_off_artifacts_are_neither_pulled_in_nor_passed_through() -> None:
    assert pulled_in(["a"], {"a": ("b",), "b": ("c",)}, ALL - {"b"}) == {}


def test_cycles_do_no_harm_at_run_time() -> None:
    assert pulled_in(["a"], {"a": ("b",), "b": ("a", "b")}, ALL) == {"b": "a"}


def test_find_cycle() -> None:
    assert find_cycle({}) is None
    assert find_cycle({"a": ("b", "c"), "b": ("c",)}) is None
    assert find_cycle({"a": ("a",)}) == ("a", "a")
    assert find_cycle({"a": ("b",), "b": ("c",), "c": ("b",)}) == ("b", "c", "b")


def test_find_cycle_in_a_long_chain() -> None:
    chain = {f"k{n}": (f"k{n + 1}",) for n in range(5000)}
    assert find_cycle(chain) is None


KEYS = st.sampled_from("abcdef")


@given(st.dictionaries(KEYS, st.lists(KEYS, max_size=4)), st.lists(KEYS, max_size=4))
def test_closure_and_order_independence(links: dict[str, list[str]], fired: list[str]) -> None:
    via = pulled_in(fired, links, ALL)
    assert via == pulled_in(fired[::-1], {key: links[key][::-1] for key in links}, ALL)
    closed = set(fired) | set(via)
    assert all(target in closed for key in closed for target in links.get(key, ()))
    cycle = find_cycle(links)
    if cycle is not None:
        assert all(target in links[key] for key, target in pairwise(cycle))
