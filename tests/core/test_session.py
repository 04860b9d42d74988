"""A session is a cache: it embeds only what is new and never changes an answer."""

from __future__ import annotations

import numpy as np
import pytest

from sq_core.bundle import OperatingPoint
from sq_core.conversation import MessageError
from sq_core.expiry import Expiry
from sq_core.session import MemoryCache
from tests.core.toy import ToyEncoder, bundle, said


def test_each_turn_embeds_its_own_text_and_its_prefix() -> None:
    encoder = ToyEncoder()
    session = bundle(encoder=encoder).session()
    session.add_user_turn("x")
    assert [fired.artifact for fired in session.fired] == ["on-x"]
    assert encoder.encoded == ["x", "user: x"]
    assert session.discovery is session.discovery
    encoder.encoded.clear()
    session.add_assistant_turn("ok")
    session.add_user_turn("y")
    assert {fired.artifact for fired in session.fired} == {"on-x", "on-y"}
    assert encoder.encoded == ["y", "user: x\nassistant: ok\nuser: y"]
    assert [message.index for message in session.messages] == [0, 1, 2]


def test_an_answer_by_the_agent_changes_nothing_until_the_user_speaks() -> None:
    session = bundle().session()
    session.add_user_turn("x")
    before = session.discovery
    session.add({"role": "tool", "content": "result"})
    assert session.discovery == before


def test_expiry_in_a_session_is_that_of_all_messages() -> None:
    one = bundle(point=OperatingPoint(expiry=Expiry(others=1)))
    session = one.session()
    for text in ("x", "y", "hello"):
        session.add_user_turn(text)
    assert session.discovery == one.discover([{"role": "user", "content": text} for text in ("x", "y", "hello")])
    assert session.discovery.expired == ("on-x",)


def test_its_own_theta_and_encoder() -> None:
    session = bundle(encoder=ToyEncoder(id="unused")).session(encoder=ToyEncoder(), theta=0.6)
    session.add_user_turn("x")
    assert session.fired == ()


def test_a_failure_is_not_remembered() -> None:
    encoder = ToyEncoder()
    session = bundle(encoder=encoder).session()
    session.add_user_turn("x")
    encoder.away = True
    assert session.discovery.degraded
    assert {fired.artifact for fired in session.fired} == {"on-x", "on-y"}
    encoder.away = False
    assert session.discovery == bundle().discover(said("x"))


def test_a_bad_message_is_refused_and_not_kept() -> None:
    session = bundle().session()
    with pytest.raises(MessageError):
        session.add({"role": "customer", "content": "x"})
    assert session.messages == ()
    with pytest.raises(MessageError):
        _ = session.fired


def test_memory_cache_keeps_vectors_by_text() -> None:
    cache = MemoryCache()
    assert cache.get("a") is None
    cache["a"] = np.ones(3, dtype=np.float32)
    vector = cache.get("a")
    assert vector is not None
    assert vector.tolist() == [1, 1, 1]
    assert len(cache) == 1
