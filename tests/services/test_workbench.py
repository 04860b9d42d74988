"""What the workbench reads: the two lists of turns, the examples' numbers, the versions' differences, the map."""

import dataclasses

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.models import Centre, ClassifierVersion, Exemplar, Inventory, Polarity
from console.services import (
    authoring,
    caches,
    curate,
    fit,
    inventories,
    table,
    workbench,
    workbench_examples,
    workbench_map,
    workbench_turns,
    workbench_versions,
)
from console.services.errors import Invalid, Malformed, NotFound
from console.services.plan import Step
from console.services.workbench import Ground
from console.services.workbench_map import Map
from sq_core.scoring import cut_off, margin
from tests.make import TALKS, World, conversation, judge

MISS = "I do not want the parcel any more, stop it"


def ground(world: World, key: str = "cancel-order") -> Ground:
    return workbench.ground(Inventory.objects.select_related("judge").get(pk=world.inventory.pk), key)


def at_theta(world: World, theta: float, key: str = "cancel-order") -> Ground:
    """The same policy as if the shared cut-off were another: the lists need both kinds of errors."""
    found = ground(world, key)
    found.point.theta = theta
    return found


def promote(world: World) -> curate.Applied:
    step = Step("add", state=world.state("talk-5", 0).pk, polarity="signal")
    return curate.apply(world.cancel, [step], by=world.by, base_version=1, reason="test")


# ----------------------------------------------------------------------------------------------------------- the two lists
def test_both_lists_are_the_errors_and_nothing_else(world: World) -> None:
    for theta in (-10.0, 0.0, 10.0):
        found = at_theta(world, theta)
        lists = workbench_turns.shown_and_missed(found)
        relevant, fired = found.labels.relevant, found.margins > theta
        ids = found.basis.states.state_ids  # type: ignore[union-attr]
        assert {row.state_id for row in lists.missed.rows} == set(ids[relevant & ~fired].tolist())
        assert {row.state_id for row in lists.extra.rows} == set(ids[~relevant & fired].tolist())
        assert (lists.missed.total, lists.extra.total) == (len(lists.missed.rows), len(lists.extra.rows))
        assert lists.shown == fired.sum()


def test_a_need_that_is_new_at_its_turn_comes_first_then_the_worst_miss(world: World) -> None:
    conversation(world.inventory, "long", ["cancel it please", "yes", "go on"])
    for turn, score in ((0, 4), (1, 5), (2, 5)):
        judge(world.inventory, "long", turn, {"cancel-order": score})
    from console.services.embed import embed_states

    embed_states(world.inventory)
    rows = workbench_turns.shown_and_missed(at_theta(world, 10.0)).missed.rows
    news = [row.new for row in rows]
    assert news == sorted(news, reverse=True)
    assert {(row.conversation, row.user_turn) for row in rows if not row.new} == {("long", 1), ("long", 2)}
    firsts = [(-row.score, row.margin) for row in rows if row.new]
    assert firsts == sorted(firsts)


def test_a_false_alarm_is_shown_with_the_message_that_fired(world: World) -> None:
    found = at_theta(world, -10.0)
    assert found.basis is not None
    for row in workbench_turns.shown_and_missed(found).extra.rows:
        views = found.basis.states.views.views(found.basis.states.positions[row.state_id])
        best = workbench.winning_view(margin(found.classifier, views, table.pooling_of(found.point)))
        whole = next(choice for choice in row.choices if choice.user_turn is None)
        taken = next(choice for choice in row.choices if choice.value == row.chosen)
        assert taken.user_turn == best
        assert row.whole is (best is None)
        assert whole.value == f"{row.state_id}:whole"
        assert [c.user_turn for c in row.choices if c.user_turn is not None] == list(range(row.user_turn, -1, -1))


def test_pages_of_a_list_hold_every_row_once(world: World) -> None:
    found = at_theta(world, 10.0)
    whole = [row.state_id for row in workbench_turns.shown_and_missed(found).missed.rows]
    seen: list[int] = []
    after: str | None = ""
    while after is not None:
        side = workbench_turns.shown_and_missed(found, after_missed=after, size=1).missed
        seen += [row.state_id for row in side.rows]
        after = side.next
    assert seen == whole
    assert len(whole) > 2


