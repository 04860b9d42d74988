"""Who does it: every service verb takes ``by=``."""

from dataclasses import dataclass

from console.models import User


@dataclass(frozen=True)
class Actor:
    """``name`` is what audit rows keep ("" = the system, "token:NAME" for an agent); ``user`` is null for tokens and runs.

    ``claim`` is the row of the Idempotency-Key it acts under, so that the write itself marks it (`idempotency.wrote`).
    """

    name: str = ""
    user: User | None = None
    request_id: str = ""
    claim: int | None = None

    @property
    def is_person(self) -> bool:
        return self.user is not None


SYSTEM = Actor()


def person(user: User, request_id: str = "") -> Actor:
    return Actor(name=user.get_username(), user=user, request_id=request_id)
