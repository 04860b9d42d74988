"""Costs: the ledger of a month by what, model, day, policy and run; its file; the models that runs call."""

import csv
import io
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from console.models import AuditEvent, Guideline, ModelSetting, Run, Spend
from console.presenters import costs as shown
from console.services import costs, model_trial, models_setting, runs
from console.services.run_kind import Outcome, Usage
from sq_core.judging import Verdict
from tests import make

pytestmark = pytest.mark.django_db
PAGE, FILE, MODELS = "/i/tiny/costs/", "/i/tiny/costs/ledger.csv", "/i/tiny/settings/models/"


def text(response: Any) -> str:
    found: str = response.content.decode()
    return found


def spent(world: make.World, at: str, *, run: Run | None = None, **more: Any) -> Spend:
    values: dict[str, Any] = {
        "source": "judge", "model": "m@host", "tokens_in": 1_000, "tokens_out": 10, "money": Decimal("0.5"),
    }  # fmt: skip
    return Spend.objects.create(
        inventory=world.inventory, run=run, at=datetime.fromisoformat(at).replace(tzinfo=UTC), **values | more
    )


@pytest.fixture
def march(world: make.World) -> make.World:
    run = runs.create_run(world.inventory, "evaluate", by=world.by)
    spent(world, "2026-03-02T10:00", run=run, artifact=world.cancel, tokens_cached=400)
    spent(
        world, "2026-03-02T11:00", artifact=world.change, money=Decimal("1.25"), model="other@host", source="generate"
    )
    spent(world, "2026-03-05T10:00", run=run, money=None, tokens_in=7_000)
    spent(world, "2026-03-31T23:30", artifact=world.cancel, money=Decimal("0.000002"))
    spent(world, "2026-03-03T09:00", recorded=True, money=Decimal(0), tokens_in=0, tokens_out=0)
    spent(world, "2026-02-27T09:00", money=Decimal(9))
    return world


# ------------------------------------------------------------------------------------------------------------ the ledger
def test_every_table_adds_up_to_the_same(march: make.World) -> None:
    import zoneinfo

    zone = zoneinfo.ZoneInfo("UTC")
    rows = costs.spends(march.inventory, *costs.month_of(2026, 3, zone), recorded=False)
    total = costs.total(rows)
    assert (total.calls, total.tokens_in, total.tokens_cached, total.tokens_out) == (4, 10_000, 400, 40)
    assert (total.money, total.unknown_calls, total.unknown_tokens) == (Decimal("1.750002"), 1, 7_010)
    for dimension in costs.DIMENSIONS:
        lines = costs.grouped(rows, dimension, zone)
        for name in ("calls", "tokens_in", "tokens_out", "money", "unknown_calls", "unknown_tokens"):
            assert sum(getattr(line, name) for line in lines) == getattr(total, name), (dimension, name)
    assert [line.key.isoformat() for line in costs.grouped(rows, "day", zone)] == [
        "2026-03-02", "2026-03-05", "2026-03-31",
    ]  # fmt: skip


def test_a_month_begins_where_the_reader_is(march: make.World) -> None:
    import zoneinfo

    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    rows = costs.spends(march.inventory, *costs.month_of(2026, 3, berlin), recorded=False)
    assert rows.count() == 3  # 23:30 of 31 March in UTC is April there
    assert costs.month_of(2026, 12, berlin)[1] == datetime(2027, 1, 1, tzinfo=berlin)


def test_the_page_of_a_month(march: make.World, signed_in: Any) -> None:
    page = text(signed_in(march.viewer).get(PAGE, {"month": "2026-03"}))
    assert '<option value="2026-03" selected>March 2026</option>' in page
    assert '<option value="2026-02">' in page
    for words in ("By purpose", "By model", "By day", "By policy", "By run", "1.75", "calls of unknown price, 7,010 tokens",
                  "m@host", "other@host", "2026-03-05", "Cancel order", "several at once, or none", "no run", "Measure",
                  "1 call unknown"):  # fmt: skip
        assert words in page, words
    replayed = page[page.index("Recorded answers") :]
    assert "<dd>1</dd>" in replayed
    assert "9.00" not in page  # February's
    assert "9.00" in text(signed_in(march.viewer).get(PAGE, {"month": "2026-02"}))


def test_unknown_is_never_nought_and_nothing_is_said(world: make.World, signed_in: Any) -> None:
    assert "Nothing was spent" in text(signed_in(world.viewer).get(PAGE))
    spent(world, "2026-03-02T10:00", money=None)
    page = text(signed_in(world.viewer).get(PAGE, {"month": "2026-03"}))
    assert page.count(">unknown</td>") == 2 * 5  # in each table the line and the sum
    assert "month" in text(signed_in(world.viewer).get(PAGE, {"month": "9999-99"}))
    part = signed_in(world.viewer).get(PAGE, {"month": "2026-03"}, headers={"HX-Request": "true"})
    assert "<html" not in text(part)


