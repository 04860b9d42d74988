"""Decisions on the workbench: what will change, taken once on the version that was looked at, taken back."""

import html
import re
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from console.models import (
    ArtifactSetting,
    Change,
    ClassifierVersion,
    Exemplar,
    ExemplarStatus,
    GoLive,
    Inventory,
    Pin,
    Role,
)
from console.services import artifacts, curate, impact, inventories
from console.services.actor import SYSTEM
from console.services.plan import Step
from tests import make

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
BASE = "/i/tiny/policies/cancel-order/"
PREVIEW, APPLY = BASE + "exemplars/preview/", BASE + "exemplars/apply/"
MISS = "I do not want the parcel any more, stop it"


def form(response: HttpResponse) -> dict[str, str]:
    """The fields of the strip's form as a browser would send them."""
    page = response.content.decode()
    page = page[page.index("data-strip") :]
    page = page[: page.index("</section>")]
    fields = {
        name: html.unescape(value)
        for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page)
    }
    fields.pop("csrfmiddlewaretoken", None)
    look = re.search(r'name="look" value="(\d+)" checked', page)
    return fields | ({"look": look.group(1)} if look else {}) | {"reason": "because"}


def preview(client: Client, data: dict[str, Any], **headers: str) -> HttpResponse:
    return client.post(PREVIEW, {"next": BASE, "slot": "strip-turn-1", **data}, headers=headers or HTMX)  # type: ignore[return-value]


def newest() -> int:
    return (
        ClassifierVersion.objects.filter(artifact__key="cancel-order")
        .order_by("-number")
        .values_list("number", flat=True)[0]
    )


@pytest.fixture
def miss(world: make.World) -> dict[str, str]:
    """What the row of the missed turn sends for "show example"."""
    return {"do": "show", "text_of": str(world.state("talk-5", 0).pk)}


@pytest.fixture
def author(world: make.World, signed_in: Any) -> Client:
    return signed_in(world.author)  # type: ignore[no-any-return]


# ---------------------------------------------------------------------------------------------------------------- preview
def test_the_strip_tells_what_will_change_and_writes_nothing(
    world: make.World, author: Client, miss: dict[str, str]
) -> None:
    before = (Change.objects.count(), Exemplar.objects.count(), ClassifierVersion.objects.count())
    answer = preview(author, miss)
    page = answer.content.decode()
    effect = curate.preview(
        world.cancel, [Step("add", state=world.state("talk-5", 0).pk, polarity="signal")], by=world.by
    )
    look = effect.look_alike
    assert look is not None
    for words in (
        "What will change",
        MISS,
        "turns start",
        "turns stop",
        "All other policies are unchanged.",
        look.text,
    ):
        assert words in page
    assert f"Without it {effect.started_count} start and {effect.stopped_count} stop." in page
    assert "<html" not in page
    assert (Change.objects.count(), Exemplar.objects.count(), ClassifierVersion.objects.count()) == before


def test_without_its_tick_the_look_alike_stays_out(author: Client, miss: dict[str, str]) -> None:
    fields = form(preview(author, miss))
    assert "look" in fields
    fields.pop("look")
    again = preview(author, fields)
    page = again.content.decode()
    assert 'name="look"' in page
    assert "checked" not in page
    author.post(APPLY, form(again), headers=HTMX)
    assert Exemplar.objects.filter(artifact__key="cancel-order").count() == 9


def test_without_scripts_the_strip_is_a_page(author: Client, miss: dict[str, str]) -> None:
    answer = author.post(PREVIEW, {"next": BASE, **miss})
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "<html" in page
    assert "Show again" in page
    assert f'action="{APPLY}"' in page
    assert f'hx-post="{APPLY}"' not in page


