"""The policies list, and the page where a policy is written, tried and edited."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from console.models import (
    Artifact,
    ArtifactSetting,
    AuditEvent,
    Centre,
    Change,
    ClassifierVersion,
    Decision,
    Discovery,
    Exemplar,
    ExemplarStatus,
    Inventory,
    Judgement,
    Origin,
    Pin,
    Release,
    Source,
)
from console.services import (
    artifacts,
    authoring,
    caches,
    curate,
    embed,
    fit,
    inventories,
    policy_list,
    policy_rows,
    refitting,
    workbench,
)
from console.services import week as week_of
from console.services.actor import SYSTEM
from console.services.errors import Conflict, Invalid, Unavailable
from console.services.ingest_judgements import import_judgements
from console.services.plan import Step
from sq_core.readers import JudgementRow
from tests import make
from tests.fakes import FakeEncoder

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
LIST, NEW, EDIT = "/i/tiny/policies/", "/i/tiny/new-policy/", "/i/tiny/policies/cancel-order/edit/"


# ---------------------------------------------------------------------------------------------------------------- the list
def test_the_list_whole_and_in_part(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.viewer)
    page = client.get(LIST).content.decode()
    part = client.get(LIST, headers=HTMX).content.decode()
    assert "<html" in page
    assert "<html" not in part
    for shown in (page, part):
        assert shown.count("<tr data-row") == 3
        assert "3 of 3" in shown
    assert "New policy" not in page  # a viewer may not
    assert "New policy" in signed_in(world.author).get(LIST).content.decode()


def test_rows_say_what_versions_measured(world: make.World) -> None:
    row = next(row for row in policy_rows.rows(world.inventory) if row.key == "cancel-order")
    version = fit.active_version(world.cancel)
    assert version is not None
    assert (row.version, row.signals, row.anti_signals) == (1, 4, 4)
    assert row.sources == {Source.WRITTEN: 8}
    assert row.recall == fit.recall_of(version.metrics)
    assert row.share == version.metrics["fired"] / version.metrics["states"]
    assert "few" in row.states  # twelve judged turns are not twenty positives


def test_figures_are_those_of_the_policy_s_own_page(world: make.World) -> None:
    """At today's cut-off, not the one of the day it was fitted; turns of its own scenarios count in neither."""
    steps = [Step("add", state=world.state("talk-5", 0).pk, polarity="signal")]
    curate.apply(world.cancel, steps, by=world.by, base_version=1)
    inventories.update_inventory(world.inventory, by=SYSTEM, theta=0.2)
    for row in policy_rows.rows(world.inventory):
        head = workbench.head(workbench.ground(world.inventory, row.key))
        assert (row.recall, row.precision, row.relevant, row.shown) == (
            head.recall,
            head.precision,
            head.needed,
            head.shown,
        )


def test_lowest_recall_first_and_unmeasured_last(world: make.World) -> None:
    make.artifact(world.inventory, "gift-wrap")
    rows = policy_list.matching(world.inventory, policy_list.Wanted())
    known = [row.recall for row in rows if row.recall is not None]
    assert known == sorted(known)
    assert rows[-1].key == "gift-wrap"
    assert "unfitted" in rows[-1].states


@pytest.mark.parametrize("sort", policy_list.SORTS)
def test_every_sort_keeps_every_row(sort: str, world: make.World) -> None:
    rows = policy_rows.rows(world.inventory)
    assert {r.key for r in policy_list.chosen(rows, policy_list.wanted(world.inventory, sort=sort))} == {
        r.key for r in rows
    }


def test_search_and_filters(world: make.World, signed_in: Any) -> None:
    make.artifact(world.inventory, "gift-wrap", name="Gift wrapping", mode="always")
    client = signed_in(world.viewer)
    assert "1 of 4" in client.get(LIST, {"q": "warehouse size"}).content.decode()
    assert "1 of 4" in client.get(LIST, {"f": "mode:is:always"}).content.decode()
    both = client.get(LIST, {"f": ["mode:is:always", "state:is:few"]}).content.decode()
    assert "Nothing matches" in both
    unknown = client.get(LIST, {"f": "colour:is:red", "sort": "beauty"}).content.decode()
    assert "4 of 4" in unknown
    assert "colour:is:red" in unknown
    assert "sort=beauty" in unknown