def test_a_table_of_many_lines_still_adds_up(world: make.World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "LISTED", 3)
    for number in range(7):
        spent(world, "2026-03-02T10:00", model=f"m-{number}", money=Decimal(number))
    rows = shown.rows(world.inventory, "model", costs.grouped(costs.spends(world.inventory), "model"))
    assert [row.label for row in rows] == ["m-6", "m-5", "5 others"]
    assert sum(row.line.money for row in rows) == 21


def test_the_file_has_every_row_and_no_formula(march: make.World, signed_in: Any) -> None:
    for number, name in enumerate(("=HYPERLINK(1)", "+1", "-1", "@x", "\tx")):
        spent(march, f"2026-03-1{number}T10:00", model=name)
    response = signed_in(march.viewer).get(FILE, {"month": "2026-03"})
    assert response["Content-Type"].startswith("text/csv")
    assert response["Content-Disposition"] == 'attachment; filename="costs-tiny-2026-03.csv"'
    rows = list(csv.DictReader(io.StringIO(b"".join(response.streaming_content).decode())))
    assert len(rows) == 10
    by_model = [row["model"] for row in rows]
    assert by_model[-5:] == ["'=HYPERLINK(1)", "'+1", "'-1", "'@x", "'\tx"]
    assert rows[0]["at"] == "2026-03-02T10:00:00+00:00"
    assert (rows[0]["policy"], rows[0]["money"], rows[0]["tokens_cached"]) == ("cancel-order", "0.50000000", "400")
    unknown = next(row for row in rows if row["tokens_in"] == "7000")
    assert unknown["money"] == ""
    assert [row["recorded"] for row in rows].count("yes") == 1


def test_costs_of_others_are_not_there(march: make.World, signed_in: Any) -> None:
    client = signed_in(march.stranger)
    assert client.get(PAGE).status_code == 404
    assert client.get(FILE).status_code == 404
    assert "Nothing was spent" in text(client.get("/i/others/costs/", {"month": "2026-03"}))


# ------------------------------------------------------------------------------------------------------------- the models
def setting(**more: str) -> dict[str, str]:
    values = {
        "role": "judge", "provider": "openai", "model": "gpt-x", "base_url": "http://127.0.0.1:9/v1",
        "key_name": "SIGNALBOX_KEY_TEST", "temperature": "0", "max_output_tokens": "800", "timeout_s": "30",
        "concurrency": "4", "requests_per_minute": "60", "tokens_per_minute": "", "price_in": "0.25", "price_out": "",
    }  # fmt: skip
    return values | more


def test_only_admins_see_the_models(world: make.World, signed_in: Any) -> None:
    for person in (world.viewer, world.author, world.publisher):
        assert signed_in(person).get(MODELS).status_code == 403
        assert 'href="/i/tiny/settings/general/"' not in text(signed_in(person).get("/i/tiny/runs/"))
    page = text(signed_in(world.admin).get(MODELS))
    assert page.count("None is set yet") == 2
    assert 'aria-current="page"' in page
    assert 'href="/i/tiny/settings/general/"' in text(signed_in(world.admin).get("/i/tiny/runs/"))


def test_a_setting_is_saved_without_a_key(world: make.World, signed_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client = signed_in(world.admin)
    page = text(client.post(MODELS, setting(), follow=True))
    assert "Saved." in page
    assert "The server has no SIGNALBOX_KEY_TEST." in page
    row = ModelSetting.objects.get()
    assert (row.role, row.model, row.key_name, row.requests_per_minute) == ("judge", "gpt-x", "SIGNALBOX_KEY_TEST", 60)
    assert (row.tokens_per_minute, row.price_in, row.price_out) == (None, Decimal("0.25"), None)
    monkeypatch.setenv("SIGNALBOX_KEY_TEST", "sk-of-the-test")
    page = text(client.get(MODELS))
    assert "This server has SIGNALBOX_KEY_TEST." in page
    assert "sk-of-the-test" not in page
    assert 'value="0.25"' in page
    assert AuditEvent.objects.filter(action="model.set").count() == 1


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("key_name", "SECRET_KEY", "cannot name a key"),
        ("base_url", "file:///etc/passwd", "no http or https address"),
        ("base_url", "https://me:secret@example.org/v1", "holds a user"),
        ("model", "", "No model is named"),
        ("temperature", "9", "less than or equal to 2"),
        ("price_in", "cheap", "Enter a number"),
    ],
)
def test_what_is_wrong_stands_under_its_field(
    field: str, value: str, words: str, world: make.World, signed_in: Any
) -> None:
    response = signed_in(world.admin).post(MODELS, setting(**{field: value}))
    assert response.status_code == 422
    assert words in text(response)
    assert f'id="judge_{field}_error"' in text(response)
    assert ModelSetting.objects.count() == 0


def test_a_model_that_is_none_is_refused(world: make.World, signed_in: Any) -> None:
    assert signed_in(world.admin).post(MODELS, setting(role="poet")).status_code == 422


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    """What the model answers, in order; no network."""
    given: list[Outcome] = []

    class Chat:
        name = "gpt-x@127.0.0.1"

    monkeypatch.setenv("SIGNALBOX_KEY_TEST", "sk-of-the-test")
    monkeypatch.setattr(models_setting, "chat_of", lambda row: Chat())
    monkeypatch.setattr(model_trial, "ask", lambda *args, **kwargs: given.pop(0))
    return given


