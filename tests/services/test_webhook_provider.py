"""Whom a webhook may tell, and how the one POST goes: against a real server on the loopback."""

import shutil
import socket
import subprocess
import threading
import time
from typing import Any

import pytest

from console.env import networks
from console.providers import webhook
from console.providers.webhook import Post, Refused, Told
from tests import own_loop
from tests.receiver import dripping, receiver, status

LOOPBACK = "127.0.0.0/8,::1/128"


@pytest.fixture
def open_loopback(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBHOOK_NETWORKS", LOOPBACK)
    settings.WEBHOOK_NETWORKS = networks("WEBHOOK_NETWORKS")


def sent(address: str, body: bytes = b"{}") -> Told:
    return webhook.send([Post(1, address, body, {"Signalbox-Event": "test", "Content-Type": "application/json"})])[1]


def names(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Whatever host is asked for has these addresses; the hosts that were asked for."""
    asked: list[str] = []

    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        return [
            (socket.AF_INET6 if ":" in a else socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, port)) for a in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


# ------------------------------------------------------------------------------------------------------------ who is told
@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
        "255.255.255.255", "240.0.0.1", "[::1]", "[::]", "[fe80::1]", "[fc00::1]", "[fec0::1]", "[ff02::1]",
        "[::ffff:10.0.0.1]", "[::ffff:8.8.8.8]", "[::10.0.0.1]", "[64:ff9b::10.0.0.1]", "[2002:0a00:0001::]",
        "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.1", "012.0.0.1", "localhost",
        "localhost.", "a.localhost", "[2001:0:4136:e378:8000:63bf:f5ff:fffd]",
    ],
)  # fmt: skip
def test_an_address_that_is_not_public_is_refused_however_it_is_written(host: str) -> None:
    with pytest.raises(Refused):
        webhook.parsed(f"https://{host}/hook")
    assert sent(f"https://{host}/hook").error.startswith("Not sent: ")


@pytest.mark.parametrize(
    "address",
    [
        "", "hook", "ftp://a.example/", "//a.example/", "https://", "https:///path", "http://a.example/", "https://a.example:0/",
        "https://a.example:99999/", "https://user@a.example/", "https://user:pass@a.example/", "https://@a.example/",
        "https://a.example/#part", "https://a.example/a b", "https://a.example/\n", "https://ä.example/", "https://[::1/",
        "https://a.example\\@b.example/", "javascript:alert(1)", "file:///etc/passwd", "https://127.0.0.1@a.example/",
    ],
)  # fmt: skip
def test_what_no_webhook_may_have(address: str) -> None:
    with pytest.raises(Refused):
        webhook.parsed(address)


def test_a_public_address_is_taken_and_http_only_by_setting(settings: Any) -> None:
    assert webhook.parsed("https://hooks.example.com:8443/a?b=c").hostname == "hooks.example.com"
    assert webhook.parsed("https://8.8.8.8/").hostname == "8.8.8.8"
    assert webhook.parsed("https://[2606:4700::1111]/").hostname == "2606:4700::1111"
    settings.WEBHOOK_HTTP = True
    assert webhook.parsed("http://hooks.example.com/").scheme == "http"


def test_networks_are_allowed_one_by_one(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBHOOK_NETWORKS", " 10.1.0.0/16, ::1 ")
    settings.WEBHOOK_NETWORKS = networks("WEBHOOK_NETWORKS")
    webhook.parsed("https://10.1.2.3/")
    webhook.parsed("https://[::1]/")
    for host in ("10.2.0.1", "169.254.169.254", "[::ffff:10.1.2.3]"):
        with pytest.raises(Refused):
            webhook.parsed(f"https://{host}/")


@pytest.mark.parametrize(
    "mixed", [("93.184.216.34", "10.0.0.1"), ("10.0.0.1", "93.184.216.34"), ("2606:4700::1", "::1")]
)
def test_a_host_with_one_private_address_among_public_ones_is_refused(
    monkeypatch: pytest.MonkeyPatch, mixed: tuple[str, str]
) -> None:
    asked = names(monkeypatch, *mixed)
    told = sent("https://hooks.example.com/")
    assert "no public address" in told.error
    assert (told.status, asked) == (None, ["hooks.example.com"])


def test_the_name_is_asked_for_once_and_the_connection_goes_to_what_was_checked(
    open_loopback: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second answer of the name server, another one, is never looked at."""
    with receiver() as server:
        port = server.address.rsplit(":", 1)[1]
        asked = names(monkeypatch, "127.0.0.1")
        assert sent(f"http://localhost:{port}") == Told(204)
        assert asked == ["localhost"]
        assert server.got[0].headers["Host"] == f"localhost:{port.split('/')[0]}"
        assert [name for name in server.got[0].headers if name.lower() == "host"] == ["Host"]


def test_http_reaches_this_machine_alone(open_loopback: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, "93.184.216.34")
    assert "http is for this machine only" in sent("http://localhost/").error


def test_the_next_address_is_tried_where_one_cannot_be_reached(
    open_loopback: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver() as server:
        names(monkeypatch, "::1", "127.0.0.1")  # nobody listens on ::1
        assert sent(server.address.replace("127.0.0.1", "localhost")).ok
        assert len(server.got) == 1


def test_a_receiver_on_ipv6(open_loopback: None) -> None:
    with receiver("::1") as server:
        assert sent(server.address) == Told(204)
        assert server.got[0].headers["Host"].startswith("[::1]:")


# --------------------------------------------------------------------------------------------------------------- the POST
def test_body_path_and_headers_arrive_and_no_proxy_is_asked(
    open_loopback: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with receiver() as server:
        assert sent(server.address, b'{"a": 1}') == Told(204)
        (got,) = server.got
    assert (got.path, got.body, got.headers["Signalbox-Event"]) == ("/hook?a=1", b'{"a": 1}', "test")
    assert got.headers["Content-Type"] == "application/json"


def test_a_redirect_is_not_followed(open_loopback: None) -> None:
    with receiver() as other, receiver() as server:
        server.answer = lambda handler: status(handler, 307, {"Location": other.address})
        told = sent(server.address)
        assert told.status == 307
        assert "redirects are not followed" in told.error
        assert (len(server.got), other.got) == (1, [])


def test_what_a_failing_receiver_says_is_cut_and_when_to_come_back_is_read(open_loopback: None) -> None:
    with receiver() as server:
        server.answer = lambda handler: status(
            handler, 503, {"Retry-After": "120"}, b"down\x00\x1b[31m " + b"x" * 5_000
        )
        told = sent(server.address)
    assert (told.status, told.retry_after, len(told.error)) == (503, 120.0, 200)
    assert told.error.startswith("Answered 503: down  [31m xx")


def test_of_a_huge_body_a_kilobyte_is_read(open_loopback: None) -> None:
    written = 0

    def huge(handler: Any) -> None:
        nonlocal written
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500000000\r\n\r\n")
        for _ in range(500):
            handler.wfile.write(b"x" * 1_000_000)
            written += 1

    with receiver() as server:
        server.answer = huge
        began = time.monotonic()
        assert sent(server.address) == Told(200)
        assert time.monotonic() - began < 3
    assert written < 60  # megabytes: what the sockets' buffers take


@pytest.mark.parametrize("head", [True, False])
def test_a_slow_receiver_is_left_after_the_time_limit_and_holds_up_nobody(
    open_loopback: None, monkeypatch: pytest.MonkeyPatch, head: bool
) -> None:
    monkeypatch.setattr(webhook, "TOTAL_S", 2.0)
    with receiver() as slow, receiver() as quick:
        slow.answer = dripping(0.1, head=head)
        began = time.monotonic()
        told = webhook.send([Post(n, (slow if n < 5 else quick).address, b"{}", {}) for n in range(6)])
        assert time.monotonic() - began < 8  # one after the other they would take ten
    assert {n for n, one in told.items() if not one.ok} == {0, 1, 2, 3, 4}
    assert told[0].error == "No whole answer within 2 seconds."


def test_a_silent_name_server_is_left_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "TOTAL_S", 0.3)
    spoken = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: spoken.wait(60) and [])
    try:
        assert "No whole answer" in sent("https://hooks.example.com/").error  # although nobody has spoken yet
    finally:
        spoken.set()
    for thread in threading.enumerate():  # it ends within the test
        if thread.name == "webhook-resolver":
            thread.join()


def test_nobody_there_and_no_such_name(open_loopback: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as server:
        address = server.address
    assert "ConnectError" in sent(address).error

    def unknown(*_: Any, **__: Any) -> list[Any]:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert "Name or service not known" in sent("https://no-such-host.example/").error


def test_tls_is_checked_against_the_host_s_name(
    open_loopback: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """The connection goes to a number; the certificate must be for the name in the address."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=hooks.example.com",
         "-addext", "subjectAltName=DNS:hooks.example.com", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with receiver(certificate=(key, certificate)) as server:
        port = server.address.rsplit(":", 1)[1].split("/")[0]
        names(monkeypatch, "127.0.0.1")
        assert sent(f"https://hooks.example.com:{port}/hook") == Told(204)
        assert "CERTIFICATE_VERIFY_FAILED" in sent(f"https://other.example.com:{port}/hook").error
        assert [got.headers["Host"] for got in server.got] == [f"hooks.example.com:{port}"]


def test_it_is_sent_from_inside_an_event_loop_too(open_loopback: None) -> None:
    async def inside() -> Told:
        return sent(server.address)

    with receiver() as server:
        assert own_loop.run(inside()).status == 204
