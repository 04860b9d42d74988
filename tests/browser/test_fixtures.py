"""The browser fixtures notice what they promise to notice."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

GOOD = "<!doctype html><html lang='en'><head><title>Good</title></head><body><main><h1>Good</h1></main></body></html>"


def test_a_real_page_is_drawn_and_a_good_one_passes_axe(page: Page, axe: Callable[[Page], None]) -> None:
    page.set_content(GOOD)
    assert page.title() == "Good"
    axe(page)


def test_axe_names_the_rule_and_the_element(page: Page, axe: Callable[[Page], None]) -> None:
    page.set_content(GOOD.replace("<h1>Good</h1>", "<img id='bare' src='data:,'><h1>Bad</h1>"))
    with pytest.raises(AssertionError, match=r"image-alt[\s\S]*#bare"):
        axe(page)


def test_inline_scripts_are_refused_by_the_policy_and_noticed(page: Page, page_problems: list[str]) -> None:
    page.goto("/healthz")
    page.evaluate("() => { const s = document.createElement('script'); s.textContent = '1'; document.body.append(s) }")
    page.wait_for_timeout(100)
    assert any("CSP: script-src" in problem for problem in page_problems), page_problems
    page_problems.clear()


def test_console_errors_are_noticed(page: Page, page_problems: list[str]) -> None:
    page.set_content(GOOD)
    page.evaluate("() => console.error('something is wrong')")
    assert [problem.endswith("something is wrong") for problem in page_problems] == [True]
    page_problems.clear()
