"""Fault drills: a judge run over a scripted server, workers as processes of their own, and something that goes wrong mid-run.

    python -m tests.engines.drill FAULT     (settings by environment: DATABASE_URL, REDIS_URL, SIGNALBOX_VAR_DIR, …)

Prints one JSON line with what was seen. Runs in a process of its own, so that a database or broker may be killed under it.
"""

import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
ROOT = Path(__file__).resolve().parent.parent.parent
POLICIES, TALKS, TURNS = 4, 20, 2
PAIRS = POLICIES * TALKS * TURNS
PATIENCE_S = 150


def main(fault: str) -> None:
    import django

    django.setup()
    from django.core.management import call_command

    from tests import scripted

    call_command("migrate", verbosity=0)
    with scripted.serve(_script()) as server, contextlib.ExitStack() as stack:
        run = _planned(server.base_url)
        drill = Drill(run.pk, server, stack)
        print(json.dumps(drill.take(fault)), flush=True)


def _script() -> Any:
    """A server that is mostly well: now and then slow, at its limit, failing, cut off or talking nonsense."""
    from tests import scripted

    chance, lock = random.Random(7), threading.Lock()
    bad = [
        scripted.refusal(429, "slow down", retry_after="0.2"),
        scripted.refusal(500, "oops"),
        scripted.RESET,
        scripted.EMPTY_BODY,
        scripted.completion('{"judgements": [{"id": "nobody", "score": 6}]}'),
    ]

    def answer(ask: Any) -> Any:
        with lock:
            drawn = chance.random()
        if drawn < 0.1:
            return bad[int(drawn * 50)]
        return scripted.slowly(0.02 if drawn < 0.9 else 0.3, scripted.well(ask))

    return answer


def _planned(base_url: str) -> Any:
    from console.services import models_setting, runs
    from console.services.actor import SYSTEM
    from tests import make

    inventory = make.inventory("drill")
    for number in range(POLICIES):
        make.artifact(inventory, f"policy-{number}", text=f"What holds for case {number}.")
    for number in range(TALKS):
        make.conversation(inventory, f"talk-{number}", [f"question {number} {turn}" for turn in range(TURNS)])
    models_setting.set_model(
        inventory, "judge", by=SYSTEM, provider="openai", model="scripted", base_url=base_url,
        key_name="OPENAI_API_KEY", concurrency=4, timeout_s=5,
    )  # fmt: skip
    return runs.create_run(inventory, "judge", by=SYSTEM, unpriced_ok=True)


