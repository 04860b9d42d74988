"""Evidence plans in TOML: what is measured on which sources, and the claims with the checks that would permit them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from sq_core.evaluation.resampling import DRAWS
from sq_core.evidence.claims import PERMISSIONS, Claim
from sq_core.evidence.inputs import RowSettings
from sq_core.evidence.splits import SplitBy
from sq_core.ranking.methods import METHODS, REWRITTEN, RankSettings
from sq_core.ranking.state import Aggregation

Role = Literal["main", "transfer", "boundary"]
PLAN_VERSION = 1
T = TypeVar("T")


class PlanError(ValueError):
    """A plan that cannot be run as written; says which table and key."""


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """One set of traces. `main` sources are measured together; `transfer` ones are fitted apart as other configurations;
    `boundary` ones run once with the settings as they are and are shown apart.
    """

    name: str
    path: str
    config: str = ""
    role: Role = "main"


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """One check: its id, its kind and what that kind needs (a, b, world, tools, ...)."""

    id: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvidencePlan:
    """A whole plan; `source` is the text it was read from, whose digest a bundle keeps."""

    name: str
    system: Literal["traces", "sq"]
    source: str = ""
    encoder: str = "minilm"
    seed: int = 0
    draws: int = DRAWS
    folds: int = 5
    split_by: SplitBy = "group"
    rows: RowSettings = field(default_factory=RowSettings)
    settings: RankSettings = field(default_factory=RankSettings)
    sources: tuple[SourcePlan, ...] = ()
    methods: tuple[str, ...] = METHODS
    rewriters: tuple[str, ...] = ("identity", "concatenation")
    checks: tuple[CheckPlan, ...] = ()
    claims: tuple[Claim, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ids = [each.id for each in self.checks] + [each.id for each in self.claims]
        if twice := sorted({each for each in ids if ids.count(each) > 1}):
            raise PlanError(f"{self.name}: {', '.join(twice)} is given twice; ids of checks and claims are unique")
        known = {each.id for each in self.checks}
        for claim in self.claims:
            if lost := [name for name in claim.requires if name not in known]:
                raise PlanError(f"claim {claim.id}: requires {', '.join(lost)}, which no check is called")
        for check in self.checks:
            if check.kind not in PERMISSIONS:
                raise PlanError(f"check {check.id}: kind is {check.kind!r}; expected one of {', '.join(PERMISSIONS)}")
        if self.system == "traces":
            wrong = [name for name in self.methods if name not in METHODS and not name.startswith(REWRITTEN)]
            if wrong or not any(each.role == "main" for each in self.sources):
                raise PlanError(f"{self.name}: no main source, or no method is called {', '.join(wrong)}")

    @property
    def all_methods(self) -> tuple[str, ...]:
        """The methods with every rewriter as a method of its own."""
        return tuple(dict.fromkeys([*self.methods, *(REWRITTEN + name for name in self.rewriters)]))


def read_plan(path: Path) -> EvidencePlan:
    """The plan in a TOML file. PlanError for what cannot be run."""
    return parse_plan(path.read_text(encoding="utf-8"))


def parse_plan(text: str) -> EvidencePlan:
    """A plan from its text; every unknown key is refused, so that a misspelt setting is never silently the default."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise PlanError(f"not TOML: {problem}") from None
    version = raw.pop("version", PLAN_VERSION)
    if version != PLAN_VERSION:
        raise PlanError(f"version is {version}; expected {PLAN_VERSION}")
    values: dict[str, Any] = {"source": text}
    values["rows"] = row_settings(raw.pop("rows", {}))
    values["settings"] = rank_settings(raw.pop("settings", {}))
    split = _known(raw.pop("split", {}), {"folds", "by"}, "split")
    values |= {"folds": split.get("folds", 5), "split_by": split.get("by", "group")}
    values["sources"] = tuple(_record(SourcePlan, each, "sources") for each in raw.pop("sources", []))
    values["checks"] = tuple(_check(each) for each in raw.pop("checks", []))
    values["claims"] = tuple(_claim(each) for each in raw.pop("claims", []))
    for name in ("methods", "rewriters"):
        if name in raw:
            values[name] = tuple(raw.pop(name))
    return _record(EvidencePlan, raw | values, "plan")


def row_settings(raw: Mapping[str, Any]) -> RowSettings:
    """[rows] of a plan or of an adapter's configuration."""
    values = dict(raw)
    if "exclude_tools" in values:
        values["exclude_tools"] = frozenset(values["exclude_tools"])
    return _record(RowSettings, values, "rows")


def rank_settings(raw: Mapping[str, Any]) -> RankSettings:
    """[settings] of a plan or of an adapter's configuration; [settings.aggregation] is its own table."""
    values = dict(raw)
    if "aggregation" in values:
        values["aggregation"] = _record(Aggregation, values["aggregation"], "settings.aggregation")
    if "grid" in values:
        values["grid"] = tuple(map(float, values["grid"]))
    return _record(RankSettings, values, "settings")


def _check(raw: Mapping[str, Any]) -> CheckPlan:
    options = {name: value for name, value in raw.items() if name not in ("id", "kind")}
    return _record(CheckPlan, {"id": raw.get("id"), "kind": raw.get("kind"), "options": options}, "checks")


def _claim(raw: Mapping[str, Any]) -> Claim:
    return _record(Claim, {**raw, "requires": tuple(raw.get("requires", ()))}, "claims")


def _known(raw: Mapping[str, Any], names: set[str], table: str) -> Mapping[str, Any]:
    if unknown := sorted(set(raw) - names):
        raise PlanError(f"{table}: unknown {', '.join(unknown)}; expected some of {', '.join(sorted(names))}")
    return raw


def _record(kind: type[T], raw: Mapping[str, Any], table: str) -> T:
    _known(raw, {each.name for each in fields(kind)}, table)  # type: ignore[arg-type]
    try:
        return kind(**raw)
    except TypeError as problem:
        raise PlanError(f"{table}: {problem}") from None
    except PlanError:
        raise
    except ValueError as problem:
        raise PlanError(f"{table}: {problem}") from None
