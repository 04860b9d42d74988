"""A mining run from the database: seconds and peak memory for 36 artifacts over user turns judged for every one of them.

    python -m bench.mining_log --turns 5000 10000 20000     (SQLite in a temporary folder; DATABASE_URL for PostgreSQL)
    python -m bench.mining_log --turns 200000               (7.2 million judgements)

Each size is an inventory of its own, made up as `manage.py seed_large` does and judged here; the run is worked in a process
of its own by the services that a worker uses, so that its peak memory is its own; the CPU's seconds are those of this process,
whatever else the machine does. Prints; asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

ARTIFACTS, TURNS_EACH = 36, 8
SIZES = (5_000, 10_000, 20_000)
PIECE = 1_000  # turns judged together
SHARES = (0.8, 0.08, 0.05, 0.04, 0.03)  # of the scores 1 to 5, as in bench.mining


def seed(turns: int) -> None:
    """The inventory ``mining-TURNS``, every turn of it judged for every artifact."""
    from console.models import ArtifactText, Inventory
    from console.services.actor import SYSTEM
    from console.services.seed_large import Size, seed_large

    begun = time.perf_counter()
    size = Size(
        policies=ARTIFACTS, conversations=max(1, turns // TURNS_EACH), turns=turns, judgements=0, decisions=0, seed=7
    )
    inventory = seed_large(f"mining-{turns}", size, by=SYSTEM)
    texts = ArtifactText.objects.filter(artifact__inventory=inventory).order_by("artifact__position")
    judge(inventory, list(texts.values_list("pk", flat=True)))
    inventory.label_revision += 1
    Inventory.objects.filter(pk=inventory.pk).update(label_revision=inventory.label_revision)
    print(f"{turns:,} turns made up and judged for {ARTIFACTS} artifacts in {time.perf_counter() - begun:.0f} s")


def judge(inventory: Any, texts: list[int]) -> None:
    """Turn by turn, as judge runs write: an artifact's judgements lie apart."""
    import numpy as np
    from django.db import connection, transaction
    from django.utils import timezone

    from console.models import Judgement, QueryState
    from console.services.seed_rows import Writer

    rng, now = np.random.default_rng(7), timezone.now()
    states = QueryState.objects.filter(conversation__inventory=inventory).order_by("pk")
    rows = list(states.values_list("pk", "message_index", "prefix_digest"))
    fields = ("state_id", "artifact_text_id", "judge_id", "score", "visible_upto", "prefix_digest", "at")
    writer = Writer(Judgement, fields, by="bench")
    for start in range(0, len(rows), PIECE):
        piece = rows[start : start + PIECE]
        scores = rng.choice(np.array([1, 2, 3, 4, 5]), (len(piece), len(texts)), p=SHARES).tolist()

        def made(piece: Any = piece, scores: Any = scores) -> Iterator[tuple[Any, ...]]:
            for (state, last, digest), line in zip(piece, scores, strict=True):
                for text, score in zip(texts, line, strict=True):
                    yield state, text, inventory.judge_id, score, last, digest, now

        with transaction.atomic():
            writer.write(made())
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def mine(turns: int, recipe: str) -> None:
    """One run, and what of its time went into reading."""
    import resource

    from console.models import Inventory
    from console.services import mine as service
    from console.services import mine_log, run_work, runs
    from console.services.actor import SYSTEM

    inventory = Inventory.objects.select_related("judge").get(slug=f"mining-{turns}")
    params = {"mode": "adversarial"} if recipe == "adversarial" else {"recipe": recipe}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    reading = Stopwatch()
    for name in ("ground_of", "read_scores"):
        reading.around(mine_log, name)
    service.ground_of = mine_log.ground_of  # type: ignore[attr-defined]
    begun, used = time.perf_counter(), time.process_time()
    run = runs.create_run(inventory, "mine", by=SYSTEM, params=params)
    while run_work.work(run.pk):
        pass
    whole, cpu = time.perf_counter() - begun, time.process_time() - used
    run.refresh_from_db()
    found = run.result["signals"] + run.result["anti_signals"] if run.result else 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    log, scores = reading.of["ground_of"], reading.of["read_scores"]
    cells = f"{turns * ARTIFACTS:11,d} {log:8.1f} {scores:8.1f} {whole - log - scores:8.1f} {cpu:8.1f} {peak:9.0f}"
    print(f"{turns:9,d} {recipe:12} {cells}  {run.state}, {found} candidates (from {before:.0f} MiB)", flush=True)


class Stopwatch:
    """Seconds spent in functions of a module, by name."""

    def __init__(self) -> None:
        self.of: dict[str, float] = {}

    def around(self, module: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(module, name)
        self.of[name] = 0.0

        def timed(*args: Any, **more: Any) -> Any:
            begun = time.perf_counter()
            try:
                return real(*args, **more)
            finally:
                self.of[name] += time.perf_counter() - begun

        setattr(module, name, timed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--turns", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--recipe", nargs="*", default=["paper", "states", "adversarial"])
    parser.add_argument("--step", choices=["seed", "mine"], help="one step of it, in this process")
    arguments = parser.parse_args()
    if arguments.step:
        import django

        django.setup()
        for turns in arguments.turns:
            if arguments.step == "seed":
                seed(turns)
            else:
                mine(turns, arguments.recipe[0])
        return
    with tempfile.TemporaryDirectory(prefix="signalbox-bench-") as folder:
        environment = {"DATABASE_URL": f"sqlite:///{folder}/bench.sqlite3", **os.environ, "SIGNALBOX_VAR_DIR": folder}
        environment["DJANGO_SETTINGS_MODULE"] = "console.settings"

        def step(*arguments: str) -> None:
            subprocess.run([sys.executable, *arguments], env=environment, check=True)

        step("manage.py", "migrate", "-v0")
        for turns in arguments.turns:
            step("-m", "bench.mining_log", "--step", "seed", "--turns", str(turns))
        names = f"{'judgements':>11} {'log s':>8} {'scores s':>8} {'mining s':>8} {'CPU s':>8} {'peak MiB':>9}"
        print(f"{'turns':>9} {'recipe':12} {names}", flush=True)
        for turns in arguments.turns:
            for recipe in arguments.recipe:
                step("-m", "bench.mining_log", "--step", "mine", "--turns", str(turns), "--recipe", recipe)


if __name__ == "__main__":
    main()