@pytest.mark.parametrize(
    ("data", "status"),
    [
        ({"do": "nonsense"}, 400),
        ({"do": "show", "text_of": "x"}, 400),
        ({"do": "show", "text_of": "999999"}, 404),
        ({"do": "show", "text_of": "9" * 30}, 400),
        ({"do": "reject", "exemplar": "nothing"}, 404),
        ({"do": "add", "texts": "", "side": "show"}, 422),
        ({"do": "add", "texts": "one", "side": "both"}, 422),
        ({"do": "add", "texts": "please cancel my order", "side": "show"}, 422),
        ({"fit_set": "nonsense"}, 400),
        ({"bulk": "reject"}, 422),
        ({"bulk": "nonsense", "tick": "e:x"}, 400),
        ({"bulk": "restore", "tick": "e:nothing"}, 422),
        ({"steps": "{"}, 400),
        ({"steps": "[]"}, 400),
        ({"steps": '[{"action": "erase"}]'}, 400),
        ({"steps": '[{"action": {}}]'}, 400),
        ({"steps": '[{"action": []}]'}, 400),
        ({"steps": "[" * 5_000}, 400),
        ({"steps": "[" * 50 + "]" * 50}, 400),
        ({"steps": '[{"action": "pin", "state": 1e999}]'}, 400),
        ({"steps": '[{"action": "pin", "state": NaN}]'}, 400),
        ({"steps": '[{"action": "add", "state": ' + "9" * 5_000 + "}]"}, 400),
        ({"steps": '[{"action": "add", "source": "generated"}]'}, 400),
        ({"steps": '[{"action": "add", "state": "1", "polarity": "signal"}]'}, 400),
        ({"steps": '[{"action": "add", "text": "cancel it", "polarity": "zz"}]'}, 400),
        ({"steps": '[{"action": "add", "state": 99999999999999999999, "polarity": "signal"}]'}, 400),
    ],
)
def test_what_no_form_sends_is_refused(author: Client, data: dict[str, str], status: int) -> None:
    answer = preview(author, data)
    assert answer.status_code == status
    if "steps" in data:
        applied = author.post(APPLY, {**data, "base_version": "1", "key": "k" * 36}, headers=HTMX)
        assert applied.status_code == status
    assert Change.objects.filter(action="add").count() == 0


def test_an_escape_hides_no_lone_surrogate(author: Client) -> None:
    steps = '[{"action": "add", "text": "one \\ud800 two \\u0000", "polarity": "signal"}]'
    shown = preview(author, {"steps": steps})
    assert shown.status_code == 200
    assert "one \ufffd two \ufffd" in shown.content.decode()
    author.post(APPLY, form(shown), headers=HTMX)
    assert Exemplar.objects.filter(text="one \ufffd two \ufffd").count() == 1


def test_another_message_of_the_chat_or_the_whole_of_it_can_be_the_example(world: make.World, author: Client) -> None:
    turn, earlier = world.state("talk-1", 2), world.state("talk-1", 0)
    author.post(APPLY, form(preview(author, {"do": "dont_show", "text_of": str(earlier.pk)})), headers=HTMX)
    assert Exemplar.objects.get(origin=earlier).text == "hello there"
    author.post(APPLY, form(preview(author, {"do": "dont_show", "text_of": f"{turn.pk}:whole"})), headers=HTMX)
    whole = Exemplar.objects.get(origin=turn)
    assert whole.view_kind == "cumulative"
    assert whole.text.splitlines()[0] == "user: hello there"
    assert "when do I get the money back" in whole.text


# ------------------------------------------------------------------------------------------------------------------ apply
def test_a_decision_answers_with_the_rows_the_head_and_undo(
    world: make.World, author: Client, miss: dict[str, str]
) -> None:
    state = world.state("talk-5", 0)
    fields = form(preview(author, {**miss, "slot": f"strip-turn-{state.pk}"}))
    answer = author.post(APPLY, {**fields, "kept_missed": str(state.pk), "kept_extra": ""}, headers=HTMX)
    page = answer.content.decode()
    assert answer.status_code == 200
    assert f'<li data-row id="turn-{state.pk}" class="changed" hx-swap-oob="outerHTML">' in page
    for part in (
        'id="policy-head" hx-swap-oob',
        'id="status" hx-swap-oob',
        'id="facts" hx-swap-oob',
        'id="missed-total" hx-swap-oob',
    ):
        assert part in page
    assert "v2 live" in page
    assert "data-undo" in page
    assert page.count("data-focus-after") == 1
    assert newest() == 2


def test_in_an_inventory_with_review_the_version_is_in_draft(
    world: make.World, author: Client, miss: dict[str, str]
) -> None:
    inventories.update_inventory(world.inventory, by=SYSTEM, go_live=GoLive.AFTER_REVIEW)
    answer = author.post(APPLY, form(preview(author, miss)), headers=HTMX)
    assert "v2 in draft" in answer.content.decode()


