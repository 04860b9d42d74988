"""From conversations to numbers: traces, rows, vectors, each text encoded once; with digests of all that went in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sq_core.causal.prefix import PREFIX_VERSION, MissingQuery, PrefixReport, PrefixRow, build_all
from sq_core.causal.targets import TargetMode
from sq_core.causal.trace import GroupBy, Trace, observed_text, trace_of
from sq_core.causal.vectors import RESPONSE_CHARS, Cache, VectorStore, history_index
from sq_core.conversation import Conversation, prefix_digests
from sq_core.embedding import Encoder
from sq_core.evidence.rewriting import Rewriter, observed_messages, prefixes
from sq_core.ranking.methods import Floats, RankingData
from sq_core.ranking.worlds import vocabulary


@dataclass(frozen=True, slots=True)
class RowSettings:
    """How conversations become rows."""

    target_mode: TargetMode = "field"
    exclude_tools: frozenset[str] = frozenset()
    missing_query: MissingQuery = "count"
    group_by: GroupBy = "scenario"


@dataclass(frozen=True, slots=True, eq=False)
class TraceSet:
    """Traces and their rows, with the report that accounts for every call."""

    traces: tuple[Trace, ...]
    rows: tuple[PrefixRow, ...]
    report: PrefixReport
    settings: RowSettings

    @property
    def digest(self) -> str:
        """sha256 over every trace's identity and last prefix digest, and over how rows were made."""
        s = self.settings
        mode = s.target_mode if isinstance(s.target_mode, str) else dict(s.target_mode)
        how = [PREFIX_VERSION, mode, sorted(s.exclude_tools), s.missing_query, s.group_by]
        lines = [json.dumps(how, sort_keys=True)]
        for t in self.traces:
            last = prefix_digests(t.messages)[-1] if t.messages else ""
            lines.append(json.dumps([t.trace_id, t.session_id, t.group_id, t.config_id, last]))
        return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def configs(self) -> tuple[str, ...]:
        return tuple(sorted({row.config_id for row in self.rows}))


def rows_digest(rows: Sequence[PrefixRow]) -> str:
    """sha256 over row ids and targets: which rows something was fitted on."""
    text = "\n".join(json.dumps([row.row_id, row.target]) for row in rows)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def trace_set(
    conversations: Sequence[Conversation], settings: RowSettings, configs: Mapping[str, str] | None = None
) -> TraceSet:
    """Rows of all conversations; `configs` names what produced one (by external id) where its log does not."""
    traces = tuple(
        trace_of(each, group_by=settings.group_by, config=(configs or {}).get(each.external_id, ""))
        for each in conversations
    )
    rows, report = build_all(
        traces,
        target_mode=settings.target_mode,
        exclude_tools=settings.exclude_tools,
        missing_query=settings.missing_query,
    )
    return TraceSet(traces, tuple(rows), report, settings)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a rewriter took over all rows; `rewrites` counts distinct prefixes."""

    rewriter: str
    rewrites: int
    tokens: int


def prepare(
    given: TraceSet,
    encoder: Encoder,
    *,
    cache: Cache | None = None,
    rewriters: Sequence[Rewriter] = (),
    response_chars: int = RESPONSE_CHARS,
) -> tuple[RankingData, tuple[Cost, ...]]:
    """The rows as numbers. Candidates, histories and queries have stores of their own over one cache."""
    shared: Cache = {} if cache is None else cache
    rows = given.rows
    words = vocabulary(rows)
    histories, queries = VectorStore(encoder, shared), VectorStore(encoder, shared)
    history = history_index(rows, histories, response_chars=response_chars)
    by_id = {trace.trace_id: trace for trace in given.traces}
    actions = {(row.trace_id, row.action_message_index) for row in rows}
    observed = {key: observed_text(by_id[key[0]].messages, key[1]) for key in sorted(actions)}
    rewritten: dict[str, Floats] = {}
    costs = []
    asked = prefixes(given.traces, sorted(actions)) if rewriters else {}
    for each in rewriters:
        made: dict[str, tuple[str, int]] = {}  # by digest: what is asked once is paid once
        for row in rows:
            digest = asked[row.trace_id, row.action_message_index].digest
            if digest not in made:
                observed_then = observed_messages(by_id[row.trace_id], row.action_message_index)
                made[digest] = each.rewrite(row.query_text, observed_then)
        texts = [made[asked[row.trace_id, row.action_message_index].digest][0] for row in rows]
        rewritten[each.name] = _wide(queries.vectors(texts))
        costs.append(Cost(each.name, len(made), sum(tokens for _, tokens in made.values())))
    data = RankingData(
        rows=rows,
        encoder_id=encoder.id,
        words=words,
        candidate_vectors=_wide(VectorStore(encoder, shared).vectors(words)),
        queries=_wide(queries.vectors([row.query_text for row in rows])),
        tools=_wide(queries.vectors([row.context for row in rows])),
        history=history,
        history_vectors=_wide(histories.matrix),
        observed=tuple(observed[row.trace_id, row.action_message_index] for row in rows),
        rewritten=rewritten,
    )
    return data, tuple(costs)


def _wide(vectors: np.ndarray) -> Floats:
    found: Floats = vectors.astype(np.float64)
    return found
