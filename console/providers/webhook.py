"""Telling a webhook's address: one POST to a host that was checked, within ten seconds, following nobody.

The host is resolved once and every address it has is checked; the connection then goes to a checked address, so that no
second answer of a name server can lead it elsewhere, while TLS and the Host header keep to the name. Redirects are not
followed, proxies of the environment are not used, of the answer's body a kilobyte is read.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Thread
from urllib.parse import SplitResult, urlsplit

import httpx2
from django.conf import settings

from sq_core.retry_after import retry_after

CONNECT_S, TOTAL_S = 5.0, 10.0
READ = 1_000  # bytes of an answer's body
SAID = 200  # characters of an error
ADDRESSES = 4  # of a host that are tried in turn
PORTS = {"https": 443, "http": 80}
NAT64 = ipaddress.ip_network("64:ff9b::/96")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Refused(ValueError):
    """An address that nothing is sent to; the message says why, and the mend."""


@dataclass(frozen=True)
class Told:
    """What came of one try: the HTTP status (None = no answer), "" or why it counts as failed, seconds the receiver asks
    to be left alone."""

    status: int | None = None
    error: str = ""
    retry_after: float | None = None

    @property
    def ok(self) -> bool:
        return not self.error


@dataclass(frozen=True)
class Post:
    """``key`` names it in the answer of `send`; ``body`` goes out as it is."""

    key: int
    address: str
    body: bytes
    headers: Mapping[str, str]


# ------------------------------------------------------------------------------------------------------------ who is told
def parsed(address: str) -> SplitResult:
    """The address's parts. Raises Refused for what no webhook may have, without asking a name server."""
    if any(ord(c) <= 32 or ord(c) > 126 for c in address):
        raise Refused("It holds a space or a character outside ASCII. Write the host as xn--… and the path with %XX.")
    try:
        parts = urlsplit(address)
        port = parts.port
        httpx2.URL(address)
    except (ValueError, httpx2.InvalidURL):
        raise Refused("It cannot be read. Give https://host/path.") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise Refused("It does not begin with https:// and a host.")
    if parts.username is not None or parts.password is not None:
        raise Refused("It holds a user name or password. The signature says who sends; leave them out.")
    if port == 0 or parts.fragment or "#" in address:
        raise Refused("It holds port 0 or a part after #, which no server gets.")
    literal = _literal(parts.hostname)
    if literal is not None:
        check(literal)
    loopback = literal is not None and literal.is_loopback
    if parts.scheme == "http" and not (loopback or settings.WEBHOOK_HTTP):
        raise Refused(
            "It is http, which anybody on the way can read. Use https, or have the server's WEBHOOK_HTTP set."
        )
    return parts


def _literal(host: str) -> Address | None:
    """The address that the host is written as, in any of the forms that a resolver takes (2130706433, 0177.1, 0x7f.1)."""
    if host.rstrip(".") == "localhost" or host.rstrip(".").endswith(".localhost"):
        return ipaddress.IPv4Address("127.0.0.1")
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


def check(address: Address) -> None:
    """Raises Refused for an address that is not public, unless WEBHOOK_NETWORKS names its network."""
    if any(address in network for network in settings.WEBHOOK_NETWORKS):
        return
    inner = _inside(address)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise Refused(f"{address} is an IPv4 address written as IPv6.")
    local = isinstance(inner, ipaddress.IPv6Address) and inner.is_site_local
    if not inner.is_global or inner.is_multicast or inner.is_reserved or local:
        raise Refused(f"{address} is no public address. The server's WEBHOOK_NETWORKS can allow its network.")


def _inside(address: Address) -> Address:
    """The IPv4 address that a translator would make of it (6to4, Teredo, NAT64), else itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def resolve(host: str, port: int) -> list[str]:
    """The host's addresses, every one checked. Raises Refused where one of them is, OSError where there are none."""
    found: dict[str, None] = {}
    for _family, _type, _proto, _name, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        check(ipaddress.ip_address(str(place[0]).partition("%")[0]))
        found[str(place[0])] = None
    return list(found)[:ADDRESSES]


