"""Which models an inventory's runs call, and what its judge is told: settings that admins change."""

import math
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models import Max

from console import providers
from console.models import ArtifactText, Guideline, Inventory, ModelProvider, ModelRole, ModelSetting, Rubric, Status
from console.providers import BatchModel, ChatModel, ProviderError, recorded
from console.providers.keys import KEY_HINT, KEY_NAME
from console.services import audit, caches
from console.services.actor import Actor
from console.services.errors import Invalid, NotFound, Unavailable
from console.services.inventories import KEEP, _Keep
from console.services.revision import lock_inventory
from sq_core.artifact_text import artifact_text
from sq_core.conversation import clean_text

FIELDS = (
    "provider", "model", "base_url", "key_name", "temperature", "max_output_tokens", "timeout_s", "concurrency",
    "requests_per_minute", "tokens_per_minute", "price_in", "price_out",
)  # fmt: skip
GUIDELINE_LIMIT = 20_000
BUILT_IN = 0  # number of the guideline that stands until somebody writes one: the scale alone, current need
SAMPLE_SHARE = 0.5  # an inventory is the sample's while at least so many of its texts are
_NOT_SET = {
    ModelRole.GENERATOR: "No model writes examples here yet.",
    ModelRole.JUDGE: "No model judges here yet.",
}


# ---------------------------------------------------------------------------------------------------------------- models
def find_model(inventory: Inventory, role: str) -> ModelSetting | None:
    """The setting; for an inventory of the sample's policies without one, the recorded answers (unsaved); else None."""
    _one_of("role", role, ModelRole.values)
    row = ModelSetting.objects.filter(inventory=inventory, role=role).first()
    if row is None and _of_the_sample(inventory):
        row = ModelSetting(inventory=inventory, role=role, provider=ModelProvider.RECORDED)
    return row


def get_model(inventory: Inventory, role: str) -> ModelSetting:
    """`find_model`, or Invalid with the mend where nothing is set."""
    row = find_model(inventory, role)
    if row is None:
        raise Invalid(
            _NOT_SET[ModelRole(role)],
            field="model",
            hint=f"An admin sets the {role} under Settings, Models: a model name, a base URL and the name of its key.",
        )
    return row


_samples = caches.Cache(64)


def _of_the_sample(inventory: Inventory) -> bool:
    """Whether the recorded models know its policies; only a release changes their texts."""
    key = (inventory.pk, inventory.release)
    return caches.committed(_samples, key, lambda: _knows_texts(inventory))


def _knows_texts(inventory: Inventory) -> bool:
    rows = ArtifactText.objects.current().filter(
        artifact__inventory=inventory,
        artifact__settings__to_release__isnull=True,
        artifact__settings__status=Status.ACTIVE,
    )
    texts = [artifact_text(*row) for row in rows.values_list("artifact__kind", "name", "text")]
    return bool(texts) and recorded.knows(texts) >= SAMPLE_SHARE * len(texts)


def from_snapshot(provider: Mapping[str, Any]) -> ModelSetting:
    """The setting that a run froze, as an unsaved row."""
    names = {"role", *FIELDS}
    return ModelSetting(**{name: value for name, value in provider.items() if name in names})


def chat_of(setting: ModelSetting) -> ChatModel:
    """The model behind a setting. Raises Unavailable with the mend (no key on this server)."""
    try:
        return providers.get_chat(setting)
    except ProviderError as error:
        raise Unavailable(error.message, field="key_name") from error


def batches_of(setting: ModelSetting) -> BatchModel:
    """The batch API of a setting's server. Raises Unavailable with the mend."""
    try:
        return providers.get_batches(setting)
    except ProviderError as error:
        raise Unavailable(error.message, field="key_name") from error


def cost(setting: ModelSetting, tokens_in: int, tokens_out: int, *, discount: float = 1.0) -> Decimal | None:
    """Money for so many tokens; None where a price is unknown, 0 for recorded answers. ``discount`` .5 = half price."""
    if setting.provider == ModelProvider.RECORDED:
        return Decimal(0)
    if setting.price_in is None or setting.price_out is None:
        return None
    total = Decimal(setting.price_in) * tokens_in + Decimal(setting.price_out) * tokens_out
    return total / 1_000_000 * Decimal(str(discount))


