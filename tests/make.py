"""Typed helpers that build what a test needs through the services, and one tiny named world.

The world: a shop's agent with three neighbour policies (``cancel-order``, ``change-order``, ``refund-status``) whose
examples share words on purpose, five conversations of different scenarios, all judged, everything fitted. People:
``vera`` (viewer), ``rob`` (reviewer), ``ada`` (author), ``paul`` (publisher), ``anna`` (admin), and ``sam``, a stranger,
who is admin of another inventory and must find nothing here.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import connection

from console.models import (
    Artifact,
    Conversation,
    Exemplar,
    ExemplarStatus,
    Inventory,
    Polarity,
    QueryState,
    Role,
    Source,
    User,
)
from console.services import (
    accounts,
    artifacts,
    embed,
    inventories,
    refitting,
    runtime,
)
from console.services.actor import SYSTEM, Actor, person
from console.services.ingest_conversations import import_conversations
from console.services.ingest_judgements import import_judgements
from sq_core import conversation as log
from sq_core.decision import Outcome
from sq_core.readers import JudgementRow
from tests import snapshot

JUDGE = "tiny-judge"
PASSWORD = "a long enough one"

SIGNALS: dict[str, list[str]] = {
    "cancel-order": [
        "please cancel my order",
        "I want to cancel the order I placed yesterday",
        "cancel everything, I do not need the parcel any more",
        "how can I call the order off",
    ],
    "change-order": [
        "can I change the address of my order",
        "I need another colour in my order",
        "please change the size of the shoes I ordered",
        "swap the red lamp for the blue lamp in my order",
    ],
    "refund-status": [
        "where is my refund",
        "the money for my returned parcel has not arrived",
        "how long does a refund take",
        "I sent the shoes back, when do I get my money",
    ],
}
ANTI_SIGNALS: dict[str, list[str]] = {
    "cancel-order": [
        "can I change the order instead",
        "when does my order arrive",
        "do you sell lamps",
        "thank you, goodbye",
    ],
    "change-order": [
        "please cancel the order",
        "what did I order last month",
        "is the blue lamp in stock",
        "thank you, goodbye",
    ],
    "refund-status": [
        "I want to cancel my order",
        "what does the lamp cost in money",
        "can I pay by card",
        "thank you, goodbye",
    ],
}
TEXTS = {
    "cancel-order": "An order may be cancelled until it has left the warehouse. Ask for the order number first.",
    "change-order": "Address, size and colour of an order may be changed until it has left the warehouse.",
    "refund-status": "A refund is paid within five working days after the parcel came back. Name the day.",
}
# What the customer says, turn by turn, with the policies that the judge finds relevant there (score 5; else 1).
TALKS: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    "talk-1": [
        ("hello there", ()),
        ("I would like to cancel my order of yesterday", ("cancel-order",)),
        ("and when do I get the money back", ("refund-status",)),
    ],
    "talk-2": [
        ("the size of my shoes is wrong, change it please", ("change-order",)),
        ("no, cancel them then", ("cancel-order",)),
        ("thank you", ()),
    ],
    "talk-3": [("where is the refund for my lamp", ("refund-status",)), ("fine, goodbye", ())],
    "talk-4": [("do you have a green lamp", ()), ("put the green lamp into my order instead", ("change-order",))],
    "talk-5": [("I do not want the parcel any more, stop it", ("cancel-order",)), ("thanks", ())],
}


@dataclass
class World:
    inventory: Inventory
    cancel: Artifact
    change: Artifact
    refund: Artifact
    talks: dict[str, Conversation]
    viewer: User
    reviewer: User
    author: User
    publisher: User
    admin: User
    stranger: User
    others: Inventory  # the stranger's inventory
    by_role: dict[str, User] = field(default_factory=dict)

    @property
    def by(self) -> Actor:
        """The author, as services take it."""
        return person(self.author)

    def state(self, talk: str, user_turn: int) -> QueryState:
        return self.talks[talk].states.get(user_turn=user_turn)

    def exemplar(self, artifact: Artifact, text: str) -> Exemplar:
        return Exemplar.objects.get(artifact=artifact, text=text)


def user(name: str, role: str | None = None, inventory: Inventory | None = None, *, superuser: bool = False) -> User:
    """Somebody who can sign in with ``PASSWORD``; with a role, a member of the inventory."""
    made = accounts.create_user(name, by=SYSTEM, password=PASSWORD, superuser=superuser)
    if role is not None and inventory is not None:
        accounts.set_role(made, inventory, role, by=SYSTEM)
    return made


def token(inventory: Inventory | None, role: str = Role.ADMIN, *, name: str = "") -> str:
    """The text of a fresh API token."""
    return accounts.mint_token(by=SYSTEM, name=name or f"{role} token", role=role, inventory=inventory)[1]


def bearer(text: str) -> dict[str, str]:
    """Headers for the test client: ``client.get(url, headers=bearer(token))``."""
    return {"Authorization": f"Bearer {text}"}


def inventory(slug: str = "tiny", **settings: Any) -> Inventory:
    return inventories.create_inventory(slug, by=SYSTEM, **settings)


def artifact(
    inv: Inventory,
    key: str,
    *,
    text: str = "",
    signals: Sequence[str] = (),
    anti_signals: Sequence[str] = (),
    **fields: Any,
) -> Artifact:
    return artifacts.create_artifact(
        inv,
        by=SYSTEM,
        key=key,
        name=fields.pop("name", key.replace("-", " ").capitalize()),
        text=text or f"What holds for {key}.",
        signals=signals,
        anti_signals=anti_signals,
        **fields,
    )


def messages(turns: Sequence[str]) -> tuple[log.Message, ...]:
    """User turns with an assistant's answer after each but the last."""
    items: list[dict[str, str]] = []
    for number, turn in enumerate(turns):
        if number:
            items.append({"role": "assistant", "content": "Let me have a look."})
        items.append({"role": "user", "content": turn})
    return log.messages_from_json(items)