class Drill:
    def __init__(self, run_id: int, server: Any, stack: contextlib.ExitStack) -> None:
        self.run_id, self.server, self.stack = run_id, server, stack
        self.workers: list[subprocess.Popen[bytes]] = []
        self.seen: set[str] = set()

    def take(self, fault: str) -> dict[str, Any]:
        coordinators = 3 if fault == "two-coordinators" else 1
        for _ in range(coordinators):
            thread = threading.Thread(target=self._coordinate, daemon=True)
            thread.start()
        for _ in range(3 if fault == "two-coordinators" else 2 if fault == "worker-killed" else 1):
            self.start_worker()
        self.until(lambda: self.done() >= PAIRS // 4, "a quarter is done")
        getattr(self, fault.replace("-", "_"))()
        self.until(self.settled, "the run has ended")
        return self.verdict()

    # ------------------------------------------------------------------------------------------------------- the faults
    def worker_killed(self) -> None:
        """kill -9 of one of two workers, and then of the other: a third goes on."""
        for worker in list(self.workers):
            worker.send_signal(signal.SIGKILL)
            worker.wait()
            self.start_worker()
            time.sleep(1.0)

    def two_coordinators(self) -> None:
        """Nothing breaks: three coordinators call three workers for the same items."""

    def redis_emptied(self) -> None:
        """The broker is killed and comes back empty on the same port."""
        from redis import Redis

        url = os.environ["REDIS_URL"]
        port = int(url.rsplit(":", 1)[1].split("/")[0])
        pid = int(Redis.from_url(url).info("server")["process_id"])  # type: ignore[index]
        os.kill(pid, signal.SIGKILL)
        time.sleep(1.0)
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        again = subprocess.Popen(
            ["redis-server", *options], stdout=subprocess.DEVNULL, cwd=os.environ["SIGNALBOX_VAR_DIR"]
        )
        self.stack.callback(again.wait)
        self.stack.callback(again.terminate)

    def postgres_restarted(self) -> None:
        """Every connection is cut off at once; the server is away for a second."""
        control = os.environ["DRILL_PG_CTL"].split("\t")
        subprocess.run([*control, "restart", "-m", "immediate"], check=True, stdout=subprocess.DEVNULL)

    def disk_full(self) -> None:
        """No file of the worker may grow for some seconds: it can store nothing, and says so in no row either."""
        for worker in self.workers:
            resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (4_096, resource.RLIM_INFINITY))
        before = self.done()
        time.sleep(3.0)
        self.seen.add(f"grew by {self.done() - before} meanwhile")
        for worker in self.workers:
            resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    # -------------------------------------------------------------------------------------------------------- machinery
    def start_worker(self) -> None:
        command = [sys.executable, "-m", "celery", "--quiet", "--app", "console", "worker", "--pool", "threads"]
        command += ["--concurrency", "1", "--loglevel", "warning", "--hostname", f"w{len(self.workers)}@drill"]
        command += ["--without-gossip", "--without-mingle"]
        path = Path(os.environ["SIGNALBOX_VAR_DIR"], "workers.log")
        log = self.stack.enter_context(path.open("ab"))
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        self.workers.append(process)
        self.stack.callback(_end, process)

    def _coordinate(self) -> None:
        """What beat calls every ten seconds, here more often."""
        from django.db import close_old_connections

        from console import tasks

        while True:
            with contextlib.suppress(Exception):  # the database may be away: it is asked again
                tasks.coordinate()
            close_old_connections()
            time.sleep(0.5)

    def run(self) -> Any:
        from django.db import OperationalError, close_old_connections

        from console.models import Run

        for _ in range(200):
            try:
                return Run.objects.get(pk=self.run_id)
            except OperationalError:
                close_old_connections()
                time.sleep(0.1)
        raise SystemExit("the database did not come back")

    def done(self) -> int:
        from console.services import runs

        now = runs.progress(self.run())
        if now.done + now.failed + now.in_flight + now.left != PAIRS or now.total != PAIRS:
            raise SystemExit(f"the counts do not add up to the plan: {now}")
        return now.done + now.failed

    def settled(self) -> bool:
        run = self.run()
        self.seen.add(run.state)
        return bool(run.ended and run.settled)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                raise SystemExit(f"not within {PATIENCE_S} s: {what}; {self._state()}")
            time.sleep(0.1)

    def _state(self) -> str:
        run = self.run()
        log = Path(os.environ["SIGNALBOX_VAR_DIR"], "workers.log").read_text()[-3_000:]
        return f"{run.state} {run.note} {run.stalls}, {self.done()} of {PAIRS}; workers:\n{log}"

    def verdict(self) -> dict[str, Any]:
        from django.db.models import Count

        from console.models import Judgement, Spend
        from console.services import runs

        run = self.run()
        rows = Judgement.objects.values_list("state_id", "artifact_text_id")
        return {
            "state": run.state,
            "done": runs.progress(run).done,
            "rows": dict(run.items.values_list("state").annotate(n=Count("id")).values_list("state", "n")),
            "judgements": rows.count(),
            "pairs": rows.distinct().count(),
            "calls": self.server.count,
            "spends": Spend.objects.filter(run=run).count(),
            "errors": dict(runs.tried_again(run)),
            "seen": sorted(self.seen),
        }


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main(sys.argv[1])
