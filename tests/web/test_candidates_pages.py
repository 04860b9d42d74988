"""The page of candidates: list, decisions gathered, what they would change, applied per policy, refused with a way on."""

import html
import re
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from console.models import (
    Change,
    ClassifierVersion,
    Exemplar,
    ExemplarStatus,
    GoLive,
    IdempotencyRecord,
    Inventory,
    Role,
    Run,
)
from console.services import candidates_decide, curate, embed, run_work, runs
from console.services.actor import SYSTEM, person
from console.services.artifacts import exemplar_digest
from console.services.candidates import Filters
from console.services.fit import fresh_inventory
from console.services.plan import Step
from tests import make

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
BASE = "/i/tiny/candidates/"
DECIDE, PREVIEW, APPLY = BASE + "decide/", BASE + "preview/", BASE + "apply/"
SIGNAL, ANTI = "no, cancel them then", "thanks"


@pytest.fixture
def run(world: make.World) -> Run:
    made = runs.create_run(fresh_inventory(world.inventory.pk), "mine", by=SYSTEM)
    run_work.work(made.pk)
    return made


@pytest.fixture
def author(world: make.World, run: Run, signed_in: Any) -> Client:
    return signed_in(world.author)  # type: ignore[no-any-return]


def ident(text: str, key: str = "cancel-order") -> str:
    return Exemplar.objects.get(artifact__key=key, text=text).public_id


def text_of(response: HttpResponse) -> str:
    return html.unescape(response.content.decode())


def decide(client: Client, do: str, public_id: str, **more: Any) -> HttpResponse:
    data = {"do": do, "candidate": public_id, "next": BASE, **more}
    return client.post(DECIDE, data, headers=HTMX)  # type: ignore[return-value]


def preview(client: Client, **more: Any) -> HttpResponse:
    return client.post(PREVIEW, {"next": BASE, **more}, headers=HTMX)  # type: ignore[return-value]


def form(response: HttpResponse) -> dict[str, Any]:
    """The strip's form as a browser would send it."""
    page = response.content.decode()
    page = page[page.index("data-strip") : page.index("</section>")]
    found: dict[str, Any] = {"p": []}
    for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page):
        if name == "p":
            found["p"].append(html.unescape(value))
        elif name != "csrfmiddlewaretoken":
            found[name] = html.unescape(value)
    return found


def newest(key: str = "cancel-order") -> int:
    return ClassifierVersion.objects.filter(artifact__key=key).latest("number").number


def status(text: str, key: str = "cancel-order") -> str:
    return Exemplar.objects.get(artifact__key=key, text=text).status


# --------------------------------------------------------------------------------------------------------------------- list
def test_the_list_says_what_waits_and_why(author: Client, run: Run) -> None:
    page = text_of(author.get(BASE))  # type: ignore[arg-type]
    assert "<html" in page
    assert "32 waiting" in page
    for words in (
        SIGNAL,
        "where it became relevant: AI reviewer's score 1",
        "talk-2, message 2",
        "look-alike: AI reviewer's score 1",
        "Cancel order (12)",
        "caught",
        'data-key="s"',
        'data-key="a"',
        'data-key="r"',
    ):
        assert words in page, words
    part = author.get(BASE, headers=HTMX)
    assert "<html" not in part.content.decode()
    assert part.content.decode().strip().startswith('<div id="cand"')