def conversation(inv: Inventory, external_id: str, turns: Sequence[str], **fields: Any) -> Conversation:
    """A stored conversation, not embedded yet."""
    record = log.Conversation(external_id, messages(turns), **fields)
    report = import_conversations(inv, [record], by=SYSTEM)
    if report.rejected:
        raise AssertionError(report.errors)
    return Conversation.objects.get(inventory=inv, external_id=external_id)


def judge(inv: Inventory, external_id: str, user_turn: int, scores: Mapping[str, int], *, name: str = JUDGE) -> None:
    row = JudgementRow(conversation=external_id, user_turn=user_turn, judge=name, scores=scores)
    report = import_judgements(inv, [row], by=SYSTEM)
    if report.rejected:
        raise AssertionError(report.errors)


def outcomes(inv: Inventory, talk: Conversation) -> list[tuple[Outcome, ...] | None]:
    """Per user turn the draft's outcome of every policy, in the bundle's order; None = not embedded yet."""
    bundle = runtime.runtime(inv, "draft")
    centre = inventories.current_point(inv).centre
    vectors = runtime.conversation_vectors(inv, centre, talk) if centre else None
    done = bundle.outcomes(vectors) if vectors is not None else ()
    return [*done, *[None] * (talk.states.count() - len(done))]


def lines(path: Path, rows: Iterable[object]) -> None:
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")


def files(folder: Path, *, exemplars: str = "exemplars.jsonl") -> None:
    """The world's material as files that can be imported."""
    lines(folder / "policies.jsonl", [{"id": key, "name": key, "text": text} for key, text in TEXTS.items()])
    sides = [{"artifact": k, "signals": SIGNALS[k], "anti_signals": ANTI_SIGNALS[k]} for k in TEXTS]
    lines(folder / exemplars, sides)
    talks = {name: [{"role": "user", "content": text} for text, _ in turns] for name, turns in TALKS.items()}
    lines(folder / "conversations.jsonl", [{"id": name, "messages": said} for name, said in talks.items()])
    judged = [
        {"conversation": name, "user_turn": turn, "judge": "j", "scores": {k: 5 if k in needed else 1 for k in TEXTS}}
        for name, turns in TALKS.items()
        for turn, (_, needed) in enumerate(turns)
    ]
    lines(folder / "judgements.jsonl", judged)