def test_trying_a_model_tells_how_it_went_and_is_paid(
    world: make.World, signed_in: Any, answers: list[Outcome]
) -> None:
    client = signed_in(world.admin)
    answers += [
        Outcome(value=Verdict(5, "They ask to <cancel>."), usage=(Usage(400, 20),), ms=812),
        Outcome(code="bad_json", message="The reply is no JSON.", raw="<b>Sure!</b>", usage=(Usage(400, 9),), ms=9),
        Outcome(code="refused", message="127.0.0.1 answered 401.", status=401),
        Outcome(value=["call it off", "I want to <b>cancel</b>"], usage=(Usage(500, 40),), ms=900),
    ]
    page = text(client.post(MODELS, setting(**{"try": "1", "price_out": "2"})))
    for words in ("score 5 of 5", "They ask to &lt;cancel&gt;.", "812 ms, 400 tokens in, 20 out", "money: 0.0001"):
        assert words in page, words
    page = text(client.post(MODELS, setting(**{"try": "1"})))
    assert "<strong>Bad JSON.</strong> The reply is no JSON." in page
    assert "&lt;b&gt;Sure!&lt;/b&gt;" in page
    assert "It was paid all the same: 400 tokens in, 9 out; money: unknown." in page
    assert "127.0.0.1 answered 401." in text(client.post(MODELS, setting(**{"try": "1"})))
    page = text(client.post(MODELS, setting(**{"role": "generator", "try": "1"})))
    assert "“I want to &lt;b&gt;cancel&lt;/b&gt;”" in page
    assert [(row.source, row.money) for row in Spend.objects.order_by("pk")] == [
        ("trial", Decimal("0.00014")), ("trial", None), ("trial", None),
    ]  # fmt: skip
    assert AuditEvent.objects.filter(action="model.try").count() == 4
    assert "Trying a model" in text(client.get(PAGE))


def test_trying_recorded_answers_calls_nothing(world: make.World, signed_in: Any) -> None:
    page = text(signed_in(world.admin).post(MODELS, setting(**{"provider": "recorded", "try": "1"})))
    assert "Recorded answers are replayed: nothing was called." in page
    assert Spend.objects.count() == 0


def test_trying_without_a_key_says_so(world: make.World, signed_in: Any) -> None:
    page = text(signed_in(world.admin).post(MODELS, setting(**{"try": "1"})))
    assert "No key on this server." in page


def test_the_guideline_is_numbered(world: make.World, signed_in: Any) -> None:
    client, address = signed_in(world.admin), "/i/tiny/settings/guideline/"
    assert "built in" in text(client.get(MODELS))
    page = text(client.post(address, {"rubric": "sticky", "text": "Prices are <none> of it."}, follow=True))
    assert "Guideline 1 holds from the next run on." in page
    assert "Prices are &lt;none&gt; of it." in page
    assert "number 1" in page
    row = Guideline.objects.get()
    assert (row.number, row.rubric, row.by) == (1, "sticky", "anna")
    refused = client.post(address, {"rubric": "none", "text": ""})
    assert refused.status_code == 422
    assert client.post(address, {"rubric": "sticky", "text": "x" * 20_001}).status_code == 422
    assert signed_in(world.publisher).post(address, {"rubric": "sticky", "text": ""}).status_code == 403
    assert Guideline.objects.count() == 1


def test_which_key_is_missing(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.OPENAI_API_KEY = settings.OPENAI_BASE_URL = ""
    row = ModelSetting(role="judge", provider="openai", model="m")
    assert "OPENAI_API_KEY" in model_trial.missing_key(row)
    row.base_url = "http://127.0.0.1:11434/v1"
    assert model_trial.missing_key(row) == ""  # a server of one's own that asks for none
    row.key_name = "SIGNALBOX_KEY_TEST"
    assert "SIGNALBOX_KEY_TEST" in model_trial.missing_key(row)
    monkeypatch.setenv("SIGNALBOX_KEY_TEST", "x")
    assert model_trial.missing_key(row) == ""
    row.provider = "recorded"
    assert model_trial.missing_key(row) == ""


def test_the_days_of_the_month_as_a_figure(march: make.World, signed_in: Any) -> None:
    client = signed_in(march.viewer)
    figure = client.get("/i/tiny/costs/figures.json", {"month": "2026-03"}).json()["days"]
    money, unknown = figure["data"]
    assert len(money["x"]) == 31
    assert {day: amount for day, amount in zip(money["x"], money["y"], strict=True) if amount} == {
        "2026-03-02": 1.75, "2026-03-31": 0.000002,
    }  # fmt: skip
    assert unknown["x"] == ["2026-03-05"]
    page = text(client.get(PAGE, {"month": "2026-03"}))
    assert 'data-plot="days"' in page
    assert signed_in(march.stranger).get("/i/tiny/costs/figures.json").status_code == 404