def test_archived_policies_are_listed_only_when_asked_for(world: make.World, signed_in: Any) -> None:
    artifacts.archive_artifact(world.refund, by=SYSTEM)
    client = signed_in(world.viewer)
    assert "refund-status" not in client.get(LIST).content.decode()
    assert "refund-status" in client.get(LIST, {"f": "mode:is:archived"}).content.decode()


def test_changed_text_is_marked_while_its_generated_examples_are_the_old_ones(world: make.World) -> None:
    old = artifacts.current_text(world.cancel)
    Exemplar.objects.filter(artifact=world.cancel).update(source=Source.GENERATED, artifact_text=old)
    assert not any("text_changed" in row.states for row in policy_rows.rows(world.inventory))
    artifacts.edit_artifact(world.cancel, by=SYSTEM, text="Another text altogether.")
    changed = [row.key for row in policy_rows.rows(world.inventory) if "text_changed" in row.states]
    assert changed == ["cancel-order"]


def test_pins_are_counted_and_a_missed_one_shows(world: make.World) -> None:
    state = world.state("talk-4", 0)  # "do you have a green lamp": nothing to do with a refund
    curate.apply(world.refund, [Step("pin", state=state.pk)], by=world.by, base_version=1, reason="A test of the list")
    assert Pin.objects.current().filter(artifact=world.refund).count() == 1
    row = next(row for row in policy_rows.rows(world.inventory) if row.key == "refund-status")
    assert row.pins == 1
    assert (row.failing_pins == 1) == ("failing_pin" in row.states)


@pytest.mark.django_db(transaction=True)  # nothing is kept inside a transaction
def test_the_page_takes_few_queries_whatever_the_number(signed_in: Any, django_assert_max_num_queries: Any) -> None:
    world = make.world()
    for number in range(5):
        make.artifact(world.inventory, f"more-{number}", signals=["a signal"], anti_signals=["an anti-signal"])
    client = signed_in(world.author)
    for query in ("", "?f=recall:lt:90&f=or.state:is:few&q=order&sort=-week"):
        client.get(LIST + query)
        with django_assert_max_num_queries(12):
            assert client.get(LIST + query).status_code == 200


# ------------------------------------------------------------------------------------------------- conditions and columns
@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (["state:is:unfitted"], ["bare"]),
        (["not.state:is:few", "not.state:is:unfitted"], []),
        (["state:is:never"], ["bare-fitted"]),
        (["state:is:stale"], ["refund-status"]),
        (["genre:is:mined"], ["change-order"]),
        (["mode:is:always", "or.state:is:unfitted"], ["bare", "cancel-order"]),
        (["mode:is:archived", "or.mode:is:always"], ["cancel-order", "gone"]),
        (["kind:is:tool"], ["bare"]),
        (["waiting:gte:1"], ["change-order"]),
        (["key:has:ORDER", "not.name:is:Change order"], ["cancel-order"]),
        (["recall:gte:0", "precision:lte:100", "share:gte:0"], ["cancel-order", "change-order"]),
        (["needed:is:3"], ["cancel-order"]),
        (["week:gte:1"], ["cancel-order"]),
    ],
)
def test_conditions(world: make.World, f: list[str], expected: list[str]) -> None:
    from_other = Centre.objects.create(
        inventory=world.inventory, number=9, encoder_id="x", vector=b"", digest="9" * 64, artifact_count=1
    )
    make.artifact(world.inventory, "bare", kind="tool")
    make.artifact(world.inventory, "bare-fitted", signals=["one", "two"], anti_signals=["three", "four"])
    artifacts.archive_artifact(make.artifact(world.inventory, "gone"), by=SYSTEM)
    refitting.refit(world.inventory, by=SYSTEM)
    rows = [
        JudgementRow(name, turn, make.JUDGE, {"bare-fitted": 1})
        for name, turns in make.TALKS.items()
        for turn in range(len(turns))
    ]
    import_judgements(world.inventory, rows, by=SYSTEM)
    artifacts.edit_artifact(world.cancel, by=SYSTEM, mode="always")
    ArtifactSetting.objects.current().filter(artifact=world.change).update(fit_set="mined")
    Exemplar.objects.create(
        artifact=world.change, polarity="signal", text="x", text_digest="x", source="mined", status="candidate"
    )
    ClassifierVersion.objects.current().filter(artifact=world.refund).update(to_release=0)
    old = ClassifierVersion.objects.get(artifact=world.refund)
    old.pk, old.number, old.to_release, old.centre = None, 2, None, from_other
    old.save()
    _record_live(world, world.cancel)
    inventory = Inventory.objects.select_related("judge").get(pk=world.inventory.pk)
    asks = policy_list.wanted(inventory, f=f, sort="order")
    assert not asks.asked.ignored
    assert sorted(row.key for row in policy_list.page(inventory, asks).rows) == expected


