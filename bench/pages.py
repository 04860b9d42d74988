"""Every list and detail page against the database of DATABASE_URL: median and first time, queries, and a ratio of two logs.

    DATABASE_URL=postgres://… python -m bench.pages SLUG [SLUG-WITH-TEN-TIMES-THE-CONVERSATIONS]

In this process, through Django's test client with a session of its own, on whatever the inventories hold (`seed_large` makes
one of any size). Reads only, apart from a user `bench-pages` that is made once. Without an inventory it says so and ends well.
Over 150 ms or 12 queries a page is marked; times are warm medians, the first request of each page stands beside them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

WARM = 7
TABS = ("", "map", "map-points", "exemplars", "versions", "neighbours", "metrics", "history")
SETTINGS = ("general", "members", "tokens", "redaction", "webhooks", "retention", "models", "migrations")
MOST_MS, MOST_QUERIES, MOST_RATIO = 150.0, 12, 1.5


@dataclass
class Timed:
    """One page: milliseconds of the first request and of the warm ones, queries of a warm one, the slowest query of it."""

    name: str
    first: float
    warm: list[float]
    queries: int
    status: int
    slowest: tuple[float, str] = (0.0, "")
    size: int = 0
    statements: list[str] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.warm)

    @property
    def marks(self) -> str:
        over = (["ms"] if self.median > MOST_MS else []) + (["queries"] if self.queries > MOST_QUERIES else [])
        return ("status " if self.status != 200 else "") + (f"OVER: {', '.join(over)}" if over else "")


def client_of(slug: str) -> Any:
    """A client signed in as an admin of the inventory."""
    from django.test import Client

    from console.models import Inventory, User
    from console.services import accounts
    from console.services.actor import SYSTEM

    inventory = Inventory.objects.get(slug=slug)
    user = User.objects.filter(username="bench-pages").first() or accounts.create_user("bench-pages", by=SYSTEM)
    accounts.set_role(user, inventory, "admin", by=SYSTEM)
    client = Client(raise_request_exception=False)  # a page that fails is a line like the others
    client.force_login(user)
    return client


class Pages:
    """(name, address) of every list and detail page that an inventory has something for."""

    def __init__(self, slug: str) -> None:
        from console.models import Artifact, Conversation, Inventory, Judgement

        self.inventory = Inventory.objects.get(slug=slug)
        self.found: list[tuple[str, str]] = []
        policies = Artifact.objects.filter(inventory=self.inventory)
        self.policy, self.last = policies.first(), policies.last()
        judged = Judgement.objects.filter(judge=self.inventory.judge).select_related("state__conversation").last()
        self.turn = judged.state.user_turn if judged else 0
        newest = Conversation.objects.filter(inventory=self.inventory).last()
        self.talk = judged.state.conversation if judged else newest

    def all(self) -> list[tuple[str, str]]:
        self._policies()
        self._conversations()
        self._review()
        self._work()
        return self.found

    def add(self, name: str, route: str, *args: Any, query: str = "") -> None:
        from django.urls import NoReverseMatch, reverse

        try:
            self.found.append((name, reverse(route, args=[self.inventory.slug, *args]) + query))
        except NoReverseMatch:  # a page of another version of the console
            return

    def _policies(self) -> None:
        from console.models import ClassifierVersion

        self.add("home", "home")
        self.add("policies", "policies")
        self.add("policies: search", "policies", query="?q=made-up+policy+17")
        self.add("policy: new", "policy-new")
        for name in ("evaluation", "evidence", "neighbours"):
            self.add(name, name)
        if self.policy and self.last:
            key = self.policy.key
            self.add("policy: edit", "policy-edit", key)
            for tab in TABS:
                self.add(f"workbench: {tab or 'shown'}", f"policy-{tab}" if tab else "policy", key)
            self.add("workbench, another", "policy", self.last.key)
            rows = ClassifierVersion.objects.filter(artifact=self.policy).order_by("number")
            numbers = list(rows.values_list("number", flat=True))
            if self.policy != self.last:
                self.add("neighbours: pair", "neighbours-pair", key, self.last.key)
            if len(numbers) > 1:
                self.add("version diff", "policy-diff", key, numbers[0], numbers[-1])

    def _conversations(self) -> None:
        self.add("conversations", "conversations")
        self.add("conversations: search", "conversations", query="?q=badefi")
        if self.talk:
            self.add("conversation", "conversation", self.talk.public_id)
            self.add("prefix", "prefix", self.talk.public_id, self.turn)
            self.add("similar", "similar", query=f"?turn={self.talk.public_id}:{self.turn}")
            if self.policy:
                self.add("why", "why", self.talk.public_id, self.turn, self.policy.key)
        self.add("playground", "playground")

    def _review(self) -> None:
        from console.models import ReviewItem, ReviewQueue

        for name in ("review", "review-new", "review-mine", "candidates", "agreement"):
            self.add(name.replace("-", ": "), name)
        queue = ReviewQueue.objects.filter(inventory=self.inventory).last()
        item = ReviewItem.objects.filter(queue=queue).first() if queue else None
        if queue and item:
            self.add("review: queue", "review-queue", queue.public_id)
            self.add("review: item", "review-item", queue.public_id, item.public_id)

    def _work(self) -> None:
        from console.models import Run, Schedule

        self.add("releases", "releases")
        newest = self.inventory.release
        if newest > 2:
            self.add("release diff, last", "release-diff", newest - 1, newest)
            self.add("release diff, whole", "release-diff", 1, newest)
        for name in ("runs", "run-new", "run-judges", "schedules", "costs", "data", "data-export", "data-freeze"):
            self.add(name.replace("-", ": "), name)
        if run := Run.objects.filter(inventory=self.inventory).last():
            self.add("run", "run", run.public_id)
            self.add("run: items", "run-items", run.public_id)
        if schedule := Schedule.objects.filter(inventory=self.inventory).last():
            self.add("schedule", "schedule", schedule.public_id)
        for name in ("audit", "mine", "notes", "saved-views", *(f"settings-{part}" for part in SETTINGS)):
            self.add(name.replace("-", ": "), name)


def timed(client: Any, name: str, address: str, *, warm: int = WARM) -> Timed:
    """The queries are counted on two requests of their own, outside the times; the fewer count: what is kept by the clock
    may run out between a request and the next.
    """
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    def once() -> tuple[float, Any]:
        begun = time.perf_counter()
        response = client.get(address)
        _ = response.content
        return 1000 * (time.perf_counter() - begun), response

    def asking() -> list[tuple[float, str]]:
        with CaptureQueriesContext(connection) as seen:
            client.get(address)
        return [(1000 * float(query["time"]), query["sql"]) for query in seen.captured_queries]

    first, response = once()
    asked = min(asking(), asking(), key=len)
    times = [once()[0] for _ in range(warm)]
    slowest = max(asked, default=(0.0, ""))
    statements = [f"{ms:.0f} ms  {sql}" for ms, sql in asked]
    return Timed(name, first, times, len(asked), response.status_code, slowest, len(response.content), statements)


def measure(slug: str, *, only: str, skip: str, warm: int, each: Callable[[Timed], None]) -> dict[str, Timed]:
    from console.models import Inventory

    client = client_of(slug)
    client.get(f"/i/{slug}/runs/")  # what every page of a process needs once is not the first page's time
    found = {}
    for name, address in Pages(slug).all():
        if only in name and not (skip and skip in name):
            found[name] = timed(client, name, address, warm=warm)
            each(found[name])
    print(f"{len(found)} pages of {Inventory.objects.get(slug=slug).name}")
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.pages", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("slugs", nargs="*", help="one inventory, and one with ten times the conversations")
    parser.add_argument("--only", default="", help="pages whose name contains this")
    parser.add_argument("--skip", default="", help="not those whose name contains this")
    parser.add_argument("--warm", type=int, default=WARM, help=f"requests per page after the first (default {WARM})")
    parser.add_argument("--queries", action="store_true", help="print every query of each page")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    import django

    django.setup()
    from django.conf import settings

    from console.models import Inventory

    settings.ALLOWED_HOSTS = ["testserver"]
    slugs = asked.slugs or [slug for slug in ("big", "big-10") if Inventory.objects.filter(slug=slug).exists()]
    if not slugs:
        print("skipped: no inventory named; make one with `manage.py seed_large big`, on PostgreSQL")
        return

    def line(row: Timed) -> None:
        print(
            f"{row.name:24} {row.median:8.1f} {row.first:9.1f} {row.queries:8} {row.slowest[0]:9.1f} "
            f"{row.size / 1024:7.0f}  {row.marks}",
            flush=True,
        )
        if asked.queries:
            for statement in row.statements:
                print("    " + statement)

    results = []
    for slug in slugs:
        print(f"{slug:24} {'median ms':>8} {'first ms':>9} {'queries':>8} {'worst sql':>9} {'kB':>7}")
        results.append(measure(slug, only=asked.only, skip=asked.skip, warm=max(5, asked.warm), each=line))
    if len(results) == 2:
        print(f"\n{'ratio ' + slugs[1] + ' / ' + slugs[0]:40} {'median':>8}")
        for name in results[0].keys() & results[1].keys():
            ratio = results[1][name].median / results[0][name].median
            print(f"{name:40} {ratio:8.2f}  {'OVER' if ratio > MOST_RATIO else ''}")


if __name__ == "__main__":
    main()