# ------------------------------------------------------------------------------------------------------------------ sending
def send(posts: Sequence[Post]) -> dict[int, Told]:
    """Send all of them side by side; each ends within ``TOTAL_S``, whatever its receiver does.

    In a thread of its own: whoever calls may be inside an event loop already, and none runs inside another.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="webhook-sender") as pool:
        return pool.submit(lambda: asyncio.run(_send(posts))).result()


async def _send(posts: Sequence[Post]) -> dict[int, Told]:
    context = httpx2.create_ssl_context()  # the library's roots, or SSL_CERT_FILE's
    done = await asyncio.gather(*(_within(post, context) for post in posts))
    return {post.key: told for post, told in zip(posts, done, strict=True)}


async def _within(post: Post, context: ssl.SSLContext) -> Told:
    try:
        async with asyncio.timeout(TOTAL_S):
            return await _tried(post, context)
    except TimeoutError:
        return Told(error=f"No whole answer within {TOTAL_S:g} seconds.")
    except Refused as error:
        return Told(error=f"Not sent: {error}"[:SAID])
    except Exception as error:  # noqa: BLE001  (whatever one receiver answers, the others are told what came of theirs)
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return Told(error=_printable(text)[:SAID])


async def _tried(post: Post, context: ssl.SSLContext) -> Told:
    parts = parsed(post.address)
    host, port = str(parts.hostname), parts.port or PORTS[parts.scheme]
    addresses = await asyncio.wrap_future(_resolved(host, port))
    if parts.scheme == "http" and not settings.WEBHOOK_HTTP and not all(_is_loopback(a) for a in addresses):
        raise Refused("The host is not this machine, and http is for this machine only.")
    timeout = httpx2.Timeout(TOTAL_S, connect=CONNECT_S)
    async with httpx2.AsyncClient(verify=context, timeout=timeout, trust_env=False, follow_redirects=False) as client:
        for address in addresses[:-1]:
            try:
                return await _post(client, post, parts, address)
            except httpx2.ConnectError:  # a host with an IPv6 address that cannot be reached from here, say
                continue
        return await _post(client, post, parts, addresses[-1])


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _resolved(host: str, port: int) -> Future[list[str]]:
    """In a thread that nobody waits for: a name server that is silent holds up neither the others nor the end."""
    future: Future[list[str]] = Future()

    def ask() -> None:
        try:
            found = resolve(host, port)
        except Exception as error:  # noqa: BLE001  (handed on to who waits)
            _hand_on(future, error=error)
        else:
            _hand_on(future, found=found)

    Thread(target=ask, name="webhook-resolver", daemon=True).start()
    return future


def _hand_on(future: Future[list[str]], *, found: list[str] | None = None, error: Exception | None = None) -> None:
    if not future.set_running_or_notify_cancel():
        return  # it took longer than anybody waited
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(found or [])


async def _post(client: httpx2.AsyncClient, post: Post, parts: SplitResult, address: str) -> Told:
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else str(parts.hostname)
    url = httpx2.URL(post.address).copy_with(host=address)
    named = host if parts.port in (None, PORTS[parts.scheme]) else f"{host}:{parts.port}"
    headers = {**post.headers, "Host": named, "Accept-Encoding": "identity"}
    extensions = {"sni_hostname": str(parts.hostname)}
    async with client.stream("POST", url, content=post.body, headers=headers, extensions=extensions) as answer:
        said = b""
        async for piece in answer.aiter_raw(READ):
            said += piece
            if len(said) >= READ:
                break
    return _judged(answer, said[:READ])


def _judged(answer: httpx2.Response, said: bytes) -> Told:
    status = answer.status_code
    if 200 <= status < 300:
        return Told(status)
    if 300 <= status < 400:
        return Told(status, f"Answered {status}: redirects are not followed. Give the address it leads to."[:SAID])
    text = _printable(said.decode("utf-8", "replace"))
    return Told(status, f"Answered {status}: {text}".rstrip(": ")[:SAID], retry_after(answer.headers))


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)