def _record_live(world: make.World, artifact: Artifact) -> None:
    for days in (0, 0, 1, 30):
        discovery = Discovery.objects.create(
            inventory=world.inventory, conversation=f"c{Discovery.objects.count()}", user_turn=0, release=1, theta=0,
            encoder_id="x", origin=Origin.LIVE, at=timezone.now() - timedelta(days=days),
        )  # fmt: skip
        if days != 1:
            Decision.objects.create(discovery=discovery, artifact=artifact, fired=True)


def test_the_last_seven_days_that_have_data(world: make.World) -> None:
    """Days without any do not count: of two days with data here both are among the last seven."""
    _record_live(world, world.cancel)
    found = week_of.week(Inventory.objects.select_related("judge").get(pk=world.inventory.pk))
    assert (found.days, found.turns, found.fired) == (3, 4, {world.cancel.pk: 3})
    assert found.judged[world.cancel.pk] == 12
    assert found.relevant == {world.cancel.pk: 3, world.change.pk: 2, world.refund.pk: 2}
    for number in range(9):  # older days push nothing in
        Discovery.objects.create(
            inventory=world.inventory, conversation=f"old{number}", user_turn=0, release=1, theta=0, encoder_id="x",
            origin=Origin.LIVE, at=timezone.now() - timedelta(days=100 + number),
        )  # fmt: skip
    caches.clear_all()
    again = week_of.week(world.inventory)
    assert (again.days, again.turns) == (7, 8)


