"""Two judge versions side by side: the same pairs, how far they agree, and what each cost."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.models import Inventory, Role
from console.permissions import Request, require
from console.services import judge_versions
from console.services.judge_versions import Version


@require_GET
@require(Role.VIEWER)
def judge_versions_page(request: Request, inventory: Inventory) -> HttpResponse:
    """``?a=`` and ``?b=`` are versions; without them the two with most pairs."""
    among = judge_versions.versions(inventory)
    context: dict[str, Any] = {"versions": among}
    if len(among) > 1:
        a, b = (request.GET.get(name, "") or among[place].key for place, name in enumerate("ab"))
        chosen = [judge_versions.find(among, a), judge_versions.find(among, b)]
        found = judge_versions.compare(inventory, *chosen)
        context |= {
            "chosen": chosen,
            "found": found,
            "matrix": list(zip(found.scores.levels, found.scores.table, strict=True)),
            "sides": [_side(inventory, version) for version in chosen],
        }
    return render(request, "runs/judges.html", context)


def _side(inventory: Inventory, version: Version) -> dict[str, Any]:
    price = judge_versions.price(inventory, version)
    tokens = price.tokens_in + price.tokens_out
    return {
        "version": version,
        "price": price,
        "tokens_each": tokens / version.n if price.calls and not price.recorded and version.n else None,
        "money_each": 1_000 * price.money / version.n if price.money and version.n else None,
    }
