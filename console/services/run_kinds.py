"""Every kind of run by its name."""

from typing import Any

from console.models import ModelRole, Role, RunKind
from console.services import generate, import_run, judge, mine, run_rewrites, run_simple
from console.services.errors import Invalid
from console.services.run_kind import Kind

_ALL: tuple[Kind, ...] = (
    generate.KIND,
    judge.KIND,
    mine.KIND,
    run_simple.SCORE,
    run_simple.EVALUATE,
    run_simple.CALIBRATE,
    import_run.KIND,
)
KINDS: dict[str, Kind] = {kind.kind.value: kind for kind in _ALL}
ONCE = (RunKind.IMPORT,)  # of one file: nothing for the clock
MODEL_OF = {RunKind.GENERATE: ModelRole.GENERATOR, RunKind.JUDGE: ModelRole.JUDGE}


def kind_of(name: str, params: Any = None) -> Kind:
    """The kind, for params as asked for or frozen: an evaluation whose plan asks a model is one that calls. Raises Invalid
    for a kind that there is not."""
    if name not in KINDS:
        raise Invalid(f"There is no run of kind {name[:40]!r}.", field="kind", hint=f"Use one of {', '.join(KINDS)}.")
    if KINDS[name] is run_simple.EVALUATE and isinstance(params, dict) and run_rewrites.asks_model(params):
        return run_rewrites.EVALUATE
    return KINDS[name]


def model_of(name: str, params: Any = None) -> ModelRole | None:
    """Whose model such a run calls."""
    kind = kind_of(name, params)
    return MODEL_OF.get(kind.kind) or kind.model_role


def role_for(name: str, params: Any) -> Role:
    """Who may start or handle such a run: the kind's role, or a higher one that its params ask for."""
    return kind_of(name, params).role_for(params if isinstance(params, dict) else {})
