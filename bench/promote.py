"""Promote → live: the whole HTTP request that takes a decision, with its preview already shown, on the sample. Prints only.

The sample is loaded into a database of its own in a temporary folder.
"""

from __future__ import annotations

import html
import os
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

POLICY, TURNS = "modify-flight", 20
HTMX = {"HX-Request": "true"}


def setup(folder: Path) -> Any:
    """A signed-in client on the sample in ``folder``; the encoder's files stay where they are."""
    weights = Path(os.environ.get("SIGNALBOX_VAR_DIR", Path(__file__).resolve().parent.parent / "var")) / "minilm"
    os.environ.setdefault("SIGNALBOX_MINILM_DIR", str(weights))
    os.environ |= {"SIGNALBOX_VAR_DIR": str(folder), "DATABASE_URL": f"sqlite:///{folder / 'bench.sqlite3'}"}
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.test import Client

    from console.models import Inventory
    from console.services import accounts, sample
    from console.services.actor import SYSTEM

    (folder / "static").mkdir(exist_ok=True)
    settings.ALLOWED_HOSTS = ["testserver"]
    call_command("migrate", verbosity=0)
    sample.load_sample(by=SYSTEM)
    user = accounts.create_user("bench", by=SYSTEM)
    accounts.set_role(user, Inventory.objects.get(slug=sample.SLUG), "author", by=SYSTEM)
    client = Client()
    client.force_login(user)
    return client


def fields_of(page: str) -> dict[str, str]:
    """What the strip's form would send."""
    page = page[page.index("data-strip") :]
    found = {
        name: html.unescape(value) for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page)
    }
    look = re.search(r'name="look" value="(\d+)" checked', page)
    return found | ({"look": look.group(1)} if look else {}) | {"reason": "bench"}


def timed(client: Any, address: str, data: dict[str, str]) -> tuple[float, str]:
    start = time.perf_counter()
    response = client.post(address, data, headers=HTMX)
    elapsed = 1000 * (time.perf_counter() - start)
    if response.status_code != 200:
        raise SystemExit(f"{address}: {response.status_code}\n{response.content.decode()[:2000]}")
    return elapsed, response.content.decode()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="signalbox-bench-") as name:
        client = setup(Path(name))
        from django.db import connection

        from console.models import Change

        base = f"/i/sky-airline/policies/{POLICY}/"
        page = client.get(base).content.decode()
        kept = dict(re.findall(r'name="(kept_\w+)" value="([\d,]*)"', page))
        times: dict[str, list[float]] = {"preview": [], "promote": [], "undo": []}
        queries: list[int] = []
        for state in (kept["kept_missed"].split(",") * TURNS)[: TURNS + 1]:
            shown, strip = timed(
                client,
                base + "exemplars/preview/",
                {"do": "show", "text_of": state, "next": base, "slot": f"strip-turn-{state}"},
            )
            connection.queries_log.clear()
            connection.force_debug_cursor = not queries  # counted once, on the warming run; timed without counting
            taken, _answer = timed(client, base + "exemplars/apply/", {**fields_of(strip), **kept})
            if connection.force_debug_cursor:
                queries.append(len(connection.queries_log))
            connection.force_debug_cursor = False
            change = Change.objects.latest("id")
            undone, _answer = timed(client, f"/i/sky-airline/changes/{change.public_id}/undo/", {"next": base})
            for key, value in zip(times, (shown, taken, undone), strict=True):
                times[key].append(value)
        fits = _fit_ms()
        print(f"fit alone {statistics.median(fits):.2f} ms; promote runs {queries[0]} queries")
        print(f"{'whole request':>14} {'median ms':>10} {'p95 ms':>8}")
        for key, values in times.items():
            warm = sorted(values[1:])
            print(f"{key:>14} {statistics.median(warm):10.1f} {warm[int(0.95 * len(warm)) - 1]:8.1f}")


def _fit_ms() -> list[float]:
    from console.models import Artifact, Exemplar
    from console.services import fit

    artifact = Artifact.objects.select_related("inventory").get(key=POLICY, inventory__slug="sky-airline")
    ground = fit.basis(artifact)
    rows = [e for e in Exemplar.objects.promoted().filter(artifact=artifact) if fit.in_fit(e, ground.fit_set)]
    return [fit.draft_version(ground, rows).fit_ms for _ in range(50)]


if __name__ == "__main__":
    main()
