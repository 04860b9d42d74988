"""Every kind of run by its name."""

from console.models import ModelRole, RunKind
from console.services import generate, judge, mine, run_simple
from console.services.errors import Invalid
from console.services.run_kind import Kind

_ALL: tuple[Kind, ...] = (
    generate.KIND,
    judge.KIND,
    mine.KIND,
    run_simple.SCORE,
    run_simple.EVALUATE,
    run_simple.CALIBRATE,
)
KINDS: dict[str, Kind] = {kind.kind.value: kind for kind in _ALL}
MODEL_OF = {RunKind.GENERATE: ModelRole.GENERATOR, RunKind.JUDGE: ModelRole.JUDGE}


def kind_of(name: str) -> Kind:
    """Raises Invalid for a kind that there is not."""
    if name not in KINDS:
        raise Invalid(f"There is no run of kind {name[:40]!r}.", field="kind", hint=f"Use one of {', '.join(KINDS)}.")
    return KINDS[name]
