"""Plans that come with the code, by name, and what a plan from outside may ask for at most."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from sq_core.causal.trace import GroupBy
from sq_core.evaluation.data import WORLDS as INVENTORY_WORLDS
from sq_core.evaluation.recipes import RECIPES
from sq_core.evidence.plan import CheckPlan, EvidencePlan, PlanError, parse_plan
from sq_core.evidence.rewriting import FREE, MODEL
from sq_core.evidence.splits import SplitBy
from sq_core.ranking.worlds import WORLDS, Pool

FOLDER = Path(__file__).resolve().parent / "plans"
# What one worker does in less than an hour on a log of this size; a plan for more is run from the command line.
TEXT_LIMIT = 50_000
NAME_LIMIT = 120
MOST: Mapping[str, tuple[float, float]] = {
    "seed": (0, 2**31),
    "draws": (100, 10_000),
    "folds": (2, 20),
    "settings.rank": (1, 256),
    "settings.iterations": (1, 1_000),
    "settings.temperature": (0.001, 10),
    "settings.l2": (0, 10),
    "settings.alpha": (0.000001, 1_000),
    "settings.response_chars": (0, 10_000),
    "settings.fixed_lambda": (0, 100),
    "settings.gate_maximum": (0, 100),
    "settings.seed": (0, 2**31),
    "settings.aggregation.beta": (-1_000, 1_000),
    "settings.aggregation.delta": (-1_000, 1_000),
}
WHOLE = ("seed", "draws", "folds", "settings.rank", "settings.iterations", "settings.response_chars", "settings.seed")
LISTS: Mapping[str, int] = {"checks": 100, "claims": 100, "methods": 50, "sources": 10, "rewriters": 10}
TOOLS = 20  # of a tool-heldout check: each is fitted on its own
OPTIONS_MOST: Mapping[str, tuple[float, float]] = {"draws": (2, 200), "margin": (0, 1), "at_least": (0, 10)}


def shipped_plans() -> dict[str, str]:
    """The text of every shipped plan by its name."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.toml"))}


def plan_from_outside(text: str) -> EvidencePlan:
    """A plan that somebody typed: parsed, its values of the right kind and within what may be asked for.

    Raises PlanError naming the key.
    """
    if len(text) > TEXT_LIMIT:
        raise PlanError(f"a plan has up to {TEXT_LIMIT:,} characters, this one {len(text):,}")
    try:
        plan = parse_plan(text)
        _values(plan)
        for each in plan.checks:
            _check(plan, each)
        for claim in plan.claims:
            _named(claim.id, "claims.id", NAME_LIMIT)
            _named(claim.sentence, "claims.sentence", 2_000)
            _named(claim.family, "claims.family", NAME_LIMIT, blank=True)
    except (TypeError, AttributeError, RecursionError):  # a table where a value stands, or the other way round
        raise PlanError("a key holds another kind of value than it should") from None
    return plan


def _values(plan: EvidencePlan) -> None:
    _named(plan.name, "name", NAME_LIMIT)
    _named(plan.encoder, "encoder", NAME_LIMIT)
    if plan.system not in ("traces", "sq"):
        raise PlanError(f"system is {plan.system!r:.40}; expected traces or sq")
    for name, most in LISTS.items():
        if len(getattr(plan, name)) > most:
            raise PlanError(f"{name}: up to {most}, there are {len(getattr(plan, name))}")
    for path, (low, high) in MOST.items():
        value: Any = plan
        for part in path.split("."):
            value = getattr(value, part)
        _number(value, path, low, high, whole=path in WHOLE)
    _rows_and_settings(plan)
    _sources(plan)
    if plan.system == "sq" and (wrong := [name for name in plan.methods if name not in RECIPES]):
        raise PlanError(f"methods: no recipe is called {wrong[0]!r:.60}; there are {', '.join(RECIPES)}")
    known = (*FREE, MODEL)
    if plan.system == "traces" and (wrong := [name for name in plan.rewriters if name not in known]):
        raise PlanError(f"rewriters: none is called {wrong[0]!r:.60}; there are {', '.join(known)}")


