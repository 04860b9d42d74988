"""A judge run through a scripted server with two workers beside the bare client doing the same calls; prints only.

    python -m bench.runs --pairs 100000     (SQLite in a temporary folder; DATABASE_URL and REDIS_URL for the real engines)

Server, workers and bare clients are processes of their own. The overhead of a call is what a worker spends on it beyond
the bare client: both with the same number of processes and threads, against the same server, one after the other.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

ROOT = Path(__file__).resolve().parent.parent
WORKERS, THREADS, POLICIES = 2, 4, 50


def main(pairs: int = 1_000) -> None:
    with tempfile.TemporaryDirectory(prefix="signalbox-bench-") as folder:
        os.environ |= {
            "SIGNALBOX_VAR_DIR": folder,
            "OPENAI_API_KEY": "none",
            "DJANGO_SETTINGS_MODULE": "console.settings",
        }
        os.environ.setdefault("SIGNALBOX_MINILM_DIR", str(ROOT / "var" / "minilm"))
        os.environ.setdefault("DATABASE_URL", f"sqlite:///{folder}/bench.sqlite3")
        with _process("serve") as server:
            assert server.stdout is not None
            try:
                _measure(pairs, server.stdout.readline().decode().strip())
            finally:
                server.kill()


def _measure(pairs: int, url: str) -> None:
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    run = _plan(pairs, url)
    calls = min(pairs, 4_000)
    bare = _together([_process("bare", url, str(calls // WORKERS)) for _ in range(WORKERS)]) / calls
    began = time.perf_counter()
    workers = [_process("work", str(run.pk)) for _ in range(WORKERS)]
    sampler = Sampler(run, workers)
    sampler.start()
    for worker in workers:
        worker.wait()
    sampler.done.set()
    sampler.join()
    wall = time.perf_counter() - began
    run.refresh_from_db()
    from console.models import Judgement

    stored = Judgement.objects.filter(judge__inventory=run.inventory).count()
    rates = [rate for rate in sampler.rates if rate > 0]
    each = 1 / statistics.median(rates) if rates else wall / pairs
    print(
        f"{pairs} pairs, {WORKERS} workers × {THREADS} threads: {run.state}, {stored} judged, {wall:.0f} s with their start"
    )
    print(f"a call: bare client {1e3 * bare * WORKERS:.2f} ms of a worker, run {1e3 * each * WORKERS:.2f} ms (median second), "
          f"overhead {1e3 * (each - bare) * WORKERS:.2f} ms")  # fmt: skip
    for number, sizes in enumerate(zip(*sampler.memory, strict=True)):
        half = len(sizes) // 2 or 1
        print(f"worker {number}: {max(sizes):.0f} MiB at most; median of the first half {statistics.median(sizes[:half]):.0f}, "
              f"of the second {statistics.median(sizes[half:] or sizes):.0f}")  # fmt: skip
    print(f"progress query: median {1e3 * statistics.median(sampler.queries):.1f} ms over {pairs} items")
    if sampler.connections:
        print(f"database connections: {max(sampler.connections)} at most")


def _plan(pairs: int, url: str) -> Any:
    from console.services import models_setting, runs
    from console.services.actor import SYSTEM
    from tests import make

    inventory = make.inventory("bench")
    for number in range(POLICIES):
        make.artifact(inventory, f"policy-{number}", text=f"What holds for case {number}.")
    turns = max(1, pairs // POLICIES)
    per = 10
    for number in range(0, turns, per):
        talk = [
            f"question {number} {turn} about my order and what comes next" for turn in range(min(per, turns - number))
        ]
        make.conversation(inventory, f"talk-{number}", talk)
    models_setting.set_model(
        inventory, "judge", by=SYSTEM, provider="openai", model="scripted", base_url=url, key_name="OPENAI_API_KEY",
        concurrency=THREADS,
    )  # fmt: skip
    began = time.perf_counter()
    run = runs.create_run(inventory, "judge", by=SYSTEM, unpriced_ok=True)
    if run.state == "planning":
        runs.write_plan(run)
        run.refresh_from_db()
    print(f"plan of {run.total} items written in {time.perf_counter() - began:.1f} s")
    return run


class Sampler(threading.Thread):
    """Every second: how many items ended, how long the progress query took, and how large the workers are."""

    def __init__(self, run: Any, workers: list[subprocess.Popen[bytes]]) -> None:
        super().__init__()
        self.run_row, self.workers, self.done = run, workers, threading.Event()
        self.rates: list[float] = []
        self.queries: list[float] = []
        self.memory: list[list[float]] = []
        self.connections: list[int] = []

    def run(self) -> None:
        from django.db import connection

        from console.services import runs

        last, at = 0, time.perf_counter()
        while not self.done.wait(1.0):
            began = time.perf_counter()
            ended = runs.progress(self.run_row).done
            now = time.perf_counter()
            self.queries.append(now - began)
            if last and ended < self.run_row.total:
                self.rates.append((ended - last) / (now - at))
            last, at = ended, now
            self.memory.append([_resident(worker.pid) for worker in self.workers])
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
                    self.connections.append(cursor.fetchone()[0])
        connection.close()


def _resident(pid: int) -> float:
    """MiB; 0 once it has gone."""
    try:
        line = next(row for row in Path(f"/proc/{pid}/status").read_text().splitlines() if row.startswith("VmRSS"))
    except (OSError, StopIteration):
        return 0.0
    return int(line.split()[1]) / 1024


# ---------------------------------------------------------------------------------------------------- the other processes
def _process(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench.runs", "--part", *arguments], cwd=ROOT, stdout=subprocess.PIPE
    )


def _together(processes: list[subprocess.Popen[bytes]]) -> float:
    """Seconds from the first beginning to the last end, as they print them."""
    times = [tuple(map(float, process.communicate()[0].split())) for process in processes]
    return max(end for _, end in times) - min(start for start, _ in times)


def serve() -> None:
    import django

    django.setup()
    from tests import scripted

    with scripted.serve() as server:
        print(server.base_url, flush=True)
        threading.Event().wait()


def bare(url: str, calls: int) -> None:
    """The client alone, with prompts of the same length."""
    from concurrent.futures import ThreadPoolExecutor

    import django

    django.setup()
    from console import providers
    from console.models import Guideline, ModelSetting
    from console.services import prompts_judge
    from sq_core.conversation import messages_from_json

    setting = ModelSetting(
        role="judge", provider="openai", model="scripted", base_url=url, key_name="OPENAI_API_KEY", concurrency=THREADS
    )
    chat = providers.get_chat(setting)
    prefix = messages_from_json([{"role": "user", "content": "question 1 1 about my order and what comes next"}])
    asked = [prompts_judge.Asked("policy-1", "What holds for case 1.")]
    prompt = prompts_judge.messages(prefix, asked, Guideline(number=0, rubric="current-need"), prefix_digest="x")

    def one(_: int) -> None:
        chat.complete(prompt, schema=prompts_judge.SCHEMA, schema_name=prompts_judge.SCHEMA_NAME)

    one(0)
    with ThreadPoolExecutor(THREADS) as pool:
        began = time.time()
        list(pool.map(one, range(calls)))
        print(began, time.time(), flush=True)


def work(run_id: int) -> None:
    import django

    django.setup()
    from console.models import Run
    from console.services import run_work

    while not Run.objects.get(pk=run_id).ended:
        if not run_work.work(run_id, seconds=20):
            time.sleep(0.1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1_000)
    parser.add_argument("--part", nargs="+")
    options = parser.parse_args()
    if not options.part:
        main(options.pairs)
    elif options.part[0] == "serve":
        serve()
    elif options.part[0] == "bare":
        bare(options.part[1], int(options.part[2]))
    else:
        work(int(options.part[1]))
