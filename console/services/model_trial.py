"""Try a model: one small call with a real prompt, told as it went, and paid like any other call."""

from dataclasses import dataclass
from decimal import Decimal

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from console.models import Inventory, ModelProvider, ModelRole, ModelSetting, Polarity, Spend
from console.providers import ProviderError
from console.providers.keys import secret
from console.services import audit, models_setting, prompts_generate, prompts_judge
from console.services.actor import Actor
from console.services.errors import Unavailable
from console.services.prompting import ask
from console.services.run_kind import Outcome
from sq_core import conversation as log

PATIENCE_S = 20.0  # somebody waits for the page
ITEM = "cancel-order"
TEXT = "Orders can be cancelled until they have left the warehouse. Ask for the order number first."
MESSAGE = "Hello, I ordered a lamp yesterday and would like to cancel the order."
SOURCE = "trial"


@dataclass(frozen=True)
class Trial:
    """How the call went: ``code`` "" = well. ``money`` None = the price is unknown."""

    code: str
    message: str
    answer: tuple[str, ...] = ()
    score: int | None = None
    ms: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    money: Decimal | None = None
    raw: str = ""
    recorded: bool = False

    @property
    def ok(self) -> bool:
        return not self.code


def missing_key(setting: ModelSetting) -> str:
    """Why this server has no key for the setting; "" when it has, or needs none. Never a key."""
    if setting.provider == ModelProvider.RECORDED:
        return ""
    hosted = not setting.base_url and not settings.OPENAI_BASE_URL
    name = setting.key_name or ("OPENAI_API_KEY" if hosted and not settings.OPENAI_API_KEY else "")
    if not name:
        return ""
    try:
        secret(name)
    except ProviderError as error:
        return error.message
    return ""


def try_model(inventory: Inventory, setting: ModelSetting, *, by: Actor) -> Trial:
    """One call of the setting, saved or not. Raises nothing that a server can be blamed for."""
    if setting.provider == ModelProvider.RECORDED:
        return Trial("", "", recorded=True)
    short = models_setting.from_snapshot(models_setting.record(setting))
    short.timeout_s = min(PATIENCE_S, setting.timeout_s)
    try:
        chat = models_setting.chat_of(short)
    except Unavailable as error:
        return Trial("no_key", error.message)
    if setting.role == ModelRole.JUDGE:
        prefix = log.messages_from_json([{"role": "user", "content": MESSAGE}])
        guideline = models_setting.guideline(inventory)
        outcome = ask(
            chat,
            prompts_judge.messages(prefix, [prompts_judge.Asked(ITEM, TEXT)], guideline, prefix_digest=SOURCE),
            schema=prompts_judge.SCHEMA,
            schema_name=prompts_judge.SCHEMA_NAME,
            parse=lambda text, finish: prompts_judge.parse(text, [ITEM], finish)[ITEM],
        )
    else:
        outcome = ask(
            chat,
            prompts_generate.messages(TEXT, Polarity.SIGNAL, 2),
            schema=prompts_generate.SCHEMA,
            schema_name=prompts_generate.SCHEMA_NAME,
            parse=lambda text, finish: prompts_generate.parse(text, 2, finish),
        )
    return _paid(inventory, setting, chat.name, outcome, by=by)


def _paid(inventory: Inventory, setting: ModelSetting, name: str, outcome: Outcome, *, by: Actor) -> Trial:
    """The outcome as it is told; what was used is in the ledger."""
    tokens_in = sum(usage.tokens_in for usage in outcome.usage)
    tokens_out = sum(usage.tokens_out for usage in outcome.usage)
    money = models_setting.cost(setting, tokens_in, tokens_out)
    with transaction.atomic():
        for usage in outcome.usage:
            Spend.objects.create(
                inventory=inventory, source=SOURCE, model=name[:200], tokens_in=usage.tokens_in,
                tokens_cached=usage.tokens_cached, tokens_out=usage.tokens_out, money=money, at=timezone.now(),
            )  # fmt: skip
        audit.record(
            by=by, inventory=inventory.slug, action="model.try", object_type="model",
            object_id=f"{inventory.slug}/{setting.role}", label=setting.role, after={"outcome": outcome.code or "ok"},
        )  # fmt: skip
    found = outcome.value
    return Trial(
        code=outcome.code,
        message=outcome.message,
        answer=() if not outcome.ok else (found.reason,) if setting.role == ModelRole.JUDGE else tuple(found),
        score=found.score if outcome.ok and setting.role == ModelRole.JUDGE else None,
        ms=outcome.ms,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        money=money,
        raw=outcome.raw[:4_000],
    )