def test_without_scripts_a_decision_leads_back_with_a_message(author: Client, miss: dict[str, str]) -> None:
    fields = form(author.post(PREVIEW, {"next": BASE + "?new=1", **miss}))  # type: ignore[arg-type]
    answer = author.post(APPLY, fields)
    assert (answer.status_code, answer["Location"]) == (303, BASE + "?new=1")
    page = author.get(BASE).content.decode()
    assert "v2 live" in page
    change = Change.objects.latest("id")
    assert f'href="/i/tiny/changes/{change.public_id}/undo/"' in page


def test_nobody_is_led_elsewhere(author: Client, miss: dict[str, str]) -> None:
    for elsewhere in (
        "https://example.org/",
        "//example.org",
        "http://[",
        "/i/others/policies/x/",
        "/sign-out/",
        BASE + "exemplars/preview/",
    ):
        fields = form(author.post(PREVIEW, {**miss, "next": elsewhere}))  # type: ignore[arg-type]
        assert fields["next"] == BASE


def test_the_same_form_twice_is_one_decision(author: Client, miss: dict[str, str]) -> None:
    fields = form(preview(author, miss))
    first, second = (author.post(APPLY, fields, headers=HTMX) for _ in range(2))
    assert first.status_code == second.status_code == 200
    assert newest() == 2
    assert "v2 live" in second.content.decode()


def test_a_key_does_not_cover_another_decision(world: make.World, author: Client, miss: dict[str, str]) -> None:
    fields = form(preview(author, miss))
    author.post(APPLY, fields, headers=HTMX)
    other = form(preview(author, {"do": "dont_show", "text_of": str(world.state("talk-2", 2).pk)}))
    answer = author.post(APPLY, {**other, "key": fields["key"]}, headers=HTMX)
    assert answer.status_code == 422
    assert newest() == 2


def test_a_refused_decision_gives_its_key_back(world: make.World, author: Client, miss: dict[str, str]) -> None:
    fields = form(preview(author, miss))
    assert author.post(APPLY, {**fields, "base_version": "7"}, headers=HTMX).status_code == 409
    assert author.post(APPLY, fields, headers=HTMX).status_code == 200


def test_on_a_version_that_moved_on_the_merge_card_offers_to_look_again(
    world: make.World, author: Client, signed_in: Any, miss: dict[str, str]
) -> None:
    fields = form(preview(author, miss))
    other = signed_in(world.publisher)
    theirs = form(preview(other, {"do": "dont_show", "text_of": str(world.state("talk-2", 2).pk)}))
    assert other.post(APPLY, theirs, headers=HTMX).status_code == 200
    for headers in (HTMX, {}):
        answer = author.post(APPLY, fields, headers=headers)
        page = answer.content.decode()
        assert answer.status_code == 409
        for words in (
            "v2 was made",
            "by paul",
            "Added an example",
            "Look again on version 2",
            BASE + "versions/1...2/",
        ):
            assert words in page
    assert newest() == 2
    again = preview(author, {k: v for k, v in form(answer).items() if k != "reason"})  # type: ignore[arg-type]
    assert "on version 2" in again.content.decode()
    assert author.post(APPLY, form(again), headers=HTMX).status_code == 200
    assert newest() == 3


def test_an_archived_policy_is_not_decided_on(world: make.World, author: Client, miss: dict[str, str]) -> None:
    fields = form(preview(author, miss))
    artifacts.archive_artifact(world.cancel, by=world.by)
    answer = author.post(APPLY, fields, headers=HTMX)
    assert answer.status_code == 409
    assert "cancel-order is archived. Restore it first." in answer.content.decode()


def test_first_examples_make_the_first_version(world: make.World, author: Client) -> None:
    make.artifact(world.inventory, "fresh")
    base = "/i/tiny/policies/fresh/"
    for side, text, version in (("show", "one that needs it", None), ("dont_show", "one that does not", 1)):
        data = {"do": "add", "side": side, "texts": text, "next": base + "exemplars/", "slot": "strip-add"}
        strip = author.post(base + "exemplars/preview/", data, headers=HTMX)
        assert ("no version yet" in strip.content.decode()) is (version is None)
        answer = author.post(base + "exemplars/apply/", form(strip), headers=HTMX)  # type: ignore[arg-type]
        assert answer.status_code == 200
        found = ClassifierVersion.objects.filter(artifact__key="fresh").values_list("number", flat=True).first()
        assert found == version


