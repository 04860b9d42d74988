"""Conversations in the pages' words: outcomes as chips, the policies of a turn in groups, and long messages folded."""

from dataclasses import dataclass, field
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.models import Message
from console.services.conversations import Policy, Talk, Turn
from sq_core.decision import Label, Outcome

# Outcome -> (the term of the label table, the chip's class).
CHIPS: dict[str, tuple[str, str]] = {
    Label.FIRED: ("fired", "fired"),
    Label.FIRED_BY_PIN: ("pinned", "pinned"),
    Label.ALWAYS_ON: ("always", "always"),
    Label.UNFITTED: ("unfitted", "unfitted"),
    Label.DEPENDENCY: ("dependency", "dependency"),
    Label.CARRIED_OVER: ("carried_over", "carried"),
    Label.EXPIRED: ("expired", "expired"),
    Label.NOT_FIRED: ("not_fired", ""),
    Label.OFF: ("off", "off"),
    "not_scored": ("not_scored", "off"),
}
SORTS: dict[str, str | Promise] = {
    "margin": gettext_lazy("Match strength"),
    "disagreement": gettext_lazy("Disagreement"),
}
FOLD, HEAD = 8_000, 2_000  # a message longer than FOLD characters shows its first HEAD
CHIPS_SHOWN, CHIPS_FOLDED = 4, 40  # of what a message selects first: at once, and when unfolded
LISTED = 30  # policies of one kind listed at a turn: those nearest to being selected come first
LISTED_ON = 6  # of those that are still on since one earlier message
_SELECTED = {Label.FIRED, Label.FIRED_BY_PIN, Label.DEPENDENCY}


def term_of(outcome: str) -> str:
    return CHIPS[outcome][0]


def chip_of(outcome: str) -> str:
    return CHIPS[outcome][1]


# ------------------------------------------------------------------------------------------------------ one conversation
@dataclass
class Group:
    """Policies of one turn that belong together. ``folded``: closed until asked for."""

    name: str
    title: str
    rows: list[Policy] = field(default_factory=list)
    line: str = ""
    folded: bool = False
    listed: int = LISTED
    total: int = 0  # of which ``rows`` are the first

    @property
    def more(self) -> int:
        return self.total - len(self.rows)


def groups(talk: Talk, user_turn: int, sort: str, *, whole: bool = False, chosen: str = "") -> list[Group]:
    """The turn's policies by what became of them, or (``disagreement``) by where model and AI reviewer differ; of each kind
    the first `Group.listed` unless the ``whole`` is asked for, and the ``chosen`` one in any case.
    """
    rows = sorted(talk.policies(user_turn), key=lambda p: (p.distance is None, -(p.distance or 0.0), p.name))
    if not talk.turns[user_turn].scored:
        found = [Group("unscored", _("Not scored"), rows)]
    else:
        found = _by_disagreement(rows) if sort == "disagreement" else _by_outcome(rows, user_turn)
    for group in found:
        group.total = len(group.rows)
        if not whole:
            group.rows = [row for n, row in enumerate(group.rows) if n < group.listed or row.key == chosen]
    return [group for group in found if group.rows]


def _by_outcome(rows: list[Policy], user_turn: int) -> list[Group]:
    result = [Group("selected", _("Selected by this message"))]
    missed = Group("missed", _("Not selected, though the AI reviewer says needed"))
    pinned_on: dict[int, Group] = {}
    always, unfitted = Group("always", _("Always on")), Group("unfitted", _("Shown: no examples yet"))
    expired, out = Group("expired", _("Switched off")), Group("out", _("Not selected"), folded=True)
    off = Group("off", _("Off"), folded=True)
    for row in rows:
        label = row.outcome.outcome if row.outcome else Label.OFF
        since = row.outcome.since_turn if row.outcome and row.outcome.since_turn is not None else user_turn
        earlier = label is Label.FIRED_BY_PIN and since < user_turn  # the pin matched a message before this one
        if row.disagreement == "missed":
            missed.rows.append(row)
        elif label in _SELECTED and not earlier:
            result[0].rows.append(row)
        elif label is Label.CARRIED_OVER or earlier:
            title = _("Still on since message %(n)s") % {"n": since + 1}
            pinned_on.setdefault(since, Group(f"since-{since}", title, listed=LISTED_ON)).rows.append(row)
        else:
            where = {Label.ALWAYS_ON: always, Label.UNFITTED: unfitted, Label.EXPIRED: expired, Label.OFF: off}
            where.get(label, out).rows.append(row)
    carried = [pinned_on[since] for since in sorted(pinned_on, reverse=True)]
    return [missed, *result, *carried, always, unfitted, expired, out, off]