def set_model(
    inventory: Inventory,
    role: str,
    *,
    by: Actor,
    provider: str | _Keep = KEEP,
    model: str | _Keep = KEEP,
    base_url: str | _Keep = KEEP,
    key_name: str | _Keep = KEEP,
    temperature: float | _Keep = KEEP,
    max_output_tokens: int | _Keep = KEEP,
    timeout_s: float | _Keep = KEEP,
    concurrency: int | _Keep = KEEP,
    requests_per_minute: int | _Keep | None = KEEP,
    tokens_per_minute: int | _Keep | None = KEEP,
    price_in: Decimal | float | str | _Keep | None = KEEP,
    price_out: Decimal | float | str | _Keep | None = KEEP,
) -> ModelSetting:
    """Set the generator or the judge; what is not given stays. An admin's act: the base URL gets the named key.

    Limits and prices None = none, unknown. Equal values change nothing. Runs already planned keep what they froze.
    Raises Invalid with the field.
    """
    _one_of("role", role, ModelRole.values)
    given = {
        "provider": provider, "model": model, "base_url": base_url, "key_name": key_name, "temperature": temperature,
        "max_output_tokens": max_output_tokens, "timeout_s": timeout_s, "concurrency": concurrency,
        "requests_per_minute": requests_per_minute, "tokens_per_minute": tokens_per_minute, "price_in": price_in,
        "price_out": price_out,
    }  # fmt: skip
    values = {name: _CHECKS[name](name, value) for name, value in given.items() if value is not KEEP}
    with transaction.atomic():
        locked = lock_inventory(inventory)
        row = ModelSetting.objects.filter(inventory=locked, role=role).first()
        before = record(row) if row else None
        row = row or ModelSetting(inventory=locked, role=role)
        for name, value in values.items():
            setattr(row, name, value)
        if row.provider == ModelProvider.OPENAI and not row.model:
            raise Invalid("No model is named.", field="model", hint="Give its name as the server knows it.")
        if record(row) != before:
            row.save()
            audit.record(
                by=by,
                action="model.set",
                object_type="model",
                object_id=f"{inventory.slug}/{role}",
                inventory=inventory.slug,
                label=role,
                before=before,
                after=record(row),
            )
    return row


def record(row: ModelSetting) -> dict[str, Any]:
    """What audit rows and the API say of a setting: all of it, and no key, which it does not hold."""
    prices = {name: None if (p := getattr(row, name)) is None else str(p) for name in ("price_in", "price_out")}
    return {"role": row.role} | {name: getattr(row, name) for name in FIELDS} | prices


# ---------------------------------------------------------------------------------------------------------------- checks
def _one_of(field: str, value: Any, values: list[Any]) -> Any:
    if value not in values:
        raise Invalid(f"{field} is {str(value)[:40]!r}.", field=field, hint=f"Choose one of {', '.join(values)}.")
    return value


def _text(most: int) -> Any:
    def check(field: str, value: Any) -> str:
        cleaned = clean_text(str(value or ""))[0].strip()
        if len(cleaned) > most:
            raise Invalid(f"{field} has {len(cleaned)} characters.", field=field, hint=f"Keep it to {most}.")
        return cleaned

    return check


def _url(field: str, value: Any) -> str:
    url = str(_text(500)(field, value))
    if not url:
        return ""
    hint = "Write it like https://api.example.org/v1; the key has a field of its own."
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise Invalid("The base URL cannot be read.", field=field, hint=hint) from None
    if parts.scheme not in ("http", "https") or not host or any(c.isspace() for c in url):
        raise Invalid("The base URL is no http or https address.", field=field, hint=hint)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Invalid("The base URL holds a user, a query or a fragment.", field=field, hint=hint)
    return url.rstrip("/")


def _key_name(field: str, value: Any) -> str:
    name = str(_text(100)(field, value))
    if name and not KEY_NAME.match(name):
        raise Invalid(f"{name[:40]!r} cannot name a key.", field=field, hint=KEY_HINT)
    return name


