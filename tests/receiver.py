"""A real HTTP server on the loopback that webhooks are sent to, answering as the test says."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Got:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """``answer`` writes the response; ``got`` is what came, in order."""

    address: str = ""
    answer: Answer = field(default=lambda handler: status(handler, 204))
    got: list[Got] = field(default_factory=list)


def status(
    handler: BaseHTTPRequestHandler, code: int, headers: dict[str, str] | None = None, body: bytes = b""
) -> None:
    handler.send_response(code)
    for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
        handler.send_header(name, value)
    handler.end_headers()
    if body:
        handler.wfile.write(body)


@contextmanager
def receiver(
    host: str = "127.0.0.1", path: str = "/hook?a=1", certificate: tuple[Path, Path] | None = None
) -> Iterator[Receiver]:
    """``certificate`` is (key, certificate), as PEM files: then it speaks TLS."""
    made = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.got.append(Got(self.path, dict(self.headers.items()), body))
            self.close_connection = True
            with suppress(OSError):  # the sender has gone
                made.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A caller who turns away at the certificate is no noise of the test's."""

        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    server = Server((host, 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate[1], certificate[0])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    named = f"[{host}]" if ":" in host else host
    made.address = f"http://{named}:{server.server_address[1]}{path}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def dripping(every_s: float, *, head: bool) -> Answer:
    """A byte at a time, never an end: of the header, or of the body."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + (b"X-Slow: " if head else b"\r\n"))
        for _ in range(600):
            time.sleep(every_s)
            handler.wfile.write(b"a")
            handler.wfile.flush()

    return answer