def test_judged_days_are_found_among_many(world: make.World) -> None:
    """Judgements of ten days: those of the newest seven count."""
    ids = list(Judgement.objects.order_by("pk").values_list("pk", flat=True))
    for place, pk in enumerate(ids):
        at = timezone.now() - timedelta(days=3 * (9 - place * 10 // len(ids)))
        Judgement.objects.filter(pk=pk).update(at=at)
    inventory = Inventory.objects.select_related("judge").get(pk=world.inventory.pk)
    found = week_of.week(inventory)
    counted = sum(place * 10 // len(ids) >= 3 for place in range(len(ids)))
    assert sum(found.judged.values()) == counted


def test_rows_say_nearest_and_what_was_previewed(world: make.World, signed_in: Any) -> None:
    row = next(row for row in policy_rows.rows(world.inventory) if row.key == "cancel-order")
    version = fit.active_version(world.cancel)
    assert version is not None
    assert row.previewed == version.metrics["fired"] / version.metrics["states"]
    assert row.nearest in {"change-order", "refund-status"}
    assert row.nearest_cosine is not None
    assert row.together is not None
    assert -1 <= row.nearest_cosine <= 1
    page = signed_in(world.viewer).get(LIST).content.decode()
    assert "previewed" in page
    assert f'href="/i/tiny/policies/{row.nearest}/" title=' in page


def test_pages_of_the_list_add_up_also_where_a_row_has_left(world: make.World) -> None:
    for number in range(4):
        make.artifact(world.inventory, f"more-{number}")
    asks = policy_list.wanted(world.inventory, sort="name")
    whole = [row.key for row in policy_list.page(world.inventory, asks).rows]
    first = policy_list.page(world.inventory, asks, size=3)
    assert [row.key for row in first.rows] == whole[:3]
    artifacts.archive_artifact(artifacts.get_artifact(world.inventory, whole[2]), by=SYSTEM)
    second = policy_list.page(world.inventory, asks, after=str(first.next), size=3)
    assert [row.key for row in second.rows] == whole[3:6]
    last = policy_list.page(world.inventory, asks, after=str(second.next), size=3)
    assert [row.key for row in last.rows] == whole[6:]
    assert last.next is None


def test_a_selection_of_policies_is_a_condition(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.author)
    answer = client.post(
        "/i/tiny/views/save/",
        {"page": "policies", "name": "Two", "selection": "1", "tick": ["cancel-order", "refund-status"]},
    )
    page = client.get(answer["Location"]).content.decode()
    assert page.count("<tr data-row") == 2
    assert "2 of 3" in page


def test_text_of_a_policy_is_shown_as_text(world: make.World, signed_in: Any) -> None:
    make.artifact(world.inventory, "odd", name="<script>alert(1)</script>")
    page = signed_in(world.viewer).get(LIST).content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


# --------------------------------------------------------------------------------------------------------------------- new
def form(**changes: str | list[str]) -> dict[str, Any]:
    base: dict[str, Any] = {
        "name": "Gift wrapping",
        "text": "Wrap orders as gifts on request.",
        "kind": "policy",
        "mode": "auto",
    }
    return base | changes


def test_a_new_policy_with_examples_has_its_first_version(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.author)
    sent = form(signals="can you wrap it as a gift\nplease gift wrap my order\n\n", anti_signals="where is my parcel\n")
    response = client.post(NEW, sent)
    assert response["Location"] == "/i/tiny/policies/gift-wrapping/"
    artifact = Artifact.objects.get(inventory=world.inventory, key="gift-wrapping")
    version = ClassifierVersion.objects.get(artifact=artifact)
    assert (version.number, version.actor) == (1, "ada")
    assert version.counts == {"signal": {"written": 2}, "anti_signal": {"written": 1}}


def test_without_examples_it_is_saved_and_shown_everywhere(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.author)
    client.post(NEW, form(key="wrap"))
    assert not ClassifierVersion.objects.filter(artifact__key="wrap").exists()
    assert "shown at every turn" in client.get(LIST).content.decode()


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"name": " "}, "id_name", "required"),
        ({"key": "Not A Key"}, "id_key", "Use 1 to 64 of a-z"),
        ({"key": "cancel-order"}, "id_key", "already"),
        ({"signals": "same words", "anti_signals": "same words"}, "id_anti_signals", "on both sides"),
        ({"mode": "sometimes"}, "id_mode", "valid choice"),
    ],
)
def test_what_cannot_be_is_said_under_its_field(
    changes: dict[str, str], field: str, words: str, world: make.World, signed_in: Any
) -> None:
    before = Release.objects.filter(inventory=world.inventory).count()
    response = signed_in(world.author).post(NEW, form(**changes))
    page = response.content.decode()
    assert response.status_code == 422
    assert f'id="{field}_error"' in page
    assert words in page
    assert Release.objects.filter(inventory=world.inventory).count() == before


def test_nothing_is_written_when_the_encoder_is_away(
    world: make.World, signed_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: Any) -> None:
        raise Unavailable("The encoder is away.")

    monkeypatch.setattr(embed, "encode", away)
    response = signed_in(world.author).post(NEW, form(signals="wrap it", anti_signals="send it"))
    assert response.status_code == 422
    assert "The encoder is away." in response.content.decode()
    assert not Artifact.objects.filter(key="gift-wrapping").exists()


def test_adding_a_policy_changes_no_other_s_weights(world: make.World, signed_in: Any) -> None:
    def weights() -> dict[str, tuple[bytes, float]]:
        rows = ClassifierVersion.objects.current().filter(artifact__in=[world.cancel, world.change, world.refund])
        return {row.artifact.key: (bytes(row.weights), row.bias) for row in rows}

    before = weights()
    signed_in(world.author).post(NEW, form(signals="can you wrap it", anti_signals="where is it"))
    assert weights() == before


