"""Inventories, made with encoder and first operating point; θ, pooling, expiry change by new operating points."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from console.models import Centre, Change, ClassWeight, GoLive, Inventory, OperatingPoint
from console.models.inventory import KEY
from console.services import audit, caches, embed
from console.services.actor import Actor
from console.services.errors import Invalid, Unavailable
from console.services.revision import Revision, lock_inventory, revision
from sq_core.conversation import clean_text
from sq_core.embedding import EncoderUnavailable
from sq_core.scoring import PRESETS, Pooling, ScoringError

NAME_LIMIT = 200
THETA_LIMIT = 1_000.0  # a margin this far out is a typing error, not a threshold


class _Keep:
    """Leave it as it is; None is a value of its own."""


KEEP = _Keep()


def create_inventory(
    slug: str,
    *,
    by: Actor,
    name: str = "",
    encoder: str = "minilm",
    go_live: str = GoLive.AT_ONCE,
    target_recall: float = 0.9,
    class_weight: str = ClassWeight.BALANCED,
    inverse_penalty: float = 1.0,
    minimum_material: int = 3,
    load_test: bool = False,
) -> Inventory:
    """A new inventory at release 1, which carries operating point 1: θ 0, both views, no centre, uncalibrated.

    The encoder is asked for its identity first (a hosted one over the network). Raises Invalid with the field, or
    Unavailable when the encoder is away; nothing is written then. Only a load test may name a synthetic encoder.
    """
    _check_slug(slug)
    name = checked_name(name or slug)
    _one_of("go_live", go_live, GoLive.values)
    _one_of("class_weight", class_weight, ClassWeight.values)
    _check_share("target_recall", target_recall)
    if not (math.isfinite(inverse_penalty) and inverse_penalty > 0):
        raise Invalid(
            f"C is {inverse_penalty!r}.", field="inverse_penalty", hint="Give a number above 0; 1 is the paper's."
        )
    _check_material(minimum_material)
    encoder_id = encoder_identity(encoder, load_test=load_test)
    with transaction.atomic():
        inventory = _inserted(
            Inventory(
                slug=slug,
                name=name,
                encoder=encoder,
                encoder_id=encoder_id,
                target_recall=target_recall,
                class_weight=class_weight,
                inverse_penalty=inverse_penalty,
                minimum_material=minimum_material,
            )
        )
        with revision(inventory, by=by, summary=f"Inventory {slug} created") as r:
            point = OperatingPoint.objects.create(
                inventory=inventory,
                number=1,
                encoder_id=encoder_id,
                pooling=Pooling().to_json(),
                target_recall=target_recall,
                from_release=r.number,
            )
            after = {"name": name, "encoder": encoder, "encoder_id": encoder_id, **point_record(point)}
            r.change(action="create", object_type="inventory", object_id=slug, after=after, label=name)
        # The first release is always live: it holds nothing to review, and agents get an empty answer instead of none.
        if go_live != inventory.go_live:
            inventory.go_live = go_live
            inventory.save(update_fields=["go_live"])
    return inventory


def _inserted(inventory: Inventory) -> Inventory:
    """Saved; the database says whether the slug is taken, so that of two at once one is refused."""
    try:
        with transaction.atomic():
            inventory.save(force_insert=True)
    except IntegrityError as error:
        raise Invalid(
            f"There is an inventory {inventory.slug} already.", field="slug", hint="Choose another slug."
        ) from error
    return inventory


def update_inventory(
    inventory: Inventory,
    *,
    by: Actor,
    name: str | None = None,
    go_live: str | None = None,
    target_recall: float | None = None,
    minimum_material: int | None = None,
    theta: float | None = None,
    pooling: str | Mapping[str, Any] | None = None,
    expiry: Mapping[str, int | None] | None = None,
    reason: str = "",
    reverts: Change | None = None,
) -> Inventory:
    """Change settings; what is None stays. θ, pooling, expiry and the recall target make a new operating point in a new
    release; name, go_live and minimum_material are the console's own and only leave an audit row.

    ``pooling`` is a preset's name or ``{mode, views, age_discount}``; ``expiry`` is ``{"others": K, "turns": T}``, null
    meaning never. A θ set by hand, or other pooling, makes the inventory uncalibrated. Equal values change nothing.
    """
    own: dict[str, Any] = {}
    if name is not None:
        own["name"] = checked_name(name)
    if go_live is not None:
        _one_of("go_live", go_live, GoLive.values)
        own["go_live"] = go_live
    if minimum_material is not None:
        _check_material(minimum_material)
        own["minimum_material"] = minimum_material
    point: dict[str, Any] = {}
    if theta is not None:
        point["theta"] = checked_theta(theta)
    if pooling is not None:
        point["pooling"] = checked_pooling(pooling).to_json()
    if expiry is not None:
        point["expiry_others"], point["expiry_turns"] = _checked_expiry(expiry)
    if target_recall is not None:
        _check_share("target_recall", target_recall)
        point["target_recall"] = target_recall
    with transaction.atomic():
        locked = lock_inventory(inventory)
        _update_own(locked, own, by=by, reason=reason)
        now = current_point(locked)
        changed = {field: value for field, value in point.items() if getattr(now, field) != value}
        if changed:
            if "theta" in changed or "pooling" in changed:
                changed["calibration"] = None
            summary = "Operating point: " + ", ".join(sorted(set(changed) - {"calibration"})).replace("_", " ")
            with revision(locked, by=by, summary=summary, reason=reason) as r:
                new_point(r, action="edit", reverts=reverts, **changed)
            if "target_recall" in changed:
                locked.target_recall = changed["target_recall"]
                locked.save(update_fields=["target_recall"])
    inventory.refresh_from_db()
    return inventory


def current_point(inventory: Inventory) -> OperatingPoint:
    """The operating point valid at the newest release."""
    return OperatingPoint.objects.current().select_related("centre").get(inventory=inventory)


_points = caches.Cache(64)


def point_as_read(inventory: Inventory, release: int | None = None) -> OperatingPoint:
    """The operating point valid at a release, by default the newest one as the inventory's row was read: what a release
    holds never changes, so it is read once. For pages; who writes asks `current_point` under the lock.
    """
    number = inventory.release if release is None else release
    if not number:  # an inventory without a release: what is current is all there is
        return current_point(inventory)
    rows = OperatingPoint.objects.at(number).select_related("centre")
    return caches.committed(_points, (inventory.pk, number), lambda: rows.get(inventory=inventory))


def new_point(
    r: Revision,
    *,
    action: str,
    theta: float | _Keep = KEEP,
    pooling: dict[str, Any] | _Keep = KEEP,
    expiry_others: int | _Keep | None = KEEP,
    expiry_turns: int | _Keep | None = KEEP,
    target_recall: float | _Keep = KEEP,
    calibration: dict[str, Any] | _Keep | None = KEEP,
    centre: Centre | _Keep | None = KEEP,
    background: list[int] | _Keep = KEEP,
    encoder_id: str | _Keep = KEEP,
    reverts: Change | None = None,
) -> OperatingPoint:
    """Close the current operating point and open the next in the open revision, with its change."""
    old = current_point(r.inventory)
    given = {
        "centre": centre,
        "background": background,
        "theta": theta,
        "pooling": pooling,
        "expiry_others": expiry_others,
        "expiry_turns": expiry_turns,
        "target_recall": target_recall,
        "calibration": calibration,
        "encoder_id": encoder_id,
    }
    values = {field: getattr(old, field) if value is KEEP else value for field, value in given.items()}
    r.close(OperatingPoint.objects.filter(pk=old.pk))
    point = OperatingPoint.objects.create(
        inventory=r.inventory,
        number=OperatingPoint.objects.filter(inventory=r.inventory).count() + 1,
        from_release=r.number,
        **values,
    )
    r.change(
        action=action,
        object_type="operating_point",
        object_id=str(point.number),
        before=point_record(old),
        after=point_record(point),
        label=f"operating point {point.number}",
        reverts=reverts,
    )
    return point


POINT_FIELDS = ("theta", "pooling", "expiry_others", "expiry_turns", "target_recall", "calibration")


def put_point_back(
    r: Revision,
    wanted: OperatingPoint,
    *,
    action: str,
    fields: Iterable[str] = POINT_FIELDS,
    reverts: Change | None = None,
) -> OperatingPoint | None:
    """The ``fields`` of an earlier operating point again, in a new one of the open revision; centre and background, once
    fixed, stay. None when nothing differs.
    """
    now = current_point(r.inventory)
    values = point_values(now, wanted, fields)
    changed = {field: value for field, value in values.items() if getattr(now, field) != value}
    if not changed:
        return None
    if "target_recall" in changed:
        r.inventory.target_recall = changed["target_recall"]
        r.inventory.save(update_fields=["target_recall"])
    return new_point(r, action=action, reverts=reverts, **changed)


def point_values(now: OperatingPoint, wanted: OperatingPoint, fields: Iterable[str]) -> dict[str, Any]:
    """All of `POINT_FIELDS`: those in ``fields`` as ``wanted`` has them, the others as they are.

    A calibration holds for its θ, pooling and centre: it comes back, or stays, only beside those.
    """
    chosen = set(fields)
    values = {field: getattr(wanted if field in chosen else now, field) for field in POINT_FIELDS}

    def beside(point: OperatingPoint) -> bool:
        return (values["theta"], values["pooling"]) == (point.theta, point.pooling)

    if not (beside(wanted) and wanted.centre_id == now.centre_id and "calibration" in chosen):
        values["calibration"] = now.calibration if beside(now) and "calibration" not in chosen else None
    return values


def point_record(point: OperatingPoint) -> dict[str, Any]:
    """What changes, releases and audit rows say of an operating point."""
    return {
        "number": point.number,
        "theta": point.theta,
        "pooling": point.pooling,
        "expiry": {"others": point.expiry_others, "turns": point.expiry_turns},
        "target_recall": point.target_recall,
        "calibrated": point.calibration is not None,
        "centre": point.centre and point.centre.number,
        "background": len(point.background),
    }


def checked_theta(theta: float) -> float:
    if not math.isfinite(theta) or abs(theta) > THETA_LIMIT:
        raise Invalid(
            f"θ is {theta!r}.", field="theta", hint=f"Give a number between -{THETA_LIMIT:.0f} and {THETA_LIMIT:.0f}."
        )
    return float(theta)


def checked_pooling(pooling: str | Mapping[str, Any]) -> Pooling:
    """A preset by name, or the record that `Pooling.to_json` writes."""
    presets = ", ".join(PRESETS)
    if isinstance(pooling, str):
        if pooling not in PRESETS:
            raise Invalid(f"There is no pooling {pooling!r}.", field="pooling", hint=f"Presets: {presets}.")
        return PRESETS[pooling]
    try:
        return Pooling.from_json(pooling)
    except (ScoringError, TypeError, ValueError) as error:
        raise Invalid(
            f"Pooling: {error}.", field="pooling", hint=f"Give a preset ({presets}) or its record."
        ) from error


def checked_name(name: str, *, field: str = "name") -> str:
    cleaned = clean_text(name)[0].strip()
    if not cleaned:
        raise Invalid("The name is empty.", field=field, hint="Give a name that people recognise.")
    if len(cleaned) > NAME_LIMIT:
        raise Invalid(
            f"The name has {len(cleaned)} characters.",
            field=field,
            hint=f"Keep it to {NAME_LIMIT}; details go into the text.",
        )
    return cleaned


def _update_own(inventory: Inventory, own: dict[str, Any], *, by: Actor, reason: str) -> None:
    changed = {field: value for field, value in own.items() if getattr(inventory, field) != value}
    if not changed:
        return
    before = {field: getattr(inventory, field) for field in changed}
    for field, value in changed.items():
        setattr(inventory, field, value)
    inventory.save(update_fields=list(changed))
    audit.record(
        by=by,
        action="inventory.edit",
        object_type="inventory",
        object_id=inventory.slug,
        inventory=inventory.slug,
        label=inventory.name,
        before=before,
        after=changed,
        reason=reason,
    )


def encoder_identity(name: str, *, load_test: bool = False) -> str:
    """The id that an encoder's vectors are kept under. Raises Invalid for a name that is none, Unavailable when it is away."""
    hosted = name.startswith("openai:") and name.removeprefix("openai:")
    if name not in ("minilm", "minilm:whole") and not hosted and not (load_test and name.startswith("synthetic:")):
        raise Invalid(
            f"There is no encoder {name!r}.", field="encoder", hint="Use minilm, minilm:whole or openai:MODEL[:DIM]."
        )
    try:
        identity = embed.named_encoder(name).id
    except EncoderUnavailable as error:
        raise Unavailable(
            str(error), field="encoder", hint="Nothing was made. Try again when the encoder answers."
        ) from error
    except ValueError as error:
        raise Invalid(
            f"Encoder {name!r}: {error}", field="encoder", hint="Use minilm, minilm:whole or openai:MODEL[:DIM]."
        ) from error
    if len(identity) > 300:
        raise Invalid(
            "The encoder's identity is longer than 300 characters.", field="encoder", hint="Shorten the base URL."
        )
    return identity


