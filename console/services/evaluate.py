"""Evaluate: the paper's tables on one inventory's own judgements."""

from collections.abc import Sequence
from typing import Any, cast

from console.models import Inventory
from console.services import embed
from console.services.errors import Invalid
from console.services.evaluation_data import evaluation_set, extras_for
from console.services.evaluation_overview import Overview, overview
from sq_core import embedding
from sq_core.evaluation import protocols
from sq_core.evaluation.data import EvaluationError, EvaluationSet, Row
from sq_core.evaluation.registry import PROTOCOLS as EVERY
from sq_core.evaluation.registry import run_protocol

OVERVIEW = "overview"  # a release's own versions against the baselines; what the evaluation pages show
PROTOCOLS = (*EVERY, OVERVIEW)
LABELS = ("as-judged", "running-max")
SIDE_BY_SIDE = ("operating-point", "mined")  # what two encoders are compared by; the others rest on the inventory's own


def checked_encoders(names: object) -> list[str]:
    """What a run may name. Raises Invalid."""
    if not (isinstance(names, list) and len(names) <= 2 and all(isinstance(name, str) for name in names)):
        raise Invalid(
            "encoders is a list of one or two names.", field="params.encoders", hint="Leave it out for the own one."
        )
    return names


def evaluate(
    inventory: Inventory, *, protocol: str, labels: str = "as-judged", encoders: Sequence[str] = ()
) -> dict[str, Any]:
    """The table of one protocol, as API.md's ``evaluate`` writes it; writes nothing.

    Beside the rows it names the judge, its rubric and the scenarios, which every figure rests on. With more than one of
    ``encoders`` (names as `create_inventory` takes them) the rows of each stand side by side and name theirs. Calls an
    encoder when a text has no vector yet. Raises Invalid for an unknown protocol, before the first fit, without
    judgements or where the protocol misses something.
    """
    others = [name for name in dict.fromkeys(encoders) if name != inventory.encoder]
    _check(protocol, labels, others)
    if protocol == OVERVIEW:
        return overview(inventory).result
    data = evaluation_set(inventory)
    if not data.relevant.any():
        raise Invalid("No judgement says that a turn needs an artifact.", hint="Import or run judgements first.")
    more: dict[str, Any] = {}
    rows: list[Row] = []
    if not encoders or inventory.encoder in encoders:
        rows = _rows(inventory, protocol, data, labels)
        if others:
            rows = [{"encoder": inventory.encoder_id} | row for row in rows]
    for name in others:
        encoder = embed.named_encoder(name)
        rows += [
            {"encoder": encoder.id} | row
            for row in _rows(inventory, protocol, evaluation_set(inventory, encoder), labels)
        ]
    if not rows:
        raise Invalid(f"{protocol} finds nothing to measure here.", field="protocol", hint="No two policies are near.")
    if protocol == "operating-point":
        more["larger_k"] = protocols.larger_k(data, labels=cast("protocols.Labels", labels))
    if protocol == "mined":
        more["splits"] = f"{len(protocols.SEEDS)} half splits of the scenarios, exemplars mined from the other half"
    blank = [key for key, row in zip(data.artifacts, data.text_vectors, strict=True) if not row.any()]
    if blank:
        more["text_without_direction"] = blank  # named, since their cosine to the text means nothing
    judge = inventory.judge
    return {
        "protocol": protocol,
        "inventory": inventory.slug,
        "encoder": inventory.encoder_id,
        "states": int(data.judged.any(axis=1).sum()),
        "artifacts": len(data.artifacts),
        "labels": labels,
        "judge": judge.name if judge else "",
        "rubric": judge.rubric if judge else "",
        "scenarios": len(set(data.scenario)),
        "not_embedded": embed.pending_states(inventory).count(),
        **more,
        "rows": rows,
    }


def _check(protocol: str, labels: str, others: Sequence[str]) -> None:
    if protocol not in PROTOCOLS:
        raise Invalid(
            f"The protocol {protocol!r} is not here.", field="protocol", hint=f"Choose one of {', '.join(PROTOCOLS)}."
        )
    if labels not in LABELS:
        raise Invalid(f"labels is {labels!r}.", field="labels", hint=f"Choose one of {', '.join(LABELS)}.")
    if others and protocol not in SIDE_BY_SIDE:
        raise Invalid(
            f"{protocol} rests on the inventory's own encoder.", field="encoder",
            hint=f"Encoders are compared by {' and '.join(SIDE_BY_SIDE)}.",
        )  # fmt: skip


def _rows(inventory: Inventory, protocol: str, data: EvaluationSet, labels: str) -> list[Row]:
    chosen = cast("protocols.Labels", labels)
    try:
        if protocol == "mined":
            return protocols.mined(data, labels=chosen, minimum=inventory.minimum_material)
        return run_protocol(protocol, data, labels=chosen, extras=extras_for(inventory, protocol, data))
    except EvaluationError as error:
        raise Invalid(f"{protocol} cannot be measured here: {error}.", field="protocol") from error
    except embedding.ZeroVector as error:
        raise Invalid(f"{protocol} met a text without direction: {error}.", field="protocol") from error


__all__ = ["LABELS", "OVERVIEW", "PROTOCOLS", "Overview", "evaluate", "evaluation_set", "overview"]