def _rows_and_settings(plan: EvidencePlan) -> None:
    choices = {
        "split.by": (plan.split_by, get_args(SplitBy)),
        "settings.pool": (plan.settings.pool, get_args(Pool)),
        "settings.columns": (plan.settings.columns, ("pool", "world")),
        "rows.missing_query": (plan.rows.missing_query, ("error", "count")),
        "rows.group_by": (plan.rows.group_by, get_args(GroupBy)),
    }
    for path, (value, known) in choices.items():
        if value not in known:
            raise PlanError(f"{path} is {value!r:.40}; expected {' or '.join(known)}")
    if not 1 <= len(plan.settings.grid) <= 100 or not all(math.isfinite(each) for each in plan.settings.grid):
        raise PlanError("settings.grid: 1 to 100 numbers")
    mode = plan.rows.target_mode
    named = isinstance(mode, Mapping) and all(isinstance(v, str) for v in mode.values())
    if mode not in ("field", "whole") and not named:
        raise PlanError("rows.target_mode: field, whole, or a table of tool and path")
    for tool in plan.rows.exclude_tools:
        _named(tool, "rows.exclude_tools", 200)


def _sources(plan: EvidencePlan) -> None:
    for source in plan.sources:
        _named(source.name, "sources.name", NAME_LIMIT)
        _named(source.path, "sources.path", 500)
        _named(source.config, "sources.config", 200, blank=True)
        if source.role not in ("main", "transfer", "boundary"):
            raise PlanError(f"sources: role is {source.role!r:.40}; expected main, transfer or boundary")
    if len({source.name for source in plan.sources}) < len(plan.sources):
        raise PlanError("sources: a name is given twice")


def _check(plan: EvidencePlan, planned: CheckPlan) -> None:
    """Its methods are measured, its world is one, its numbers are within bounds; the check itself knows its options."""
    where, o = f"check {planned.id!s:.60}", planned.options
    _named(planned.id, "checks.id", NAME_LIMIT)
    measured = plan.all_methods if plan.system == "traces" else plan.methods
    for name in ("a", "b", "method"):
        if name in o and o[name] not in measured:
            raise PlanError(f"{where}: {o[name]!r:.60} is not measured; the plan measures {', '.join(measured)}")
    needs = {"a", "b"} if planned.kind in _PAIRS else {"a"} if planned.kind in _ONE else set()
    if missing := sorted(needs - set(o)):
        raise PlanError(f"{where}: {planned.kind} needs {' and '.join(missing)}")
    worlds = WORLDS if plan.system == "traces" else INVENTORY_WORLDS
    if "world" in o and o["world"] not in worlds:
        raise PlanError(f"{where}: world is {o['world']!r:.40}; expected {' or '.join(worlds)}")
    for name, (low, high) in OPTIONS_MOST.items():
        if name in o:
            _number(o[name], f"{where}: {name}", low, high, whole=name == "draws")
    if planned.kind == "tool-heldout":
        tools = o.get("tools")
        if not isinstance(tools, list) or not 1 <= len(tools) <= TOOLS or not all(isinstance(t, str) for t in tools):
            raise PlanError(f"{where}: tools is a list of 1 to {TOOLS} names")


_PAIRS = (
    "clustered-difference",
    "shuffled-history",
    "copy-baseline",
    "rewriter",
    "frequency",
    "opaque-ids",
    "cross-encoder",
)
_ONE = ("permuted-candidates", "shuffled-judgements")


def _named(value: object, where: str, most: int, *, blank: bool = False) -> None:
    if not isinstance(value, str) or len(value) > most or (not blank and not value.strip()) or "\0" in value:
        raise PlanError(f"{where}: a text of 1 to {most} characters, got {value!r:.40}")


def _number(value: object, where: str, low: float, high: float, *, whole: bool = False) -> None:
    good = isinstance(value, int) if whole else isinstance(value, int | float)
    if isinstance(value, bool) or not good or not low <= value <= high:  # type: ignore[operator]
        kind = "whole number" if whole else "number"
        raise PlanError(f"{where} is {value!r:.40}; expected a {kind} from {low:g} to {high:g}")