def test_a_cursor_that_is_none_is_refused(world: World) -> None:
    with pytest.raises(Malformed):
        workbench_turns.shown_and_missed(ground(world), after_missed="1_2_x_4")


def test_a_turn_can_be_asked_for_first(world: World) -> None:
    found = at_theta(world, 10.0)
    last = workbench_turns.shown_and_missed(found).missed.rows[-1].state_id
    assert workbench_turns.shown_and_missed(found, first=last).missed.rows[0].state_id == last
    assert workbench_turns.shown_and_missed(found, first=10**9).missed.rows


def test_after_a_decision_nothing_changes_its_place(world: World) -> None:
    before = [row.state_id for row in workbench_turns.shown_and_missed(at_theta(world, 10.0)).missed.rows]
    promote(world)
    after = ground(world)
    changed = world.state("talk-5", 0).pk
    lists = workbench_turns.refreshed(after, (before, []), {changed})
    assert [row.state_id for row in lists.missed.rows] == [changed]
    assert [f.state_id for f in lists.missed.figures] == [pk for pk in before if pk != changed]
    assert lists.missed.rows[0].example == "signal"
    assert lists.missed.rows[0].fired


def test_the_head_counts_what_the_lists_show(world: World) -> None:
    found = ground(world)
    head, lists = workbench.head(found), workbench_turns.shown_and_missed(found)
    assert head.needed == 3
    assert head.needed - head.caught == lists.missed.total
    assert head.shown - head.caught == lists.extra.total
    assert head.few
    assert head.previous is None
    promote(world)
    head = workbench.head(ground(world))
    assert head.previous == 1
    assert head.metrics["left_out"] == 2  # the conversation that gave the example


def test_a_policy_of_another_inventory_is_not_found(world: World) -> None:
    with pytest.raises(NotFound):
        workbench.ground(world.others, "cancel-order")


# ------------------------------------------------------------------------------------------------------------- examples
def test_the_pull_of_the_examples_is_the_classifier(world: World) -> None:
    found = ground(world)
    shown = workbench_examples.examples(found)
    rows = [*shown.signals, *shown.anti_signals]
    vectors = workbench_examples._vectors(found, [row.exemplar for row in rows])
    total = sum(row.alpha * vectors[row.exemplar.pk] for row in rows if row.alpha is not None)
    assert np.abs(total - found.classifier.weights).max() < 1e-6
    assert all(row.alpha > 0 for row in shown.signals if row.alpha is not None)
    assert all(row.alpha < 0 for row in shown.anti_signals if row.alpha is not None)


def test_without_it_is_the_margin_of_a_version_fitted_without_it(world: World) -> None:
    found = ground(world)
    row = workbench_examples.examples(found).signals[0]
    others = Exemplar.objects.filter(artifact=world.cancel).exclude(pk=row.exemplar.pk)
    basis = dataclasses.replace(fit.basis(world.cancel), base=None)
    draft = fit.draft_version(basis, others)
    vector = workbench_examples._vectors(found, [row.exemplar])[row.exemplar.pk]
    assert row.left_out == pytest.approx(float(draft.fit.weights @ vector + draft.fit.bias), abs=1e-9)


def many(world: World, each: int) -> workbench.Ground:
    """A policy with so many examples a side."""
    written = authoring.Written(
        name="Many",
        text="So many",
        signals=tuple(f"cancel item {n} of order {n % 7}" for n in range(each)),
        anti_signals=tuple(f"refund {n} for parcel {n % 5}" for n in range(each)),
    )
    authoring.create_policy(world.inventory, written, key="many", by=world.by)
    return workbench.ground(Inventory.objects.get(pk=world.inventory.pk), "many")