def test_filters_and_pages_are_addresses(author: Client, run: Run) -> None:
    page = text_of(author.get(BASE + "?policy=change-order&kind=signal"))  # type: ignore[arg-type]
    assert "2 waiting" in page
    assert SIGNAL not in page
    assert 'href="/i/tiny/candidates/?policy=change-order"' in page  # the chip that takes the side away
    odd = text_of(author.get(BASE + "?policy=none&kind=both&sort=best&source=x&run=a/b"))  # type: ignore[arg-type]
    for words in ("policy=none", "kind=both", "sort=best", "source=x", "run=a/b"):
        assert f"<s>{words}</s>" in odd
    assert "32 waiting" in odd
    first = text_of(author.get(BASE))  # type: ignore[arg-type]
    after = re.search(r'rel="next" href="([^"]+)"', first)
    assert after is not None
    second = text_of(author.get(after.group(1)))  # type: ignore[arg-type]
    ids = [set(re.findall(r'id="c-(\w+)"', each)) for each in (first, second)]
    assert (len(ids[0]), len(ids[1])) == (25, 7)
    assert not ids[0] & ids[1]
    assert author.get(BASE + "?after=nonsense").status_code == 400
    assert text_of(author.get(BASE + f"?run={run.public_id}&kind=anti")).count("data-row") == 25  # type: ignore[arg-type]


def test_a_viewer_sees_and_does_not_act(world: make.World, run: Run, signed_in: Any) -> None:
    client = signed_in(world.viewer)
    page = text_of(client.get(BASE))
    assert SIGNAL in page
    assert 'name="do"' not in page
    assert 'id="tray"' not in page
    for address in (DECIDE, PREVIEW, APPLY):
        assert client.post(address, {"do": "show"}).status_code == 403
    for role, somebody in world.by_role.items():
        able = Role(role).includes(Role.AUTHOR)
        assert (signed_in(somebody).post(DECIDE, {"do": "clear"}).status_code == 303) is able


def test_hostile_text_is_escaped(world: make.World, author: Client) -> None:
    text = '<script>alert(1)</script> "><img src=x onerror=alert(2)>'
    embed.vectors(embed.encoder_for(world.inventory), [text])
    Exemplar.objects.create(
        artifact=world.cancel, polarity="signal", text=text, text_digest=exemplar_digest(text), source="generated"
    )
    page = author.get(BASE + "?policy=cancel-order").content.decode()
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "&lt;script&gt;alert(1)" in page


# ----------------------------------------------------------------------------------------------------------------- deciding
def test_decisions_wait_in_the_tray_and_write_nothing(author: Client) -> None:
    before = (Change.objects.count(), ClassifierVersion.objects.count())
    answer = decide(author, "show", ident(SIGNAL))
    page = text_of(answer)
    assert page.strip().startswith(f'<form method="post" action="{DECIDE}" id="act-{ident(SIGNAL)}"')
    assert f'id="s-{ident(SIGNAL)}" aria-pressed="true"' in page
    assert "1 decision" in page
    assert 'id="tray" class="tray" hx-swap-oob="outerHTML"' in page
    decide(author, "reject", ident(ANTI))
    listed = text_of(author.get(BASE))  # type: ignore[arg-type]
    assert "2 decisions" in listed
    assert f'id="r-{ident(ANTI)}" aria-pressed="true"' in listed
    again = text_of(decide(author, "show", ident(SIGNAL)))  # pressed again: taken back
    assert f'id="s-{ident(SIGNAL)}" aria-pressed="false"' in again
    assert "1 decision" in again
    decide(author, "dont_show", ident(ANTI))  # another answer takes the place of the first
    assert 'aria-pressed="true"' in text_of(author.get(BASE))  # type: ignore[arg-type]
    cleared = text_of(author.post(DECIDE, {"do": "clear", "next": BASE}, headers=HTMX))  # type: ignore[arg-type]
    assert 'aria-pressed="true"' not in cleared
    assert (Change.objects.count(), ClassifierVersion.objects.count()) == before
    assert status(SIGNAL) == ExemplarStatus.CANDIDATE


def test_without_scripts_a_decision_leads_to_the_next_row(author: Client) -> None:
    page = author.get(BASE).content.decode()
    following = re.search(rf'value="{ident(SIGNAL)}"><input type="hidden" name="following" value="(c-\w+)"', page)
    assert following is not None
    answer = author.post(DECIDE, {"do": "show", "candidate": ident(SIGNAL), "next": BASE, "following": following[1]})
    assert answer.status_code == 303
    assert answer["Location"] == f"{BASE}#{following[1]}"
    assert author.post(DECIDE, {"do": "clear", "next": "https://elsewhere.example/"})["Location"] == BASE
    assert author.post(DECIDE, {"do": "clear", "next": BASE + "?kind=anti"})["Location"] == BASE + "?kind=anti"
    assert author.post(DECIDE, {"do": "clear", "next": "http://["})["Location"] == BASE


