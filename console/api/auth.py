"""Who calls: a bearer token with a role, perhaps for one inventory. Asked before anything else of the request is read."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from ninja.security import HttpBearer

from console.models import ApiToken, Inventory, Role
from console.services import accounts
from console.services.actor import Actor
from console.services.errors import Forbidden, NotFound, ServiceError
from console.services.idempotency import Claim


class Unauthenticated(ServiceError):
    status, code = 401, "unauthenticated"


@dataclass(frozen=True)
class Caller:
    """The token that calls, as the actor of what it does."""

    token: ApiToken
    actor: Actor

    @property
    def role(self) -> Role:
        return Role(self.token.role)

    def require(self, needed: Role, *, field: str = "") -> None:
        """Raises Forbidden for a lower role."""
        if not self.role.includes(needed):
            raise Forbidden(
                f"This takes the role {needed}; the token has {self.role}.",
                field=field,
                hint="Ask an admin for such a token.",
            )

    def may_see(self, inventory: Inventory) -> bool:
        return self.token.inventory_id in (None, inventory.pk)


class ApiRequest(HttpRequest):
    """An authenticated request; ``inventory`` is set under ``/inventories/{inv}``."""

    request_id: str
    caller: Caller
    inventory: Inventory
    claim: Claim | None
    in_clear: bool  # answered without hiding anything (`api.said`)


class BearerToken(HttpBearer):
    """``Authorization: Bearer sb_…`` of at least the role ``needed``, for the inventory of the address.

    Another inventory than the token's own does not exist for it: 404, as for a wrong address. ``everywhere`` asks for a
    token of all inventories.
    """

    def __init__(self, needed: Role, *, everywhere: bool = False) -> None:
        super().__init__()
        self.needed, self.everywhere = needed, everywhere

    def __call__(self, request: HttpRequest) -> Caller:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated("There is no token.", hint="Send Authorization: Bearer sb_….")
        return self.authenticate(request, token.strip())

    def authenticate(self, request: Any, token: str) -> Caller:
        found = accounts.find_token(token)
        if found is None:
            raise Unauthenticated(
                "The token is unknown, expired or revoked.", hint="Mint another one, or ask an admin."
            )
        accounts.touch_token(found)
        overrides = Role(found.role).includes(Role.PUBLISHER)
        actor = Actor(name=f"token:{found.name}", request_id=request.request_id, overrides=overrides)
        request.caller = caller = Caller(found, actor)
        slug = request.resolver_match.kwargs.get("inv")
        if slug is not None:
            inventory = Inventory.objects.filter(slug=slug).first()
            if inventory is None or not caller.may_see(inventory):
                raise NotFound(f"There is no inventory {slug[:80]!r}.", field="inv")
            request.inventory = inventory
        caller.require(self.needed)
        if self.everywhere and found.inventory_id is not None:
            raise Forbidden("This takes a token of all inventories.", hint="Ask an admin for such a token.")
        return caller
