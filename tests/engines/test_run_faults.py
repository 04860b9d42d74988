"""Runs survive what breaks under them: each drill ends complete, every pair judged exactly once, with no manual step."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.conftest import ROOT, missing
from tests.engines import servers
from tests.engines.drill import PAIRS

pytestmark = [pytest.mark.engines, pytest.mark.timeout(400)]
ON_SQLITE = "sqlite3" in settings.DATABASES["default"]["ENGINE"]


@pytest.fixture
def drill_environment(tmp_path: Path) -> dict[str, str]:
    """SQLite and the embedded broker in a folder of their own; short leases, so that the drill is short."""
    environment = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
    minilm = os.environ.get("SIGNALBOX_MINILM_DIR", str(ROOT / "var" / "minilm"))
    return environment | {
        "SIGNALBOX_VAR_DIR": str(tmp_path),
        "SIGNALBOX_MINILM_DIR": minilm,
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "RUN_LEASE_S": "3",
        "OPENAI_API_KEY": "a key of no worth",
    }


@pytest.fixture
def cluster() -> Iterator[tuple[str, list[str]]]:
    with servers.own_postgresql() as found:
        if found is None:
            missing(f"PostgreSQL: {servers.why_not['postgresql']}", unless="REQUIRE_ENGINES")
        else:
            yield found


def drill(fault: str, environment: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.drill", fault],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        timeout=390,
    )
    assert done.returncode == 0, done.stderr.decode()[-3_000:]
    return dict(json.loads(done.stdout.decode().strip().splitlines()[-1]))


def held(seen: dict[str, Any]) -> None:
    """Complete, each pair stored once, every call in the ledger that was answered; nothing invented from a bad reply."""
    assert (seen["state"], seen["done"], seen["judgements"], seen["pairs"]) == ("complete", PAIRS, PAIRS, PAIRS), seen
    assert seen["rows"] == {"done": PAIRS}, "the counters say what the rows say"
    assert seen["calls"] >= seen["spends"] >= PAIRS, seen
    assert seen["errors"].get("out_of_range", 0) + seen["errors"].get("wrong_ids", 0) > 0, "the server talked nonsense"


@pytest.mark.skipif(not ON_SQLITE, reason="it brings its own database: once is enough")
@pytest.mark.parametrize("fault", ["worker-killed", "disk-full"])
def test_on_the_embedded_default(fault: str, drill_environment: dict[str, str]) -> None:
    held(drill(fault, drill_environment))  # a kill may fall between two claims: nothing needs to have been lost


@pytest.mark.skipif(ON_SQLITE, reason="it brings its own database: once is enough")
@pytest.mark.parametrize("fault", ["worker-killed", "two-coordinators", "redis-emptied", "postgres-restarted"])
def test_on_postgresql_and_redis(fault: str, drill_environment: dict[str, str], cluster: tuple[str, list[str]]) -> None:
    url, control = cluster
    with servers.own_redis() as broker:
        if broker is None:
            missing(f"Redis: {servers.why_not['redis']}", unless="REQUIRE_ENGINES")
            return
        environment = drill_environment | {
            "DATABASE_URL": url, "REDIS_URL": broker, "DRILL_PG_CTL": "\t".join(control),
        }  # fmt: skip
        held(drill(fault, environment))