# ------------------------------------------------------------------------------------------------------------------- try it
def test_trying_writes_nothing_and_says_what_would_be(world: make.World, signed_in: Any) -> None:
    before = Release.objects.count(), Artifact.objects.count()
    sent = form(
        signals="can you wrap it as a gift",
        anti_signals="where is my parcel",
        messages="please gift wrap it\nhello",
        **{"try": "1"},
    )
    client = signed_in(world.author)
    page = client.post(NEW, sent).content.decode()
    part = client.post(NEW, sent, headers=HTMX).content.decode()
    assert "<html" in page
    assert "<html" not in part
    assert 'id="trial"' in part
    for shown in (page, part):
        assert shown.count('class="tried"') == 2
        assert "of your 12 logged turns" in shown
        assert "Nearest policies" in shown
    assert (Release.objects.count(), Artifact.objects.count()) == before


def test_a_trial_is_the_classifier_that_saving_makes(world: make.World) -> None:
    written = authoring.Written(
        name="Gift wrapping",
        text="Wrap orders as gifts on request.",
        signals=("can you wrap it as a gift", "gift wrap my order"),
        anti_signals=("where is my parcel", "cancel my order"),
        messages=("wrap the lamp as a gift please",),
    )
    trial = authoring.try_out(world.inventory, written)
    saved = authoring.create_policy(world.inventory, written, key="gift", by=world.by)
    assert saved.version is not None
    assert trial.share == saved.version.metrics["fired"] / saved.version.metrics["states"]
    assert (trial.fitted, trial.signals, trial.anti_signals) == (True, 2, 2)
    assert trial.tried[0].cutoff == saved.version.offset == 0.0


def test_look_alikes_are_borrowed_as_one_s_own(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.author)
    wanted = "please cancel my order"
    sent = form(signals="can you wrap it as a gift", borrow=[wanted], **{"try": "1"})
    page = client.post(NEW, sent).content.decode()
    assert f'value="{wanted}" checked' in page  # stays ticked, and is not offered again
    assert page.count(f'value="{wanted}"') == 1
    refused = client.post(NEW, form(name="", borrow=[wanted])).content.decode()
    assert f'value="{wanted}" checked' in refused  # nor is it lost when something else is wrong
    client.post(NEW, form(signals="can you wrap it as a gift", borrow=[wanted]))
    copied = Exemplar.objects.get(artifact__key="gift-wrapping", polarity="anti_signal")
    assert (copied.text, copied.source, copied.status) == (wanted, Source.WRITTEN, ExemplarStatus.PROMOTED)
    assert Exemplar.objects.get(artifact=world.cancel, text=wanted).polarity == "signal"


def test_six_messages_are_too_many(world: make.World, signed_in: Any) -> None:
    sent = form(messages="a\nb\nc\nd\ne\nf", **{"try": "1"})
    response = signed_in(world.author).post(NEW, sent, headers=HTMX)
    assert response.status_code == 422
    assert "more than five" in response.content.decode()


def test_before_the_first_fit_a_trial_says_so(world: make.World) -> None:
    written = authoring.Written(name="A", text="B", messages=("hello",))
    trial = authoring.try_out(world.others, written)
    assert trial.tried[0].selected
    assert trial.note
    assert trial.neighbours == ()


@pytest.mark.parametrize(("mode", "selected"), [("always", True), ("off", False)])
def test_a_trial_follows_the_mode(mode: str, selected: bool, world: make.World) -> None:
    written = authoring.Written(name="A", text="B", mode=mode, messages=("hello",))
    trial = authoring.try_out(world.inventory, written)
    assert trial.tried[0].selected is selected
    assert trial.share == (1.0 if selected else 0.0)
    assert trial.indistinct is selected


