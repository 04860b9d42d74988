"""The evidence pages: no figure of ranks without its coverage, both clusterings together, no p by row; start, bring, take out."""

import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.template.loader import render_to_string
from django.test import Client

from console.models import Evidence, EvidenceOrigin, Role, Run
from console.presenters import evidence as shown
from console.presenters import evidence_words as words
from console.services import evidence as service
from console.services import models_setting, run_work, runs
from console.services.actor import SYSTEM, Actor
from console.services.ingest_conversations import import_conversations
from sq_core.evidence.claims import PERMISSIONS
from sq_core.evidence.contract import STAGES
from sq_core.evidence.shipped import shipped_plans
from sq_core.ranking.methods import METHODS
from tests import make
from tests.evidence_toy import SHORT, SQ, edited, files, logs, packed, trace_bundle
from tests.make import World

pytestmark = pytest.mark.django_db
LIST = "/i/tiny/evidence/"


def text(response: Any) -> str:
    data = response.getvalue() if response.streaming else response.content
    found: str = data.decode()
    return found


@pytest.fixture
def traces(world: World) -> Evidence:
    return service.store_bundle(
        world.inventory, trace_bundle(), by=Actor("ana"), origin=EvidenceOrigin.COMMAND,
        written_at=datetime(2026, 3, 1, 12, tzinfo=UTC),
    )[0]  # fmt: skip


@pytest.fixture
def sq(world: World) -> Evidence:
    run = runs.create_run(world.inventory, "evaluate", by=world.by, params={"plan": SQ})
    while run_work.work(run.pk):
        pass
    return Evidence.objects.get(system="sq")


