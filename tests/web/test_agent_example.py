"""docs/examples/agent.py as an agent runs it: its own process, the live API, and a server that speaks OpenAI's protocol."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from openai import OpenAI
from pytest_django.live_server_helper import LiveServer

from console.models import Discovery, Role
from console.services import artifacts, runtime
from console.services.actor import SYSTEM
from tests import make
from tests.conftest import ROOT
from tests.fakes import FakeEncoder

EXAMPLE = ROOT / "docs" / "examples" / "agent.py"


class Provider(ThreadingHTTPServer):
    """``POST /v1/chat/completions``: first a tool call, then, once the tool has answered, text."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Completions)
        self.requests: list[dict[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    @property
    def system_prompts(self) -> list[str]:
        return [request["messages"][0]["content"] for request in self.requests]


class _Completions(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        if self.path != "/v1/chat/completions" or self.headers["Authorization"] != "Bearer provider-key":
            self._send(404, {"error": {"message": "not here", "type": "invalid_request_error"}})
            return
        call = {
            "id": "call_1",
            "type": "function",
            "function": {"name": "find_booking", "arguments": '{"code": "KX81"}'},
        }
        message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
        if request["messages"][-1]["role"] == "tool":
            message = {
                "role": "assistant",
                "content": f"Your flight {json.loads(request['messages'][-1]['content'])['flight']}.",
            }
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
        }
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        body = {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": request["model"],
            "choices": [choice],
            "usage": usage,
        }
        self._send(200, body)

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def provider() -> Iterator[Provider]:
    server = Provider()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.fixture
def agent() -> ModuleType:
    spec = importlib.util.spec_from_file_location("agent_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.TIMEOUT = 60.0  # type: ignore[attr-defined]  # two busy cores may take their time; what is tested is the answer
    return module


def run(provider: Provider, said: str, **more: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PATH": os.environ["PATH"],
        "OPENAI_API_KEY": "provider-key",
        "OPENAI_BASE_URL": provider.url,
        **more,
    }
    command = [sys.executable, str(EXAMPLE), said]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.django_db(transaction=True)
def test_a_turn_over_http(world: make.World, live_server: LiveServer, provider: Provider) -> None:
    console = {
        "SIGNALBOX_URL": live_server.url,
        "SIGNALBOX_TOKEN": make.token(world.inventory, Role.VIEWER, name="shop agent"),
        "SIGNALBOX_INVENTORY": "tiny",
        "CONVERSATION": "chat-1",
    }
    done = run(provider, "please cancel my order", **console)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Your flight SB 812 to Chicago.\n"
    assert [request["messages"][-1]["role"] for request in provider.requests] == ["user", "tool"]
    prompt = provider.system_prompts[0]
    assert make.TEXTS["cancel-order"] in prompt
    assert make.TEXTS["refund-status"] not in prompt
    assert provider.system_prompts[1] == prompt, "asked once per customer turn, not once per model call"
    recorded = Discovery.objects.get()
    assert (recorded.conversation, recorded.agent, recorded.origin) == ("chat-1", "shop agent", "live")


@pytest.mark.django_db(transaction=True)
def test_when_discover_fails_the_model_gets_every_policy(
    world: make.World,
    live_server: LiveServer,
    provider: Provider,
    agent: ModuleType,
    encoder: FakeEncoder,
    capsys: pytest.CaptureFixture[str],
) -> None:
    artifacts.edit_artifact(world.change, by=SYSTEM, mode="off")
    policies = agent.HttpPolicies(live_server.url, make.token(world.inventory, Role.VIEWER), "tiny")
    client = OpenAI(api_key="provider-key", base_url=provider.url)
    encoder.fail_next = 1
    messages = [{"role": "user", "content": "please cancel my order"}]
    assert agent.reply(client, "any-model", policies, messages) == "Your flight SB 812 to Chicago."
    assert "503" in capsys.readouterr().err
    for key in ("cancel-order", "refund-status"):
        assert f"--- begin policy: {key} ---" in provider.system_prompts[0]
        assert make.TEXTS[key] in provider.system_prompts[0]
    assert make.TEXTS["change-order"] not in provider.system_prompts[0], "off is off"
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "assistant"]
    messages.append({"role": "user", "content": "thank you, goodbye"})
    agent.reply(client, "any-model", policies, messages)
    assert make.TEXTS["refund-status"] not in provider.system_prompts[-1], "the next turn is filtered again"
    client.close()


@pytest.mark.django_db(transaction=True)
def test_a_console_that_is_gone_or_slow_hides_nothing(
    world: make.World, live_server: LiveServer, agent: ModuleType
) -> None:
    policies = agent.HttpPolicies(live_server.url, make.token(world.inventory, Role.VIEWER), "tiny")
    messages = [{"role": "user", "content": "please cancel my order"}]
    assert make.TEXTS["refund-status"] not in policies.block(messages)
    policies.base = "http://127.0.0.1:1/api"
    assert all(text in policies.block(messages) for text in make.TEXTS.values())
    policies.base = live_server.url
    assert all(text in policies.block(messages) for text in make.TEXTS.values()), "an HTML page is no answer"
    with socket.create_server(
        ("127.0.0.1", 0)
    ) as silent:  # the live server would still be at work when the test has ended
        policies.base = f"http://127.0.0.1:{silent.getsockname()[1]}"
        agent.TIMEOUT = 0.1  # type: ignore[attr-defined]
        assert all(text in policies.block(messages) for text in make.TEXTS.values()), "too slow is no answer either"


@pytest.mark.django_db
def test_from_a_bundle(
    world: make.World, provider: Provider, agent: ModuleType, encoder: FakeEncoder, tmp_path: Path
) -> None:
    file = tmp_path / "tiny.sqb"
    runtime.build(world.inventory, world.inventory.live_release).save(file)
    policies = agent.BundlePolicies(file, encoder)
    client = OpenAI(api_key="provider-key", base_url=provider.url)
    agent.reply(client, "any-model", policies, [{"role": "user", "content": "please cancel my order"}])
    assert make.TEXTS["cancel-order"] in provider.system_prompts[0]
    assert make.TEXTS["refund-status"] not in provider.system_prompts[0]
    encoder.fail_next = 1
    agent.reply(client, "any-model", policies, [{"role": "user", "content": "please cancel my order"}])
    assert all(text in provider.system_prompts[-1] for text in make.TEXTS.values())
    client.close()


def test_the_source_is_named_by_the_environment(agent: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="SIGNALBOX_URL"):
        agent.policies_from({})
    assert agent.run_tool("find_booking", '{"code": "KX81"}')["code"] == "KX81"
    assert "JSONDecodeError" in agent.run_tool("find_booking", "{")["error"]
    assert "KeyError" in agent.run_tool("no_such_tool", "{}")["error"]
