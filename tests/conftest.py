"""What every test shares: the database's kind, the fake encoder in place of the local one, empty caches, a tiny named world."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.db import connection
from django.test import Client

import sq_core.encoders
from console.services import caches
from tests import make, unordered
from tests.fakes import FakeEncoder

# How fast a busy machine draws is no property of what is tested.
hypothesis.settings.register_profile(
    "house",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
hypothesis.settings.load_profile("house")

unordered.reverse()

ROOT = Path(__file__).resolve().parent.parent


def required(name: str) -> bool:
    """``REQUIRE_ENGINES=1`` and ``REQUIRE_BROWSER=1``, as CI sets them: what is missing fails instead of being skipped."""
    return os.environ.get(name, "") == "1"


def missing(what: str, *, unless: str) -> None:
    """Skip, in one line with the reason; or fail where the thing is required."""
    if required(unless):
        pytest.fail(f"{what} ({unless}=1)", pytrace=False)
    pytest.skip(what)


@pytest.fixture(autouse=True)
def encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEncoder | None]:
    """Everybody who asks for ``minilm`` gets the fake; a test marked ``minilm`` gets the real one."""
    if request.node.get_closest_marker("minilm"):
        yield None
        return
    fake = FakeEncoder()
    monkeypatch.setitem(sq_core.encoders._built, ("minilm", ()), fake)
    yield fake


@pytest.fixture(autouse=True)
def empty_caches(request: pytest.FixtureRequest) -> Iterator[None]:
    """Row numbers come again after a rollback: nothing cached under them may outlive a test."""
    caches.clear_all()
    yield
    caches.clear_all()


@pytest.fixture
def world(db: None) -> make.World:
    """Three neighbour policies, fitted; five conversations, judged; author, reviewer, publisher, viewer, admin, stranger."""
    return make.world()


@pytest.fixture
def signed_in(client: Client) -> Any:
    """``signed_in(world.author)`` gives a client of that person."""

    def sign_in(user: Any) -> Client:
        fresh = Client()
        fresh.force_login(user)
        return fresh

    return sign_in


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The runs that a page called a worker for; commits count at once."""
    called: list[int] = []
    monkeypatch.setattr("console.views.runs.wake_run", called.append)
    monkeypatch.setattr("console.views.runs.transaction.on_commit", lambda then: then())
    return called


@pytest.fixture
def sqlite_only() -> None:
    if connection.vendor != "sqlite":
        pytest.skip("about SQLite only")


@pytest.fixture
def postgresql_only() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("about PostgreSQL only")


@pytest.fixture
def child_environment(django_db_setup: None) -> dict[str, str]:
    """For a process that a test starts: this test's database, broker and folder."""
    environment = {
        **os.environ,
        "SIGNALBOX_VAR_DIR": str(settings.VAR_DIR),
        "DJANGO_SETTINGS_MODULE": "console.settings",
    }
    environment["DATABASE_URL"] = make.database_url(connection.settings_dict)
    return environment