# ------------------------------------------------------------------------------------------ no figure without its coverage
class Cards(HTMLParser):
    """Every element that prints a figure, with the coverages printed in the same row (or the same line of a cell)."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, list[str]]] = []
        self.bare: list[str] = []
        self._open: list[tuple[str, bool]] = []
        self._stack: list[dict[str, list[str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        holds = tag == "tr" or "data-scorecard" in given
        if holds:
            self._stack.append({"metrics": [], "coverage": []})
            self.rows.append(self._stack[-1])
        if tag not in ("br", "img", "input", "meta", "link", "hr", "path"):
            self._open.append((tag, holds))
        if "data-metric" in given:
            (self._stack[-1]["metrics"] if self._stack else self.bare).append(str(given["data-metric"]))
        if "data-coverage" in given and self._stack:
            for row in self._stack:
                row["coverage"].append(str(given["data-coverage"]))

    def handle_endtag(self, tag: str) -> None:
        while self._open:
            name, holds = self._open.pop()
            if holds:
                self._stack.pop()
            if name == tag:
                return


def cards_of(html: str) -> list[dict[str, list[str]]]:
    parser = Cards()
    parser.feed(html)
    assert parser.bare == [], "a figure outside any row"
    with_figures = [row for row in parser.rows if row["metrics"]]
    for row in with_figures:
        assert row["coverage"], f"{row['metrics']} without a coverage"
        assert all(re.fullmatch(r"[01]\.\d{3}( / [01]\.\d{3})?", each) for each in row["coverage"]), row
    return with_figures


VARIANTS: list[dict[str, Any]] = [
    {"mrr": 0.4, "recall_at": [[1, 0.2], [5, 0.5]], "ndcg_at_10": 0.45, "mrr_covered": 0.6, "mrr_mean_of_folds": 0.39},
    {"mrr": 0.0, "recall_at": [[1, 0.0]], "ndcg_at_10": 0.0, "mrr_covered": 0.0, "coverage": 0.0},
    {"mrr": 0.4},
    {"mrr": 1.0, "recall_at": [], "coverage": 1.0},
    {"precision_at_r90": 0.2, "auprc": 0.3, "states": 12, "scenarios": 5, "artifacts": 3},
    {"precision_at_r90": None, "auprc": None, "states": 12, "scenarios": 5},
    {"ndcg_at_10": 0.3, "mrr_covered": 0.9},
    {"recall_at": [[10, 0.6]]},
    {"mrr": 0.4, "auprc": 0.2},
]


@pytest.mark.parametrize("variant", range(len(VARIANTS)))
@pytest.mark.parametrize(
    "method", ["reset", "state+prior:learned", "rewritten:concatenation", "sq-generated", "unheard-of"]
)
def test_every_variant_of_a_scorecard_is_rendered_with_its_coverage(variant: int, method: str) -> None:
    card = {"method": method, "world": "train_split", "coverage": 0.661} | VARIANTS[variant]
    (world,) = shown.worlds([card])
    html = render_to_string("evidence/world.html", {"world": world})
    figures = [
        name for name in ("mrr", "ndcg_at_10", "mrr_covered", "auprc", "precision_at_r90") if card.get(name) is not None
    ]
    found = cards_of(html)
    if figures:
        assert [set(row["coverage"]) for row in found] == [{shown.number(card["coverage"])}]
        assert set(figures) <= set(found[0]["metrics"])
    assert html.count("data-scorecard") == 1


def test_a_scorecard_without_coverage_cannot_be_shown_at_all() -> None:
    with pytest.raises(KeyError):
        shown.worlds([{"method": "reset", "world": "train_split", "mrr": 0.4}])


def test_the_parser_sees_a_figure_that_stands_alone() -> None:
    with pytest.raises(AssertionError):
        cards_of('<table><tr><td data-metric="mrr">.4</td></tr></table>')
    with pytest.raises(AssertionError):
        cards_of('<p data-metric="mrr">.4</p>')


def test_the_page_of_traces_prints_every_method_in_both_worlds_beside_its_coverage(
    traces: Evidence, world: World, signed_in: Any
) -> None:
    html = text(signed_in(world.viewer).get(f"{LIST}{traces.public_id}/"))
    found = cards_of(html)
    assert len([row for row in found if "ndcg_at_10" in row["metrics"]]) >= 2 * len(METHODS)
    for method in (*METHODS, "rewritten:identity"):
        assert html.count(f'<span class="mono">{method}</span>') >= 2, method
    # Every other number of ranks stands in a sentence that has its coverage: checks' details and claims' reasons.
    for name in re.findall(r'id="check-([a-z-]+)"', html):
        detail = re.search(rf'id="check-{name}".*?class="detail"[^>]*>(.*?)</td>', html, re.DOTALL)
        assert detail is not None
        if "MRR" in detail[1]:
            assert "coverage" in detail[1], name


# -------------------------------------------------------------------------------------------------------------- one page
def test_both_clusterings_stand_together_and_there_is_no_p_by_row(
    traces: Evidence, world: World, signed_in: Any
) -> None:
    html = text(signed_in(world.viewer).get(f"{LIST}{traces.public_id}/"))
    table = html[html.index('class="table stack differences"') : html.index('id="methods"')]
    lines = table.split("<tr>")[2:]
    assert len(lines) == len(trace_bundle().comparisons)
    for line in lines:
        assert "by session, 48" in line or "by session, 16" in line or "by session" in line
        assert "by task" in line
        assert line.index("by session") < line.index("by task")
    assert "by row" not in table
    assert "There is no p value by row." in html


def test_the_page_says_what_each_claim_permits_and_does_not(traces: Evidence, world: World, signed_in: Any) -> None:
    html = text(signed_in(world.viewer).get(f"{LIST}{traces.public_id}/"))
    for claim in trace_bundle().claims:
        assert claim["sentence"] in html
        for part in (*claim["permits"], *claim["forbids"]):
            assert part.replace("'", "&#x27;") in html
    for stage in STAGES:
        assert stage.where in html
    assert "model-a" in html  # the transfer matrix
    assert "Boundary sets" in html
    assert "Rewriters and what they cost" in html
    assert trace_bundle().digest in html


def test_the_page_of_sq_names_its_worlds_and_what_was_not_tested(sq: Evidence, world: World, signed_in: Any) -> None:
    html = text(signed_in(world.viewer).get(f"{LIST}{sq.public_id}/"))
    cards_of(html)
    for name in ("fitted", "with-generated-fallback", "unfitted-is-miss"):
        assert name in html
    assert "not tested" in html
    assert "one judge run alone was given" in html
    run = Run.objects.get()
    assert f"/i/tiny/runs/{run.public_id}/" in html
    page = text(signed_in(world.viewer).get(f"/i/tiny/runs/{run.public_id}/"))
    assert f"{LIST}{sq.public_id}/" in page
    assert "sq-short" in text(signed_in(world.viewer).get("/i/tiny/runs/"))


@pytest.mark.parametrize("kind", ["traces", "sq"])
def test_pages_ask_at_most_twelve_times(
    request: pytest.FixtureRequest, kind: str, world: World, signed_in: Any, django_assert_max_num_queries: Any
) -> None:
    found: Evidence = request.getfixturevalue(kind)
    client = signed_in(world.viewer)
    client.get(LIST)
    for address in (f"{LIST}{found.public_id}/", f"{LIST}{found.public_id}/figures.json", LIST):
        with django_assert_max_num_queries(12):
            assert client.get(address).status_code == 200


def test_the_forest_has_a_mark_of_its_own_for_each_clustering(traces: Evidence, world: World, signed_in: Any) -> None:
    response = signed_in(world.viewer).get(f"{LIST}{traces.public_id}/figures.json")
    figure = json.loads(response.content)["forest"]
    session, task = figure["data"]
    assert (session["name"], task["name"]) == ("by session", "by task")
    assert session["marker"]["symbol"] != task["marker"]["symbol"]
    comparisons = trace_bundle().comparisons
    assert session["x"] == [round(each["comparison"]["by_group"]["estimate"], 6) for each in comparisons]
    first = comparisons[0]["comparison"]["by_group"]
    assert task["error_x"]["array"][0] == pytest.approx(first["high"] - first["estimate"], abs=1e-6)
    assert task["error_x"]["arrayminus"][0] == pytest.approx(first["estimate"] - first["low"], abs=1e-6)
    assert len(figure["layout"]["annotations"]) == len(comparisons)


def test_every_word_of_a_plan_has_words_on_the_page() -> None:
    assert all(words.method(name)[1] for name in METHODS)
    assert set(words.KINDS) == set(PERMISSIONS)
    assert {stage.stage for stage in STAGES} == set(words.STAGES)
    assert words.method("a-recipe-of-tomorrow") == ("a-recipe-of-tomorrow", "")


# -------------------------------------------------------------------------------------------------------------- the list
def test_an_empty_list_offers_the_shipped_plans(world: World, signed_in: Any) -> None:
    html = text(signed_in(world.reviewer).get(LIST))
    assert "No evidence yet" in html
    for name in shipped_plans():
        assert f"<option>{name}</option>" in html
    assert 'id="start"' in html
    assert 'id="bring"' not in html  # an author's
    viewer = text(signed_in(world.viewer).get(LIST))
    assert 'id="start"' not in viewer


def test_the_list_names_what_is_superseded(traces: Evidence, world: World, signed_in: Any) -> None:
    given = edited("costs", lambda costs: costs[0].update(tokens=1))
    newer = service.store_files(
        world.inventory, given, by=SYSTEM, origin=EvidenceOrigin.FILE, written_at=datetime.now(UTC)
    )[0]
    html = text(signed_in(world.viewer).get(LIST))
    assert html.count("superseded") == 1
    assert html.index(newer.public_id) < html.index(traces.public_id)
    old = text(signed_in(world.viewer).get(f"{LIST}{traces.public_id}/"))
    assert "Superseded" in old
    assert f"{LIST}{newer.public_id}/" in old


def test_a_shipped_plan_and_a_pasted_one_start_a_run(world: World, signed_in: Any, woken: list[int]) -> None:
    client = signed_in(world.reviewer)
    response = client.post(LIST, {"do": "start", "plan": "generated-against-mined"})
    run = Run.objects.get()
    assert (response.status_code, response["Location"]) == (302, f"/i/tiny/runs/{run.public_id}/")
    assert (run.kind, run.params["plan"], woken) == ("evaluate", "generated-against-mined", [run.pk])
    client.post(LIST, {"do": "start", "plan": "generated-against-mined", "text": SQ})
    assert Run.objects.latest("pk").params["plan"].strip() == SQ.strip()


@pytest.mark.parametrize(
    ("data", "field", "said"),
    [
        ({"plan": "mine"}, "plan", "No plan is called"),
        ({}, "plan", "A plan is a name or a text"),
        ({"plan": "generated-against-mined", "text": "draws = 9"}, "text", "cannot be run"),
        ({"text": SHORT.replace('"inventory"', '"x.jsonl"')}, "text", "which a run cannot read"),
    ],
)
def test_a_plan_that_cannot_be_run_stays_in_the_form_with_its_reason(
    world: World, signed_in: Any, data: dict[str, str], field: str, said: str
) -> None:
    response = signed_in(world.reviewer).post(LIST, {"do": "start", **data})
    html = text(response)
    assert response.status_code == 422
    assert said in html
    assert f'id="{field}-error"' in html
    assert data.get("text", "").splitlines()[0:1] == [] or data["text"].splitlines()[-1] in html.replace("&quot;", '"')
    assert not Run.objects.exists()


def test_a_plan_that_asks_a_model_takes_an_author_a_model_and_consent(
    world: World, signed_in: Any, woken: list[int]
) -> None:
    plan = {"do": "start", "text": SHORT.replace("draws = 100", 'draws = 100\nrewriters = ["model"]')}
    import_conversations(world.inventory, logs(), by=SYSTEM)
    assert signed_in(world.reviewer).post(LIST, plan).status_code == 403
    author = signed_in(world.author)
    refused = author.post(LIST, plan)
    assert (refused.status_code, "No model writes examples here yet" in text(refused)) == (422, True)
    models_setting.set_model(
        world.inventory, "generator", by=SYSTEM, provider="openai", model="g-1", base_url="http://127.0.0.1:9/v1"
    )
    for given, said in (({}, "price of g-1 is not known"), ({"cap_tokens": "many"}, "whole number")):
        refused = author.post(LIST, plan | given)
        assert (refused.status_code, said in text(refused)) == (422, True)
        assert 'name="unpriced_ok"' in text(refused)
    assert not Run.objects.exists()
    assert author.post(LIST, plan | {"unpriced_ok": "on", "cap_money": "2"}).status_code == 302
    run = Run.objects.get()
    assert (run.cap_money, run.provider["model"], woken) == (2, "g-1", [run.pk])
    page = text(author.get(f"/i/tiny/runs/new/?like={run.public_id}"))
    assert "What it may spend" in page
    assert "Calls" in page


def bring(client: Client, data: bytes) -> Any:
    return client.post(LIST, {"do": "import", "file": SimpleUploadedFile("bundle.zip", data)})


def test_a_bundle_is_taken_out_and_brought_back(traces: Evidence, world: World, signed_in: Any) -> None:
    response = signed_in(world.viewer).get(f"{LIST}{traces.public_id}/bundle.zip")
    data = response.getvalue()
    assert response["Content-Disposition"] == f'attachment; filename="evidence-toy-{traces.digest[:12]}.zip"'
    other = make.inventory("second")
    make.accounts.set_role(world.author, other, Role.AUTHOR, by=SYSTEM)
    client = signed_in(world.author)
    came = client.post("/i/second/evidence/", {"do": "import", "file": SimpleUploadedFile("b.zip", data)})
    found = Evidence.objects.get(inventory=other)
    assert (came.status_code, came["Location"]) == (302, f"/i/second/evidence/{found.public_id}/")
    assert client.get(f"/i/second/evidence/{found.public_id}/bundle.zip").getvalue() == data
    assert "was here already" in text(client.get(bring(client, data)["Location"]))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"no zip", "no zip that can be read"),
        (packed(edited("claims", lambda claims: claims[0].update(verdict="not tested"))), "its checks say"),
        (packed(edited("scorecards", lambda cards: cards[0].pop("coverage"))), "coverage"),
    ],
)
def test_a_bundle_that_is_not_what_it_says_is_refused(world: World, signed_in: Any, data: bytes, said: str) -> None:
    response = bring(signed_in(world.author), data)
    assert (response.status_code, said in text(response)) == (422, True)
    assert 'id="file-error"' in text(response)
    assert not Evidence.objects.exists()
    assert signed_in(world.author).post(LIST, {"do": "import"}).status_code == 422


def test_who_may_what(traces: Evidence, world: World, signed_in: Any) -> None:
    assert signed_in(world.viewer).post(LIST, {"do": "start", "plan": "generated-against-mined"}).status_code == 403
    assert bring(signed_in(world.reviewer), packed(files())).status_code == 403
    stranger = signed_in(world.stranger)
    for address in (LIST, f"{LIST}{traces.public_id}/", f"{LIST}{traces.public_id}/bundle.zip"):
        assert stranger.get(address).status_code == 404
    other = world.others.slug
    for part in ("", "figures.json", "bundle.zip"):
        assert stranger.get(f"/i/{other}/evidence/{traces.public_id}/{part}").status_code == 404
    assert signed_in(world.viewer).get(f"{LIST}nowhere/").status_code == 404


def test_hostile_text_of_a_bundle_is_only_text(world: World, signed_in: Any) -> None:
    evil = "<script>alert(1)</script>"
    given = edited("claims", lambda claims: claims[0].update(sentence=evil))
    found = service.store_files(
        world.inventory, given, by=SYSTEM, origin=EvidenceOrigin.FILE, written_at=datetime.now(UTC)
    )[0]
    html = text(signed_in(world.viewer).get(f"{LIST}{found.public_id}/"))
    assert evil not in html
    assert "&lt;script&gt;" in html


def test_the_form_of_an_evaluation_takes_a_plan_and_shows_it_again(world: World, signed_in: Any) -> None:
    client = signed_in(world.reviewer)
    page = text(client.get("/i/tiny/runs/new/?kind=evaluate"))
    assert 'name="plan"' in page
    run = runs.create_run(world.inventory, "evaluate", by=world.by, params={"plan": SQ})
    again = text(client.get(f"/i/tiny/runs/new/?like={run.public_id}"))
    assert "sq-short" in again
    assert "Evidence plan" in again


def test_a_log_of_calls_is_measured_from_the_page(world: World, signed_in: Any, woken: list[int]) -> None:
    import_conversations(world.inventory, logs(), by=SYSTEM)
    signed_in(world.reviewer).post(LIST, {"do": "start", "text": SHORT})
    (run,) = woken
    while run_work.work(run):
        pass
    found = Evidence.objects.get()
    assert (found.name, found.origin, found.actor) == ("short", "run", "rob")
    cards_of(text(signed_in(world.viewer).get(f"{LIST}{found.public_id}/")))
