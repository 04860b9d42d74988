"""Runs in the reader's words: what is in scope, how they are asked to do it, and the state they are in."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.models import Run, RunKind, RunState
from console.presenters import labels
from console.presenters.amounts import figure
from console.services.heartbeat import FRESH
from console.services.runs import Progress

Json = Mapping[str, Any]
NAMED = 3  # policies that a line names before it counts
LOOKED_AT = timedelta(minutes=10)  # an ended run whose consequences are still being drawn is looked at again so long
BADGES = {
    RunState.COMPLETE: "ok", RunState.GAPS: "warn", RunState.FAILED: "bad", RunState.WAITING: "warn",
    RunState.CAPPED: "warn", RunState.STALLED: "warn", RunState.PAUSED: "warn", RunState.RUNNING: "live",
}  # fmt: skip
MOVING = (
    RunState.PLANNING, RunState.QUEUED, RunState.RUNNING, RunState.WAITING, RunState.STALLED, RunState.CANCELLING,
)  # fmt: skip


@dataclass(frozen=True)
class State:
    """``words`` as they stand on the badge, ``line`` one sentence more, ``moving``: it is worth looking again."""

    name: str
    words: str
    line: str
    badge: str
    moving: bool


def state(run: Run, now: Progress, *, silent: timedelta | None = timedelta(0), technical: bool = False) -> State:
    """``silent``: how long ago a worker was last seen (None = never), for runs that nobody has begun."""
    label = labels.RUN_STATES[run.state]
    words, line = label.text(technical=technical), str(label.line)
    if run.state == RunState.WAITING and run.wait_until:
        words = _("waiting for quota until %(time)s") % {"time": clock(run.wait_until)}
    elif run.state == RunState.GAPS:
        words = ngettext("complete with %(n)s gap", "complete with %(n)s gaps", now.failed) % {"n": figure(now.failed)}
    elif run.state in (RunState.PLANNING, RunState.QUEUED) and (silent is None or silent > FRESH):
        words, line = _("accepted, not started"), _("No worker is there to start it.")
    return State(
        name=run.state,
        words=words[:1].lower() + words[1:],
        line=run.note or line,
        badge=BADGES.get(RunState(run.state), ""),
        moving=moving(run),
    )


def moving(run: Run) -> bool:
    if run.ended and not run.settled and run.finished_at:
        return timezone.now() - run.finished_at < LOOKED_AT
    return run.state in MOVING


def ended(run: Run, now: Progress, *, technical: bool = False) -> str:
    """The sentence that the status region says when a run's state has changed."""
    said = state(run, now, technical=technical)
    return _("%(kind)s: %(state)s.") % {"kind": labels.run_kind(run.kind, technical=technical), "state": said.words}


def clock(at: datetime) -> str:
    """``14:20`` of today, else with its day, in the reader's zone."""
    local, today = timezone.localtime(at), timezone.localtime()
    return f"{local:%H:%M}" if local.date() == today.date() else f"{local:%Y-%m-%d %H:%M}"


def rate(now: Progress) -> str:
    """Items a minute, or an hour where they are few."""
    if now.rate is None:
        return ""
    if now.rate >= 1:
        return _("%(n)s a minute") % {"n": figure(round(now.rate))}
    return _("%(n)s an hour") % {"n": figure(max(1, round(now.rate * 60)))}


# -------------------------------------------------------------------------------------------------------------- the plan
def scope(kind: str, asked: Json, params: Json, *, names: Mapping[str, str] | None = None) -> str:
    """One line: "3 policies: …, chats of the last 7 days, what is not reviewed yet"."""
    parts = [part for part in _scope_parts(kind, asked, names or {}) if part]
    match kind:
        case RunKind.EVALUATE if params.get("plan"):
            parts = [_("evidence plan %(name)s") % {"name": plan_name(params["plan"])}]
        case RunKind.EVALUATE:
            parts = [protocol(params.get("protocol", "operating-point"))]
            if params.get("labels") == "running-max":
                parts.append(_("labels as the highest so far"))
        case RunKind.CALIBRATE if params.get("target"):
            parts = [_("catch %(share)s") % {"share": percent(params["target"])}]
        case RunKind.CALIBRATE:
            parts = [_("catch the inventory's share")]
        case RunKind.SCORE if params.get("release"):
            parts.append(_("release %(n)s") % {"n": params["release"]})
        case RunKind.IMPORT:
            parts = [_("%(what)s from %(file)s") % {"what": params.get("what"), "file": params.get("file")}]
        case RunKind.MINE if params.get("mode") == "adversarial":
            parts.append(_("what is selected wrongly"))
    return ", ".join(parts)


