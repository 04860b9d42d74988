"""Why, in words: the triage, one sentence, and the whole evidence as text or JSON for a ticket. Numbers are the service's own."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from django.core.serializers.json import DjangoJSONEncoder
from django.utils.translation import gettext as _

from console.models import Inventory
from console.presenters import labels
from console.presenters.conversations import term_of
from console.services.redaction import SAID, masked, masked_json
from console.services.why import Prior, TermRow, ViewRow, Why
from console.services.why_record import Span
from console.templatetags.console import signed

SELECTED = {"fired", "fired_by_pin", "carried_over", "dependency", "always_on", "unfitted"}


@dataclass(frozen=True)
class Triage:
    """The first thing on the page: what became of it, and what that means for who asks why the agent did not do it."""

    tone: str  # ok, warn, or "" (plain)
    title: str
    text: str


def triage(why: Why) -> Triage:
    if why.outcome == "not_scored":
        text = _("The encoder has not read this message yet, so whether it is selected is not known.")
        return Triage("warn", _("Not scored"), text)
    if why.outcome == "expired":
        return Triage("warn", _("Selected, and switched off again"), _("At this message the agent did not have it."))
    if why.outcome in SELECTED:
        text = _("The agent had it at this message. If the reply goes against it, the agent ignored it.")
        return Triage("", _("Selected"), text)
    if why.outcome == "off":
        return Triage("", _("Off"), _("The policy is switched off: no agent gets it."))
    if why.outcome == "filtered_later":
        return Triage(
            "warn", _("Selected, then filtered"), _("The second stage dropped it; the agent did not have it.")
        )
    if judged_relevant(why):
        text = _("A reviewer says this message needed it, and the agent did not have it.")
        return Triage("warn", _("Not selected: a miss"), text)
    return Triage("", _("Not selected"), _("At this message the agent did not have it."))


def judged_relevant(why: Why) -> bool:
    """Whether the newest word of the AI reviewer, or of a person, is that it was needed."""
    newest = {w.judge: w for w in reversed(why.witnesses)}
    return any(w.relevant for w in newest.values() if not w.text_changed)


def lead(why: Why, *, technical: bool = False) -> str:
    """The outcome's label: the word the sentence begins with."""
    return labels.term(term_of(why.outcome), technical=technical)


def sentence(why: Why, *, span: Span | None = None, names: dict[str, str] | None = None) -> str:
    """The rest of the one sentence after the label: message, strength, cut-off, reason, version."""
    n = why.user_turn + 1
    where = _("at message %(n)s") % {"n": n}
    if why.outcome == "not_scored":
        return _("%(where)s.") % {"where": where}
    if why.outcome == "off":
        return _("%(where)s: its mode is off.") % {"where": where}
    if why.outcome == "always_on":
        return _("%(where)s: its mode is always on, so it is never filtered.") % {"where": where}
    if why.outcome == "unfitted":
        return _("%(where)s: it has no version yet, and what has none is shown, never silently missing.") % {
            "where": where
        }
    strength, version = _strength(why), _version(why, span)
    if why.outcome == "dependency":
        other = (names or {}).get(why.via or "", why.via or "")
        text = _("%(where)s with %(other)s, which brings it along. By itself: %(strength)s%(version)s.")
        return text % {"where": where, "other": other, "strength": strength, "version": version}
    if why.outcome == "fired_by_pin":
        text = _("%(where)s: it is near-identical to a turn that must be selected. By itself: %(strength)s%(version)s.")
        return text % {"where": where, "strength": strength, "version": version}
    if why.outcome == "expired":
        text = _("%(where)s for lack of a new reason since message %(since)s: %(strength)s%(version)s.")
        since = (why.since_turn if why.since_turn is not None else why.user_turn) + 1
        return text % {"where": where, "since": since, "strength": strength, "version": version}
    if why.outcome == "carried_over":
        since = (why.since_turn if why.since_turn is not None else why.user_turn) + 1
        text = _("%(where)s, since message %(since)s: %(strength)s%(version)s.")
        return text % {"where": where, "since": since, "strength": strength, "version": version}
    return _("%(where)s: %(strength)s%(version)s.") % {"where": where, "strength": strength, "version": version}


def _strength(why: Why) -> str:
    if why.margin is None or why.cutoff is None or why.distance is None:
        return _("no match strength")
    text = (
        _("match strength %(m)s, %(d)s over its cut-off %(c)s")
        if why.distance > 0
        else _("match strength %(m)s, %(d)s under its cut-off %(c)s")
    ) % {"m": signed(why.margin), "d": f"{abs(why.distance):.2f}", "c": signed(why.cutoff)}
    winner = next((view for view in why.views if view.wins), None)
    if winner is None or why.pooling != "max":
        return text
    named = _("because of %(view)s") if why.distance > 0 else _("nearest by %(view)s")
    return f"{text}, {named % {'view': view_name(winner, why.user_turn, lower=True)}}"


def _version(why: Why, span: Span | None) -> str:
    if why.version is None:
        return ""
    text = _(", scored by version %(n)s") % {"n": why.version}
    return f"{text} ({span_text(span)})" if span else text


