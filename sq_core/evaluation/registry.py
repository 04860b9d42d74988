"""Every protocol of ``evaluate`` by name: one signature, rows as API.md prints them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sq_core.evaluation import protocols
from sq_core.evaluation.ablations import ablations
from sq_core.evaluation.calibrated import calibrated, coverage_of_talk, mined_frontier, promise
from sq_core.evaluation.capabilities import capabilities
from sq_core.evaluation.ceiling import ceiling
from sq_core.evaluation.controls import controls
from sq_core.evaluation.cost import cost
from sq_core.evaluation.data import EvaluationError, EvaluationSet, Labels, Row
from sq_core.evaluation.decomposition import decomposition
from sq_core.evaluation.expiry_effect import expiry_effect
from sq_core.evaluation.extras import NOTHING, Extras
from sq_core.evaluation.frontier import frontier
from sq_core.evaluation.heldout_policy import policy_heldout
from sq_core.evaluation.meters import near_synonyms, pass_marks
from sq_core.evaluation.ownership import ownership
from sq_core.evaluation.pooling_stress import pooling_stress
from sq_core.evaluation.saturation import saturation
from sq_core.evaluation.saturation_mined import saturation_mined


class EvaluationProtocol(Protocol):
    """A table: the set, the label reading and what else it may read → rows."""

    def __call__(self, data: EvaluationSet, *, labels: Labels = ..., extras: Extras = ...) -> list[Row]: ...


def _operating_point(data: EvaluationSet, *, labels: Labels = "as-judged", extras: Extras = NOTHING) -> list[Row]:
    del extras
    return protocols.operating_point(data, labels=labels)


def _mined(data: EvaluationSet, *, labels: Labels = "as-judged", extras: Extras = NOTHING) -> list[Row]:
    del extras
    return protocols.mined(data, labels=labels)


def _saturation(data: EvaluationSet, *, labels: Labels = "as-judged", extras: Extras = NOTHING) -> list[Row]:
    return saturation(data, labels=labels, extras=extras) + saturation_mined(data, labels=labels)


PROTOCOLS: Mapping[str, EvaluationProtocol] = {
    "operating-point": _operating_point,
    "ablations": ablations,
    "pooling-stress": pooling_stress,
    "mined": _mined,
    "decomposition": decomposition,
    "cost": cost,
    "ceiling": ceiling,
    "saturation": _saturation,
    "expiry": expiry_effect,
    "capabilities": capabilities,
    "ownership": ownership,
    # Beyond the names of API.md, for pages and benchmarks.
    "frontier": frontier,
    "frontier-mined": mined_frontier,
    "calibrated": calibrated,
    "promise": promise,
    "coverage-meter": coverage_of_talk,
    "controls": controls,
    "policy-heldout": policy_heldout,
    "near-synonyms": near_synonyms,
    "pass-marks": pass_marks,
}


def run_protocol(
    name: str, data: EvaluationSet, *, labels: Labels = "as-judged", extras: Extras = NOTHING
) -> list[Row]:
    """The rows of the protocol called ``name``. Raises EvaluationError for an unknown one or a missing extra."""
    if name not in PROTOCOLS:
        raise EvaluationError(f"no protocol {name!r}; expected one of {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name](data, labels=labels, extras=extras)