def plan_name(plan: object) -> str:
    """What an evidence plan is called: a shipped one's name, or what a pasted text names itself."""
    text = str(plan).strip()
    if "\n" not in text and "=" not in text:
        return text[:80]
    named = re.search(r"""^name\s*=\s*["']([^"'\n]{1,80})""", text, re.MULTILINE)
    return named[1] if named else _("a pasted one")


def _scope_parts(kind: str, asked: Json, names: Mapping[str, str]) -> list[str]:
    parts = []
    if kind in (RunKind.JUDGE, RunKind.GENERATE, RunKind.MINE):
        parts.append(_named(asked.get("artifacts"), names))
    if "conversations" in asked:
        n = len(asked["conversations"])
        parts.append(ngettext("%(n)s conversation", "%(n)s conversations", n) % {"n": figure(n)})
    elif kind == RunKind.SCORE:
        parts.append(_("all conversations"))
    if "scenarios" in asked:
        n = len(asked["scenarios"])
        parts.append(ngettext("%(n)s scenario", "%(n)s scenarios", n) % {"n": figure(n)})
    if asked.get("channel"):
        parts.append(_("channel %(name)s") % {"name": asked["channel"]})
    if asked.get("since"):
        parts.append(since(str(asked["since"])))
    if asked.get("until"):
        parts.append(_("until %(time)s") % {"time": asked["until"]})
    if asked.get("sample"):
        parts.append(sample(asked["sample"]))
    if asked.get("but_not"):
        parts.append(_("but not %(sample)s") % {"sample": sample(asked["but_not"])})
    if asked.get("by_margin"):
        parts.append(by_margin(asked["by_margin"]))
    if asked.get("unjudged_only"):
        parts.append(_("what is not reviewed yet"))
    return parts


def _named(keys: Sequence[str] | None, names: Mapping[str, str]) -> str:
    if not keys:
        return _("all policies")
    first = ", ".join(names.get(key, key) for key in keys[:NAMED])
    if len(keys) <= NAMED:
        return first
    return _("%(n)s policies: %(first)s …") % {"n": figure(len(keys)), "first": first}


def since(text: str) -> str:
    """An age such as "7d" in words; a time as it is."""
    number, unit = text.strip()[:-1].strip(), text.strip()[-1:]
    if number.isdecimal() and unit == "d":
        return ngettext("chats of the last day", "chats of the last %(n)s days", int(number)) % {"n": number}
    if number.isdecimal() and unit == "h":
        return ngettext("chats of the last hour", "chats of the last %(n)s hours", int(number)) % {"n": number}
    return _("chats since %(time)s") % {"time": text}


def sample(asked: Json) -> str:
    whole = asked.get("unit") == "conversation"
    if "share" in asked:
        of = _("chats") if whole else _("(chat, policy) pairs")
        return _("a random %(share)s of %(of)s") % {"share": percent(asked["share"]), "of": of}
    n = int(asked.get("n", 0))
    if whole:
        return ngettext("%(n)s random chat", "%(n)s random chats", n) % {"n": figure(n)}
    return ngettext("%(n)s random (chat, policy) pair", "%(n)s random (chat, policy) pairs", n) % {"n": figure(n)}


def by_margin(asked: Mapping[str, int]) -> str:
    n = sum(asked.values())
    return ngettext(
        "the %(n)s chat with the highest match strength", "the %(n)s chats with the highest match strength", n
    ) % {"n": figure(n)}


def percent(share: float) -> str:
    return f"{100 * share:.4g}\u00a0%"


def protocol(name: str) -> str:
    """A table of the paper by what it compares; one that has no words of ours by its name."""
    words = {
        "operating-point": _("methods compared at the same share caught"),
        "mined": _("examples from real chats against those written by AI"),
    }
    return words.get(name, name)
