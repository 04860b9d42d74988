"""A real Chromium against a live server on this process's database; what the page complains about fails the test.

``page`` is a signed-out page; ``page_of(user)`` a signed-in one; ``live_server.url`` the address. Every page collects
console errors, uncaught exceptions, violations of the Content-Security-Policy and requests to other hosts: any of them
fails the test at its end, unless the test took it out of ``page_problems``. ``axe(page)`` fails on what axe-core finds
against WCAG 2.2 A and AA. ``sample`` is the shipped inventory with its people: loaded once per run, copied for each test
(those need the mark ``minilm``).
"""

import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import Client
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Playwright,
    Request,
    expect,
    sync_playwright,
)

from console.models import Artifact, Conversation, Inventory, Role, User
from console.services.actor import SYSTEM
from console.services.sample import SLUG, load_sample
from tests import make
from tests.conftest import missing

CHROMIUM = next(
    (
        path
        for path in ("/usr/bin/chromium", shutil.which("chromium"), shutil.which("chromium-browser"))
        if path and Path(path).exists()
    ),
    None,
)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
# Chromium's own line for a refused form (409 with its merge card, 422 with its field errors): the page shows the answer.
ANSWERED = re.compile(r"the server responded with a status of (409|422) ")
# Reported to the console as a violation happens; set before any script of the page runs.
WATCH_POLICY = """
document.addEventListener('securitypolicyviolation', event =>
  console.error(`CSP: ${event.violatedDirective} blocked ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`))
"""

SLOW = 30_000  # ms that a page may take on a busy machine before it counts as not answering
expect.set_options(timeout=SLOW)

# Playwright's synchronous API keeps an event loop in this thread; Django then takes every query for one of a coroutine.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.django_db(transaction=True))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    if CHROMIUM is None:
        missing("Chromium is not installed: browser tests left out", unless="REQUIRE_BROWSER")
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
    yield started
    started.close()


@pytest.fixture
def page_problems() -> list[str]:
    """What pages complained about, in order; must be empty when the test ends."""
    return []


@pytest.fixture
def new_page(
    browser: Browser, live_server: Any, page_problems: list[str], request: pytest.FixtureRequest
) -> Iterator[Callable[..., Page]]:
    """``new_page(user=None, **options)``: a page in a browser context of its own, as if on another machine."""
    contexts: list[BrowserContext] = []

    def make(user: User | None = None, **options: Any) -> Page:
        defaults: dict[str, Any] = {
            "base_url": live_server.url,
            "viewport": {"width": 1280, "height": 800},
            "locale": "en",
        }
        context = browser.new_context(**{**defaults, **options})
        context.set_default_timeout(SLOW)
        contexts.append(context)
        context.add_init_script(WATCH_POLICY)
        if user is not None:
            context.add_cookies([_session_cookie(user, live_server.url)])
        page = context.new_page()
        _listen(page, page_problems, live_server.url)
        return page

    yield make
    for context in contexts:
        context.close()
    if page_problems:
        pytest.fail("the page complained:\n" + "\n".join(page_problems), pytrace=False)


@pytest.fixture
def page(new_page: Callable[..., Page]) -> Page:
    return new_page()


@pytest.fixture
def page_of(new_page: Callable[..., Page]) -> Callable[..., Page]:
    """``page_of(world.author)``: a page of somebody who has signed in."""
    return new_page


@dataclass(frozen=True)
class Sample:
    """The shipped inventory, and somebody of each role in it."""

    inventory: Inventory
    by_role: dict[str, User]

    @property
    def home(self) -> str:
        return f"/i/{self.inventory.slug}"

    def artifact(self, key: str) -> Artifact:
        return Artifact.objects.get(inventory=self.inventory, key=key)

    def conversation(self, external_id: str) -> Conversation:
        return Conversation.objects.get(inventory=self.inventory, external_id=external_id)


PEOPLE = {Role.VIEWER: "vera", Role.REVIEWER: "rob", Role.AUTHOR: "ada", Role.PUBLISHER: "paul", Role.ADMIN: "anna"}


def _make_sample() -> None:
    load_sample(by=SYSTEM)
    inventory = Inventory.objects.get(slug=SLUG)
    for role, name in PEOPLE.items():
        make.user(name, role, inventory)


@pytest.fixture(scope="session")
def sample_file(django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """A SQLite file with the sample in it; None on another database, where each test loads it."""
    if connection.vendor != "sqlite":
        return None
    path = tmp_path_factory.mktemp("sample") / "sample.sqlite3"
    with django_db_blocker.unblock():
        _make_sample()
        keep_database(path)
    return path


def keep_database(path: Path) -> None:
    """The database as it is, into a file of its own; what was there is emptied."""
    connection.ensure_connection()
    with closing(sqlite3.connect(path)) as copy:
        connection.connection.backup(copy)
    call_command("flush", verbosity=0, interactive=False)


def restore_database(path: Path) -> None:
    connection.ensure_connection()
    with closing(sqlite3.connect(path)) as source:
        source.backup(connection.connection)


@pytest.fixture
def sample(sample_file: Path | None, transactional_db: None) -> Sample:
    if sample_file is None:
        _make_sample()
    else:
        restore_database(sample_file)
    return sample_now()


def sample_now() -> Sample:
    """The sample as the database has it."""
    users = {str(role): User.objects.get(username=name) for role, name in PEOPLE.items()}
    return Sample(Inventory.objects.get(slug=SLUG), users)


@pytest.fixture
def axe() -> Callable[[Page], None]:
    return check_accessibility


def check_accessibility(page: Page) -> None:
    """Fail on every violation of WCAG 2.2 A and AA that axe-core finds, naming the rule and the elements."""
    results = Axe().run(page, options={"runOnly": {"type": "tag", "values": TAGS}})
    found = [
        f"{violation['id']} ({violation['impact']}): {violation['help']}\n"
        + "\n".join(
            f"    {' '.join(map(str, node['target']))}  {node['failureSummary']}" for node in violation["nodes"][:5]
        )
        for violation in results.response["violations"]
    ]
    assert not found, f"{page.url}\n" + "\n".join(found)


def _session_cookie(user: User, url: str) -> Any:
    client = Client()
    client.force_login(user)
    return {
        "name": settings.SESSION_COOKIE_NAME,
        "value": client.cookies[settings.SESSION_COOKIE_NAME].value,
        "url": url,
    }


def _listen(page: Page, problems: list[str], base: str) -> None:
    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error" and not ANSWERED.search(message.text):
            problems.append(f"{page.url}: {message.text}")

    def on_request(request: Request) -> None:
        if not request.url.startswith((base, "data:", "blob:", "about:")):
            problems.append(f"{page.url}: a request to {request.url}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: problems.append(f"{page.url}: {error}"))
    page.on("request", on_request)