# --------------------------------------------------------------------------------------------------------------------- edit
def edited(world: make.World, **changes: str | list[str]) -> dict[str, Any]:
    text = artifacts.current_text(world.cancel)
    base = {
        "name": text.name,
        "text": text.text,
        "mode": "auto",
        "base_text": "1",
        "base_version": "1",
    }
    return base | changes


def test_the_edit_page_holds_what_is(world: make.World, signed_in: Any) -> None:
    page = signed_in(world.author).get(EDIT).content.decode()
    assert make.TEXTS["cancel-order"] in page
    assert 'name="base_text" value="1"' in page
    assert 'name="key"' not in page
    assert 'name="kind"' not in page  # fixed at creation


def test_text_and_mode_are_edited_in_one_change(world: make.World, signed_in: Any) -> None:
    response = signed_in(world.author).post(
        EDIT, edited(world, text="Another text.", mode="always", reason="New rules")
    )
    assert response["Location"] == "/i/tiny/policies/cancel-order/"
    change = Change.objects.latest("pk")
    assert (change.action, change.reason) == ("edit", "New rules")
    assert change.after == {"text": "Another text.", "mode": "always"}
    assert artifacts.current_setting(world.cancel).mode == "always"


def test_an_edit_offers_its_undo(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.author)
    page = client.post(EDIT, edited(world, text="Another text."), follow=True).content.decode()
    undo = f"/i/tiny/changes/{Change.objects.latest('pk').public_id}/undo/"
    assert f'href="{undo}" data-undo' in page
    client.post(undo)
    assert artifacts.fields_of(world.cancel)["text"] == make.TEXTS["cancel-order"]
    page = client.post(EDIT, edited(world, base_text="3"), follow=True).content.decode()
    assert "data-undo" not in page.split("Saved")[1][:80]  # nothing was changed


def test_pasted_examples_show_their_effect_before_they_are_saved(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.author)
    sent = edited(world, signals="I have changed my mind, no lamp for me", reason="Said by a customer")
    sent["borrow"] = ["where is my refund"]
    page = client.post(EDIT, sent).content.decode()
    assert 'value="where is my refund" checked' in page
    assert 'id="impact"' in page
    assert "turns start" in page
    assert fit.active_version(world.cancel).number == 1  # type: ignore[union-attr]
    assert client.post(EDIT, sent | {"confirmed": "1"}).status_code == 302
    assert fit.active_version(world.cancel).number == 2  # type: ignore[union-attr]
    added = Exemplar.objects.get(artifact=world.cancel, text="I have changed my mind, no lamp for me")
    assert (added.source, added.decided_by) == (Source.WRITTEN, world.author)


def test_an_example_that_is_there_already_is_said_above_the_form(world: make.World, signed_in: Any) -> None:
    response = signed_in(world.author).post(EDIT, edited(world, signals="please cancel my order"))
    assert response.status_code == 422
    page = response.content.decode()
    assert "already a show example" in page
    assert 'id="id_text_error"' not in page


def test_what_was_typed_stays_beside_a_newer_text_and_replaces_it_knowingly(world: make.World, signed_in: Any) -> None:
    artifacts.edit_artifact(world.cancel, by=world.by, text="Meanwhile <b>this</b>.")
    client = signed_in(world.publisher)
    sent = edited(world, text="Mine.", signals="drop my order now\nI want out of it", reason="because")
    response = client.post(EDIT, sent | {"confirmed": "1"})
    assert response.status_code == 409
    page = response.content.decode()
    assert "ada saved another text while you typed" in page
    assert "Meanwhile &lt;b&gt;this&lt;/b&gt;." in page
    assert ">\nMine.</textarea>" in page
    assert "drop my order now\nI want out of it</textarea>" in page
    assert '<input type="hidden" name="base_text" value="2"' in page
    assert artifacts.current_text(world.cancel).text == "Meanwhile <b>this</b>."
    assert client.post(EDIT, sent | {"confirmed": "1", "base_text": "2"}).status_code == 302
    assert artifacts.current_text(world.cancel).text == "Mine."


