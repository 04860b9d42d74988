"""A scripted OpenAI-compatible server on loopback: each request is answered by a function that may be good, slow or broken.

    with scripted.serve(script) as server:
        ...  # server.base_url, server.count, server.asks

A script takes an `Ask` and gives an `Answer`. `well` is the script of a server that does what it is asked; `by_turns` plays
answers in order and then goes on well.
"""

import email
import json
import re
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from console.providers import openai_chat

KEPT = 2_000  # requests remembered whole; ``count`` counts them all
_ITEM = re.compile(r'^<item ([0-9a-f]{20}) id="([^"]+)">$', re.MULTILINE)
_LINE = re.compile(r'^\{"n": \d+, "from": .*\}$', re.MULTILINE)
_COUNT = re.compile(r"Write (\d+) (messages that need|near-misses)")


@dataclass(frozen=True)
class Ask:
    """What a request asked for, as a model would read it."""

    number: int  # 1 for the server's first
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    path: str

    @property
    def prompt(self) -> str:
        return "\n".join(message["content"] for message in self.body.get("messages", ()))

    @property
    def form(self) -> str:
        """json_schema, json_object or "" for plain text."""
        return str((self.body.get("response_format") or {}).get("type", ""))

    @property
    def ids(self) -> list[str]:
        """The artifacts that a judge is asked about."""
        return [name for _, name in _ITEM.findall(self.prompt)]

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The conversation that a judge is shown."""
        return [json.loads(line) for line in _LINE.findall(self.prompt)]

    @property
    def wanted(self) -> tuple[int, str]:
        """How many messages a generator is asked for, and of which side; (0, "") for a judge."""
        found = _COUNT.search(self.prompt)
        if found is None:
            return 0, ""
        return int(found[1]), "signal" if found[2].startswith("messages") else "anti_signal"


@dataclass(frozen=True)
class Answer:
    """An HTTP answer, or the lack of one."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    cut: int | None = None  # bytes of the body sent before the connection is dropped
    reset: bool = False  # no answer at all: the connection is reset


Script = Callable[[Ask], Answer]


# --------------------------------------------------------------------------------------------------------------- answers
def completion(text: str | None, *, tokens: tuple[int, int, int] = (100, 20, 0), finish: str = "stop") -> Answer:
    """A chat completion; ``tokens`` in, out, and in from the cache."""
    body = {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "scripted",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}],
        "usage": {
            "prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": tokens[0] + tokens[1],
            "prompt_tokens_details": {"cached_tokens": tokens[2]},
        },
    }  # fmt: skip
    return Answer(body=json.dumps(body).encode())


def refusal(
    status: int, message: str = "no", *, param: str | None = None, retry_after: str = "", **headers: str
) -> Answer:
    """An error as OpenAI writes it."""
    body = {"error": {"message": message, "type": "error", "param": param, "code": None}}
    more = {"Retry-After": retry_after} if retry_after else {}
    return Answer(status=status, body=json.dumps(body).encode(), headers=more | headers)


RESET = Answer(reset=True)
EMPTY_BODY = Answer()


def slowly(seconds: float, answer: Answer) -> Answer:
    return replace(answer, delay=seconds)


