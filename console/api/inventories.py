"""Inventories: list, make, read, set."""

from typing import Any

from ninja import Status

from console.api.answers import InventoryAnswer
from console.api.auth import ApiRequest
from console.api.idempotency import answered_by
from console.api.pagination import page
from console.api.routes import Family
from console.api.schemas import PAGE, After, Inv, InventoryEdit, Limit, NewInventory, Page
from console.models import Inventory, OperatingPoint, Role
from console.services import inventories

router = Family("inventories")


def shape(rows: list[Inventory]) -> list[dict[str, Any]]:
    points = OperatingPoint.objects.current().filter(inventory__in=rows).select_related("centre")
    by_inventory = {point.inventory_id: point for point in points}
    return [_one(row, by_inventory[row.pk]) for row in rows]


def _one(inventory: Inventory, point: OperatingPoint) -> dict[str, Any]:
    centre = point.centre
    return {
        "slug": inventory.slug,
        "name": inventory.name,
        "theta": point.theta,
        "pooling": point.pooling,
        "expiry": {"others": point.expiry_others, "turns": point.expiry_turns},
        "target_recall": point.target_recall,
        "go_live": inventory.go_live,
        "calibrated": point.calibration is not None,
        "encoder": point.encoder_id,
        "centre": centre and {"number": centre.number, "digest": centre.digest, "artifacts": centre.artifact_count},
        "release": inventory.release,
        "live_release": inventory.live_release,
        "created_at": inventory.created_at,
    }


@router.route("GET", "", "list_inventories", Role.VIEWER, Page[InventoryAnswer])
def list_inventories(request: ApiRequest, after: After = None, limit: Limit = PAGE) -> Any:
    """Those that the token may see, by slug."""
    token = request.caller.token
    rows = Inventory.objects.all() if token.inventory_id is None else Inventory.objects.filter(pk=token.inventory_id)
    return page(rows, "slug", after=after, limit=limit, shape=shape)


@router.route("POST", "", "create_inventory", Role.ADMIN, InventoryAnswer, status=201, also={409, 503}, everywhere=True)
@answered_by(lambda request, written, body: Status(201, shape([Inventory.objects.get(slug=written.object_id)])[0]))
def create_inventory(request: ApiRequest, body: NewInventory) -> Any:
    """A new inventory at release 1: θ 0, uncalibrated, no centre until its first fit. Takes a token of all inventories."""
    made = inventories.create_inventory(**body.model_dump(), by=request.caller.actor)
    return Status(201, shape([made])[0])


@router.route("GET", "/{inv}", "get_inventory", Role.VIEWER, InventoryAnswer)
def get_inventory(request: ApiRequest, inv: Inv) -> Any:
    """Encoder and centre are read-only here: a migration changes them."""
    return shape([request.inventory])[0]


@router.route("PATCH", "/{inv}", "edit_inventory", Role.PUBLISHER, InventoryAnswer)
def edit_inventory(request: ApiRequest, inv: Inv, body: InventoryEdit) -> Any:
    """Change what is given. θ, pooling, expiry and the recall target make a new operating point in a new release."""
    inventories.update_inventory(request.inventory, **body.model_dump(), by=request.caller.actor)
    return shape([request.inventory])[0]
