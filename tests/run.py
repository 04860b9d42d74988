"""`make test`: the database's own tests on PostgreSQL, then every test on a SQLite file; one status for both.

    python -m tests.run [pytest options]

Engines are the machine's own, else those of the wheels (tests/engines/servers.py). REQUIRE_ENGINES=1 and
REQUIRE_BROWSER=1 make their absence a failure; COVERAGE=1 measures and prints the coverage.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.engines import servers

ROOT = Path(__file__).resolve().parent.parent
ON_POSTGRESQL = ("tests/services", "tests/web", "tests/engines")
NO_TESTS = 5  # pytest's status when it was given nothing to run


def main(options: Sequence[str]) -> int:
    with servers.postgresql() as postgres, servers.redis_server() as redis:
        environment = {**os.environ, "TEST_REDIS_URL": redis} if redis else dict(os.environ)
        environment.pop("DATABASE_URL", None)
        if os.environ.get("REQUIRE_ENGINES") == "1" and not (postgres and redis):
            print(f"REQUIRE_ENGINES=1, but: {_reasons(postgres, redis)}", flush=True)
            return 1
        results = []
        if postgres:
            print("== PostgreSQL:", *ON_POSTGRESQL, flush=True)
            results.append(pytest([*ON_POSTGRESQL, *options], {**environment, "DATABASE_URL": postgres}))
        else:
            print(f"== not run on PostgreSQL: {servers.why_not['postgresql']}", flush=True)
        print("== SQLite file: every test", flush=True)
        results.append(pytest(["tests", *options], environment))
        if os.environ.get("COVERAGE") == "1":
            _report_coverage()
    return max(results)


def pytest(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """One run over two processes; its closing line is printed as pytest prints it."""
    processes = str(min(os.cpu_count() or 1, 4))
    command = [sys.executable, "-m", "pytest", "-q", "--numprocesses", processes, "--dist", "worksteal"]
    if os.environ.get("COVERAGE") == "1":
        command += ["--cov", "--cov-append", "--cov-report="]
    began = time.monotonic()
    status = subprocess.run([*command, *arguments], cwd=ROOT, env=environment, check=False).returncode
    print(f"== took {time.monotonic() - began:.0f} s", flush=True)
    return 0 if status == NO_TESTS else status


def _reasons(postgres: str | None, redis: str | None) -> str:
    reasons = {
        "PostgreSQL": "" if postgres else servers.why_not["postgresql"],
        "Redis": "" if redis else servers.why_not["redis"],
    }
    return "; ".join(f"no {name} ({why})" for name, why in reasons.items() if why)


def _report_coverage() -> None:
    subprocess.run([sys.executable, "-m", "coverage", "report", "--format", "total"], cwd=ROOT, check=False)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