def _check_slug(slug: str) -> None:
    try:
        KEY(slug)
    except ValidationError:
        raise Invalid(
            f"{slug[:80]!r} is no slug.", field="slug", hint="Use 1 to 64 of a-z, 0-9 and the hyphen."
        ) from None


def _one_of(field: str, value: str, values: list[Any]) -> None:
    if value not in values:
        raise Invalid(f"{field} is {value!r}.", field=field, hint=f"Choose one of {', '.join(values)}.")


def _check_share(field: str, value: float) -> None:
    if not 0 < value <= 1:
        raise Invalid(f"{field} is {value!r}.", field=field, hint="Give a share above 0 and at most 1, such as 0.9.")


def _check_material(value: int) -> None:
    if not 1 <= value <= 1_000:
        raise Invalid(
            f"The minimum material is {value!r}.", field="minimum_material", hint="Give a whole number from 1 to 1000."
        )


def _checked_expiry(expiry: Mapping[str, int | None]) -> tuple[int | None, int | None]:
    unknown = sorted(set(expiry) - {"others", "turns"})
    if unknown:
        raise Invalid(
            f"expiry has {unknown[0]!r}.", field="expiry", hint='Write {"others": K, "turns": T}; null is never.'
        )
    for field in ("others", "turns"):
        value = expiry.get(field)
        if value is not None and not 1 <= value <= 10_000:
            raise Invalid(
                f"expiry.{field} is {value!r}.",
                field=f"expiry.{field}",
                hint="Give a whole number from 1 to 10000, or null.",
            )
    return expiry.get("others"), expiry.get("turns")