def test_many_examples_are_left_out_by_an_estimate_that_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    found = many(world, 35)
    shown = workbench_examples.examples(found)
    assert shown.estimated
    monkeypatch.setattr(workbench_examples, "EXACT", 100)
    workbench_examples._left_out.clear()
    exact = workbench_examples.examples(found)
    assert not exact.estimated
    one = {row.exemplar.pk: row.left_out for row in (*shown.signals, *shown.anti_signals)}
    other = {row.exemplar.pk: row.left_out for row in (*exact.signals, *exact.anti_signals)}
    assert len(one) == 70
    assert max(abs(one[pk] - other[pk]) for pk in one) < 0.02  # type: ignore[operator]


def test_a_list_goes_on_behind_a_place_even_when_its_row_is_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbench_examples, "PAGE", 20)
    rows = workbench_examples.examples(many(world, 35)).signals
    first = workbench_examples.part(rows)
    second = workbench_examples.part(rows, first.next)
    assert [*first.rows, *second.rows] == rows
    assert (first.total, len(first.rows), len(second.rows), second.next) == (35, 20, 15, "")
    gone = [row for row in rows if row is not first.rows[-1]]
    assert workbench_examples.part(gone, first.next).rows == second.rows
    for nonsense in ("", "x", "1_2", "0_nan_1", "2_0.0_1", "1_1e999_1", "0_" + "9" * 400 + "_1"):
        assert len(workbench_examples.part(rows, nonsense).rows) in (0, 20)


def test_nearest_and_likeness_of_the_examples(world: World) -> None:
    curate.apply(
        world.cancel, [Step("add", text="please cancel my order, please", polarity="signal")], by=world.by, base_version=1,
        reason="test",
    )  # fmt: skip
    shown = workbench_examples.examples(ground(world))
    twins = [row for row in shown.signals if row.exemplar.text.startswith("please cancel my order")]
    assert len(twins) == 2
    assert all(row.nearest is not None and row.nearest > 0.6 and row.nearest_side == "signal" for row in twins)
    likeness = shown.diversity["signal"]
    assert likeness.pairs == 10
    assert likeness.near is not None
    assert likeness.near >= 0.1
    assert workbench_examples.diversity([np.ones(3)]) == workbench_examples.Diversity(0, None, None)


def test_sources_are_counted_under_every_setting(world: World) -> None:
    state = world.state("talk-5", 0)
    Exemplar.objects.create(
        artifact=world.cancel, polarity=Polarity.SIGNAL, text="made by a machine", text_digest="0" * 64,
        source="generated", status="promoted", origin=state,
    )  # fmt: skip
    choices = {choice.value: choice for choice in workbench_examples.fit_choices(ground(world))}
    assert choices["generated"].current
    assert choices["generated"].signals == 5  # what people wrote counts everywhere
    assert choices["mined"].signals == 4
    assert not choices["mined"].ready


def test_the_history_of_an_example(world: World) -> None:
    applied = promote(world)
    added = Exemplar.objects.get(artifact=world.cancel, text=MISS)
    curate.undo(applied.change, by=world.by)
    rows = workbench_examples.history(world.cancel, added.public_id)
    assert [row.change.action for row in rows] == ["undo", "add"]
    assert rows[-1].before is None
    assert rows[0].after["status"] == "retired"
    assert workbench_examples.history(world.cancel, "nothing") == []


# ------------------------------------------------------------------------------------------------------------- versions
def test_versions_and_what_each_changed(world: World) -> None:
    promote(world)
    found = ground(world)
    page = workbench_versions.versions(found)
    newest, first = page.rows
    assert (newest.version.number, newest.active, newest.live, newest.can_return) == (2, True, True, False)
    assert (first.version.number, first.active, first.live, first.can_return) == (1, False, False, True)
    assert newest.added == {"signal": 1, "anti_signal": 0}
    assert first.added == {"signal": 4, "anti_signal": 4}
    assert workbench_versions.versions(found, size=1).next == 2
    assert [row.version.number for row in workbench_versions.versions(found, before=2).rows] == [1]
    assert [change.action for change in workbench_versions.changes_of(page)] == ["refit", "add"]


