"""Review in the pages' words: kinds of queues, answers, messages of an item, what is left and why."""

from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from console.models import Inventory, Message, QueueKind, QueueOrder, ReviewQueue, ReviewWord
from console.presenters.conversations import SIDE, WHO
from console.services import review_build
from console.services.review_queues import Progress
from console.services.review_read import Reading

Text = str | Promise


@dataclass(frozen=True)
class Kind:
    name: Text
    line: Text


KINDS: dict[str, Kind] = {
    QueueKind.MISSES: Kind(
        gettext_lazy("Misses"), gettext_lazy("The AI reviewer says needed, and it was not selected. Start here.")
    ),
    QueueKind.NEAR: Kind(
        gettext_lazy("Near the cut-off"), gettext_lazy("Selected or not by a hair: an answer here moves the most.")
    ),
    QueueKind.MODEL: Kind(
        gettext_lazy("AI reviewer against selection"),
        gettext_lazy("They differ, either way; misses first, then what was shown for nothing."),
    ),
    QueueKind.HUMAN: Kind(
        gettext_lazy("AI reviewer against people"),
        gettext_lazy("A person has said otherwise: a second person decides. Always blind."),
    ),
    QueueKind.PINS: Kind(
        gettext_lazy("Pins due"),
        gettext_lazy(
            "Turns that must be selected and are not, or whose policy reads otherwise since they were pinned."
        ),
    ),
    QueueKind.AUDIT: Kind(
        gettext_lazy("Random audit sample"),
        gettext_lazy("Drawn by chance from everything, always blind: the only kind that agreement is worked out from."),
    ),
    QueueKind.EXTRAS: Kind(
        gettext_lazy("Random sample of what seems shown for nothing"),
        gettext_lazy(
            "Selected, and the AI reviewer says not needed: drawn by chance, always blind. It corrects precision."
        ),
    ),
    QueueKind.CUSTOM: Kind(
        gettext_lazy("Your own choice"), gettext_lazy("Conversations, policies and outcomes as you choose them.")
    ),
}
ORDERS: dict[str, Text] = {
    QueueOrder.WORST: gettext_lazy("as the kind ranks them"),
    QueueOrder.NEWEST: gettext_lazy("newest turns first"),
    QueueOrder.RANDOM: gettext_lazy("by chance"),
}
FIRED: dict[str, Text] = {
    "": gettext_lazy("either"),
    "yes": gettext_lazy("selected"),
    "no": gettext_lazy("not selected"),
}
JUDGED: dict[str, Text] = {
    "": gettext_lazy("whatever"),
    "needed": gettext_lazy("needed"),
    "not_needed": gettext_lazy("not needed"),
    "none": gettext_lazy("not reviewed"),
}
WORDS: dict[str, Text] = {
    ReviewWord.YES: gettext_lazy("needed"),
    ReviewWord.NO: gettext_lazy("not needed"),
    ReviewWord.UNSURE: gettext_lazy("unsure"),
    ReviewWord.SKIP: gettext_lazy("skipped"),
}


def kind(name: str) -> Kind:
    return KINDS[name]


def word(name: str) -> str:
    return str(WORDS.get(name, name))


@dataclass(frozen=True)
class Line:
    """A message of an item's conversation; ``at`` is the turn that is asked about."""

    message: Message
    side: str
    who: str
    at: bool


def lines(reading: Reading) -> list[Line]:
    end = reading.item.state.message_index
    return [Line(m, SIDE.get(m.role, "system"), str(WHO.get(m.role, m.role)), m.index == end) for m in reading.messages]


def choices(inventory: Inventory) -> list[dict[str, Any]]:
    """The kinds with what each would find now."""
    found = review_build.kinds_found(inventory)
    return [
        {
            "kind": name,
            "words": KINDS[name],
            "n": found.get(name, 0),
            "pairs": ngettext("%(n)s pair", "%(n)s pairs", found.get(name, 0)) % {"n": f"{found.get(name, 0):,}"},
        }
        for name in KINDS
    ]


def settings(queue: ReviewQueue) -> list[tuple[str, str]]:
    """Everything the queue was made by, as a list of facts."""
    params = queue.params
    facts = [
        (_("Kind"), str(KINDS[queue.kind].name)),
        (
            _("Chosen from"),
            ngettext("%(n)s pair of turn and policy", "%(n)s pairs of turn and policy", queue.population)
            % {"n": f"{queue.population:,}"},
        ),
        (_("Policies"), ", ".join(params.get("policies", [])) or _("all")),
        (_("Order"), str(ORDERS[queue.order])),
        (_("People per item"), str(queue.reviewers)),
        (_("Reserved for"), ngettext("%(n)s minute", "%(n)s minutes", queue.minutes) % {"n": queue.minutes}),
        (
            _("Until answered"),
            _("selection, AI reviewer and other people are hidden") if queue.blind else _("nothing is hidden"),
        ),
        (_("Release"), str(queue.release)),
    ]
    if queue.order == QueueOrder.RANDOM:
        facts.append((_("Seed of the draw"), str(params.get("seed", 1))))
    if params.get("where"):
        facts.append((_("Conversations"), " · ".join(params["where"])))
    if queue.kind == QueueKind.CUSTOM:
        facts.append((_("Outcome"), str(FIRED[params.get("fired", "")])))
        facts.append((_("AI reviewer says"), str(JUDGED[params.get("judged", "")])))
    return facts


def why_nothing(queue: ReviewQueue, now: Progress, *, closed: bool) -> str:
    """Why there is no item to give: in one line with its numbers."""
    done = ngettext("%(n)s answer", "%(n)s answers", now.done) % {"n": f"{now.done:,}"}
    if closed:
        return _("The queue has closed with %(done)s.") % {"done": done}
    if now.places == now.done:
        return _("All of it is answered: %(done)s.") % {"done": done}
    if now.left == 0:
        aside = ngettext("%(n)s is set aside", "%(n)s are set aside", now.aside) % {"n": now.aside}
        return _("%(done)s; %(aside)s with a flag.") % {"done": done, "aside": aside}
    rest = ngettext("%(n)s place is", "%(n)s places are", now.left) % {"n": now.left}
    if queue.reviewers > 1:
        return _("%(done)s; %(rest)s for other people: each item is answered by %(k)s.") % {
            "done": done, "rest": rest, "k": queue.reviewers,
        }  # fmt: skip
    return _("%(done)s; %(rest)s reserved by other people for up to %(k)s minutes.") % {
        "done": done, "rest": rest, "k": queue.minutes,
    }  # fmt: skip
