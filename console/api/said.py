"""Texts of conversations in answers: masked as pages show them, or whole where the call says ``reveal=true`` and may.

A field of an answer that holds such a text is a `Said` (or a `SaidJson`); the routes whose answers have one take the parameter.
"""

from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ValidationInfo

from console.api.auth import ApiRequest
from console.models import Inventory, Role
from console.services import redaction
from console.services.errors import Invalid

NAME = "reveal"
PARAMETER: dict[str, Any] = {
    "in": "query",
    "name": NAME,
    "required": False,
    "schema": {"type": "boolean", "default": False},
    "description": "Texts in the clear where the inventory hides personal data: takes its reveal role, and an audit row is kept.",
}
_WORDS = {"true": True, "1": True, "false": False, "0": False}


class _Mark:
    """What `says` looks for."""


def _hiding(info: ValidationInfo) -> Inventory | None:
    """The inventory of the request that is answered, unless it is answered in the clear."""
    request = (info.context or {}).get("request")
    return None if getattr(request, "in_clear", False) else getattr(request, "inventory", None)


def _text(value: str, info: ValidationInfo) -> str:
    return redaction.masked(_hiding(info), value)


def _json(value: Any, info: ValidationInfo) -> Any:
    return redaction.masked_json(_hiding(info), value)


def named(value: Any, info: ValidationInfo) -> Any:
    """With what stands under the names of people's words masked."""
    return redaction.masked_json(_hiding(info), value, redaction.SAID)


Said = Annotated[str, _Mark(), AfterValidator(_text)]
SaidJson = Annotated[Any, _Mark(), AfterValidator(_json)]  # every text in it
SaidDict = Annotated[dict[str, Any], _Mark(), AfterValidator(_json)]
SaidDicts = Annotated[list[dict[str, Any]], _Mark(), AfterValidator(named)]  # texts under the names of people's words
SaidNamed = Annotated[dict[str, Any], _Mark(), AfterValidator(named)]


def says(answer: Any, seen: frozenset[Any] = frozenset()) -> bool:
    """Whether an answer of this type has a field with somebody's words."""
    if isinstance(answer, type) and issubclass(answer, BaseModel):
        if answer in seen:
            return False
        fields = answer.model_fields.values()
        inside = seen | {answer}
        return getattr(answer, "said", False) or any(
            any(isinstance(part, _Mark) for part in field.metadata) or says(field.annotation, inside)
            for field in fields
        )
    return isinstance(answer, _Mark) or any(says(part, seen) for part in get_args(answer))


def asked_clear(request: ApiRequest, name: str) -> None:
    """Reads the parameter of a call by its operation id, and keeps who took texts in the clear. Raises Invalid, Forbidden."""
    given = request.GET.get(NAME, "false").lower()
    if given not in _WORDS:
        raise Invalid(f"reveal is {given[:20]!r}.", field=NAME, hint="Give true or false.")
    inventory: Inventory | None = getattr(request, "inventory", None)
    if not _WORDS[given] or redaction.rules_of(inventory) is None or inventory is None:
        return
    request.caller.require(Role(inventory.reveal_role), field=NAME)
    redaction.note_clear(inventory, by=request.caller.actor, what=name, reason=f"reveal=true: {request.path[:300]}")
    request.in_clear = True