def test_every_version_is_measured_today_and_keeps_what_it_was_made_with(world: World) -> None:
    promote(world)
    inventories.update_inventory(world.inventory, by=world.by, theta=0.4)
    found = ground(world)
    newest, first = workbench_versions.versions(found).rows
    head = workbench.head(found)
    assert newest.today is not None
    assert (newest.today.recall, newest.today.precision, newest.today.needed, newest.today.shown) == (
        head.recall,
        head.precision,
        head.needed,
        head.shown,
    )
    for row in (newest, first):
        assert found.basis is not None
        assert (row.today, row.made) == (row.rates, workbench_versions.Rates.of(row.version.metrics))
        cutoff = cut_off(0.4, row.version.offset)
        margins = table.margins_of(table.classifier_of(row.version), found.basis.states, table.pooling_of(found.point))
        fence = found.basis.states.in_scenarios(set(table.scenarios_of(row.version)))
        assert row.today == workbench_versions.Rates.of(fit.metrics_of(found.basis, margins, cutoff, fence))
        assert row.made is not None
        assert row.made.cutoff != row.today.cutoff == cutoff
    assert first.today is not None
    assert (first.today.left_out, newest.today.left_out) == (0, len(TALKS["talk-5"]))


def test_a_version_of_another_centre_shows_what_it_was_made_with(world: World) -> None:
    promote(world)
    first = ClassifierVersion.objects.get(artifact=world.cancel, number=1)
    centre = Centre.objects.get(inventory=world.inventory)
    other = Centre.objects.create(
        inventory=world.inventory,
        number=2,
        encoder_id=centre.encoder_id,
        vector=centre.vector,
        digest="d",
        artifact_count=1,
    )
    ClassifierVersion.objects.filter(pk=first.pk).delete()
    first.centre = other
    first.save(force_insert=True)
    newest, old = workbench_versions.versions(ground(world)).rows
    assert newest.today is not None
    assert (old.today, old.rates) == (None, old.made)
    assert old.made is not None
    assert old.pins_passing is None


def test_the_list_of_versions_asks_as_often_for_six_as_for_two(
    world: World,
) -> None:
    def asked() -> int:
        caches.clear_all()
        found = ground(world)
        _ = found.pins, found.labels
        with CaptureQueriesContext(connection) as captured:
            workbench_versions.versions(found)
        return len(captured)

    promote(world)
    two = asked()
    for number, text in enumerate(("stop it all", "drop the parcel", "call it off now", "annul what I bought"), 2):
        step = Step("add", text=text, polarity="signal")
        curate.apply(world.cancel, [step], by=world.by, base_version=number, reason="more")
    assert len(workbench_versions.versions(ground(world)).rows) == 6
    assert asked() == two


def test_a_difference_is_what_the_preview_had_promised(world: World) -> None:
    step = Step("add", state=world.state("talk-5", 0).pk, polarity="signal")
    promised = curate.preview(world.cancel, [step], by=world.by)
    promote(world)
    diff = workbench_versions.version_diff(ground(world), 1, 2)
    assert [e.text for e in diff.added] == [MISS]
    assert (diff.removed, diff.edited, diff.moved, diff.same) == ([], [], [], 8)
    assert diff.effect is not None
    assert [f.state_id for f in diff.effect.started] == [f.state_id for f in promised.started]
    assert (diff.effect.recall_before, diff.effect.recall_after) == (promised.recall_before, promised.recall_after)
    assert 0 < (diff.cosine or 0) < 1
    back = workbench_versions.version_diff(ground(world), 2, 1)
    assert [e.text for e in back.removed] == [MISS]
    assert back.bias == pytest.approx(-diff.bias)


def test_an_edited_example_is_one_line_of_the_difference(world: World) -> None:
    old = world.exemplar(world.cancel, "please cancel my order")
    step = Step("edit", exemplar=old.public_id, text="cancel this order, please")
    curate.apply(world.cancel, [step], by=world.by, base_version=1, reason="test")
    diff = workbench_versions.version_diff(ground(world), 1, 2)
    assert [(a.text, b.text) for a, b in diff.edited] == [("please cancel my order", "cancel this order, please")]
    assert (diff.added, diff.removed) == ([], [])


def test_a_version_has_no_difference_to_itself_or_to_none(world: World) -> None:
    with pytest.raises(Invalid):
        workbench_versions.version_diff(ground(world), 1, 1)
    with pytest.raises(NotFound):
        workbench_versions.version_diff(ground(world), 1, 9)