def test_a_missing_reason_is_asked_for_under_its_field(
    world: make.World, author: Client, miss: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(impact.Impact, "needs_reason", lambda _impact, _target: True)
    strip = preview(author, miss)
    assert "falls under the target" in strip.content.decode()
    answer = author.post(APPLY, {**form(strip), "reason": "  "}, headers=HTMX)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert 'aria-invalid="true"' in page
    assert "Say why: recall falls under the target." in page
    assert newest() == 1
    assert author.post(APPLY, form(answer), headers=HTMX).status_code == 200  # type: ignore[arg-type]
    assert ClassifierVersion.objects.get(artifact=world.cancel, number=2).reason == "because"


def test_a_pin_that_would_break_is_said_first(
    world: make.World, author: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin = impact.PinResult("abc", "this one must fire", passed_before=True, passes=False)
    real = impact.assess

    def breaking(*args: Any, **kwargs: Any) -> impact.Impact:
        found = real(*args, **kwargs)
        found.pins = [pin]
        return found

    monkeypatch.setattr(impact, "assess", breaking)
    page = preview(author, {"do": "add", "side": "show", "texts": "off with it"}).content.decode()
    assert "A turn that must be selected would be missed:" in page
    assert "this one must fire" in page
    assert re.search(r'name="reason"[^>]* required', page)


# -------------------------------------------------------------------------------------------------------- every other action
def test_the_examples_page_decides_in_every_way(world: make.World, author: Client) -> None:
    one = world.exemplar(world.cancel, "how can I call the order off")
    after = {"next": BASE + "exemplars/", "slot": f"strip-ex-{one.public_id}"}

    def decide(do: str, **more: str) -> str:
        strip = preview(author, {"do": do, "exemplar": one.public_id, **after, **more})
        assert strip.status_code == 200, strip.content
        answer = author.post(APPLY, form(strip), headers=HTMX)
        assert answer.status_code == 200, answer.content
        one.refresh_from_db()
        page = answer.content.decode()
        assert '<div id="tab-body" hx-swap-oob="outerHTML"' in page
        return page

    assert "must select here" in decide("pin").lower()
    assert Pin.objects.current().count() == 1
    decide("unpin")
    assert Pin.objects.current().count() == 0
    decide("move")
    assert one.polarity == "anti_signal"
    decide("move")
    decide("retire")
    assert one.status == ExemplarStatus.RETIRED
    decide("restore")
    assert one.status == ExemplarStatus.CANDIDATE
    assert "its version stays" in decide("reject")
    decide("restore")
    decide("show")
    assert one.status == ExemplarStatus.PROMOTED
    decide("edit", text="how do I call it off")
    assert Exemplar.objects.get(artifact=world.cancel, text="how do I call it off").replaces == one


def test_several_lines_are_several_examples_and_one_version(world: make.World, author: Client) -> None:
    strip = preview(
        author, {"do": "add", "side": "dont_show", "texts": "how warm is it\n\n  is it raining \n", "slot": "strip-add"}
    )
    assert "2 examples" in strip.content.decode()
    author.post(APPLY, form(strip), headers=HTMX)
    assert newest() == 2
    added = Exemplar.objects.filter(artifact=world.cancel, text__in=["how warm is it", "is it raining"])
    assert {(e.polarity, e.source) for e in added} == {("anti_signal", "written")}


def test_ticked_rows_are_decided_together(world: make.World, author: Client) -> None:
    ids = [world.exemplar(world.cancel, text).public_id for text in make.SIGNALS["cancel-order"][:2]]
    ticks = [f"e:{i}" for i in ids] + ["e:nothing"]
    strip = author.post(
        PREVIEW, {"bulk": "retire", "tick": ticks, "next": BASE + "exemplars/", "slot": "strip-bulk"}, headers=HTMX
    )
    page = strip.content.decode()
    assert "2 examples" in page
    assert "1 ticked row is passed over" in page
    author.post(APPLY, form(strip), headers=HTMX)  # type: ignore[arg-type]
    assert newest() == 2
    assert set(Exemplar.objects.filter(public_id__in=ids).values_list("status", flat=True)) == {"retired"}


def test_a_whole_list_is_decided_together_as_it_was_shown(world: make.World, author: Client) -> None:
    """One version for all of it; refused with the new number when another one has come or gone meanwhile."""
    for text in ("please stop it all", "I no longer want it"):
        Exemplar.objects.create(
            artifact=world.cancel, polarity="signal", text=text, text_digest=artifacts.exemplar_digest(text),
            source="mined", status="candidate",
        )  # fmt: skip
    page = author.get(BASE + "exemplars/").content.decode()
    shown = re.search(r'<option value="(candidates:2:[0-9a-f]{32})">all 2: suggested examples<', page)
    assert shown
    data = {"bulk": "show", "which": shown[1], "next": BASE + "exemplars/", "slot": "strip-bulk"}
    more = Exemplar.objects.create(
        artifact=world.cancel, polarity="signal", text="x", text_digest="x", source="mined", status="candidate"
    )
    refused = author.post(PREVIEW, data, headers=HTMX)
    assert refused.status_code == 409
    assert "2 matched when this was shown, 3 match now" in refused.content.decode()
    more.delete()
    strip = author.post(PREVIEW, data, headers=HTMX)
    assert "2 examples" in strip.content.decode()
    author.post(APPLY, form(strip), headers=HTMX)  # type: ignore[arg-type]
    assert newest() == 2
    assert not Exemplar.objects.filter(status="candidate").exists()
    for which in ("people:2:x", "candidates", "candidates:many:x", "candidates:-1:x"):
        assert author.post(PREVIEW, data | {"which": which}, headers=HTMX).status_code == 400


def test_ticked_turns_of_the_map_become_examples(world: make.World, author: Client) -> None:
    states = [world.state("talk-2", 2).pk, world.state("talk-3", 1).pk]
    data = {"bulk": "dont_show", "tick": [f"t:{pk}" for pk in states], "next": BASE + "map/"}
    author.post(APPLY, form(author.post(PREVIEW, data, headers=HTMX)), headers=HTMX)  # type: ignore[arg-type]
    assert set(Exemplar.objects.filter(origin__in=states).values_list("polarity", flat=True)) == {"anti_signal"}


def test_the_last_example_of_a_side_stays(world: make.World, author: Client) -> None:
    ids = list(Exemplar.objects.filter(artifact=world.cancel, polarity="signal").values_list("public_id", flat=True))
    data = {"bulk": "retire", "tick": [f"e:{i}" for i in ids], "next": BASE + "exemplars/"}
    answer = author.post(PREVIEW, data, headers=HTMX)
    assert answer.status_code == 422
    assert "last example of one side" in answer.content.decode()


def test_the_source_of_examples_is_switched_with_all_three_measured(world: make.World, author: Client) -> None:
    strip = preview(author, {"fit_set": "mixed", "next": BASE + "exemplars/", "slot": "strip-fit"})
    page = strip.content.decode()
    for words in ("Written by AI", "From real chats", "AI and real chats", "asked for"):
        assert words in page
    answer = author.post(BASE + "exemplars/source/", form(strip), headers=HTMX)
    assert answer.status_code == 200
    assert ArtifactSetting.objects.current().get(artifact=world.cancel).fit_set == "mixed"
    assert author.get(BASE + "exemplars/source/").status_code == 302


# ----------------------------------------------------------------------------------------------------- versions and undo
@pytest.fixture
def two(world: make.World) -> Change:
    """Version 2, which learnt the missed turn."""
    step = Step("add", state=world.state("talk-5", 0).pk, polarity="signal")
    return curate.apply(world.cancel, [step], by=world.by, base_version=1, reason="it was missed").change


def test_two_ticked_versions_are_compared(world: make.World, author: Client, two: Change) -> None:
    page = author.get(BASE + "versions/").content.decode()
    assert "it was missed" in page
    answer = author.get(BASE + "versions/?v=2&v=1")
    assert answer["Location"] == BASE + "versions/1...2/"
    assert author.get(BASE + "versions/?v=2").status_code == 422
    diff = author.get(BASE + "versions/1...2/").content.decode()
    for words in (MISS, "Cosine of their weights", "Δb", "On the same turns"):
        assert words in diff
    assert author.get(BASE + "versions/1...9/").status_code == 404
    assert author.get(BASE + "versions/2...2/").status_code == 422


def test_going_back_takes_a_publisher_and_a_reason(
    world: make.World, author: Client, signed_in: Any, two: Change
) -> None:
    address = BASE + "versions/1/rollback/"
    for answer in (author.get(address), author.post(address)):
        assert answer.status_code == 403
        assert "paul" in answer.content.decode()  # who can
    publisher = signed_in(world.publisher)
    strip = publisher.get(address + f"?next={BASE}versions/&slot=strip-v1", headers=HTMX)
    assert "Go back to version 1" in strip.content.decode()
    assert publisher.post(address, {**form(strip), "reason": ""}, headers=HTMX).status_code == 422
    assert publisher.post(address, {**form(strip), "base_version": "1"}, headers=HTMX).status_code == 409
    answer = publisher.post(address, form(strip), headers=HTMX)
    assert "v3 live" in answer.content.decode()
    old, new = (ClassifierVersion.objects.get(artifact=world.cancel, number=n) for n in (1, 3))
    assert (old.weight_hash, old.bias) == (new.weight_hash, new.bias)
    assert Exemplar.objects.get(artifact=world.cancel, text=MISS).status == ExemplarStatus.RETIRED
    change = Change.objects.latest("id")
    assert (
        author.post(f"/i/tiny/changes/{change.public_id}/undo/").status_code == 403
    )  # undoing that is a publisher's too


def test_a_version_is_reproduced(world: make.World, author: Client, two: Change) -> None:
    part = author.get(BASE + "versions/2/reproduce/", headers=HTMX).content.decode()
    assert "Reproduced" in part
    assert "max |Δw|" in part
    page = author.get(BASE + "versions/2/reproduce/", follow=True).content.decode()
    assert "Reproduced" in page
    Exemplar.objects.filter(artifact=world.cancel, text=MISS).update(text_digest="0" * 64)
    assert "Not reproduced" in author.get(BASE + "versions/2/reproduce/", headers=HTMX).content.decode()


def test_undo_shows_its_effect_and_is_taken_once(world: make.World, author: Client, two: Change) -> None:
    address = f"/i/tiny/changes/{two.public_id}/undo/"
    page = author.get(address).content.decode()
    assert "Take back: added an example" in page
    assert MISS in page
    assert newest() == 2
    answer = author.post(address, {"next": BASE}, headers=HTMX)
    assert answer.status_code == 200
    assert newest() == 3
    first, third = (ClassifierVersion.objects.get(artifact=world.cancel, number=n) for n in (1, 3))
    assert first.weight_hash == third.weight_hash
    again = author.post(address, {"next": BASE}, headers=HTMX)
    assert again.status_code == 409
    assert "taken back already" in again.content.decode()
    assert author.post(address).status_code == 409


def test_undo_of_what_is_no_decision_on_examples(world: make.World, author: Client) -> None:
    assert author.post("/i/tiny/changes/nothing/undo/").status_code == 404
    made = Change.objects.filter(action="prepare").first()
    assert made is not None
    for answer in (author.get(address := f"/i/tiny/changes/{made.public_id}/undo/"), author.post(address)):
        assert answer.status_code == 422
        assert "fixed the centre" in answer.content.decode()


# ------------------------------------------------------------------------------------------------------------------ roles
def test_who_may_not_decide_is_told_who_can(world: make.World, signed_in: Any, two: Change) -> None:
    writes = [PREVIEW, APPLY, BASE + "exemplars/source/", f"/i/tiny/changes/{two.public_id}/undo/"]
    for role in (Role.VIEWER, Role.REVIEWER):
        client = signed_in(world.by_role[role])
        for address in writes:
            answer = client.post(address, {"do": "add", "texts": "x", "side": "show"})
            assert answer.status_code == 403, address
            assert "ada" in answer.content.decode()
    assert newest() == 2


def test_a_get_never_decides(world: make.World, author: Client) -> None:
    for address in (PREVIEW, APPLY):
        assert author.get(address).status_code == 405
    assert Inventory.objects.get(slug="tiny").release == world.inventory.release
