"""Playground: a typed conversation, and what each policy would do at each of its turns. Nothing typed here is stored."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from console.models import Inventory, Role
from console.permissions import Request, require, wants_part
from console.services import conversations, runtime, score
from console.services.errors import Invalid, ServiceError
from sq_core.conversation import clean_text
from sq_core.decision import Outcome

ROLES = ("user", "assistant")
NAMES = {
    "user": "user", "customer": "user", "client": "user", "human": "user",
    "assistant": "assistant", "agent": "assistant", "bot": "assistant", "ai": "assistant",
}  # fmt: skip
_LINE = re.compile(rf"\A\s*({'|'.join(NAMES)})\s*:\s?(.*)\Z", re.IGNORECASE | re.DOTALL)
MOST_CHARACTERS = 400_000
MOST_MESSAGES = 200


@dataclass(frozen=True)
class Said:
    role: str
    content: str


@dataclass
class Turn:
    """A user turn: its text and the policies on both sides of their cut-offs, strongest first."""

    user_turn: int
    text: str
    selected: list[Outcome]
    out: list[Outcome]
    started: set[str] = field(default_factory=set)

    def steps(self, polarity: str) -> str:
        """The typed text as an example, in the shape the impact strip's form takes; written by a person."""
        return json.dumps([{"action": "add", "text": self.text, "polarity": polarity}], ensure_ascii=False)

    @property
    def as_signal(self) -> str:
        return self.steps("signal")

    @property
    def as_anti_signal(self) -> str:
        return self.steps("anti_signal")


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.VIEWER)
def playground(request: Request, inventory: Inventory) -> HttpResponse:
    """A POST works out the typed conversation. What was typed stays in the form whatever happens."""
    said = _typed(request)
    release: runtime.ReleaseName = "live" if request.POST.get("release") == "live" else "draft"
    context: dict[str, Any] = {"release": release, "next_role": _next_role(said), "turns": [], "error": None}
    status = 200
    if request.method == "POST":
        try:
            context |= _worked_out(inventory, said, release)
        except ServiceError as error:
            context["error"], status = error, error.status
    context |= {"said": said, "names": context.get("names", {})}
    template = "playground/playground.html#worked" if wants_part(request) else "playground/playground.html"
    # An encoder that is away is said in the page itself: htmx swaps no 5xx, and the page is what people need here.
    return render(request, template, context, status=200 if status == 503 and wants_part(request) else status)


def _typed(request: Request) -> list[Said]:
    """The messages of the form, empty ones left out; then those pasted as "customer: …" lines."""
    roles, texts = request.POST.getlist("role"), request.POST.getlist("text")
    said = [
        Said(role if role in ROLES else "user", text.replace("\r\n", "\n"))
        for role, text in zip(roles, texts, strict=False)
        if text.strip()
    ]
    return said + parse(request.POST.get("paste", ""))


def parse(text: str) -> list[Said]:
    """ "customer: …" and "agent: …" lines as messages; a line without a name goes on with the message before it."""
    result: list[Said] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        found = _LINE.match(line)
        if found:
            result.append(Said(NAMES[found[1].lower()], found[2]))
        elif result:
            result[-1] = Said(result[-1].role, f"{result[-1].content}\n{line}")
        elif line.strip():
            result.append(Said("user", line))
    return [Said(one.role, one.content.strip()) for one in result if one.content.strip()]


def _next_role(said: list[Said]) -> str:
    return "assistant" if said and said[-1].role == "user" else "user"


def _worked_out(inventory: Inventory, said: list[Said], release: runtime.ReleaseName) -> dict[str, Any]:
    messages = [{"role": one.role, "content": clean_text(one.content)[0]} for one in said]
    if not any(m["role"] == "user" for m in messages):
        raise Invalid(_("There is no customer message yet."), field="text", hint=_("Type what a customer would write."))
    if len(messages) > MOST_MESSAGES or sum(len(m["content"]) for m in messages) > MOST_CHARACTERS:
        raise Invalid(
            _("This is too long for the playground."), field="text", hint=_("Import it as a conversation instead.")
        )
    bundle = runtime.runtime(inventory, release)
    outcomes = score.outcomes_of_messages(inventory, messages, release=release)
    texts = [m["content"] for m in messages if m["role"] == "user"]
    turns: list[Turn] = []
    before: set[str] = set()
    for number, (text, found) in enumerate(zip(texts, outcomes, strict=True)):
        rows = sorted(found, key=lambda o: (o.margin is None, (o.cutoff or 0.0) - (o.margin or 0.0), o.artifact))
        on = {o.artifact for o in found if o.fired}
        turns.append(
            Turn(number, text, [o for o in rows if o.fired], [o for o in rows if not o.fired], started=on - before)
        )
        before = on
    turns.reverse()  # the newest message is what was just typed
    return {"turns": turns, "names": conversations.names_of(bundle), "number": bundle.release}