def _number(low: float, high: float) -> Any:
    def check(field: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise Invalid(
                f"{field} is {str(value)[:40]}.", field=field, hint=f"Give a number from {low:g} to {high:g}."
            )
        return float(value)

    return check


def _whole(low: int, high: int, *, optional: bool = False) -> Any:
    def check(field: str, value: Any) -> int | None:
        if optional and value is None:
            return None
        if type(value) is not int or not low <= value <= high:
            raise Invalid(
                f"{field} is {str(value)[:40]}.", field=field, hint=f"Give a whole number from {low} to {high}."
            )
        return value

    return check


def _price(field: str, value: Any) -> Decimal | None:
    """Per million tokens; unknown is None and never 0."""
    if value is None or value == "":
        return None
    hint = "Give the price per million tokens, such as 0.25; leave it empty where you do not know it."
    try:
        price = Decimal(str(value))
    except InvalidOperation:
        raise Invalid(f"{field} is {str(value)[:40]!r}.", field=field, hint=hint) from None
    if isinstance(value, bool) or not math.isfinite(price) or not 0 <= price < 1_000_000:
        raise Invalid(f"{field} is {str(value)[:40]!r}.", field=field, hint=hint)
    return price.quantize(Decimal("0.0001"))


_CHECKS: dict[str, Any] = {
    "provider": lambda field, value: _one_of(field, value, ModelProvider.values),
    "model": _text(200),
    "base_url": _url,
    "key_name": _key_name,
    "temperature": _number(0, 2),
    "max_output_tokens": _whole(16, 1_000_000),
    "timeout_s": _number(1, 600),
    "concurrency": _whole(1, 64),
    "requests_per_minute": _whole(1, 1_000_000, optional=True),
    "tokens_per_minute": _whole(1_000, 2_000_000_000, optional=True),
    "price_in": _price,
    "price_out": _price,
}


# ------------------------------------------------------------------------------------------------------------- guideline
def guideline(inventory: Inventory, number: int | None = None) -> Guideline:
    """The newest guideline, or the one of that number; 0 is built in (no text, current need), unsaved.

    Raises NotFound for a number that was never given.
    """
    rows = Guideline.objects.filter(inventory=inventory)
    found = rows.order_by("-number").first() if number is None else rows.filter(number=number).first()
    if found is None and number not in (None, BUILT_IN):
        raise NotFound(f"{inventory.slug} has no guideline {number}.", field="guideline")
    return found or Guideline(inventory=inventory, number=BUILT_IN, rubric=Rubric.CURRENT_NEED)


def new_guideline(
    inventory: Inventory, *, by: Actor, text: str, rubric: str | None = None, reason: str = ""
) -> Guideline:
    """The next guideline; the one before stays as it is, with the judgements that name it. Without ``rubric`` its own stays.

    The same again makes none. Raises Invalid with the field.
    """
    if rubric is not None:
        _one_of("rubric", rubric, Rubric.values)
    cleaned = clean_text(text)[0].strip()
    if len(cleaned) > GUIDELINE_LIMIT:
        raise Invalid(
            f"The guideline has {len(cleaned)} characters.",
            field="text",
            hint=f"Keep it to {GUIDELINE_LIMIT}: every call repeats it.",
        )
    with transaction.atomic():
        locked = lock_inventory(inventory)
        now = guideline(locked)
        rubric = rubric or now.rubric
        if (now.text, now.rubric) == (cleaned, rubric):
            return now
        last = Guideline.objects.filter(inventory=locked).aggregate(last=Max("number"))["last"] or BUILT_IN
        row = Guideline.objects.create(inventory=locked, number=last + 1, rubric=rubric, text=cleaned, by=by.name)
        audit.record(
            by=by,
            action="guideline.new",
            object_type="guideline",
            object_id=f"{inventory.slug}/{row.number}",
            inventory=inventory.slug,
            label=f"guideline {row.number}",
            before={"number": now.number, "rubric": now.rubric, "text": now.text},
            after={"number": row.number, "rubric": row.rubric, "text": row.text},
            reason=reason,
        )
    return row
