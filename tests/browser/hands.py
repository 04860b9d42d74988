"""Two ways to use the console, under one set of words: keys alone with JavaScript on, and clicks with JavaScript off.

A journey is written once against ``Hands``. ``Keys`` reaches an element by Tab and Shift+Tab as a person without a mouse
does and fails if it takes more than 150 of them, if a mouse was used after all, or if an act that stays on the page lost
the focus. ``NoScript`` clicks; what a script would do by itself (search as one types, look again at a run) is asked for.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Download, Locator, Page, expect

from console.models import User

MOST_TABS = 150
AT = "element => element === document.activeElement"
BEFORE = """element => Boolean(document.activeElement && document.activeElement !== document.body &&
  document.activeElement.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_PRECEDING)"""
SAME_GROUP = """element => element === document.activeElement ||
  (document.activeElement?.type === 'radio' && document.activeElement.name === element.name &&
   document.activeElement.form === element.form)"""
# Nothing is on its way any more: the page has loaded, and no part of it waits to be swapped.
QUIET = """() => document.readyState === 'complete' &&
  !document.querySelector('.htmx-request, .htmx-swapping, .htmx-settling, [aria-busy="true"]')"""
# The page on which something was pressed is still there, and nothing on it has the focus.
LOST = "() => window.pressedHere && (!document.activeElement || document.activeElement === document.body)"
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
NO_MOUSE = """
addEventListener('pointerdown', event => event.isTrusted && console.error('a mouse was used'), true)
"""


class Hands(ABC):
    """Somebody signed in, on a page of the inventory ``tiny``."""

    def __init__(self, page: Page) -> None:
        self.page = page

    # ------------------------------------------------------------------------------------------------------ what is there
    def find(self, selector: str) -> Locator:
        return self.page.locator(selector)

    def link(self, name: str | re.Pattern[str], within: str = "main") -> Locator:
        return self.find(within).get_by_role("link", name=name, exact=True)

    def button(self, name: str | re.Pattern[str], within: str = "main") -> Locator:
        return self.find(within).get_by_role("button", name=name, exact=True)

    def field(self, label: str, within: str = "main") -> Locator:
        return self.find(within).get_by_label(label, exact=True)

    def summary(self, text: str, within: str = "main") -> Locator:
        return self.find(within).locator("summary", has_text=text)

    def open(self, path: str) -> None:
        self.page.goto(f"/i/tiny/{path}")
        self.quiet()

    def sees(self, text: str, within: str = "body") -> None:
        expect(self.find(within).get_by_text(text).filter(visible=True).first).to_be_visible()
        self.quiet()

    def sees_heading(self, name: str | re.Pattern[str]) -> None:
        expect(self.page.get_by_role("heading", name=name).first).to_be_visible()
        self.quiet()

    def said(self, text: str) -> None:
        """A result, in the page's one place for results."""
        expect(self.find("#status")).to_contain_text(text)
        self.quiet()

    def is_at(self, path: str) -> None:
        """``path`` as a regular expression from the inventory's own address to the end of the address."""
        expect(self.page).to_have_url(re.compile(f"/i/tiny/{path}$"))
        self.quiet()

    # --------------------------------------------------------------------------------------------------------------- acts
    @abstractmethod
    def press(self, what: Locator) -> None:
        """A link, a button, or what opens and folds a part of the page."""

    @abstractmethod
    def mark(self, what: Locator) -> None:
        """A checkbox or a radio button that is not marked yet."""

    @abstractmethod
    def fill(self, field: Locator, text: str) -> None: ...

    @abstractmethod
    def choose(self, field: Locator, value: str) -> None:
        """The option of that ``value``."""

    @abstractmethod
    def search(self, field: Locator, text: str) -> None:
        """Words into a search field, so that the list under it is searched."""

    @abstractmethod
    def look_again(self) -> None:
        """At a page that tells by itself how work stands, if scripts are on."""

    def take(self, what: Locator) -> Download:
        with self.page.expect_download() as taken:
            self.press(what)
        return taken.value

    def upload(self, field: Locator, file: Path) -> None:
        with self.page.expect_file_chooser() as asked:
            self.press(field)
        asked.value.set_files(file)

    def say_why_if_asked(self, reason: str, within: str) -> None:
        """The sheet before an act takes a reason where a safeguard would be broken; else it may be left out."""
        field = self.find(within).get_by_label(re.compile("^Reason"))
        expect(field).to_be_visible()
        self.fill(field, reason)

    @abstractmethod
    def quiet(self) -> None:
        """Until the page stands still."""


