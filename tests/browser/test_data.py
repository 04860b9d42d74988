"""A file in the browser: uploaded, looked at under another guess, imported, its report; and an export that comes back."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from console.models import Conversation, Run
from console.services import heartbeat, run_work
from tests.browser.conftest import Sample

pytestmark = pytest.mark.minilm


def test_a_file_is_uploaded_looked_at_imported_and_reported(
    sample: Sample, page_of: Callable[..., Page], axe: Callable[[Page], None], tmp_path: Path
) -> None:
    heartbeat.beat(heartbeat.WORKER)
    rows = [{"id": f"new-{n}", "messages": [{"role": "user", "content": "can my dog fly with me"}]} for n in range(12)]
    rows[1]["messages"] = [{"role": "boss", "content": "hello"}]
    file = tmp_path / "march.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    page = page_of(sample.by_role["author"])
    page.goto(f"{sample.home}/")
    page.get_by_role("link", name="Data").click()
    page.get_by_label("File, at most").set_input_files(file)
    page.get_by_role("button", name="Upload and look at it").click()

    expect(page.get_by_role("heading", name="march.jsonl")).to_be_visible()
    look = page.locator("#look")
    expect(look).to_contain_text("The first 10 rows")
    expect(look.get_by_text("9 new", exact=True)).to_be_visible()
    expect(look.get_by_text("1 rejected", exact=True)).to_be_visible()
    axe(page)
    what = page.get_by_label("What it holds")
    what.focus()
    what.select_option("exemplars")
    expect(look.get_by_text("10 rejected", exact=True)).to_be_visible()  # looked at again by itself
    expect(what).to_be_focused()
    assert "what=exemplars" in page.url
    page.go_back()
    expect(look.get_by_text("9 new", exact=True)).to_be_visible()
    page.get_by_role("button", name="Import the whole file").click()

    progress = page.locator("#progress")
    expect(progress).to_contain_text("queued")
    run = Run.objects.get()
    assert run_work.work(run.pk) is False  # as a worker does it
    expect(progress).to_contain_text("complete")
    result = page.locator("#beside")
    expect(result).to_contain_text("conversations read")
    expect(result.get_by_role("region", name="What was rejected")).to_contain_text("got 'boss'")
    axe(page)
    with page.expect_download() as taken:
        page.get_by_role("link", name="The rejected rows").click()
    assert json.loads(Path(taken.value.path()).read_text()) == rows[1]
    assert Conversation.objects.filter(external_id__startswith="new-").count() == 11

    page.goto(f"{sample.home}/data/export/")
    with page.expect_download() as taken:
        page.get_by_role("link", name="Conversations as JSON lines").click()
    back = tmp_path / taken.value.suggested_filename
    taken.value.save_as(back)
    page.goto(f"{sample.home}/data/")
    page.get_by_label("File, at most").set_input_files(back)
    page.get_by_role("button", name="Upload and look at it").click()
    expect(page.get_by_text("10 known already", exact=True)).to_be_visible()


def test_without_scripts_all_of_it_works_too(sample: Sample, page_of: Callable[..., Page], tmp_path: Path) -> None:
    file = tmp_path / "scores.jsonl"
    row = {"conversation": "sky-101", "user_turn": 0, "judge": "human:rob", "scores": {"pets": 1}}
    file.write_text(json.dumps(row))
    page = page_of(sample.by_role["reviewer"], java_script_enabled=False)
    page.goto(f"{sample.home}/data/")
    page.get_by_label("File, at most").set_input_files(file)
    page.get_by_role("button", name="Upload and look at it").click()
    expect(page.locator("#look")).to_contain_text("Its one row")
    page.get_by_label("What it holds").select_option("conversations")
    page.get_by_role("button", name="Look again").click()
    expect(page.locator("#look")).to_contain_text("Importing this takes the role Author.")
    page.get_by_label("What it holds").select_option("judgements")
    page.get_by_role("button", name="Look again").click()
    page.get_by_role("button", name="Import the whole file").click()
    run_work.work(Run.objects.get().pk)
    page.reload()
    expect(page.locator("#beside")).to_contain_text("score read")