def truncated(answer: Answer) -> Answer:
    """The connection breaks in the middle of the body."""
    return replace(answer, cut=len(answer.body) // 2)


def score_of(ask: Ask, artifact: str) -> int:
    """A judge of fixed taste: 5 where the last message shares a word of the key, else 1."""
    last = ask.lines[-1]["text"].lower() if ask.lines else ""
    return 5 if any(word in last for word in artifact.split("-")) else 1


def judgements(ask: Ask, score: Callable[[Ask, str], int] = score_of) -> str:
    rows = [
        {"id": name, "score": score(ask, name), "reason": "It asks for it." if score(ask, name) >= 3 else ""}
        for name in ask.ids
    ]
    return json.dumps({"judgements": rows})


def written(ask: Ask) -> str:
    """As many messages as are asked for, no two near each other, none the same twice on this server."""
    count, side = ask.wanted
    texts = [f"{side} {ask.number}x{n} " + " ".join(f"w{ask.number}q{n}q{k}" for k in range(4)) for n in range(count)]
    return json.dumps({"messages": texts})


def well(ask: Ask) -> Answer:
    return completion(judgements(ask) if ask.ids else written(ask))


def by_turns(*answers: Answer | Script, then: Script = well) -> Script:
    """Play these in the order of the requests, then go on with ``then``."""

    def script(ask: Ask) -> Answer:
        if ask.number > len(answers):
            return then(ask)
        answer = answers[ask.number - 1]
        return answer if isinstance(answer, Answer) else answer(ask)

    return script


def saying(text: str, **more: Any) -> Script:
    """The same text to everything."""
    return lambda ask: completion(text, **more)


# --------------------------------------------------------------------------------------------------------------- batches
@dataclass
class Desk:
    """The batch API: files and batches as they are kept at the provider. Nothing is done until `finish`."""

    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    refuse: Answer | None = None  # instead of every answer of this desk

    def post_file(self, content_type: str, body: bytes) -> dict[str, Any]:
        parts = email.message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
        (data,) = [part.get_payload(decode=True) for part in parts.walk() if part.get_filename()]
        return {"id": self.keep(data), "object": "file", "purpose": "batch", "bytes": len(data)}

    def keep(self, data: bytes) -> str:
        name = f"file-{len(self.files) + 1}"
        self.files[name] = data
        return name

    def post_batch(self, body: Mapping[str, Any]) -> dict[str, Any]:
        name = f"batch-{len(self.batches) + 1}"
        self.batches[name] = {
            "id": name, "object": "batch", "status": "in_progress", "created_at": int(time.time()), **body,
        }  # fmt: skip
        return self.batches[name]

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.files[self.batches[name]["input_file_id"]].splitlines()]

    def finish(
        self, script: Script = well, *, status: str = "completed", most: int | None = None, message: str = ""
    ) -> None:
        """End every open batch: the first ``most`` calls of each (all by default) are answered by the script."""
        for batch in self.batches.values():
            if batch["status"] != "in_progress":
                continue
            answered = []
            for number, line in enumerate(self.lines(batch["id"])[:most], start=1):
                answer = script(Ask(number, line["body"], {}, line["url"]))
                try:
                    body = json.loads(answer.body)
                except ValueError:
                    body = None
                response = {"status_code": answer.status, "request_id": "r", "body": body}
                answered.append({"id": "x", "custom_id": line["custom_id"], "response": response, "error": None})
            good = [row for row in answered if row["response"]["status_code"] == 200]
            bad = [row for row in answered if row["response"]["status_code"] != 200]
            batch["status"] = status
            for field_, rows in (("output_file_id", good), ("error_file_id", bad)):
                if rows:
                    batch[field_] = self.keep("\n".join(map(json.dumps, rows)).encode())
            if message:
                batch["errors"] = {"object": "list", "data": [{"code": "c", "message": message}]}

    def answer(self, path: str, content_type: str, body: bytes) -> Answer | None:
        """None where the path is not the desk's."""
        name = path.partition("?")[0].removeprefix("/v1/")
        if not name.startswith(("files", "batches")):
            return None
        if self.refuse is not None:
            return self.refuse
        if name == "files":
            return self._json(self.post_file(content_type, body))
        if name == "batches" and body:
            return self._json(self.post_batch(json.loads(body)))
        if name == "batches":
            newest = sorted(self.batches.values(), key=lambda batch: -int(batch["id"].removeprefix("batch-")))
            return self._json({"object": "list", "data": newest, "has_more": False})
        if name.endswith("/content"):
            return Answer(body=self.files[name.split("/")[1]], headers={"Content-Type": "application/octet-stream"})
        batch = self.batches[name.split("/")[1]]
        batch["status"] = "cancelled"
        return self._json(batch)

    @staticmethod
    def _json(value: Mapping[str, Any]) -> Answer:
        return Answer(body=json.dumps(value).encode())


# ---------------------------------------------------------------------------------------------------------------- server
class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.count = 0
        self.asks: deque[Ask] = deque(maxlen=KEPT)
        self.desk = Desk()
        self._lock = threading.Lock()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def next_ask(self, body: Mapping[str, Any], headers: Mapping[str, str], path: str) -> Ask:
        with self._lock:
            self.count += 1
            ask = Ask(self.count, body, headers, path)
            self.asks.append(ask)
            return ask

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = self.server.desk.answer(self.path, self.headers.get("Content-Type", ""), data)
        if answer is None:
            headers = {k.lower(): v for k, v in self.headers.items()}
            answer = self.server.script(self.server.next_ask(json.loads(data or b"{}"), headers, self.path))
        self._send(answer)

    def _send(self, answer: Answer) -> None:
        if answer.delay:
            time.sleep(answer.delay)
        if answer.reset:
            self._drop()
            return
        sent = answer.body if answer.cut is None else answer.body[: answer.cut]
        head = {"Content-Type": "application/json", "Content-Length": str(len(answer.body)), **answer.headers}
        lines = [f"HTTP/1.1 {answer.status} scripted", *(f"{name}: {value}" for name, value in head.items()), "", ""]
        self.wfile.write("\r\n".join(lines).encode() + sent)  # one write: head and body in one packet
        if answer.cut is not None:
            self._drop()

    def _drop(self) -> None:
        self.wfile.flush()
        # Linger of zero: closing sends a reset instead of an orderly end.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def finish(self) -> None:
        try:
            super().finish()
        except OSError:  # the client went first
            self.rfile.close()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Tests read the server's own lists."""


@contextmanager
def serve(script: Script = well) -> Iterator[Server]:
    server = Server(script)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        openai_chat.forget()  # connections first: the port may be the next server's
        server.shutdown()
        server.server_close()
        thread.join()