def test_a_whole_cluster_is_turned_down_at_once(world: make.World, author: Client) -> None:
    for text in ("stop the parcel with shoes", "stop the shoes parcel"):
        embed.vectors(embed.encoder_for(world.inventory), [text])
        Exemplar.objects.create(
            artifact=world.cancel, polarity="signal", text=text, text_digest=exemplar_digest(text), source="generated"
        )
    page = text_of(author.get(BASE + "?source=generated"))  # type: ignore[arg-type]
    assert "the best of 2 alike" in page
    assert 'data-key="R"' in page
    first = ident("stop the parcel with shoes")
    answer = text_of(decide(author, "reject_cluster", first, alike="2"))
    other = ident("stop the shoes parcel")
    assert f'id="r-{first}" aria-pressed="true"' in answer
    assert re.search(rf'id="act-{other}"[^>]* hx-swap-oob="outerHTML"', answer)
    assert f'id="r-{other}" aria-pressed="true"' in answer
    assert "2 decisions" in answer


def test_ticked_rows_are_decided_together(author: Client) -> None:
    ids = [ident(SIGNAL), ident(ANTI)]
    answer = text_of(author.post(DECIDE, {"bulk": "suggested", "tick": ids, "next": BASE}, headers=HTMX))  # type: ignore[arg-type]
    assert f'id="s-{ids[0]}" aria-pressed="true"' in answer
    assert f'id="a-{ids[1]}" aria-pressed="true"' in answer
    author.post(DECIDE, {"bulk": "reject", "tick": ids, "next": BASE}, headers=HTMX)
    assert "don't use 2" in text_of(author.get(BASE))  # type: ignore[arg-type]
    assert author.post(DECIDE, {"bulk": "reject", "next": BASE}, headers=HTMX).status_code == 422
    assert author.post(DECIDE, {"bulk": "erase", "tick": ids, "next": BASE}, headers=HTMX).status_code == 400


@pytest.mark.parametrize(
    "data", [{}, {"do": "show"}, {"do": "erase", "candidate": "abc"}, {"do": "show", "candidate": "a/b"}]
)
def test_what_no_form_sends_is_refused(author: Client, data: dict[str, str]) -> None:
    assert author.post(DECIDE, {"next": BASE, **data}, headers=HTMX).status_code == 400


def test_what_somebody_else_decided_falls_out_of_the_tray(world: make.World, author: Client) -> None:
    decide(author, "show", ident(SIGNAL))
    decide(author, "reject", ident(ANTI))
    curate.apply(world.cancel, [Step("reject", exemplar=ident(SIGNAL))], by=SYSTEM, base_version=1)
    page = text_of(author.get(BASE))  # type: ignore[arg-type]
    assert "1 decision " in page.replace("</strong>", "")
    assert "1 was decided elsewhere" in page
    assert "decided elsewhere" not in text_of(author.get(BASE))  # type: ignore[arg-type]  # said once
    answer = text_of(decide(author, "show", ident(SIGNAL)))
    assert "Somebody else has decided on it." in answer


