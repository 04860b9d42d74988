"""What a kind of run has to say: how its plan is made, what one item does, and how results are stored.

The machinery (`services.run_work`) claims items, calls `perform` in threads for kinds that call a model and in the worker's
own thread for the others, and calls `store` inside the transaction that ends the items. A kind never touches run, item,
attempt or spend rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from console.models import Inventory, ModelRole, Role, Run, RunKind, RunState

# An outcome's code where the provider has the call and has not done it yet: the item goes back for ``retry_after`` seconds, no
# attempt is counted and nothing is recorded. A kind that gives it says a `Kind.claim_size`.
PENDING = "pending"


@dataclass(frozen=True)
class ItemDraft:
    """One item of a plan: ``key`` is unique within the run and reads like a place ("sky-112/3 cancel-flight")."""

    key: str
    payload: dict[str, Any]
    repeat: int = 0


@dataclass(frozen=True)
class Forecast:
    """What a plan will take, before it is made. ``money`` None = the price is unknown."""

    items: int
    calls: int
    tokens_in: int = 0
    tokens_out: int = 0
    money: float | None = None
    notes: tuple[str, ...] = ()  # what was left out and why: "1,204 pairs are judged already"


@dataclass(frozen=True)
class Usage:
    """One model call's tokens, and whose artifact they were spent on (its row id)."""

    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    artifact: int | None = None
    recorded: bool = False
    discount: float = 1.0  # part of the price that is asked for it: .5 in OpenAI's batch API


@dataclass(frozen=True)
class Outcome:
    """How one item went.

    ``code`` "" = well, with ``value`` for `store`; else an error code, ``again`` says whether another try may help, and
    ``retry_after`` (s) when the server said so. ``raw`` is a reply that could not be used. Usage is paid either way.
    """

    value: Any = None
    usage: tuple[Usage, ...] = ()
    code: str = ""
    message: str = ""
    again: bool = False
    retry_after: float | None = None
    status: int | None = None
    raw: str = ""
    ms: int = 0

    @property
    def ok(self) -> bool:
        return not self.code


@dataclass(frozen=True)
class Item:
    """A claimed item, as a kind sees it."""

    pk: int
    key: str
    payload: dict[str, Any]
    attempt: int  # 1 for the first


@dataclass
class Context:
    """What `prepare` read once for a batch of items; kinds subclass it or put what they need into ``data``."""

    run: Run
    inventory: Inventory
    data: dict[str, Any] = field(default_factory=dict)


class Kind(Protocol):
    """One kind of run. All methods but `perform` of a calling kind may use the database."""

    kind: RunKind
    role: Role  # who may start it
    calls_model: bool  # `perform` runs in threads and must not touch the database
    batch: int  # items claimed at a time
    lease_s: int  # an item not ended by then is lost and goes back
    tries: int  # attempts per item, the first included

    @property
    def model_role(self) -> ModelRole | None:
        """Whose model it calls."""
        ...

    def role_for(self, params: dict[str, Any]) -> Role:
        """Who may start or handle such a run: ``role``, or a higher one that its params ask for."""
        ...

    def claim_size(self, run: Run) -> int | None:
        """Items claimed at a time in place of ``batch`` and of the limits per minute; None where those hold."""
        ...

    def calls_each(self, run: Run) -> int:
        """Model calls that one item makes at most."""
        ...

    def calls_now(self, run: Run) -> bool:
        """Whether the items that wait may call a model: only then do caps and limits hold them back."""
        ...

    def check(self, inventory: Inventory, scope: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        """The params with their defaults filled in, frozen on the run. Raises Invalid naming the field."""
        ...

    def plan(self, inventory: Inventory, scope: dict[str, Any], params: dict[str, Any]) -> Iterable[ItemDraft]:
        """The items, in a fixed order, generated so that a large plan never lies in memory whole."""
        ...

    def forecast(self, inventory: Inventory, scope: dict[str, Any], params: dict[str, Any]) -> Forecast:
        """What a plan would take; writes nothing."""
        ...

    def prepare(self, run: Run, items: Sequence[Item]) -> Context:
        """Read what these items need, once."""
        ...

    def perform(self, context: Context, item: Item) -> Outcome:
        """Do one item. Never raises for what a provider or an item can be blamed for."""
        ...

    def store(self, context: Context, done: Sequence[tuple[Item, Outcome]]) -> list[dict[str, Any] | None]:
        """Write the good outcomes inside the caller's transaction; safe to repeat. The small results kept on the items."""
        ...

    def settle(self, run: Run) -> dict[str, Any]:
        """After the terminal state is committed: what follows from the whole run. Safe to repeat. The run's result."""
        ...


class Ordinary:
    """What most kinds say alike: one role for all params, their own batch, one call an item."""

    role: Role
    calls_model: bool
    model_role: ModelRole | None = None

    def role_for(self, params: dict[str, Any]) -> Role:
        return self.role

    def claim_size(self, run: Run) -> int | None:
        return None

    def calls_each(self, run: Run) -> int:
        return 1

    def calls_now(self, run: Run) -> bool:
        return self.calls_model


def say_how_far(run: Run, note: str) -> bool:
    """What stands beside a running run's state until it ends, for a kind whose items take long; False where the run is
    no longer wanted, so that the item is to be given back."""
    if Run.objects.filter(pk=run.pk, state=RunState.RUNNING).update(note=note[:500]):
        return True
    return not Run.objects.filter(pk=run.pk, state__in=[RunState.CANCELLING, RunState.PAUSED]).exists()
