"""Playground: a typed conversation, and what each policy would do at each of its turns. Nothing typed here is stored."""

import json
import re
from dataclasses import dataclass, field
from math import ceil
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
from sq_core.cumulative import cumulative_mode
from sq_core.decision import Outcome

ROLES = ("user", "assistant")
NAMES = {
    "user": "user", "customer": "user", "client": "user", "human": "user",
    "assistant": "assistant", "agent": "assistant", "bot": "assistant", "ai": "assistant",
}  # fmt: skip
_LINE = re.compile(rf"\A\s*({'|'.join(NAMES)})\s*:\s?(.*)\Z", re.IGNORECASE | re.DOTALL)
MOST_CHARACTERS = 100_000
MOST_MESSAGES = 200
MOST_READ = (
    40  # texts for the encoder, each customer message and each prefix one: some three seconds on a core of its own
)
WINDOW = 500  # characters that an encoder which reads prefixes whole takes as one text


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
    said, paste, error = _typed(request)
    release: runtime.ReleaseName = "live" if request.POST.get("release") == "live" else "draft"
    context: dict[str, Any] = {"release": release, "next_role": _next_role(said), "paste": paste, "turns": []}
    status = 200
    if request.method == "POST":
        try:
            if error is not None:
                raise error
            context |= _worked_out(inventory, said, release)
        except ServiceError as refusal:
            context["error"], status = refusal, refusal.status
    context |= {"said": said, "names": context.get("names", {})}
    template = "playground/playground.html#worked" if wants_part(request) else "playground/playground.html"
    # An encoder that is away is said in the page itself: htmx swaps no 5xx, and the page is what people need here.
    return render(request, template, context, status=200 if status == 503 and wants_part(request) else status)


def _typed(request: Request) -> tuple[list[Said], str, Invalid | None]:
    """The messages of the form, empty ones left out, then those pasted as "customer: …" lines; what was pasted and is too
    much to be taken apart; and why."""
    roles, texts = request.POST.getlist("role"), request.POST.getlist("text")
    said = [
        Said(role if role in ROLES else "user", text.replace("\r\n", "\n"))
        for role, text in zip(roles, texts, strict=False)
        if text.strip()
    ]
    paste = request.POST.get("paste", "").replace("\r\n", "\n")
    given = len(paste) + sum(len(one.content) for one in said)
    hint = _("Leave some of it out, or import it as a conversation.")
    if given > MOST_CHARACTERS:
        what = _("This has %(n)s characters; the playground takes %(most)s.") % {"n": given, "most": MOST_CHARACTERS}
        return said, paste, Invalid(what, field="text", hint=hint)
    pasted = parse(paste)
    if len(said) + len(pasted) > MOST_MESSAGES:
        count = {"n": len(said) + len(pasted), "most": MOST_MESSAGES}
        what = _("This has %(n)s messages; the playground takes %(most)s.") % count
        return said, paste, Invalid(what, field="text", hint=hint)
    return said + pasted, "", None


def parse(text: str) -> list[Said]:
    """ "customer: …" and "agent: …" lines as messages; a line without a name goes on with the message before it."""
    result: list[tuple[str, list[str]]] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        found = _LINE.match(line)
        if found:
            result.append((NAMES[found[1].lower()], [found[2]]))
        elif result:
            result[-1][1].append(line)
        elif line.strip():
            result.append(("user", [line]))
    said = [Said(role, "\n".join(lines).strip()) for role, lines in result]
    return [one for one in said if one.content]


def _next_role(said: list[Said]) -> str:
    return "assistant" if said and said[-1].role == "user" else "user"


def _check_work(messages: list[dict[str, str]], encoder_id: str) -> None:
    """Raises Invalid for more texts than an answer within a few seconds allows."""
    whole = cumulative_mode(encoder_id) == "whole"
    read, prefix = 0, 0
    for message in messages:
        prefix += len(message["content"])
        if message["role"] == "user":
            read += ceil(len(message["content"]) / WINDOW) + ceil(prefix / WINDOW) if whole else 2
    if read > MOST_READ:
        n = sum(message["role"] == "user" for message in messages)
        most = max(1, n * MOST_READ // read)
        raise Invalid(
            _("This has %(n)s customer messages; the playground takes about %(most)s of this length.")
            % {"n": n, "most": most}
            if whole
            else _("This has %(n)s customer messages; the playground takes %(most)s.") % {"n": n, "most": most},
            field="text",
            hint=_("Leave the earliest out, or import it as a conversation."),
        )


def _worked_out(inventory: Inventory, said: list[Said], release: runtime.ReleaseName) -> dict[str, Any]:
    messages = [{"role": one.role, "content": clean_text(one.content)[0]} for one in said]
    if not any(m["role"] == "user" for m in messages):
        raise Invalid(_("There is no customer message yet."), field="text", hint=_("Type what a customer would write."))
    bundle = runtime.runtime(inventory, release)
    _check_work(messages, bundle.encoder_id)
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
