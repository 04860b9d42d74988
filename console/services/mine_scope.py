"""What a mining run is asked for: its params and scope, the artifacts it takes, and in words why some cannot be mined."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Count, Q

from console.models import ArtifactText, GoLive, Inventory, Judge, JudgeKind, Judgement, Rubric
from console.services.errors import Invalid
from console.services.judge_scope import Scope, read_scope
from sq_core.mining import MINING_VERSION
from sq_core.mining_states import MAX_IRRELEVANT, MINING_STATES_VERSION, RATIO

Json = dict[str, Any]
HUNT_VERSION = 1  # 1: the message's own margin, ten a round, refitted in between
RECIPES, RULES, MODES = ("paper", "states"), ("whole_conversation", "running"), ("plain", "adversarial")
SCOPE = ("artifacts", "conversations", "channel", "since", "until", "sample", "but_not")
MOST = 500  # candidates of one artifact, and rows of one transaction

# Why an artifact gave nothing, or less than it needs; `words_of` says it with its numbers.
REASONS = {
    "no_labels": "no turn is judged for it",
    "partly_judged": "its conversations are judged only in part: {missing} turns to judge",
    "unfinished": "its judged conversations are still open: use the rule “running”, or wait until they end",
    "no_positives": "no turn scored {relevant} or more in the {mined} conversations read",
    "no_negatives": "no turn scored {max_irrelevant} or less beside the relevant ones",
    "all_known": "all {known} found are known already",
    "under_minimum": "{signals} show and {anti_signals} don't-show examples from real chats; {minimum} of each are needed",
    "no_version": "it has no version yet to mine against",
    "quiet": "nothing judged irrelevant is selected by its own message: no false alarm to learn from",
    "no_vectors": "its turns are not read by the encoder yet",
}


def words_of(reason: str, numbers: Json) -> str:
    return REASONS[reason].format_map({"minimum": 0, **numbers}) if reason else ""


# ------------------------------------------------------------------------------------------------------ what was asked for
def check_params(inventory: Inventory, params: Json) -> Json:
    """The params with their defaults. Raises Invalid naming the field."""
    names = (
        "rule", "recipe", "mode", "negatives_per_signal", "max_irrelevant", "max_candidates", "judge", "auto_promote",
        "quiet_hours",
    )  # fmt: skip
    extra = sorted(set(params) - set(names))
    if extra:
        raise Invalid(
            f"There is no {extra[0][:40]!r} in mining.", field="params", hint=f"Known are {', '.join(names)}."
        )
    recipe = _one_of(params, "recipe", RECIPES)
    states = recipe == "states"
    result: Json = {
        "recipe": recipe,
        "rule": _one_of(params, "rule", RULES),
        "mode": _one_of(params, "mode", MODES),
        "negatives_per_signal": _whole(params, "negatives_per_signal", RATIO if states else 4, 1, 100),
        "max_irrelevant": _whole(params, "max_irrelevant", MAX_IRRELEVANT if states else 1, 1, 4),
        "max_candidates": _whole(params, "max_candidates", 200, 2, MOST),
        "auto_promote": _whole(params, "auto_promote", 0, 0, 100),
        "quiet_hours": _whole(params, "quiet_hours", 24, 0, 24 * 365),
    }
    judge = judge_of(inventory, params.get("judge"))
    result["judge"] = judge.name
    if result["max_irrelevant"] >= judge.pass_mark:
        raise Invalid(
            f"{judge.name} calls a turn relevant from {judge.pass_mark} on.", field="params.max_irrelevant",
            hint=f"Use 1 to {judge.pass_mark - 1}.",
        )  # fmt: skip
    if states and judge.rubric != Rubric.CURRENT_NEED:
        raise Invalid(
            "Mining every state needs a reviewer who scores the present need; this one's scores never come down.",
            field="params.recipe", hint="Use the recipe “paper”.",
        )  # fmt: skip
    if result["auto_promote"] and inventory.go_live != GoLive.AFTER_REVIEW:
        raise Invalid(
            "A run promotes by itself only where a release goes live after a review.", field="params.auto_promote",
            hint="Leave it out, or let releases of this inventory go live after review.",
        )  # fmt: skip
    return result


def _one_of(params: Json, name: str, values: Sequence[str]) -> str:
    value = params.get(name, values[0])
    if value not in values:
        raise Invalid(
            f"{name} is {str(value)[:40]!r}.", field=f"params.{name}", hint=f"Choose one of {', '.join(values)}."
        )
    return str(value)


def _whole(params: Json, name: str, default: int, low: int, high: int) -> int:
    value = params.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Invalid(
            f"{name} is {str(value)[:40]!r}.", field=f"params.{name}", hint=f"A whole number from {low} to {high}."
        )
    return value


def judge_of(inventory: Inventory, name: object) -> Judge:
    if name is None:
        if inventory.judge is None:
            raise Invalid(
                "No AI reviewer has scored a turn here, so there is nothing to mine.", field="params.judge",
                hint="Judge some conversations first.",
            )  # fmt: skip
        return inventory.judge
    found = Judge.objects.filter(inventory=inventory, name=str(name), kind=JudgeKind.MODEL).first()
    if found is None:
        raise Invalid(f"There is no AI reviewer {str(name)[:40]!r} here.", field="params.judge")
    return found


def scope_of(inventory: Inventory, scope: Json) -> Scope:
    """The judge runs' scope as far as mining takes it: artifacts whose classifier decides, conversations by filter and
    sample (``but_not`` leaves out the part that figures are measured on). Raises Invalid naming the field.
    """
    extra = sorted(set(scope) - set(SCOPE))
    if extra:
        raise Invalid(
            f"Mining has no scope {extra[0][:40]!r}.", field=f"scope.{extra[0]}"[:60], hint=f"Use {', '.join(SCOPE)}."
        )
    return read_scope(inventory, scope)


def rule_of(params: Json) -> str:
    """What a candidate names as the rule that chose it, with its version."""
    if params["mode"] == "adversarial":
        return f"adversarial/{HUNT_VERSION}"
    return f"states/{MINING_STATES_VERSION}" if params["recipe"] == "states" else f"{params['rule']}/{MINING_VERSION}"


def judged_pairs(inventory: Inventory, judge: Judge) -> tuple[dict[int, int], dict[int, int]]:
    """Per artifact: judgements of its current text, and those that found it relevant. Answered from an index."""
    rows = (
        Judgement.objects.filter(
            artifact_text__in=ArtifactText.objects.as_now().filter(artifact__inventory=inventory), judge=judge, repeat=0
        )
        .values_list("artifact_text__artifact_id")
        .annotate(n=Count("id"), relevant=Count("id", filter=Q(score__gte=judge.pass_mark)))
        .values_list("artifact_text__artifact_id", "n", "relevant")
    )
    found = list(rows)
    return {pk: n for pk, n, _ in found}, {pk: n for pk, _, n in found}


def cannot_words(reasons: dict[str, str], total: int, pass_mark: int) -> list[str]:
    """ "Cannot mine: 3 of 36", and one line per reason with the artifacts' keys; known before anything is mined."""
    if not reasons:
        return []
    said = {"no_labels": REASONS["no_labels"], "no_positives": f"no turn scored {pass_mark} or more"}
    lines = [f"Cannot mine: {len(reasons)} of {total}."]
    for reason in sorted(set(reasons.values())):
        keys = [key for key, why in reasons.items() if why == reason]
        named = ", ".join(keys[:10]) + (f" and {len(keys) - 10} more" if len(keys) > 10 else "")
        lines.append(f"{named}: {said[reason]}.")
    return lines
