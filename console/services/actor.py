"""Who does it: every service verb takes ``by=``."""

from dataclasses import dataclass

from console.models import Run, User

RUN_REQUEST = "run:"  # what a run's writes have in place of a request's id, before the run's own


@dataclass(frozen=True)
class Actor:
    """``name`` is what audit rows keep ("" = the system, "token:NAME" for an agent); ``user`` is null for tokens and runs.

    ``overrides``: may do what an inventory leaves to publishers (`Inventory.override_needed`); callers know the role.
    ``claim`` is the row of the Idempotency-Key it acts under, so that the write itself marks it (`idempotency.wrote`).
    """

    name: str = ""
    user: User | None = None
    request_id: str = ""
    claim: int | None = None
    overrides: bool = True

    @property
    def is_person(self) -> bool:
        return self.user is not None


SYSTEM = Actor()


def person(user: User, request_id: str = "") -> Actor:
    return Actor(name=user.get_username(), user=user, request_id=request_id)


def for_run(run: Run) -> Actor:
    """Who a run writes for: the person who started it, with the run in place of the request."""
    return Actor(name=run.actor, user=run.user, request_id=RUN_REQUEST + run.public_id)
