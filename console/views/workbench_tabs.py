"""The tabs of the workbench: where the reader is, and what each tab's template needs."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.http import QueryDict
from django.urls import Resolver404, resolve, reverse
from django.utils.translation import gettext_lazy as _

from console.models import Inventory, Role
from console.permissions import Request
from console.presenters import figures, labels
from console.presenters.changes import change_rows
from console.services import audit_read, fit, workbench
from console.services import workbench_examples as examples
from console.services import workbench_turns as turns
from console.services import workbench_versions as versions
from console.services.witness import witness
from console.services.workbench import Ground
from console.services.workbench_map import KINDS, LISTED, NEAREST, Map
from console.views import workbench_metrics
from console.views.audit import listed

Context = dict[str, Any]
LEADS_BACK = {"conversation", "why", "candidates", "neighbours-pair"}  # pages that a decision taken there returns to


@dataclass
class Here:
    """Where the reader is: a tab's address, from the request itself or from a form's ``next``."""

    tab: str
    path: str
    query: QueryDict
    kept: tuple[list[int], list[int]] | None = None  # the rows that the two lists of turns showed before a decision
    whole: set[int] = field(default_factory=set)  # the states among them that stand otherwise now
    slot: str = ""  # the row that was decided on

    @property
    def address(self) -> str:
        return self.path + (f"?{self.query.urlencode()}" if self.query else "")

    @property
    def past(self) -> str:
        """The past that the address asks for, as the query of a link that keeps nothing else."""
        return f"?{urlencode({'as_of': self.query['as_of']})}" if self.query.get("as_of") else ""

    def link(self, **changes: object) -> str:
        """The same page with some of its parameters changed."""
        query = self.query.copy()
        for name, value in changes.items():
            if value is None:
                query.pop(name, None)
            else:
                query[name] = str(value)
        return "?" + query.urlencode()


@dataclass(frozen=True)
class Tab:
    route: str
    label: Any
    template: str
    context: "Callable[[Request, Ground, Here], Context]"
    needs: Role = Role.VIEWER


def here_of(request: Request, tab: str) -> Here:
    return Here(tab, request.path, request.GET.copy())


def elsewhere(address: str, inventory: Inventory) -> str:
    """The address, when it is a conversation's, a Why page, the candidates or two neighbours of this inventory: a decision
    taken there leads back there.
    """
    try:
        parts = urlsplit(address)
        match = resolve(parts.path)
    except (ValueError, Resolver404):  # no address at all ("http://["), or none of ours
        return ""
    ours = match.url_name in LEADS_BACK and match.kwargs.get("inv") == inventory.slug
    return parts._replace(scheme="", netloc="").geturl() if ours else ""


def here_from(address: str, inventory: Inventory, key: str) -> Here:
    """The tab that a form came from; the first one when the address is no tab of this policy."""
    try:
        parts = urlsplit(address)
        match = resolve(parts.path)
    except (ValueError, Resolver404):
        parts, match = urlsplit(""), None
    ours = {tab.route: name for name, tab in TABS.items()}
    if (
        match
        and match.url_name in ours
        and match.kwargs.get("inv") == inventory.slug
        and match.kwargs.get("key") == key
    ):
        return Here(ours[match.url_name], parts.path, QueryDict(parts.query, mutable=True))
    return Here("shown", reverse("policy", args=[inventory.slug, key]), QueryDict(mutable=True))


def may_write(request: Request, ground: Ground) -> bool:
    """The past is for reading."""
    return ground.past is None and request.role.includes(Role.AUTHOR)


def context_of(request: Request, ground: Ground, here: Here) -> Context:
    """What every tab's template needs, and the tab's own."""
    head = workbench.head(ground)
    names = [request.inventory.slug, ground.artifact.key]
    query = f"?{here.query.urlencode()}" if here.query else ""
    return {
        "ground": ground,
        "artifact": ground.artifact,
        "head": head,
        "witness": witness(ground.inventory),
        "here": here,
        "tab": here.tab,
        "may_write": may_write(request, ground),
        "tabs": [
            {"url": reverse(tab.route, args=names) + query, "label": tab.label, "current": name == here.tab, "n": None}
            for name, tab in TABS.items()
            if request.role.includes(tab.needs)
        ],
        **TABS[here.tab].context(request, ground, here),
    }


# ------------------------------------------------------------------------------------------------------------ the tabs
def _shown(request: Request, ground: Ground, here: Here) -> Context:
    if not ground.scored:
        return {"lists": None}
    wanted = here.query.get("turn", "")
    focus = ""
    if here.kept is not None:
        focus = _after(here.slot, [f"turn-{pk}" for ids in here.kept for pk in ids])
        rows = {
            int(slot.removeprefix("turn-")) for slot in (here.slot, focus) if slot.removeprefix("turn-").isdecimal()
        }
        found = turns.refreshed(ground, here.kept, here.whole | rows)
    else:
        found = turns.shown_and_missed(
            ground,
            after_missed=here.query.get("missed", ""),
            after_extra=here.query.get("extra", ""),
            only_new=here.query.get("new") == "1",
            first=int(wanted) if wanted.isdecimal() and len(wanted) < 19 else None,
        )
    sides = [
        ("missed", found.missed),
        ("extra", found.extra),
    ]
    return {
        "lists": found,
        "sides": [
            {
                "name": name, "side": side,
                "next": here.link(**{name: side.next, "turn": None}) if side.next else None,
                "first": here.link(**{name: None}) if here.query.get(name) else None,
                "kept": ",".join(str(row.state_id) for row in side.rows),
            }
            for name, side in sides
        ],
        "only_new": here.query.get("new") == "1",
        "new_link": here.link(new=None if here.query.get("new") == "1" else 1, missed=None, extra=None, turn=None),
        "target_row": f"turn-{wanted}" if wanted else "",
        "focus": focus,
        "preview_url": reverse("policy-preview", args=[request.inventory.slug, ground.artifact.key]),
    }  # fmt: skip


def _after(slot: str, rows: list[str]) -> str:
    """The row after the one decided on (the last one stays on itself): where the focus goes."""
    if slot not in rows:
        return ""
    return rows[min(rows.index(slot) + 1, len(rows) - 1)]


def _map(request: Request, ground: Ground, here: Here) -> Context:
    if not ground.scored:
        return {"drawn": None}
    drawn = Map(ground)
    preview = number(here.query, "theta")
    low, high = number(here.query, "low"), number(here.query, "high")
    near, kind = here.query.get("near", ""), here.query.get("kind", "")
    offset = here.query.get("from", "")
    start = int(offset) if offset.isdecimal() and len(offset) < 8 else 0
    rows, total = drawn.listed(low=low, high=high, near=near, kinds=(kind,) if kind in KINDS else (), offset=start)
    names = [request.inventory.slug, ground.artifact.key]
    asked = {"theta": preview, "as_of": here.query.get("as_of")}
    points = reverse("policy-map-points", args=names, query={k: v for k, v in asked.items() if v is not None})
    return {
        "drawn": drawn,
        "drawn_n": len(drawn.chosen),
        "states_n": len(drawn.states),
        "points": rows,
        "total": total,
        "low": low,
        "high": high,
        "near": near,
        "kind": kind,
        "filtered": bool(near or kind or low is not None or high is not None),
        "now": drawn.recount(ground.point.theta),
        "then": drawn.recount(preview) if preview is not None else None,
        "counts": [(kind, figures.NAMES[kind], *n) for kind, n in drawn.counts().items()],
        "shift": drawn.strip().shift,
        "points_url": points,
        "nearest": NEAREST,
        "next": here.link(**{"from": start + LISTED}) if start + LISTED < total else None,
        "first": here.link(**{"from": None}) if start else None,
        "just_under": here.link(low=-0.2, high=0, near=None, **{"from": None}),
        "reset": here.link(low=None, high=None, near=None, kind=None, **{"from": None}),
        "focus": _after(here.slot, [point.slot for point in rows]),
    }


def number(query: QueryDict, name: str) -> float | None:
    """A finite number of the address, or None: an unreadable one is left out like an unknown field."""
    try:
        value = float(query.get(name, "").replace("−", "-").replace(",", "."))
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) <= 1_000 else None


BULK_BUTTONS = (
    ("show", "signal"),
    ("dont_show", "anti_signal"),
    ("reject", "reject"),
    ("retire", "retire"),
    ("move", "move"),
    ("restore", "restore"),
)


OUT = _("Not used, or taken out")


def _exemplars(request: Request, ground: Ground, here: Here) -> Context:
    found, technical = examples.examples(ground), request.user.technical_terms
    parts = {
        name: examples.part(rows, here.query.get(f"from_{name}", ""))
        for name, rows in (
            ("signal", found.signals), ("anti_signal", found.anti_signals), ("candidates", found.candidates),
            ("resting", found.resting), ("out", found.out),
        )
    }  # fmt: skip
    choices = examples.fit_choices(ground)
    mined = next(choice for choice in choices if choice.value == "mined")
    asked = here.query.get("history", "")
    order = [f"ex-{row.exemplar.public_id}" for part in parts.values() for row in part.rows]
    pagers = {
        name: {
            "first": here.link(**{f"from_{name}": None}) if f"from_{name}" in here.query else None,
            "next": here.link(**{f"from_{name}": part.next}) if part.next else None,
            "n": len(part.rows),
            "total": part.total,
        }
        for name, part in parts.items()
    }
    return {
        "examples": found,
        "parts": parts,
        "pagers": pagers,
        "columns": [
            {
                "side": side,
                "label": f"{side}s",
                "part": parts[side],
                "diversity": found.diversity[side],
                "pager": pagers[side],
            }
            for side in ("signal", "anti_signal")
        ],
        "choices": choices,
        "mined": mined,
        "minimum": ground.inventory.minimum_material,
        "history": examples.history(ground.artifact, asked) if asked else None,
        "pins": [
            {
                "pin": pin,
                "conversation": pin.state.conversation if pin.state else None,
                "passes": workbench.pin_passes(ground, pin),
            }
            for pin in ground.pins
        ],
        "wholes": [
            (f"{name}:{e.count}:{e.digest}", e.count, OUT if name == "out" else labels.term(name, technical=technical))
            for name, e in examples.extents(ground.artifact).items()
        ],
        "bulk_actions": [(do, labels.term(name, technical=request.user.technical_terms)) for do, name in BULK_BUTTONS],
        "focus": _after(here.slot, order),
    }


def _versions(request: Request, ground: Ground, here: Here) -> Context:
    before = here.query.get("before", "")
    found = versions.versions(ground, before=int(before) if before.isdecimal() and len(before) < 10 else None)
    now = {ground.artifact.pk: (ground.text.name, ground.version.number if ground.version else None)}
    listed = versions.changes_of(found)
    made = change_rows(ground.inventory, listed, technical=request.user.technical_terms, known=now)
    changes = {row.version: row for row in made}
    asked = here.query.get("reproduce", "")
    shown_version = next((r.version for r in found.rows if str(r.version.number) == asked), None)
    return {
        "page": found,
        "rows": [(row, changes.get(row.version.number)) for row in found.rows],
        "next": here.link(before=found.next) if found.next else None,
        "first": here.link(before=None) if before else None,
        "reproduced": (shown_version.number, fit.reproduce(shown_version)) if shown_version else None,
        "tolerance": fit.TOLERANCE,
        "may_publish": ground.past is None and request.role.includes(Role.PUBLISHER),
    }


def _history(request: Request, ground: Ground, here: Here) -> Context:
    conditions = [f"policy:is:{ground.artifact.key}"]
    if ground.past is not None:
        conditions.append(f"at:lt:{ground.past.moment.isoformat()}")
    wanted = audit_read.asked({}, conditions)
    return listed(request, ground.inventory, wanted)


TABS: dict[str, Tab] = {
    "shown": Tab("policy", _("Shown and missed"), "policies/workbench/shown.html", _shown),
    "map": Tab("policy-map", _("Map"), "policies/workbench/map.html", _map),
    "exemplars": Tab("policy-exemplars", _("Examples"), "policies/workbench/exemplars.html", _exemplars),
    "versions": Tab("policy-versions", _("Versions"), "policies/workbench/versions.html", _versions),
    "metrics": Tab("policy-metrics", _("Metrics"), "policies/workbench/metrics.html", workbench_metrics.context),
    "history": Tab("policy-history", _("History"), "policies/workbench/history.html", _history, Role.REVIEWER),
}
