"""P10: the list of runs, a new one with what it takes, one run with its progress, and what people do to it."""

import json
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from console import tasks
from console.forms.runs import CalibrateForm, EvaluateForm, GenerateForm, JsonForm, JudgeForm, MineForm, form_of
from console.models import Attempt, AuditEvent, Heartbeat, ItemState, OperatingPoint, Run, RunKind, RunState
from console.presenters import amounts, results, run_words
from console.presenters import runs as shown
from console.services import heartbeat, limits, models_setting, run_kinds, run_work, runs
from console.services.run_kind import Outcome
from tests import make
from tests.services.test_runs import PROVIDER, Toy

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
LIST = "/i/tiny/runs/"


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Toy:
    made = Toy()
    monkeypatch.setitem(run_kinds.KINDS, "judge", made)
    monkeypatch.setattr(
        runs, "_provider", lambda inventory, kind: {**PROVIDER, "base_url": "https://api.example.org/v1"}
    )
    monkeypatch.setattr(run_work, "FIRST_BACKOFF_S", 0.0)
    limits.forget()
    return made


def work(run: Run) -> Run:
    run_work.work(run.pk)
    run.refresh_from_db()
    return run


def started(world: make.World, kind: str = "judge", **more: Any) -> Run:
    return runs.create_run(world.inventory, kind, by=world.by, **more)


def text(response: Any) -> str:
    found: str = response.content.decode()
    return found


def worker_is_there() -> None:
    heartbeat.beat(heartbeat.WORKER)


# ------------------------------------------------------------------------------------------------------------- the list
def test_without_a_run_the_kinds_are_explained_with_what_a_first_one_takes(world: make.World, signed_in: Any) -> None:
    page = text(signed_in(world.author).get(LIST))
    assert "No run yet" in page
    for name in run_kinds.KINDS:
        assert f"?kind={name}" in page or "takes the role" in page
    assert "calls no model and costs nothing" in page
    assert "takes the role Publisher" in page  # calibrate
    assert 'id="rows"' not in page


def test_a_row_says_kind_scope_who_state_numbers_tokens_and_money(world: make.World, signed_in: Any, toy: Toy) -> None:
    toy.script = {"item-3": [Outcome(code="bad_json", message="no JSON", raw="<b>hello")]}
    work(started(world, cap_money=5))
    page = text(signed_in(world.viewer).get(LIST))
    row = page[page.index("<tbody>") : page.index("</tbody>")]
    for words in ("Review turns", "All policies", "ada", "complete with 1 gap", "9 done", "1 failed", "of 10", "990",
                  "0.0018 of 5.00"):  # fmt: skip
        assert words in row, words
    assert "every 3s" not in page  # nothing moves