class Keys(Hands):
    """JavaScript on, no mouse."""

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self._last = ""
        page.context.add_init_script(NO_MOUSE)
        page.on("filechooser", lambda _asked: None)  # from the start: a key must not be faster than the listening

    def quiet(self) -> None:
        self.page.wait_for_load_state("load")
        self.page.wait_for_function(QUIET)
        self.page.evaluate(TWO_FRAMES)  # the focus is set in the frame after
        if not self._last:
            return
        lost = self.page.evaluate(LOST)
        assert not lost, f"{self.page.url}: the focus is lost after {self._last}"
        self._last = ""

    def reach(self, what: Locator, there: str = AT) -> None:
        expect(what).to_be_visible()
        key = "Shift+Tab" if what.evaluate(BEFORE) else "Tab"
        for _ in range(MOST_TABS + 1):
            if what.evaluate(there):
                return
            self.page.keyboard.press(key)
        raise AssertionError(f"{self.page.url}: {what} is not reached within {MOST_TABS} {key}")

    def press(self, what: Locator) -> None:
        self.reach(what)
        self._last = str(what)
        self.page.evaluate("() => { window.pressedHere = true }")
        self.page.keyboard.press("Enter")

    def mark(self, what: Locator) -> None:
        if what.get_attribute("type") != "radio":
            self.reach(what)
            self.page.keyboard.press("Space")
        else:
            self.reach(what, SAME_GROUP)
            if what.evaluate(AT):
                self.page.keyboard.press("Space")
            for _ in range(20):
                if what.is_checked():
                    break
                self.page.keyboard.press("ArrowDown")
        expect(what).to_be_checked()

    def fill(self, field: Locator, text: str) -> None:
        self.reach(field)
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)
        expect(field).to_have_value(text)

    def choose(self, field: Locator, value: str) -> None:
        self.reach(field)
        values = field.locator("option").evaluate_all("all => all.map(one => one.value)")
        by = values.index(value) - values.index(field.input_value())
        for _ in range(abs(by)):
            self.page.keyboard.press("ArrowDown" if by > 0 else "ArrowUp")
        expect(field).to_have_value(value)

    def search(self, field: Locator, text: str) -> None:
        self.fill(field, text)

    def look_again(self) -> None:
        """The page does it by itself."""

    def upload(self, field: Locator, file: Path) -> None:
        self.reach(field)
        with self.page.expect_file_chooser() as asked:
            self.page.keyboard.press("Enter")
        asked.value.set_files(file)


class NoScript(Hands):
    """JavaScript off."""

    def quiet(self) -> None:
        self.page.wait_for_load_state("load")

    def press(self, what: Locator) -> None:
        what.click()

    def mark(self, what: Locator) -> None:
        what.check()

    def fill(self, field: Locator, text: str) -> None:
        field.fill(text)

    def choose(self, field: Locator, value: str) -> None:
        field.select_option(value)

    def search(self, field: Locator, text: str) -> None:
        field.fill(text)
        field.locator("xpath=ancestor::form").get_by_role("button").first.click()

    def look_again(self) -> None:
        self.page.reload()


def hands(kind: str, page_of: Callable[..., Page], user: User | None = None) -> Hands:
    """Of somebody who has signed in, or of nobody yet."""
    return Keys(page_of(user)) if kind == "keys" else NoScript(page_of(user, java_script_enabled=False))
