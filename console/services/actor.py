"""Who does it: every service verb takes ``by=``."""

from dataclasses import dataclass

from console.models import User


@dataclass(frozen=True)
class Actor:
    """``name`` is what audit rows keep ("" = the system, "token:NAME" for an agent); ``user`` is null for tokens and runs."""

    name: str = ""
    user: User | None = None
    request_id: str = ""

    @property
    def is_person(self) -> bool:
        return self.user is not None


SYSTEM = Actor()


def person(user: User, request_id: str = "") -> Actor:
    return Actor(name=user.get_username(), user=user, request_id=request_id)
