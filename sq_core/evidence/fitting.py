"""`fit_state_adapter`: one adapter from conversations and a configuration in TOML, the same bytes each time."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from sq_core.causal.targets import describe_mode
from sq_core.causal.vectors import Cache
from sq_core.conversation import Conversation
from sq_core.embedding import Encoder
from sq_core.evidence.inputs import RowSettings, prepare, rows_digest, trace_set
from sq_core.evidence.measuring import donors_for
from sq_core.evidence.plan import PlanError, rank_settings, row_settings
from sq_core.evidence.splits import group_split
from sq_core.ranking.methods import ADAPTERS, Fold, Parts, RankSettings
from sq_core.ranking.state import Adapter


@dataclass(frozen=True, slots=True)
class AdapterConfig:
    """[rows] and [settings] as in an evidence plan; `method` is one of `ADAPTERS`.

    `fractions` of the groups train, validate and test; (1, 0, 0) fits on all of them.
    """

    method: str = "state"
    encoder: str = "minilm"
    fractions: tuple[float, float, float] = (1.0, 0.0, 0.0)
    rows: RowSettings = field(default_factory=RowSettings)
    settings: RankSettings = field(default_factory=RankSettings)

    def __post_init__(self) -> None:
        if self.method not in ADAPTERS:
            raise PlanError(f"method is {self.method!r}; expected one of {', '.join(ADAPTERS)}")


def parse_config(text: str) -> AdapterConfig:
    """A configuration from TOML; unknown keys are refused."""
    try:
        raw: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise PlanError(f"not TOML: {problem}") from None
    if unknown := sorted(set(raw) - {"method", "encoder", "fractions", "rows", "settings"}):
        raise PlanError(f"unknown {', '.join(unknown)}; expected method, encoder, fractions, rows, settings")
    values: dict[str, Any] = {
        "rows": row_settings(raw.pop("rows", {})),
        "settings": rank_settings(raw.pop("settings", {})),
    }
    if "fractions" in raw:
        values["fractions"] = tuple(map(float, raw.pop("fractions")))
    return AdapterConfig(**raw, **values)


def fit_state_adapter(
    config: AdapterConfig,
    conversations: Sequence[Conversation],
    encoder: Encoder,
    *,
    seed: int = 0,
    cache: Cache | None = None,
) -> Adapter:
    """The adapter, with a record of everything it depends on; `sq_core.ranking.state.save_adapter` writes it.

    Raises:
        TraceError: a log breaks the contract.
        ValueError: no row can train.
    """
    given = trace_set(conversations, config.rows)
    data, _ = prepare(given, encoder, cache=cache, response_chars=config.settings.response_chars)
    if config.fractions == (1.0, 0.0, 0.0):
        none = np.zeros(0, dtype=np.int64)
        parts = Parts(np.arange(len(given.rows), dtype=np.int64), none, none)
    else:
        parts = group_split(given.rows, fractions=config.fractions, seed=seed)
    donors = donors_for((config.method,), data, parts, seed)
    fold = Fold(data, parts, replace(config.settings, seed=seed), donors=donors)
    adapter = fold.adapter(config.method)
    record = {
        **adapter.record,
        "method": config.method,
        "encoder_id": encoder.id,
        "aggregation": asdict(config.settings.aggregation),
        "columns": config.settings.columns,
        "pool": config.settings.pool,
        "response_chars": config.settings.response_chars,
        "target_mode": describe_mode(config.rows.target_mode),
        "group_by": config.rows.group_by,
        "without_positive": fold.without_positive,
        "training_rows": rows_digest(fold.rows(parts.train)),
        "traces": given.digest,
        "calls": asdict(given.report),
    }
    return replace(adapter, record=record)