def span_text(span: Span) -> str:
    """ "active since 3 Nov" or "active 3–9 Nov", in UTC."""
    since = _day(span.since)
    return (
        _("active %(a)s to %(b)s") % {"a": since, "b": _day(span.until)}
        if span.until
        else _("active since %(a)s") % {"a": since}
    )


def _day(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d")


def view_name(view: ViewRow, user_turn: int, *, lower: bool = False) -> str:
    """ "Whole chat so far", "This message" or "Message 3"."""
    if view.kind == "cumulative":
        text = labels.term("cumulative")
    elif view.user_turn == user_turn:
        text = labels.term("user_turn")
    else:
        text = _("Message %(n)s") % {"n": view.user_turn + 1}
    return text[:1].lower() + text[1:] if lower else text


def side_name(row: TermRow) -> str:
    return labels.term(row.polarity)


def origin_text(why: Why) -> str:
    """Whether this is what production did, or worked out now; and where the two differ."""
    now = _("Worked out now from the stored rows of release %(n)s.") % {"n": why.release}
    if why.live is None:
        return _("%(now)s Production recorded nothing for this message.") % {"now": now}
    did = _("selected it") if why.live["fired"] else _("did not select it")
    text = _("Production (release %(n)s, %(agent)s, %(at)s) %(did)s.") % {
        "n": why.live["release"],
        "agent": why.live["agent"] or _("an agent"),
        "at": why.live["at"][:16].replace("T", " ") + " UTC",
        "did": did,
    }
    return f"{text} {now}"


def differs(why: Why) -> bool:
    """Production decided otherwise than what is shown."""
    return why.live is not None and why.scored and why.live["fired"] != why.fired


def prior_line(prior: Prior, margin: float) -> str:
    """Margin + λ·prior in numbers, for a ticket."""
    total = margin + prior.weight * prior.value
    return f"{margin!r} + {prior.weight:g} x {prior.value!r} = {total!r}  ({_('match strength')} + λ x p)"


def prior_text(prior: Prior) -> str:
    """Where p comes from, and that λ = 0 leaves it out."""
    text = _(
        "p = ln((n + α) / (N − n + α)) with α = %(alpha)s: n = %(n)s of N = %(total)s judged messages of other scenarios "
        "needed it. λ = %(weight)s: p decides nothing. Turning it on is a method of its own, with a name and a cut-off of "
        "its own."
    )
    numbers = {"alpha": f"{prior.alpha:g}", "n": f"{prior.relevant:,}", "total": f"{prior.judged:,}"}
    return text % (numbers | {"weight": f"{prior.weight:g}"})


# -------------------------------------------------------------------------------------------------------------- for a ticket
def to_json(why: Why, inventory: Inventory | None = None) -> str:
    """The API's answer, as a file; what ``inventory`` hides is hidden."""
    return json.dumps(
        masked_json(inventory, why.to_json(), SAID),
        ensure_ascii=False,
        indent=2,
        cls=DjangoJSONEncoder,
        allow_nan=False,
    )


def to_text(
    why: Why,
    *,
    name: str,
    span: Span | None = None,
    names: dict[str, str] | None = None,
    inventory: Inventory | None = None,
) -> str:
    """Everything on the page as plain text; numbers to the last bit where an auditor adds them up."""
    lines = [
        f"{name} ({why.artifact})",
        f"{why.conversation}, " + _("message %(n)s (user_turn %(t)s)") % {"n": why.user_turn + 1, "t": why.user_turn},
        "",
        f"{lead(why)} {sentence(why, span=span, names=names)}",
        triage(why).text,
        origin_text(why),
        "",
    ]
    if why.views:
        lines.append(_("Views (match strength each would give alone):"))
        lines += [
            f"  {view.value:+.6f}  {view_name(view, why.user_turn)}" + (f"  <- {_('counts')}" if view.wins else "")
            for view in why.views
        ]
        lines.append("")
    if why.terms:
        lines.append(_("What made it so (alpha x similarity, exact):"))
        lines += [
            f"  {row.value!r}  {side_name(row)} {row.exemplar}: {_one_line(inventory, row.text)}" for row in why.terms
        ]
        lines += [
            f"  {why.bias!r}  b",
            f"= {why.total!r}  ({_('stored')} {why.margin!r}, {_('difference')} {why.residual!r})",
            "",
        ]
    elif why.terms_missing:
        lines += [why.terms_missing, ""]
    if why.prior is not None and why.margin is not None:
        lines += [prior_line(why.prior, why.margin), prior_text(why.prior), ""]
    for witness in why.witnesses:
        who = f"{witness.judge} ({witness.kind}, {witness.rubric}, {witness.prompt_version})"
        lines.append(f"{who}: {witness.score}/5 {_one_line(inventory, witness.reason)}".rstrip())
    lines += ["", _("theta %(t)s, own shift %(o)s, encoder %(e)s, release %(r)s") % {
        "t": why.theta, "o": why.offset, "e": why.encoder, "r": why.release,
    }]  # fmt: skip
    return "\n".join(lines) + "\n"


def _one_line(inventory: Inventory | None, text: str) -> str:
    return " ".join(masked(inventory, text).split())[:300]