def test_what_was_typed_stays_when_a_version_moved_on(world: make.World, signed_in: Any) -> None:
    curate.apply(world.cancel, [Step("add", text="stop the order now", polarity="signal")], by=world.by, base_version=1)
    sent = edited(world, signals="drop my order now", confirmed="1")
    response = signed_in(world.author).post(EDIT, sent)
    page = response.content.decode()
    assert response.status_code == 409
    assert "Somebody else was faster" in page
    assert "The newer text" not in page
    assert "drop my order now</textarea>" in page
    assert '<input type="hidden" name="base_version" value="2"' in page


@pytest.mark.parametrize("side", ["signals", "anti_signals"])
def test_more_examples_than_the_api_takes_are_an_error_of_their_field(
    world: make.World, signed_in: Any, side: str, encoder: FakeEncoder
) -> None:
    encoder.calls.clear()
    many = "\n".join(f"text {n}" for n in range(1_001))
    for asked in ({}, {"try": "1"}):
        response = signed_in(world.author).post(NEW, form(**{side: many}, **asked))
        assert response.status_code == 422
        page = response.content.decode()
        assert f'id="id_{side}_error"' in page or asked
        assert "1001 examples; at most 1000 are taken at once." in page
    assert encoder.calls == []


def test_a_version_that_moved_on_leaves_the_text_alone_too(world: make.World) -> None:
    curate.apply(world.cancel, [Step("add", text="stop the order now", polarity="signal")], by=world.by, base_version=1)
    written = authoring.Written(name="N", text="T", signals=("another one",), artifact=world.cancel)
    with pytest.raises(Conflict):
        authoring.edit_policy(written, by=world.by, base_text=1, base_version=1)
    assert artifacts.current_text(world.cancel).number == 1


def test_trying_an_edit_counts_the_examples_in_use(world: make.World) -> None:
    text = artifacts.current_text(world.cancel)
    same = authoring.Written(name=text.name, text=text.text, artifact=world.cancel, messages=("cancel it please",))
    more = authoring.Written(name=text.name, text=text.text, artifact=world.cancel, signals=("scrap the order",))
    assert (authoring.try_out(world.inventory, same).signals, authoring.try_out(world.inventory, more).signals) == (
        4,
        5,
    )
    keys = [n.key for n in authoring.try_out(world.inventory, same).neighbours]
    assert "cancel-order" not in keys
    version = fit.active_version(world.cancel)
    assert version is not None
    assert authoring.try_out(world.inventory, same).share == version.metrics["fired"] / version.metrics["states"]


def test_editing_needs_something_to_edit(world: make.World) -> None:
    with pytest.raises(ValueError, match="needs the artifact"):
        authoring.edit_policy(authoring.Written(name="A", text="B"), by=world.by, base_text=None, base_version=None)
    with pytest.raises(Invalid):
        authoring.create_policy(world.inventory, authoring.Written(name="A", text="B"), key="!", by=world.by)


# ------------------------------------------------------------------------------------------------------------ the archive
def test_a_policy_is_archived_and_brought_back_on_its_edit_page(world: make.World, signed_in: Any) -> None:
    client, page, act = (
        signed_in(world.author),
        "/i/tiny/policies/cancel-order/edit/",
        "/i/tiny/policies/cancel-order/archive/",
    )
    assert "No longer needed?" in client.get(page).content.decode()
    versions = ClassifierVersion.objects.count()
    gone = client.post(act, {"do": "archive", "reason": "the shop has closed"}, follow=True).content.decode()
    assert "Archived: no longer selected" in gone
    assert "/undo/" in gone
    assert artifacts.current_setting(world.cancel).status == "archived"
    assert AuditEvent.objects.latest("pk").reason == "the shop has closed"
    assert "It is in the archive already." in client.post(act, {"do": "archive"}, follow=True).content.decode()
    assert "It is in the archive<" in client.get(page).content.decode()
    assert "Back from the archive." in client.post(act, {"do": "restore"}, follow=True).content.decode()
    assert artifacts.current_setting(world.cancel).status == "active"
    assert ClassifierVersion.objects.count() == versions
    assert signed_in(world.reviewer).post(act).status_code == 403
    assert signed_in(world.stranger).post(act).status_code == 404