def _by_disagreement(rows: list[Policy]) -> list[Group]:
    missed = Group("missed", _("Not selected, though the AI reviewer says needed"))
    extra = Group("extra", _("Selected, though the AI reviewer says not needed"))
    agreed_on, agreed_off = (
        Group("agreed-on", _("Both say needed")),
        Group("agreed-off", _("Both say not needed"), folded=True),
    )
    rest = Group("rest", _("Not reviewed, always on or off"), folded=True)
    for row in rows:
        if row.disagreement:
            (missed if row.disagreement == "missed" else extra).rows.append(row)
        elif row.judge is None or row.outcome is None or row.outcome.margin is None:
            rest.rows.append(row)
        else:
            (agreed_on if row.judge.relevant else agreed_off).rows.append(row)
    return [missed, extra, agreed_on, agreed_off, rest]


@dataclass(frozen=True)
class Line:
    """A message of the transcript. Of a long one the page shows ``cut`` characters (0: all), ``folded`` is its length."""

    message: Message
    side: str  # user, agent, tool, system
    who: str
    turn: Turn | None
    shown: str
    cut: int
    folded: int
    chips: list[Outcome]
    more: list[Outcome]
    left: int  # that are selected first here and have no chip


WHO: dict[str, str | Promise] = {
    "user": gettext_lazy("Customer"),
    "assistant": gettext_lazy("Agent"),
    "tool": gettext_lazy("Tool"),
    "system": gettext_lazy("System"),
}
SIDE = {"user": "user", "assistant": "agent", "tool": "tool", "system": "system"}


def transcript(talk: Talk, *, full: set[int], chosen: str = "") -> list[Line]:
    """The messages; those in ``full`` (message indices) are shown whole whatever their length."""
    turns = {turn.message_index: turn for turn in talk.turns}
    result = []
    for message in talk.messages:
        turn = turns.get(message.index)
        text = message.content
        folded = len(text) if len(text) > FOLD and message.index not in full else 0
        started = turn.started if turn else []
        first = sorted(started, key=lambda o: o.artifact != chosen)[:CHIPS_SHOWN]
        rest = [o for o in started if o not in first]
        result.append(
            Line(
                message=message,
                side=SIDE.get(message.role, "system"),
                who=str(WHO.get(message.role, message.role)),
                turn=turn,
                shown=text,
                cut=HEAD + 1 if folded else 0,
                folded=folded,
                chips=[o for o in started if o in first],
                more=rest[:CHIPS_FOLDED],
                left=max(0, len(rest) - CHIPS_FOLDED),
            )
        )
    return result


def rail(talk: Talk, chosen: str) -> list[dict[str, Any]]:
    """Per user turn its marks, as shapes and in words."""
    ringed = talk.transition(chosen) if chosen else None
    result = []
    for turn in talk.turns:
        words = [_("message %(n)s") % {"n": turn.user_turn + 1}]
        if turn.scored:
            words.append(_("%(n)s selected") % {"n": turn.selected})
        else:
            words.append(_("not scored"))
        for n, text in (
            (len(turn.started), _("%(n)s of them new here")),
            (len(turn.needed), _("%(n)s needed")),
            (len(turn.labelled), _("%(n)s labelled by people")),
            (len(turn.pinned), _("%(n)s must be selected here")),
        ):
            if n:
                words.append(text % {"n": n})
        if turn.flagged:
            words.append(_("flagged"))
        if turn.user_turn == ringed:
            words.append(_("where %(policy)s became relevant") % {"policy": chosen})
        result.append({"turn": turn, "transition": turn.user_turn == ringed, "words": ", ".join(words)})
    return result
