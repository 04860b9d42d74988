"""A model's rewrites for evidence plans: which are wanted, which are kept, and what is asked for one.

Kept by inventory, model, prompt version and the digest of the messages before the action: what was asked once is never asked
again, and a plan that is measured again gives the same bytes.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from console.models import Conversation, Inventory, ModelProvider, ModelRole, ModelSetting, Rewrite
from console.providers import ChatModel
from console.services import evidence_data, models_setting, prompts_rewrite
from console.services.errors import Invalid
from console.services.revision import lock_inventory
from sq_core import conversation as log
from sq_core.causal.trace import trace_of
from sq_core.evidence.plan import EvidencePlan
from sq_core.evidence.rewriting import Prefix, Recorded, observed_messages
from sq_core.evidence.run import rewritten_prefixes

PURPOSE = "rewrite"  # in the ledger
NAME_LIMIT = 90  # of a model within a method's name
Logs = Mapping[str, Sequence[log.Conversation]]
Observed = tuple[log.Message, ...]


# ------------------------------------------------------------------------------------------------------------- the model
def setting_of(inventory: Inventory) -> ModelSetting:
    """The generator's setting. Raises Invalid where none is set, or where it only replays the sample."""
    setting = models_setting.get_model(inventory, ModelRole.GENERATOR)
    if setting.provider == ModelProvider.RECORDED:
        raise Invalid(
            "The plan asks a model to rewrite, and no rewrites are recorded.",
            field="params.plan",
            hint="An admin sets a generator under Settings, Models; or take model out of the plan's rewriters.",
        )
    return setting


def identity(chat: ChatModel) -> str:
    """Model and host, within the length that a method's name leaves."""
    if len(chat.name) <= NAME_LIMIT:
        return chat.name
    return f"{chat.name[: NAME_LIMIT - 13]}~{hashlib.sha256(chat.name.encode()).hexdigest()[:12]}"


# --------------------------------------------------------------------------------------------------------- what is there
def answers(inventory: Inventory, model: str) -> dict[str, tuple[str, int]]:
    """Text and tokens by prefix digest, of this prompt version."""
    rows = Rewrite.objects.filter(inventory=inventory, model=model, prompt_version=prompts_rewrite.PROMPT_VERSION)
    listed = rows.order_by("pk").values_list("prefix_digest", "text", "tokens_in", "tokens_out")
    return {digest: (text, t_in + t_out) for digest, text, t_in, t_out in listed.iterator(chunk_size=2_000)}


def answered(inventory: Inventory, model: str) -> set[str]:
    """The prefix digests alone."""
    rows = Rewrite.objects.filter(inventory=inventory, model=model, prompt_version=prompts_rewrite.PROMPT_VERSION)
    return set(rows.order_by().values_list("prefix_digest", flat=True))


def missing(inventory: Inventory, plan: EvidencePlan, logs: Logs, *, model: str) -> tuple[list[Prefix], int]:
    """Prefixes of the plan without a rewrite by this model, in the order of the log; and how many there are in all."""
    wanted = rewritten_prefixes(plan, logs)
    there = answered(inventory, model)
    return [each for each in wanted if each.digest not in there], len(wanted)


def kept(inventory: Inventory, plan: EvidencePlan, logs: Logs, *, model: str = "") -> Recorded:
    """All rewrites that the plan needs. Raises Invalid where one is missing: nothing is measured on a part."""
    model = model or identity(models_setting.chat_of(setting_of(inventory)))
    left, total = missing(inventory, plan, logs, model=model)
    if left:
        raise Invalid(
            f"{len(left):,} of {total:,} rewrites by {model} are missing.",
            hint="Start the plan as a run: it asks for them, and only for them.",
        )
    return Recorded(model, prompts_rewrite.PROMPT_VERSION, answers(inventory, model))


# ------------------------------------------------------------------------------------------------------------ what is new
def observed(inventory: Inventory, places: Iterable[tuple[str, int, str]]) -> dict[str, Observed]:
    """The messages before each (conversation, message index, digest), by digest; what has changed since is left out."""
    listed = list(places)
    traces = {c.external_id: trace_of(c) for c in evidence_data.named_logs(inventory, (name for name, _, _ in listed))}
    found: dict[str, Observed] = {}
    for name, before, digest in listed:
        seen = observed_messages(traces[name], before) if name in traces else ()
        if seen and log.prefix_digests(seen)[-1] == digest:
            found[digest] = seen
    return found


def keep(inventory: Inventory, model: str, made: Sequence[tuple[str, str, str, int, int]]) -> None:
    """Rows of (conversation, digest, text, tokens in, tokens out), inside the caller's transaction; the first answer stays,
    and nothing is kept of a conversation that was erased meanwhile.
    """
    lock_inventory(inventory)  # as who erases
    alive = Conversation.objects.filter(
        inventory=inventory, external_id__in={name for name, *_ in made}, erased_at__isnull=True
    )
    pks = dict(alive.values_list("external_id", "pk"))
    rows = [
        Rewrite(
            inventory=inventory, conversation_id=pks[name], model=model, prompt_version=prompts_rewrite.PROMPT_VERSION,
            prefix_digest=digest, text=text, tokens_in=t_in, tokens_out=t_out,
        )
        for name, digest, text, t_in, t_out in made
        if name in pks
    ]  # fmt: skip
    Rewrite.objects.bulk_create(rows, ignore_conflicts=True)