def test_the_tray_has_an_end(author: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.views.candidates_tray.MOST", 1)
    decide(author, "show", ident(SIGNAL))
    assert decide(author, "show", ident(ANTI)).status_code == 422


# --------------------------------------------------------------------------------------------------------- what will change
def test_the_strip_shows_one_change_per_policy(world: make.World, author: Client) -> None:
    decide(author, "show", ident(SIGNAL))
    decide(author, "dont_show", ident(ANTI))
    decide(author, "reject", ident("hello there"))
    decide(author, "dont_show", ident("hello there", "refund-status"))
    before = (Change.objects.count(), ClassifierVersion.objects.count())
    answer = preview(author)
    page = text_of(answer)
    assert answer.status_code == 200
    for words in ("4 decisions", "2 policies", "Cancel order", "Refund status", SIGNAL, "turns start", "Apply"):
        assert words in page, words
    rows = form(answer)["p"]
    assert len(rows) == 2
    assert '"policy":"cancel-order","base":1' in rows[0]
    assert (Change.objects.count(), ClassifierVersion.objects.count()) == before
    whole = author.post(PREVIEW, {"next": BASE})
    assert "<html" in whole.content.decode()
    assert 'hx-post="/i/tiny/candidates/apply/"' not in whole.content.decode()


def test_the_best_of_each_policy_is_looked_at_before_it_is_taken(world: make.World, author: Client) -> None:
    answer = preview(author, top="2")
    page = text_of(answer)
    assert "The best 2 of each policy" in page
    assert "6 decisions" in page
    taken, _ = candidates_decide.best(fresh_inventory(world.inventory.pk), Filters(), 2)
    assert all(public_id in answer.content.decode() for public_id in taken)
    one = preview(author, top="3", next=BASE + "?policy=change-order&kind=anti")
    assert "3 decisions" in text_of(one)
    assert len(form(one)["p"]) == 1
    for wrong in ("", "0", "51", "x"):
        assert preview(author, top=wrong).status_code == 422
    none = preview(author, top="2", next=BASE + "?source=generated")
    assert none.status_code == 422


def test_an_empty_tray_has_nothing_to_look_at(author: Client) -> None:
    answer = preview(author)
    assert answer.status_code == 422
    assert "Decide on a row first" in text_of(answer)


def test_only_so_many_policies_at_once(author: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.services.candidates_decide.POLICIES", 1)
    decide(author, "show", ident(SIGNAL))
    decide(author, "dont_show", ident("hello there", "refund-status"))
    assert "1 more policy follows after these." in text_of(preview(author))


# ------------------------------------------------------------------------------------------------------------------ applying
def test_decisions_are_applied_as_one_version_per_policy(world: make.World, author: Client) -> None:
    decide(author, "show", ident(SIGNAL))
    decide(author, "reject", ident("hello there"))
    decide(author, "dont_show", ident("hello there", "refund-status"))
    answer = author.post(APPLY, form(preview(author)) | {"reason": "because"}, headers=HTMX)
    page = text_of(answer)  # type: ignore[arg-type]
    assert answer.status_code == 200
    assert (newest(), newest("refund-status"), newest("change-order")) == (2, 2, 1)
    assert (status(SIGNAL), status("hello there")) == (ExemplarStatus.PROMOTED, ExemplarStatus.REJECTED)
    assert status("hello there", "refund-status") == ExemplarStatus.PROMOTED
    assert "cancel-order: v2 live" in page
    assert "refund-status: v2 live" in page
    assert '<div id="cand" hx-swap-oob="outerHTML"' in page
    assert "29 waiting" in page
    assert 'id="tray-look"' not in page  # the tray is empty
    found = Exemplar.objects.get(artifact=world.cancel, text=SIGNAL)
    assert (found.decided_by, found.decided_by_person) == (world.author, True)
    change = Change.objects.filter(artifact=world.cancel).latest("id")
    assert (change.action, change.actor, change.reason) == ("curate", "ada", "because")
    undo = re.search(r'action="(/i/tiny/changes/\w+/undo/)"', page)
    assert undo is not None
    back = author.post(undo.group(1), {"next": BASE})
    assert back["Location"] == BASE
    assert newest() == 3
    assert status(SIGNAL) == ExemplarStatus.CANDIDATE


def test_turning_down_alone_makes_no_version(author: Client) -> None:
    decide(author, "reject", ident(SIGNAL))
    page = text_of(author.post(APPLY, form(preview(author)), headers=HTMX))  # type: ignore[arg-type]
    assert newest() == 1
    assert status(SIGNAL) == ExemplarStatus.REJECTED
    assert "cancel-order: done, its version stays" in page


def test_the_other_side_can_be_chosen(author: Client) -> None:
    decide(author, "dont_show", ident(SIGNAL))
    author.post(APPLY, form(preview(author)) | {"reason": "because"}, headers=HTMX)
    assert Exemplar.objects.get(artifact__key="cancel-order", text=SIGNAL).polarity == "anti_signal"


def test_a_form_sent_twice_writes_once(author: Client) -> None:
    decide(author, "show", ident(SIGNAL))
    fields = form(preview(author)) | {"reason": "because"}
    first, second = (author.post(APPLY, fields, headers=HTMX) for _ in range(2))
    assert first.status_code == second.status_code == 200
    assert newest() == 2
    assert "v2 live" in second.content.decode()
    assert IdempotencyRecord.objects.filter(status=200).count() == 1


def test_without_scripts_applying_leads_back_with_its_results(author: Client) -> None:
    decide(author, "show", ident(SIGNAL))
    answer = author.post(APPLY, form(preview(author)) | {"reason": "because"}, follow=True)
    page = text_of(answer)  # type: ignore[arg-type]
    assert answer.redirect_chain == [(BASE, 303)]
    assert "cancel-order: v2 live" in page
    undo = re.search(r'href="(/i/tiny/changes/\w+/undo/\?next=[^"]+)" data-undo', page)
    assert undo is not None
    assert author.get(undo.group(1)).status_code == 200


def test_in_a_draft_it_says_so(world: make.World, author: Client) -> None:
    Inventory.objects.filter(pk=world.inventory.pk).update(go_live=GoLive.AFTER_REVIEW)
    decide(author, "show", ident(SIGNAL))
    page = text_of(author.post(APPLY, form(preview(author)) | {"reason": "because"}, headers=HTMX))  # type: ignore[arg-type]
    assert "cancel-order: v2 in draft" in page
    assert "release" in page


def test_many_results_are_counted(world: make.World, author: Client) -> None:
    for number in range(2):
        key = f"more-{number}"
        art = make.artifact(world.inventory, key, signals=["stop it"], anti_signals=["hello"])
        text = f"please stop number {number}"
        embed.vectors(embed.encoder_for(world.inventory), [text])
        Exemplar.objects.create(
            artifact=art, polarity="signal", text=text, text_digest=exemplar_digest(text), source="generated"
        )
    page = text_of(author.post(APPLY, form(preview(author, top="1")) | {"reason": "x"}, headers=HTMX))  # type: ignore[arg-type]
    assert "2 more policies: see Releases" in page
    assert newest("more-0") == 1


# ----------------------------------------------------------------------------------------------------------------- refused
def test_somebody_faster_is_a_merge_card_and_the_rest_is_applied(world: make.World, author: Client) -> None:
    decide(author, "show", ident(SIGNAL))
    decide(author, "dont_show", ident("hello there", "refund-status"))
    fields = form(preview(author)) | {"reason": "because"}
    curate.apply(
        world.cancel,
        [Step("add", text="stop it at once", polarity="signal")],
        by=person(world.publisher),
        base_version=1,
    )
    answer = author.post(APPLY, fields, headers=HTMX)
    page = text_of(answer)  # type: ignore[arg-type]
    assert answer.status_code == 409
    assert "Somebody else was faster" in page
    assert "v2 was made just now by paul" in page
    assert "refund-status: v2 live" in page  # told beside it
    assert (newest(), newest("refund-status")) == (2, 2)
    assert status(SIGNAL) == ExemplarStatus.CANDIDATE
    assert "1 decision" in text_of(author.get(BASE))  # type: ignore[arg-type]  # still in the tray
    again = preview(author, p=form(answer)["p"])  # type: ignore[arg-type]
    assert "on version 2" in text_of(again)
    author.post(APPLY, form(again) | {"reason": "because"}, headers=HTMX)
    assert newest() == 3
    assert status(SIGNAL) == ExemplarStatus.PROMOTED


def test_recall_under_the_target_asks_for_a_reason(
    world: make.World, author: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.services.impact.Impact.needs_reason", lambda self, target: True)
    decide(author, "show", ident(SIGNAL))
    strip = preview(author)
    assert 'name="reason"' in strip.content.decode()
    assert "required" in strip.content.decode()
    answer = author.post(APPLY, form(strip), headers=HTMX)
    assert answer.status_code == 422
    assert 'aria-invalid="true"' in answer.content.decode()
    assert newest() == 1
    page = author.post(APPLY, form(strip))
    assert page.status_code == 422
    assert "<html" in page.content.decode()
    author.post(APPLY, form(answer) | {"reason": "because"}, headers=HTMX)  # type: ignore[arg-type]
    assert newest() == 2


def test_an_impossible_decision_says_why_and_the_others_can_go_on(world: make.World, author: Client) -> None:
    """All show examples of the policy moved away: the last one of a side cannot go."""
    decide(author, "show", ident(SIGNAL))
    fields = form(preview(author)) | {"reason": "because"}
    curate.apply(world.cancel, [Step("reject", exemplar=ident(SIGNAL))], by=SYSTEM, base_version=1)
    page = text_of(author.post(APPLY, fields, headers=HTMX))  # type: ignore[arg-type]
    assert "All of it was decided already." in page
    assert newest() == 1


@pytest.mark.parametrize(
    "p",
    [
        "", "{", "[]", "[" * 5_000, '{"a":' * 30 + "1" + "}" * 30,
        '{"policy": "cancel-order"}', '{"policy": 1, "base": 1, "rows": [["a", "signal"]]}',
        '{"policy": "cancel-order", "base": true, "rows": [["a", "signal"]]}',
        '{"policy": "cancel-order", "base": 1, "rows": []}', '{"policy": "cancel-order", "base": 1, "rows": [["a", "erase"]]}',
    ],
)  # fmt: skip
def test_what_no_strip_sends_is_refused(author: Client, p: str) -> None:
    assert author.post(APPLY, {"next": BASE, "p": p}, headers=HTMX).status_code == 400
    assert author.post(APPLY, {"next": BASE}, headers=HTMX).status_code == 400
    assert newest() == 1


def test_a_policy_of_another_inventory_is_not_found(author: Client) -> None:
    p = '{"policy": "nobodys", "base": 1, "rows": [["abc", "signal"]]}'
    assert author.post(APPLY, {"next": BASE, "p": p}, headers=HTMX).status_code == 404


# -------------------------------------------------------------------------------------------------------------------- empty
def test_the_empty_list_names_the_reason_and_the_run(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.author)
    page = text_of(client.get(BASE))
    assert "Not looked for yet" in page
    assert "It calls no model and costs nothing." in page
    assert 'href="/i/tiny/runs/new/?kind=mine">Find examples in chats</a>' in page
    assert "Find examples in chats" not in text_of(signed_in(world.viewer).get(BASE))
    make.artifact(world.inventory, "gift-wrap")
    page = text_of(client.get(BASE + "?policy=gift-wrap"))
    assert "No turn is reviewed yet" in page
    assert "Show all suggestions" in page
    done = runs.create_run(fresh_inventory(world.inventory.pk), "mine", by=SYSTEM)
    run_work.work(done.pk)
    assert "Nothing matches" in text_of(client.get(BASE + "?source=generated"))
    Exemplar.objects.filter(run=done).update(status="rejected")
    assert "All decided" in text_of(client.get(BASE))
    again = runs.create_run(fresh_inventory(world.inventory.pk), "mine", by=SYSTEM)
    run_work.work(again.pk)
    page = text_of(client.get(BASE + f"?run={again.public_id}&policy=cancel-order"))
    assert "This run suggested nothing" in page
    assert "all 12 found are known already" in page
    assert "There is no such run" in text_of(client.get(BASE + "?run=abcdefghjkmn"))