# ------------------------------------------------------------------------------------------------------------------ map
def test_right_of_the_line_fires(world: World) -> None:
    promote(world)
    found = ground(world)
    drawn = Map(found)
    points = {point.id: point for point in drawn.points()}
    assert len(points) == 9 + len(found.margins)
    for position, pk in enumerate(found.basis.states.state_ids):  # type: ignore[union-attr]
        assert points[f"t:{pk}"].x == pytest.approx(found.margins[position] - (found.cutoff or 0))
        assert (points[f"t:{pk}"].x > 0) == found.fired[position]
    kinds = [points[i].kind for i in drawn.ids()]
    assert kinds.count("signal") == 5
    assert kinds.count("relevant") == found.labels.relevant.sum()
    assert sum(map(sum, drawn.counts().values())) == len(points)


def test_a_state_is_drawn_at_the_view_that_won(world: World) -> None:
    found = ground(world)
    drawn = Map(found)
    assert found.basis is not None
    pooling = table.pooling_of(found.point)
    for position in range(len(found.basis.states)):
        views = found.basis.states.views.views(position)
        best = margin(found.classifier, views, pooling).views[0]
        row = list(zip(views.kind, views.user_turn, strict=True)).index((best.kind, best.user_turn))
        assert np.array_equal(drawn.winners[position], views.vectors[row])


def test_another_cut_off_is_counted_and_not_kept(world: World) -> None:
    found = ground(world)
    drawn = Map(found)
    everything = drawn.recount(-10.0)
    assert (everything.selected, everything.recall) == (len(found.margins), 1.0)
    assert drawn.recount(10.0).selected == 0
    same = drawn.recount(found.point.theta)
    assert same.recall == workbench.head(found).recall
    assert ground(world).point.theta == found.point.theta


def test_the_list_beside_the_map(world: World) -> None:
    drawn = Map(ground(world))
    every, total = drawn.listed(size=1000)
    assert total == len(every) == len(drawn.ids())
    distances = [abs(point.x) for point in every]
    assert distances == sorted(distances)
    low = drawn.listed(low=0.0, size=1000)[0]
    assert [p.x for p in low] == sorted((p.x for p in every if p.x >= 0), reverse=True)
    near = drawn.listed(near=every[0].id)[0]
    assert near[0].id == every[0].id
    assert drawn.listed(among=[every[3].id, "t:0"])[0] == [every[3]]
    assert {p.kind for p in drawn.listed(kinds=["signal"])[0]} == {"signal"}
    assert drawn.listed(offset=2, size=3)[0] == every[2:5]
    with pytest.raises(NotFound):
        drawn.listed(near="e:nothing")


def test_many_turns_are_sampled_with_all_examples(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbench_map, "MOST", 12)
    drawn = Map(ground(world))
    assert len(drawn.points()) == 12
    assert len(drawn.exemplars) == 8
    assert np.array_equal(Map(ground(world)).chosen, drawn.chosen)


def test_a_pin_is_a_point_where_its_turn_is(world: World) -> None:
    state = world.state("talk-5", 0)
    curate.apply(world.cancel, [Step("pin", state=state.pk)], by=world.by, base_version=1)
    drawn = Map(ground(world))
    points = {point.id: point for point in drawn.points()}
    pin = next(point for point in points.values() if point.kind == "pin")
    assert pin.x == pytest.approx(points[f"t:{state.pk}"].x)
    assert pin.text == MISS


def test_the_strip_and_its_shift(world: World) -> None:
    found = ground(world)
    strip = Map(found).strip()
    assert sorted(strip.relevant) == pytest.approx(sorted(found.margins[found.labels.relevant]))
    assert strip.shift == pytest.approx(np.mean(strip.relevant) - np.mean(strip.signals))


def test_the_maps_tag_follows_what_it_is_drawn_from(world: World) -> None:
    tags = [Map(ground(world)).etag(None), Map(ground(world)).etag(None), Map(ground(world)).etag(0.1)]
    assert tags[0] == tags[1] != tags[2]
    promote(world)
    assert Map(ground(world)).etag(None) != tags[0]