def world() -> World:
    """The world; built through the services once per process and encoder, from then on its rows are put back as they were."""
    if Inventory.objects.exists() or User.objects.exists():  # its row numbers may be taken
        _build_world()
        return _find_world()
    key = (connection.settings_dict["NAME"], embed.named_encoder("minilm").id)
    if key in _worlds:
        snapshot.put_back(_worlds[key])
    else:
        _build_world()
        _worlds[key] = snapshot.take()
    return _find_world()


_worlds: dict[tuple[str, str], list[snapshot.Table]] = {}
_PEOPLE = {"vera": Role.VIEWER, "rob": Role.REVIEWER, "ada": Role.AUTHOR, "paul": Role.PUBLISHER, "anna": Role.ADMIN}


def _build_world() -> None:
    inv = inventory("tiny", name="Tiny shop")
    for key, text in TEXTS.items():
        artifact(inv, key, text=text, signals=SIGNALS[key], anti_signals=ANTI_SIGNALS[key])
    for name, turns in TALKS.items():
        conversation(inv, name, [text for text, _ in turns])
    rows = [
        JudgementRow(name, turn, JUDGE, {key: 5 if key in relevant else 1 for key in TEXTS})
        for name, turns in TALKS.items()
        for turn, (_, relevant) in enumerate(turns)
    ]
    import_judgements(inv, rows, by=SYSTEM)
    embed.embed_states(inv)
    refitting.refit(inv, by=SYSTEM)
    for name, role in _PEOPLE.items():
        user(name, role, inv)
    user("sam", Role.ADMIN, inventory("others", name="Somebody else's"))


def _find_world() -> World:
    inv = Inventory.objects.get(slug="tiny")
    policies = {row.key: row for row in Artifact.objects.filter(inventory=inv).select_related("inventory")}
    people = {row.username: row for row in User.objects.all()}
    return World(
        inventory=inv,
        cancel=policies["cancel-order"],
        change=policies["change-order"],
        refund=policies["refund-status"],
        talks={row.external_id: row for row in Conversation.objects.filter(inventory=inv).select_related("inventory")},
        viewer=people["vera"],
        reviewer=people["rob"],
        author=people["ada"],
        publisher=people["paul"],
        admin=people["anna"],
        stranger=people["sam"],
        others=Inventory.objects.get(slug="others"),
        by_role={str(role): people[name] for name, role in _PEOPLE.items()},
    )


def exemplar(art: Artifact, text: str, *, polarity: str = Polarity.SIGNAL, source: str = Source.IMPORTED) -> Exemplar:
    """In use from the next refit on, as an import leaves it."""
    return Exemplar.objects.create(
        artifact=art,
        polarity=polarity,
        text=text,
        text_digest=artifacts.exemplar_digest(text),
        source=source,
        status=ExemplarStatus.PROMOTED,
    )


def signals(art: Artifact) -> list[str]:
    return list(
        Exemplar.objects.filter(artifact=art, polarity=Polarity.SIGNAL).order_by("id").values_list("text", flat=True)
    )


def database_url(settings_dict: Mapping[str, Any]) -> str:
    """`DATABASE_URL` of an open connection's database, for a process that the test starts."""
    name = settings_dict["NAME"]
    if settings_dict["ENGINE"].endswith("sqlite3"):
        return f"sqlite:///{name}"
    password = f":{settings_dict['PASSWORD']}" if settings_dict["PASSWORD"] else ""
    port = f":{settings_dict['PORT']}" if settings_dict["PORT"] else ""
    host = settings_dict["HOST"]
    if host.startswith("/"):  # the folder of a Unix socket
        return f"postgres://{settings_dict['USER']}{password}@{port}/{name}?host={host}"
    return f"postgres://{settings_dict['USER']}{password}@{host}{port}/{name}"