def test_an_unknown_price_is_never_nought(
    world: make.World, signed_in: Any, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_provider", lambda inventory, kind: {**PROVIDER, "price_out": None})
    work(started(world, unpriced_ok=True))
    row = text(signed_in(world.viewer).get(LIST))
    assert '<td class="num" data-label="Money">unknown</td>' in row


def test_recorded_is_said_and_spends_nothing(
    world: make.World, signed_in: Any, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_provider", lambda inventory, kind: {"provider": "recorded", "model": ""})
    run = work(started(world))
    client = signed_in(world.viewer)
    assert "recorded" in text(client.get(LIST))
    page = text(client.get(f"{LIST}{run.public_id}/"))
    assert "answers replayed; nothing called or spent" in page
    assert "recorded answers of the sample" in page


def test_the_list_polls_while_something_moves_and_not_when_it_is_unchanged(world: make.World, signed_in: Any) -> None:
    worker_is_there()
    run = started(world, "evaluate")
    client = signed_in(world.viewer)
    page = text(client.get(LIST))
    assert 'hx-trigger="every 3s"' in page
    seen = re.search(r'hx-get="\?seen=(\w+)"', page)
    assert seen is not None
    assert client.get(f"{LIST}?seen={seen[1]}", headers=HTMX).status_code == 204
    work(run)
    part = client.get(f"{LIST}?seen={seen[1]}", headers=HTMX)
    assert part.status_code == 200
    assert "every 3s" not in text(part)
    assert "<html" not in text(part)
    assert "complete" in text(part)


def test_one_kind_alone_and_page_by_page(world: make.World, signed_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "PAGE", 2)
    ids = [started(world, kind).public_id for kind in ("evaluate", "score", "evaluate", "score", "evaluate")]
    client = signed_in(world.viewer)
    only = text(client.get(LIST, {"kind": "score"}))
    assert [i for i in ids if f'id="run-{i}"' in only] == [ids[1], ids[3]]
    seen: list[str] = []
    address = LIST
    while address:
        page = text(client.get(address))
        seen += re.findall(r'<tr data-row id="run-(\w+)"', page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        address = LIST + following[1] if following else ""
    assert seen == ids[::-1]
    assert client.get(LIST, {"after": "9" * 5_000}).status_code == 200
    assert "Nothing here" in text(client.get(LIST, {"kind": "calibrate"}))
    assert f'id="run-{ids[-1]}"' in text(client.get(LIST, {"kind": "no-such"}))


def test_the_list_takes_a_fixed_number_of_queries(
    world: make.World, signed_in: Any, django_assert_max_num_queries: Any
) -> None:
    for _ in range(6):
        started(world, "evaluate")
    client = signed_in(world.viewer)
    client.get(LIST)
    with django_assert_max_num_queries(12):
        client.get(LIST)


def test_runs_of_others_are_not_there(world: make.World, signed_in: Any) -> None:
    run = started(world, "evaluate")
    client = signed_in(world.stranger)
    assert client.get(f"/i/others/runs/{run.public_id}/").status_code == 404
    assert client.get(f"/i/tiny/runs/{run.public_id}/").status_code == 404
    assert run.public_id not in text(client.get("/i/others/runs/"))


# -------------------------------------------------------------------------------------------------------------- workers
def test_without_a_worker_it_is_said_that_nothing_starts(world: make.World, signed_in: Any) -> None:
    run, client = started(world, "evaluate"), signed_in(world.viewer)
    page = text(client.get(LIST))
    assert "Runs are accepted but not started." in page
    assert "No worker has been seen." in page
    assert "accepted, not started" in page
    assert "accepted, not started" in text(client.get(f"{LIST}{run.public_id}/"))
    at = timezone.now() - timedelta(minutes=10)
    Heartbeat.objects.update_or_create(name=heartbeat.WORKER, defaults={"at": at})
    assert f"The last worker was seen at {run_words.clock(at)}." in text(client.get(LIST))
    worker_is_there()
    assert "accepted but not started" not in text(client.get(LIST))


# --------------------------------------------------------------------------------------------------------------- a new one
def test_the_kinds_are_offered_to_who_may(world: make.World, signed_in: Any) -> None:
    assert signed_in(world.viewer).get(f"{LIST}new/").status_code == 403
    page = text(signed_in(world.reviewer).get(f"{LIST}new/"))
    assert 'href="/i/tiny/runs/new/?kind=evaluate"' in page
    assert "takes the role Author" in page
    assert signed_in(world.reviewer).get(f"{LIST}new/?kind=score").status_code == 403
    assert signed_in(world.author).get(f"{LIST}new/?kind=score").status_code == 200


def forecast_of(page: str) -> str:
    found = re.search(r'name="seen" value="(\w+)"', page)
    assert found is not None
    return found[1]


def test_what_was_forecast_is_started_and_nothing_else(world: make.World, signed_in: Any, woken: list[int]) -> None:
    client, address = signed_in(world.reviewer), f"{LIST}new/?kind=evaluate"
    page = text(client.get(address))
    assert "nothing: no model is called" in page
    values = {"protocol": "operating-point", "labels": "as-judged", "start": "1", "seen": forecast_of(page)}
    other = client.post(address, {**values, "labels": "running-max"})  # changed after the forecast, without a script
    assert other.status_code == 200
    assert "has changed since the figures were worked out" in text(other)
    assert Run.objects.count() == 0
    response = client.post(address, values)
    run = Run.objects.get()
    assert response["Location"] == f"{LIST}{run.public_id}/"
    assert (run.kind, run.params["labels"], run.actor) == ("evaluate", "as-judged", "rob")
    assert woken == [run.pk]
    assert "Planned: 1 item." in text(client.get(response["Location"]))


def test_the_forecast_follows_the_form(world: make.World, signed_in: Any) -> None:
    client, address = signed_in(world.author), f"{LIST}new/?kind=score"
    assert '<dd class="figure-cell">5</dd>' in text(client.get(address))
    part = client.post(address, {"conversations": "talk-1\ntalk-2"}, headers=HTMX)
    assert part.status_code == 200
    assert "<html" not in text(part)
    assert '<dd class="figure-cell">2</dd>' in text(part)
    wrong = client.post(address, {"release": "999"}, headers=HTMX)
    assert "There is no release 999." in text(wrong)
    whole = client.post(address, {"release": "999"})
    assert whole.status_code == 422
    assert 'aria-invalid="true"' in text(whole)
    assert "First mend what is marked." in text(client.post(address, {"release": "x"}, headers=HTMX))


def test_a_model_of_unknown_price_asks_for_consent(
    world: make.World, signed_in: Any, woken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    models_setting.set_model(
        world.inventory, "judge", by=world.by, provider="openai", model="m", base_url="http://127.0.0.1:9/v1",
        requests_per_minute=6,
    )  # fmt: skip
    client, address = signed_in(world.author), f"{LIST}new/?kind=judge"
    page = text(client.post(address, {"sample_unit": "conversation"}))
    assert "The price of this model is not known." in page
    assert "<dt>Money</dt><dd>unknown</dd>" in page
    assert "at least 6 min" in page  # 36 calls at 6 a minute
    values = {"sample_unit": "conversation", "start": "1", "seen": forecast_of(page)}
    refused = client.post(address, values)
    assert refused.status_code == 422
    assert "Enter its price in the settings" in text(refused)
    assert Run.objects.count() == 0
    client.post(address, {**values, "unpriced_ok": "on", "cap_tokens": "50000"})
    run = Run.objects.get()
    assert (run.kind, run.cap_tokens, run.total) == ("judge", 50_000, 36)
    shown_page = text(client.get(f"{LIST}{run.public_id}/"))
    assert "http://127.0.0.1:9/v1" in shown_page
    assert "6 requests a minute" in shown_page


def test_another_like_it_takes_over_what_has_no_field(world: make.World, signed_in: Any, woken: list[int]) -> None:
    models_setting.set_model(
        world.inventory, "judge", by=world.by, provider="openai", model="m", base_url="http://127.0.0.1:9/v1",
        price_in="1", price_out="2",
    )  # fmt: skip
    scope = {
        "artifacts": ["cancel-order"], "sample": {"n": 2, "unit": "conversation", "seed": 7},
        "but_not": {"share": 0.1, "unit": "conversation"},
    }  # fmt: skip
    run = started(world, scope=scope, params={"per_call": 2})
    client = signed_in(world.author)
    page = text(client.get(f"{LIST}new/?like={run.public_id}"))
    assert "Taken over as it is:" in page
    values = {
        "artifacts": "cancel-order", "sample_of": "n", "sample_amount": "2", "sample_unit": "conversation",
        "sample_seed": "7", "per_call": "2", "rest": json.dumps({"scope": {"but_not": scope["but_not"]}}),
        "start": "1", "seen": forecast_of(page),
    }  # fmt: skip
    assert client.post(f"{LIST}new/?like={run.public_id}", values).status_code == 302
    made = Run.objects.exclude(pk=run.pk).get()
    assert made.scope == run.scope
    assert made.params == run.params
    for rest in ("[", "5", '{"scope": 5}', '{"params": []}', "[" * 5_000, '{"scope": {"a": NaN}}'):
        assert client.post(f"{LIST}new/?like={run.public_id}", {**values, "rest": rest}).status_code == 422, rest


@pytest.mark.parametrize("kind", sorted(set(run_kinds.KINDS) - set(run_kinds.ONCE)))
def test_every_kind_has_its_form(kind: str, world: make.World, signed_in: Any) -> None:
    response = signed_in(world.publisher).get(f"{LIST}new/?kind={kind}")
    assert response.status_code == 200
    assert "What it takes" in text(response)


# --------------------------------------------------------------------------------------------------------------- one run
def poll(page: str) -> str:
    found = re.search(r'id="progress"[^>]*hx-get="([^"]+)"', page)
    assert found is not None
    return found[1].replace("&amp;", "&")


def test_progress_is_polled_while_it_moves_and_ends_by_itself(world: make.World, signed_in: Any) -> None:
    worker_is_there()
    run, client = started(world, "evaluate"), signed_in(world.viewer)
    page = text(client.get(f"{LIST}{run.public_id}/"))
    assert 'hx-trigger="every 2s"' in page
    address = poll(page)
    assert client.get(address, headers=HTMX).status_code == 204
    work(run)
    last = text(client.get(address, headers=HTMX))
    assert "every 2s" not in last
    assert "<html" not in last
    assert 'id="beside" hx-swap-oob="outerHTML"' in last
    assert 'id="status"' in last  # the state changed: it is announced
    assert "Measure: complete." in last
    assert "Show and don&#x27;t-show examples, written by AI" in last


def test_a_tick_is_not_announced_and_sends_nothing_beside(world: make.World, signed_in: Any, toy: Toy) -> None:
    worker_is_there()
    run, client = started(world), signed_in(world.viewer)
    Run.objects.filter(pk=run.pk).update(state=RunState.RUNNING, started_at=timezone.now())
    address = poll(text(client.get(f"{LIST}{run.public_id}/")))
    item = run.items.get(position=0)
    item.state, item.ended_at = ItemState.DONE, timezone.now()
    item.save()
    Run.objects.filter(pk=run.pk).update(progressed_at=timezone.now(), done=1)
    part = text(client.get(address, headers=HTMX))
    assert "every 2s" in part
    assert 'id="beside"' not in part
    assert 'id="status"' not in part
    assert "of 10" in part


def test_a_poll_takes_few_queries_and_reads_no_attempt(
    world: make.World, signed_in: Any, toy: Toy, django_assert_max_num_queries: Any
) -> None:
    worker_is_there()
    run, client = started(world), signed_in(world.viewer)
    Run.objects.filter(pk=run.pk).update(state=RunState.RUNNING, started_at=timezone.now())
    address = poll(text(client.get(f"{LIST}{run.public_id}/")))
    with django_assert_max_num_queries(10) as asked:
        assert client.get(address, headers=HTMX).status_code == 204
    assert not [query for query in asked.captured_queries if "console_attempt" in query["sql"]]


def test_a_worker_that_goes_away_is_seen_by_the_poll(world: make.World, signed_in: Any, toy: Toy) -> None:
    worker_is_there()
    run, client = started(world), signed_in(world.viewer)
    Run.objects.filter(pk=run.pk).update(state=RunState.RUNNING, started_at=timezone.now())
    address = poll(text(client.get(f"{LIST}{run.public_id}/")))
    Heartbeat.objects.filter(name=heartbeat.WORKER).update(at=timezone.now() - timedelta(minutes=5))
    part = text(client.get(address, headers=HTMX))
    assert "Runs are accepted but not started." in part
    assert 'id="beside"' not in part


def test_waiting_paused_and_capped_are_said_in_words(world: make.World, signed_in: Any, toy: Toy) -> None:
    run, client = started(world), signed_in(world.author)
    until = timezone.now() + timedelta(minutes=7)
    Run.objects.filter(pk=run.pk).update(state=RunState.WAITING, wait_until=until, started_at=timezone.now())
    address = f"{LIST}{run.public_id}/"
    assert f"waiting for quota until {run_words.clock(until)}" in text(client.get(address))
    for state, words, polled in (
        (RunState.PAUSED, "paused", False),
        (RunState.CAPPED, "paused by its cap", False),
        (RunState.STALLED, "stalled", True),
        (RunState.CANCELLING, "cancel requested", True),
        (RunState.PLANNING, "accepted, not started", True),
        (RunState.CANCELLED, "cancelled", False),
    ):
        Run.objects.filter(pk=run.pk).update(state=state, settled=True)
        page = text(client.get(address))
        assert f">{words}</span>" in page, state
        assert ("every 2s" in page) is polled, state


def test_the_plan_and_the_model_are_shown_without_a_key(
    world: make.World, signed_in: Any, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNALBOX_KEY_JUDGE", "sk-secret-of-the-test")
    frozen = {**PROVIDER, "key_name": "SIGNALBOX_KEY_JUDGE", "max_output_tokens": 1000, "price_in": "0.2500"}
    monkeypatch.setattr(runs, "_provider", lambda inventory, kind: frozen)
    run = started(world, scope={"artifacts": ["cancel-order"]}, params={"per_call": 3, "repeat_sample": 0.05})
    page = text(signed_in(world.viewer).get(f"{LIST}{run.public_id}/"))
    for words in ("SIGNALBOX_KEY_JUDGE", "0.25 in, 10 out per million tokens", "Policies per call", "5\u00a0%",
                  "Cancel order"):  # fmt: skip
        assert words in page, words
    assert "sk-secret" not in page


def test_what_failed_is_grouped_with_samples_and_the_raw_reply_as_text(
    world: make.World, signed_in: Any, toy: Toy
) -> None:
    again = Outcome(code="rate_limited", message="slow down", again=True, status=429, retry_after=0.0)
    bad = [Outcome(code="bad_json", message="no JSON", raw="<script>alert(1)</script> score: 5")]
    toy.script = {f"item-{n}": list(bad) for n in range(4)} | {"item-5": [again, again]}
    run = work(started(world))
    page = text(signed_in(world.viewer).get(f"{LIST}{run.public_id}/"))
    assert "Bad JSON × 4" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; score: 5" in page
    assert "<script>alert" not in page
    assert f'href="{LIST}{run.public_id}/items/?code=bad_json"' in page
    assert "429: asked to wait × 2" in page
    assert page.count('class="raw"') == 3
    items = text(signed_in(world.viewer).get(f"{LIST}{run.public_id}/items/", {"code": "bad_json"}))
    assert items.count('id="item-') == 4
    done = text(signed_in(world.viewer).get(f"{LIST}{run.public_id}/items/", {"state": "done"}))
    assert done.count('id="item-') == 6
    assert "try 1: 429: asked to wait (429)" in done
    assert "No item is like that." in text(
        signed_in(world.viewer).get(f"{LIST}{run.public_id}/items/", {"state": "claimed"})
    )


def test_items_come_page_by_page(world: make.World, signed_in: Any, toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "ITEMS", 4)
    run, client = work(started(world)), signed_in(world.viewer)
    found = []
    after = ""
    for _ in range(3):
        page = text(client.get(f"{LIST}{run.public_id}/items/", {"after": after}))
        found += re.findall(r'id="item-(\d+)"', page)
        after = found[-1]
    assert found == [str(n) for n in range(10)]


def test_a_long_raw_reply_is_cut_on_the_page_and_kept_whole(world: make.World, signed_in: Any, toy: Toy) -> None:
    toy.script = {"item-0": [Outcome(code="bad_json", message="no", raw="x" * 9_000)]}
    run = work(started(world))
    page = text(signed_in(world.viewer).get(f"{LIST}{run.public_id}/"))
    assert "x" * 4_000 in page
    assert "x" * 4_001 not in page
    assert "the whole of it is kept" in page
    assert len(Attempt.objects.get().raw) == 9_000


def test_spending_stands_by_model_and_policy(world: make.World, signed_in: Any, toy: Toy) -> None:
    run = work(started(world))
    page = text(signed_in(world.viewer).get(f"{LIST}{run.public_id}/"))
    assert "What it spent" in page
    assert "1,000" in page
    assert ">0.002<" in page
    assert "several at once, or none" in page


def test_calibrate_shows_the_cut_off_before_and_after_and_what_it_wrote(world: make.World, signed_in: Any) -> None:
    before = OperatingPoint.objects.current().get(inventory=world.inventory).theta
    run = work(runs.create_run(world.inventory, "calibrate", by=world.by, params={"target": 0.9}))
    assert run.result is not None
    page = text(signed_in(world.viewer).get(f"{LIST}{run.public_id}/"))
    assert f"{before:.3f} <span" in page
    assert f"−{abs(run.result['theta']):.3f}" in page
    assert "What it wrote" in page
    assert "Chose the cut-off" in page
    again = work(runs.run_again(run, by=world.by))
    assert "It was chosen so already" in text(signed_in(world.viewer).get(f"{LIST}{again.public_id}/"))


def test_score_says_what_was_selected(world: make.World, signed_in: Any) -> None:
    run = work(started(world, "score"))
    page = text(signed_in(world.viewer).get(f"{LIST}{run.public_id}/"))
    assert "12 turns worked out with release" in page


def test_a_result_of_any_other_kind_is_printed_as_it_is(world: make.World, signed_in: Any, toy: Toy) -> None:
    run = work(started(world))
    Run.objects.filter(pk=run.pk).update(kind=RunKind.IMPORT, result={"rows_read": 12, "lines": [1, 2]})
    page = text(signed_in(world.admin).get(f"{LIST}{run.public_id}/"))
    assert "<dt>rows read</dt>" in page
    assert ">1, 2</dd>" in page


# ----------------------------------------------------------------------------------------------------- what is done to it
def act(client: Any, run: Run, do: str, **values: str) -> Any:
    return client.post(f"{LIST}{run.public_id}/do/", {"do": do, **values}, follow=True)


def test_pause_resume_cancel(world: make.World, signed_in: Any, woken: list[int]) -> None:
    run, client = started(world, "evaluate"), signed_in(world.reviewer)
    assert "Paused. What is in flight ends first" in text(act(client, run, "pause"))
    run.refresh_from_db()
    assert run.state == RunState.PAUSED
    assert "It goes on; what has ended is not done again." in text(act(client, run, "resume"))
    assert woken == [run.pk]
    assert "Cancelled." in text(act(client, run, "cancel"))
    run.refresh_from_db()
    assert run.state == RunState.CANCELLED
    assert AuditEvent.objects.filter(object_id=run.public_id, actor="rob").count() == 3
    page = text(client.get(f"{LIST}{run.public_id}/"))
    assert "Who did what to it" in page
    assert 'value="resume"' in page
    assert 'value="pause"' not in page


def test_a_conflict_is_told_on_the_page_as_it_stands_now(world: make.World, signed_in: Any, woken: list[int]) -> None:
    run, client = started(world, "evaluate"), signed_in(world.reviewer)
    work(run)
    response = act(client, run, "cancel")
    assert response.status_code == 409
    assert "This run is complete now." in text(response)
    assert "Nothing was changed. This is how it stands now." in text(response)
    assert act(client, run, "retry").status_code == 409
    assert "Nothing of this run has failed." in text(act(client, run, "retry"))
    assert client.post(f"{LIST}{run.public_id}/do/", {"do": "dance"}).status_code == 404
    assert woken == []


def test_retry_failed_and_run_again(world: make.World, signed_in: Any, toy: Toy, woken: list[int]) -> None:
    toy.script = {f"item-{n}": [Outcome(code="refused", message="401")] for n in range(3)}
    run, client = work(started(world)), signed_in(world.author)
    assert "Retry failed (3)" in text(client.get(f"{LIST}{run.public_id}/"))
    assert "3 failed items are tried again." in text(act(client, run, "retry"))
    work(run)
    assert run.state == RunState.COMPLETE
    page = text(act(client, run, "again"))
    assert "A new run with the same plan." in page
    assert Run.objects.count() == 2
    assert woken == [run.pk, Run.objects.latest("pk").pk]


def test_raise_cap(world: make.World, signed_in: Any, toy: Toy, woken: list[int]) -> None:
    toy.calls_model = True
    run, client = work(started(world, cap_tokens=1_000)), signed_in(world.author)
    assert run.state == RunState.CAPPED
    page = text(client.get(f"{LIST}{run.public_id}/"))
    assert "paused by its cap" in page
    assert 'name="cap_tokens" value="1000"' in page
    refused = act(client, run, "cap", cap_tokens="-4")
    assert refused.status_code == 422
    assert "A cap is a positive number." in text(refused)
    assert act(client, run, "cap", cap_tokens="soon").status_code == 422
    assert "The cap is set." in text(act(client, run, "cap", cap_tokens="90000", cap_money=""))
    assert work(run).state == RunState.COMPLETE
    assert woken == [run.pk]


def test_acts_take_the_kind_s_own_role(world: make.World, signed_in: Any, woken: list[int]) -> None:
    run = runs.create_run(world.inventory, "calibrate", by=world.by)
    for person in (world.viewer, world.reviewer, world.author):
        assert act(signed_in(person), run, "cancel").status_code == 403
    assert "Handling it takes the role Publisher." in text(signed_in(world.author).get(f"{LIST}{run.public_id}/"))
    assert act(signed_in(world.publisher), run, "cancel").status_code == 200


def test_a_worker_is_called_only_after_the_commit(
    world: make.World, signed_in: Any, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    called: list[int] = []
    monkeypatch.setattr("console.views.runs.wake_run", called.append)
    run = started(world, "evaluate")
    runs.pause_run(run, by=world.by)
    with django_capture_on_commit_callbacks(execute=False) as callbacks:
        act(signed_in(world.reviewer), run, "resume")
    assert called == []
    for callback in callbacks:
        callback()
    assert called == [run.pk]


def test_a_broker_that_is_away_leaves_the_run_accepted(
    world: make.World, signed_in: Any, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    def away(*args: Any, **kwargs: Any) -> None:
        raise OSError("no broker")

    monkeypatch.setattr(tasks.work_run, "apply_async", away)
    client, address = signed_in(world.reviewer), f"{LIST}new/?kind=evaluate"
    seen = forecast_of(text(client.get(address)))
    with django_capture_on_commit_callbacks(execute=True):
        response = client.post(
            address, {"protocol": "operating-point", "labels": "as-judged", "start": "1", "seen": seen}
        )
    assert response.status_code == 302
    assert Run.objects.get().state == RunState.QUEUED


# ------------------------------------------------------------------------------------------------------------- in words
def test_amounts() -> None:
    assert [amounts.tokens(n) for n in (0, 9_812, 412_400, 1_240_000)] == ["0", "9,812", "412\u00a0k", "1.24\u00a0M"]
    assert [amounts.money(n) for n in (None, 0, 0.00001, 0.0312, 12.4)] == [
        "unknown", "0", "under 0.0001", "0.0312", "12.40",
    ]  # fmt: skip
    assert [amounts.span(s) for s in (8, 180, 7_800, 7_200, 300_000)] == ["8 s", "3 min", "2 h 10 min", "2 h", "3 days"]


@pytest.mark.parametrize(
    ("kind", "scope", "params", "words"),
    [
        ("judge", {}, {}, "all policies"),
        ("judge", {"artifacts": ["a", "b"], "since": "7d"}, {}, "A, b, chats of the last 7 days"),
        ("judge", {"artifacts": list("abcde")}, {}, "5 policies: A, b, c …"),
        ("judge", {"sample": {"share": 0.1}}, {}, "all policies, a random 10\u00a0% of (chat, policy) pairs"),
        ("judge", {"sample": {"n": 1, "unit": "conversation"}}, {}, "all policies, 1 random chat"),
        ("judge", {"by_margin": {"a": 3, "b": 4}}, {}, "all policies, the 7 chats with the highest match strength"),
        ("judge", {"channel": "web", "until": "2026-03-01"}, {}, "all policies, channel web, until 2026-03-01"),
        ("judge", {"since": "24h", "unjudged_only": True}, {},
         "all policies, chats of the last 24 hours, what is not reviewed yet"),
        ("judge", {"since": "2026-03-02"}, {}, "all policies, chats since 2026-03-02"),
        ("mine", {"scenarios": ["x"]}, {"mode": "adversarial"}, "all policies, 1 scenario, what is selected wrongly"),
        ("score", {"conversations": ["x", "y"]}, {"release": 3}, "2 conversations, release 3"),
        ("calibrate", {}, {"target": 0.925}, "catch 92.5\u00a0%"),
        ("calibrate", {}, {"target": None}, "catch the inventory's share"),
        ("evaluate", {}, {"protocol": "mined", "labels": "running-max"},
         "examples from real chats against those written by AI, labels as the highest so far"),
    ],
)  # fmt: skip
def test_scopes_in_words(kind: str, scope: dict[str, Any], params: dict[str, Any], words: str) -> None:
    assert run_words.scope(kind, scope, params, names={"a": "A"}) == words


def test_an_evaluation_s_table_takes_what_columns_there_are() -> None:
    rows = [
        {"method": "sq-generated", "world": "fitted", "precision_at_r90": 0.5, "interval": [0.4, 0.62], "theta": -0.07},
        {"method": "of-its-own", "world": "unfitted-is-miss", "k": 3, "note": {"n": 2}, "tokens": 1_200},
    ]
    table = results.evaluation({"rows": rows})
    assert [head for head, _ in table.heads] == [
        "Method", "Policies without material", "K", "Needed when shown, at 90 % caught", "Cut-off", "note", "tokens",
    ]  # fmt: skip
    first, second = ([cell.text for cell in row] for row in table.rows)
    assert first == ["Show and don't-show examples, written by AI", "fitted", "–", "50.0\u00a0%", "−0.070", "–", "–"]
    assert second == ["of-its-own", "unfitted-is-miss", "3", "–", "–", "n 2", "1,200"]
    assert table.rows[0][3].sub == "40–62"
    technical = results.evaluation({"rows": rows}, technical=True)
    assert [head for head, _ in technical.heads][:4] == ["Method", "Policies without material", "K", "P@R90"]


# ------------------------------------------------------------------------------------------------------- for an amount
PLAN = "/i/tiny/runs/plan/"


@pytest.fixture
def priced(world: make.World) -> make.World:
    models_setting.set_model(
        world.inventory, "judge", by=world.by, provider="openai", model="m", base_url="http://127.0.0.1:9/v1",
        price_in="1", price_out="4", requests_per_minute=60,
    )  # fmt: skip
    return world


def test_an_amount_is_shown_in_its_ways_and_one_is_started(
    priced: make.World, signed_in: Any, woken: list[int]
) -> None:
    client = signed_in(priced.author)
    assert f'href="{PLAN}"' in text(client.get(f"{LIST}new/?kind=judge"))
    assert "Ways to spend it" not in text(client.get(PLAN))
    page = text(client.get(PLAN, {"money": "0.02", "measure": "40", "wanted": "4"}))
    for words in ("Ways to spend it", "1 policy a call", "8 policies a call, as a batch", "For measuring", "For learning",
                  "within a day", "Start these 2 runs"):  # fmt: skip
        assert words in page, words
    assert Run.objects.count() == 0
    values = {"money": "0.02", "measure": "40", "wanted": "4"}
    moved = client.post(PLAN, {**values, "start": "0" * 16})
    assert "has changed since it was worked out" in text(moved)
    assert Run.objects.count() == 0
    seen = re.search(r'name="start" value="(\w+)"', page)
    assert seen is not None
    response = client.post(PLAN, {**values, "start": seen[1]}, follow=True)
    assert "2 runs are planned." in text(response)
    first, second = Run.objects.order_by("pk")
    assert (first.kind, "sample" in first.scope, "by_margin" in second.scope) == ("judge", True, True)
    assert first.cap_money is not None
    assert second.cap_money is not None
    assert first.cap_money + second.cap_money == pytest.approx(Decimal("0.02"), abs=Decimal("0.0001"))
    assert woken == [first.pk, second.pk]


def test_an_amount_that_is_none_is_said(priced: make.World, signed_in: Any) -> None:
    client = signed_in(priced.author)
    refused = client.get(PLAN, {"money": "0", "measure": "40", "wanted": "4"})
    assert refused.status_code == 422
    assert "Give a number above 0." in text(refused)
    assert client.get(PLAN, {"money": "x", "measure": "40", "wanted": "4"}).status_code == 422
    assert signed_in(priced.reviewer).get(PLAN).status_code == 403


def test_without_a_price_the_amount_is_in_tokens(priced: make.World, signed_in: Any, woken: list[int]) -> None:
    models_setting.set_model(priced.inventory, "judge", by=priced.by, price_out=None)
    client = signed_in(priced.author)
    page = text(client.get(PLAN, {"tokens": "20000", "measure": "100", "wanted": "4"}))
    assert 'name="tokens"' in page
    assert ">unknown</td>" in page
    seen = re.search(r'name="start" value="(\w+)"', page)
    assert seen is not None
    client.post(PLAN, {"tokens": "20000", "measure": "100", "wanted": "4", "start": seen[1]})
    caps = [run.cap_tokens or 0 for run in Run.objects.all()]
    assert 19_990 <= sum(caps) <= 20_000


def test_without_a_model_the_planner_says_what_is_wanting(world: make.World, signed_in: Any) -> None:
    response = signed_in(world.author).get(PLAN)
    assert response.status_code == 422
    assert "No model judges here yet." in text(response)


# ------------------------------------------------------------------------------------------------------------- the forms
def judge_form(world: make.World, **values: Any) -> JudgeForm:
    form = JudgeForm({"sample_unit": "conversation", **values}, inventory=world.inventory)
    form.is_valid()
    return form


def test_a_scope_comes_out_of_the_form_as_it_went_in(world: make.World) -> None:
    scope = {
        "artifacts": ["cancel-order"], "conversations": ["talk-1"], "channel": "web", "since": "7d",
        "until": "2026-03-02", "sample": {"share": 0.05, "unit": "column", "seed": 3}, "unjudged_only": True,
    }  # fmt: skip
    params = {"per_call": 3, "repeat_sample": 0.05, "batch": True, "seed": 4}
    assert JudgeForm.as_shown(world.inventory, JudgeForm.initial_of(scope, params)) == (scope, params)
    mined = {"rule": "running", "recipe": "states", "mode": "adversarial", "quiet_hours": 0, "max_candidates": 50}
    assert MineForm.as_shown(world.inventory, MineForm.initial_of({}, mined)) == ({}, mined)
    made = {"m": 5, "mode": "covered", "rounds": 3, "neighbours": 2, "again": True}
    assert GenerateForm.as_shown(world.inventory, GenerateForm.initial_of({}, made)) == ({}, made)
    table = {"protocol": "mined", "labels": "running-max", "encoders": ["openai:a", "minilm"]}
    assert EvaluateForm.as_shown(world.inventory, EvaluateForm.initial_of({}, table)) == ({}, table)
    assert CalibrateForm.as_shown(world.inventory, CalibrateForm.initial_of({}, {"target": 0.925})) == (
        {}, {"target": 0.925},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"sample_of": "n"}, "Say how many."),
        ({"sample_of": "share", "sample_amount": "120"}, "at most 100 percent"),
        ({"sample_of": "n", "sample_amount": "2.5"}, "a whole one"),
    ],
)
def test_a_random_part_says_how_large_it_is(values: dict[str, str], words: str, world: make.World) -> None:
    form = judge_form(world, **values)
    assert words in str(form.errors["sample_amount"])


def test_of_very_many_policies_the_keys_are_typed(world: make.World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.forms.runs.TICKED_UP_TO", 2)
    shown_form = JudgeForm(initial={"artifacts": ["a", "b"]}, inventory=world.inventory)
    assert shown_form["artifacts"].value() == "a\nb"
    assert judge_form(world, artifacts="cancel-order\n\nrefund-status").scope()["artifacts"] == [
        "cancel-order", "refund-status",
    ]  # fmt: skip


def test_a_kind_without_a_form_takes_json(world: make.World) -> None:
    scope, params = {"n": [1]}, {"x": {"y": True}}
    assert form_of("something-new") is JsonForm
    assert JsonForm(JsonForm.initial_of({}, {}), inventory=world.inventory).is_valid()
    form = JsonForm({"scope_json": json.dumps(scope), "params_json": json.dumps(params)}, inventory=world.inventory)
    assert form.is_valid()
    assert (form.scope(), form.params()) == (scope, params)
    wrong = JsonForm({"scope_json": "[1]", "params_json": "{"}, inventory=world.inventory)
    assert not wrong.is_valid()
    assert set(wrong.errors) == {"scope_json", "params_json"}


def test_what_cannot_be_mined_is_named_with_its_policy(world: make.World, signed_in: Any, toy: Toy) -> None:
    run = work(started(world))
    result = {
        "of": 3, "mined": 1, "signals": 4, "anti_signals": 9, "cannot_n": 2, "missing": 7,
        "cannot": [{"artifact": "cancel-order", "words": "no turn is judged for it"}, {"artifact": "gone", "words": "x"}],
    }  # fmt: skip
    Run.objects.filter(pk=run.pk).update(kind=RunKind.MINE, result=result)
    page = text(signed_in(world.viewer).get(f"{LIST}{run.public_id}/"))
    assert "Cannot mine: 2 of 3" in page
    assert '<a href="/i/tiny/policies/cancel-order/">Cancel order</a>' in page
    assert "gone" in page
    assert "7 turns of partly reviewed chats" in page


# --------------------------------------------------------------------------------------------------------------- filters
def test_the_list_is_filtered_as_every_other_list(world: make.World, signed_in: Any) -> None:
    ids = {kind: started(world, kind).public_id for kind in ("evaluate", "score")}
    Run.objects.filter(public_id=ids["score"]).update(state=RunState.GAPS, failed=3, actor="anna")

    def listed(*f: str) -> set[str]:
        page = text(signed_in(world.viewer).get(LIST, {"f": f}))
        return {kind for kind, public_id in ids.items() if f'id="run-{public_id}"' in page}

    assert listed() == {"evaluate", "score"}
    assert listed("failed:gt:0") == listed("state:is:gaps") == listed("by:is:anna") == {"score"}
    assert listed("not.state:is:gaps") == {"evaluate"}
    assert listed("kind:is:score", "or.kind:is:evaluate") == {"evaluate", "score"}
    assert listed("kind:is:score", "kind:is:evaluate") == set()
    assert listed("at:lt:2020-01-01") == set()
    page = text(signed_in(world.viewer).get(LIST, {"f": ["nonsense", "kind:is:score"]}))
    assert "ignored:" in page
    assert "Find examples in chats" in page  # a kind that could be asked for
    added = signed_in(world.viewer).get(LIST, {"where": "state:is:gaps", "kind": "score"})
    assert added["Location"] == f"{LIST}?f=kind%3Ais%3Ascore&f=state%3Ais%3Agaps"


def test_the_poll_leaves_the_filter_form_alone(world: make.World, signed_in: Any) -> None:
    started(world, "evaluate")
    client = signed_in(world.viewer)
    polled = text(client.get(LIST, {"seen": "old"}, headers={"HX-Request": "true"}))
    assert 'id="rows"' in polled
    assert "add-filter" not in polled
    filtered = text(client.get(LIST, {"f": "kind:is:mine"}, headers={"HX-Request": "true"}))
    assert filtered.strip().startswith('<div id="listed"')
    assert "add-filter" in filtered
