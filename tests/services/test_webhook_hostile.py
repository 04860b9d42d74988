"""A receiver's answer never stops the sender, whatever it holds: the other deliveries are told what came of theirs."""

from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from console.env import networks
from console.providers import webhook
from console.providers.webhook import Post
from tests.receiver import receiver, status

HUGE = "9" * 20


@pytest.fixture
def open_loopback(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBHOOK_NETWORKS", "127.0.0.0/8")
    settings.WEBHOOK_NETWORKS = networks("WEBHOOK_NETWORKS")


def posts(*addresses: str) -> list[Post]:
    return [Post(n, address, b"{}", {}) for n, address in enumerate(addresses)]


def test_an_absurd_retry_after_leaves_the_others_alone(open_loopback: None) -> None:
    with receiver() as bad, receiver() as good:
        bad.answer = lambda handler: status(handler, 503, {"Retry-After": f"Mon, 01 Jan 2026 00:00:00 +{HUGE}"})
        told = webhook.send(posts(bad.address, good.address))
    assert [(each.status, each.ok, each.retry_after) for each in told.values()] == [
        (503, False, None),
        (204, True, None),
    ]


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 100_000 + b"\r\n",
        b"HTTP/9.9 999999 \0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffffffff\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"\0" * 100_000,
        b"",
    ],
)
def test_an_answer_that_is_none_fails_alone(open_loopback: None, raw: bytes) -> None:
    with receiver() as bad, receiver() as good:

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.wfile.write(raw)

        bad.answer = answer
        told = webhook.send(posts(bad.address, good.address))
    assert told[1].ok
    assert len(told[0].error) <= webhook.SAID
    assert told[0].error.isprintable()


def test_what_nobody_thought_of_fails_alone(open_loopback: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(headers: Any) -> float:
        raise ZeroDivisionError("a\0b")

    monkeypatch.setattr(webhook, "retry_after", broken)
    with receiver() as bad, receiver() as good:
        bad.answer = lambda handler: status(handler, 500)
        told = webhook.send(posts(bad.address, good.address))
    assert (told[0].error, told[1].ok) == ("ZeroDivisionError: a b", True)
