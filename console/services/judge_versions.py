"""Two judge versions (a model, its prompt, one policy per call or several) on the pairs that both have scored."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Count, Sum

from console.models import ArtifactText, Inventory, JudgeKind, Judgement, QueryState, RunKind, Spend
from console.services import caches
from console.services.errors import NotFound
from sq_core.evaluation.agreement import Agreement, agreement

SCORES, SIDES = (1, 2, 3, 4, 5), (0, 1)
MOST_LISTED = 20
PIECE = 5_000  # states per question


@dataclass(frozen=True)
class Version:
    """One judge and prompt version, and how many pairs it has scored."""

    judge: str
    prompt: str
    n: int

    @property
    def key(self) -> str:
        return f"{self.judge}|{self.prompt}"

    @property
    def per_call(self) -> int:
        """Policies that shared a call: the ``.k8`` of a prompt version."""
        last = self.prompt.rsplit(".", 1)[-1]
        return int(last[1:]) if last[:1] == "k" and last[1:].isdigit() else 1


@dataclass(frozen=True)
class Price:
    """What a version's judgements took, by the ledger; money None where no call's price is known."""

    calls: int
    tokens_in: int
    tokens_out: int
    money: Decimal | None
    recorded: bool


@dataclass(frozen=True)
class Difference:
    """A pair the two see differently, the widest first."""

    conversation: str
    conversation_public_id: str
    user_turn: int
    artifact: str
    first: int
    second: int


@dataclass(frozen=True)
class Comparison:
    """Both on the same pairs: scores (quadratic κ) and sides of the pass mark (plain κ)."""

    scores: Agreement
    sides: Agreement
    differences: tuple[Difference, ...]


_versions = caches.Cache(64)


def versions(inventory: Inventory) -> list[Version]:
    """The model judges' versions, the one with most pairs first."""
    rows = Judgement.objects.filter(judge__inventory=inventory, judge__kind=JudgeKind.MODEL, repeat=0)
    counted = rows.values_list("judge__name", "prompt_version").annotate(n=Count("id")).order_by("-n", "judge__name")
    key = (inventory.pk, inventory.label_revision)
    return caches.committed(_versions, key, lambda: [Version(judge, prompt, n) for judge, prompt, n in counted])


def find(among: Sequence[Version], key: str) -> Version:
    found = next((version for version in among if version.key == key), None)
    if found is None:
        raise NotFound("There is no such reviewer version.", field="version")
    return found


def compare(inventory: Inventory, first: Version, second: Version) -> Comparison:
    """On every (query state, current text) that both have scored; clusters are scenarios."""
    scores: list[dict[tuple[int, int], int]] = []
    for version in (first, second):
        rows = Judgement.objects.filter(
            judge__inventory=inventory,
            judge__name=version.judge,
            prompt_version=version.prompt,
            repeat=0,
            artifact_text__in=ArtifactText.objects.as_now().filter(artifact__inventory=inventory),
        )
        scores.append(
            {(state, text): score for state, text, score in rows.values_list("state_id", "artifact_text_id", "score")}
        )
    both = sorted(scores[0].keys() & scores[1].keys())
    a, b = [scores[0][pair] for pair in both], [scores[1][pair] for pair in both]
    about = _about({state for state, _ in both})
    clusters = [about[state][0] for state, _ in both]
    mark = inventory.judge.pass_mark if inventory.judge else 4
    wide = sorted(range(len(both)), key=lambda i: (-abs(a[i] - b[i]), both[i]))[:MOST_LISTED]
    keys = dict(ArtifactText.objects.filter(pk__in={both[i][1] for i in wide}).values_list("pk", "artifact__key"))
    return Comparison(
        scores=agreement(a, b, clusters, levels=SCORES, weights="quadratic"),
        sides=agreement([int(x >= mark) for x in a], [int(x >= mark) for x in b], clusters, levels=SIDES),
        differences=tuple(
            Difference(*about[both[i][0]][1:], keys[both[i][1]], a[i], b[i]) for i in wide if a[i] != b[i]
        ),
    )


def _about(states: set[int]) -> dict[int, tuple[str, str, str, int]]:
    """Per state its scenario, its conversation's ids and its user turn; only those asked for are read."""
    found = {}
    wanted = sorted(states)
    for start in range(0, len(wanted), PIECE):
        rows = QueryState.objects.filter(pk__in=wanted[start : start + PIECE]).values_list(
            "pk", "conversation__scenario", "conversation__external_id", "conversation__public_id", "user_turn"
        )
        found.update({pk: (scenario, external, public, turn) for pk, scenario, external, public, turn in rows})
    return found


def price(inventory: Inventory, version: Version) -> Price:
    """By the ledger: the calls of judge runs with this prompt version of the judge's model."""
    model = version.judge.rsplit(" (", 1)[0]
    rows = Spend.objects.filter(
        inventory=inventory, source=RunKind.JUDGE, prompt_version=version.prompt, model=model[:200]
    )
    total = rows.aggregate(n=Count("id"), a=Sum("tokens_in"), b=Sum("tokens_out"), money=Sum("money"))
    return Price(total["n"], total["a"] or 0, total["b"] or 0, total["money"], rows.filter(recorded=True).exists())
