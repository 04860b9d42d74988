"""One decision in a review queue: the POST of the answer, and what it takes to hold the next item ready, on the sample.

Prints only. Query counts leave out the marks of transactions.
"""

from __future__ import annotations

import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.promote import HTMX, setup

ITEMS = 50


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="signalbox-bench-") as name:
        client = setup(Path(name))
        from console.models import Inventory, QueueKind
        from console.services import review_queues
        from console.services.actor import SYSTEM
        from console.services.fit import fresh_inventory
        from console.services.review_build import Asked

        inventory = fresh_inventory(Inventory.objects.get(slug="sky-airline").pk)
        for kind in (QueueKind.AUDIT, QueueKind.NEAR):
            made = review_queues.create_queue(inventory, Asked(kind, size=ITEMS), by=SYSTEM)
            clear(client, f"/i/sky-airline/review/{made.public_id}/", kind)


def clear(client: Any, base: str, kind: str) -> None:
    """Answer every item as a browser does, with the next one fetched ahead while it is read."""
    here = client.post(f"{base}start/")["Location"]
    times: dict[str, list[tuple[float, float]]] = {
        "POST of an answer": [], "the next item ahead": [], "an item as a page": []
    }  # fmt: skip
    queries: list[int] = []
    for number in range(ITEMS):
        took, _, _ = asked(client.get, here)
        times["an item as a page"].append(took)
        took, _, page = asked(client.get, f"{here}ahead/", headers=HTMX)
        found = re.search(rb'data-item="(\w+)"', page.content)
        if found:
            times["the next item ahead"].append(took)
        form = {"answer": ("yes", "no", "unsure")[number % 3], "ahead": found[1].decode() if found else ""}
        took, n, page = asked(client.post, here, form, headers=HTMX)
        times["POST of an answer"].append(took)
        queries.append(n)
        here = page.headers.get("HX-Push-Url") or page.headers.get("Location", "")
    print(f"{kind}: {ITEMS} items, at most {max(queries[1:])} queries per answer after the first ({queries[0]})")
    for what, taken in times.items():
        wall, cpu = zip(*taken, strict=True)
        late = sorted(wall)[int(0.95 * len(wall))]
        print(
            f"  {what:<20} median {statistics.median(wall):5.1f} ms, p95 {late:5.1f}; CPU {statistics.median(cpu):5.1f} ms"
        )


def asked(send: Any, address: str, *form: Any, **options: Any) -> tuple[tuple[float, float], int, Any]:
    """((ms, ms of CPU), queries, response)."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as caught:
        start, busy = time.perf_counter(), time.process_time()
        response = send(address, *form, **options)
        took = 1000 * (time.perf_counter() - start), 1000 * (time.process_time() - busy)
    if response.status_code not in {200, 204, 303}:
        raise SystemExit(f"{address}: {response.status_code}\n{response.content.decode()[:2000]}")
    marks = ("SAVEPOINT", "RELEASE", "BEGIN", "COMMIT")
    return took, sum(not row["sql"].startswith(marks) for row in caught), response


if __name__ == "__main__":
    main()
