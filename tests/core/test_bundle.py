"""One release decides: reasons by hand, one answer whichever way it is asked, and a file that refuses what it should."""

from __future__ import annotations

import asyncio
import hashlib
import json
import struct
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sq_core import load_bundle
from sq_core.bundle import (
    Bundle,
    BundleError,
    Discovery,
    EncoderMismatchError,
    Label,
    Mode,
    OperatingPoint,
    Outcome,
    Reason,
    select_all,
)
from sq_core.bundle_file import bundle_bytes
from sq_core.bundle_open import bundle_from_bytes
from sq_core.classifier import ViewKind
from sq_core.conversation import MessageError, messages_from_json
from sq_core.decision import ordered
from sq_core.embedding import EncoderUnavailable
from sq_core.expiry import Expiry
from sq_core.pins import PinState
from sq_core.scoring import PRESETS, Pooling, ScoringError, Views, margin
from sq_core.session import ConversationVectors, MemoryCache, Rendering
from tests import own_loop
from tests.core.toy import NEUTRAL, ON_X, ON_Y, ToyEncoder, X, Y, artifact, bundle, centre_at, exemplars, said

TURN = ViewKind.USER_TURN


def reasons(found: Discovery) -> dict[str, str]:
    return {fired.artifact: fired.reason.value for fired in found.fired}


def labels(turn: tuple[Outcome, ...]) -> dict[str, str]:
    return {outcome.artifact: outcome.outcome.value for outcome in turn}


def pin(vector: tuple[float, ...], *, cumulative: bool = False, name: str = "p1") -> PinState:
    row = np.array(vector, dtype=np.float32)
    return PinState(name, row, None) if cumulative else PinState(name, None, row)


# ------------------------------------------------------------------------------------------------------------- reasons
def test_what_fires_now_and_what_is_carried_over() -> None:
    found = bundle().discover(said("x", "hello", "y"))
    by_key = {fired.artifact: fired for fired in found.fired}
    assert reasons(found) == {"on-y": "classifier", "on-x": "carried_over"}
    assert (by_key["on-x"].margin, by_key["on-x"].cutoff, by_key["on-x"].since_turn) == (0.5, 0.0, 0)
    assert [(v.kind, v.user_turn, v.weight, v.value) for v in by_key["on-x"].views] == [(TURN, 0, 1.0, 1.0)]
    assert by_key["on-y"].since_turn == 2
    assert found.user_turn == 2


def test_a_topic_named_again_counts_as_of_now_and_since_its_first_turn() -> None:
    (fired,) = bundle(ON_X).discover(said("x", "hello", "x")).fired
    assert (fired.reason, fired.since_turn, fired.views[0].user_turn) == (Reason.CLASSIFIER, 0, 2)


def test_the_prefix_fires_by_itself_without_lasting() -> None:
    encoder = ToyEncoder({"user: a\nassistant: ok\nuser: b": X})
    one = bundle(ON_X, encoder=encoder)
    (fired,) = one.discover(said("a", "b")).fired
    assert (fired.reason, fired.since_turn, fired.views[0].kind) == (Reason.CLASSIFIER, 1, ViewKind.CUMULATIVE)
    assert one.discover(said("a", "b", "c")).fired == ()


def test_the_cut_off_is_theta_plus_offset_and_strict() -> None:
    one = bundle(artifact("on-x", X, offset=0.3), point=OperatingPoint(theta=0.2))
    assert one.discover(said("x")).fired == ()
    assert [f.cutoff for f in one.discover(said("x"), theta=0.1).fired] == [0.4]
    with pytest.raises(BundleError, match="theta"):
        one.discover(said("x"), theta=float("nan"))


def test_modes_and_artifacts_without_a_classifier() -> None:
    one = bundle(
        replace(ON_X, mode=Mode.OFF),
        replace(ON_Y, mode=Mode.ALWAYS),
        artifact("new"),
        artifact("fixed", mode=Mode.ALWAYS),
        artifact("gone", mode=Mode.OFF),
    )
    found = one.discover(said("x"), all=True)
    assert reasons(found) == {"on-y": "always", "fixed": "always", "new": "unfitted"}
    assert [f.margin for f in found.fired] == [-0.5, None, None]
    assert labels(one.outcomes(said("x"))[0]) == {
        "on-x": "off", "on-y": "always_on", "new": "unfitted", "fixed": "always_on", "gone": "off",
    }  # fmt: skip
    assert {outcome.artifact: outcome.margin for outcome in found.not_fired} == {"on-x": 0.5, "gone": None}


def test_without_a_user_turn_only_what_needs_no_margin() -> None:
    one = bundle(ON_X, replace(ON_Y, mode=Mode.ALWAYS, requires=("on-x",)), artifact("new"))
    found = one.discover([{"role": "assistant", "content": "hello"}, {"role": "user", "content": " "}])
    assert reasons(found) == {"on-y": "always", "on-x": "dependency", "new": "unfitted"}
    assert found.user_turn is None
    assert one.outcomes([{"role": "assistant", "content": "hello"}]) == ()
    with pytest.raises(MessageError):
        one.discover([])


def test_a_pin_fires_what_the_margin_does_not() -> None:
    deaf = artifact("deaf", (0, 0, 0), pins=(pin((1, 0, 0)), pin((0, 1, 0), name="p2")))
    one = bundle(deaf)
    first = one.discover(said("x")).fired[0]
    assert (first.reason, first.pin, first.since_turn, first.margin) == (Reason.PIN, "p1", 0, -0.5)
    later = one.discover(said("hello", "y", "hello")).fired[0]
    assert (later.reason, later.pin, later.since_turn) == (Reason.PIN, "p2", 1)
    assert one.discover(said("hello")).fired == ()


def test_a_pin_beside_a_margin_that_fires_is_not_the_reason() -> None:
    (fired,) = bundle(replace(ON_X, pins=(pin((1, 0, 0)),))).discover(said("x")).fired
    assert (fired.reason, fired.pin) == (Reason.CLASSIFIER, None)


def test_a_pinned_prefix_matches_the_present_prefix_alone() -> None:
    one = bundle(
        artifact("deaf", (0, 0, 0), pins=(pin((1, 0, 0), cumulative=True),)), encoder=ToyEncoder({"user: a": X})
    )
    assert [labels(turn)["deaf"] for turn in one.outcomes(said("a", "b"))] == ["fired_by_pin", "not_fired"]


def test_dependencies_act_last_and_name_who_pulled() -> None:
    one = bundle(
        replace(ON_X, requires=("b", "on-y")),
        replace(ON_Y, mode=Mode.OFF),
        artifact("b", (0, 0, 1), bias=-2, entails=("c", "unknown")),
        artifact("c"),
        artifact("d", (0, 0, 0), entails=("on-x",)),
    )
    found = one.discover(said("x"))
    assert [(f.artifact, f.reason.value, f.via, f.margin) for f in found.fired] == [
        ("on-x", "classifier", None, 0.5), ("b", "dependency", "on-x", -1.0), ("c", "unfitted", None, None),
    ]  # fmt: skip
    assert labels(one.outcomes(said("hello"))[0])["b"] == "not_fired"


def test_fired_is_ordered_by_reason_then_margin_then_key() -> None:
    keys = ["z-always", "b", "a", "weak", "late"]
    one = bundle(
        artifact("weak", X, bias=-0.9),
        artifact("a", X),
        artifact("b", X),
        artifact("late"),
        artifact("z-always", mode=Mode.ALWAYS),
    )
    assert [f.artifact for f in one.discover(said("x")).fired] == ["z-always", "a", "b", "weak", "late"]
    assert len(keys) == len(one.keys)


def test_age_and_windows_let_go() -> None:
    aged = bundle(ON_X, point=OperatingPoint(pooling=Pooling(age_discount=0.3)))
    assert [labels(turn)["on-x"] for turn in aged.outcomes(said("x", "a", "b"))] == [
        "fired",
        "carried_over",
        "not_fired",
    ]
    assert aged.outcomes(said("x", "a"))[1][0].margin == 0.2
    latest = bundle(ON_X, point=OperatingPoint(pooling=PRESETS["cumulative+latest"]))
    assert [labels(turn)["on-x"] for turn in latest.outcomes(said("x", "a"))] == ["fired", "not_fired"]
    whole = bundle(ON_X, point=OperatingPoint(pooling=PRESETS["cumulative"]), encoder=ToyEncoder({"user: x": X}))
    assert [labels(turn)["on-x"] for turn in whole.outcomes(said("x", "x"))] == ["fired", "not_fired"]
    turns = bundle(ON_X, point=OperatingPoint(pooling=PRESETS["max-over-turns"]), encoder=ToyEncoder({"user: a": X}))
    assert turns.discover(said("a")).fired == ()


def test_the_mean_has_no_turn_of_its_own() -> None:
    one = bundle(artifact("on-x", X, bias=-0.3), point=OperatingPoint(pooling=Pooling(mode="mean", cumulative=False)))
    first, second, third = one.outcomes(said("x", "a", "a"))
    assert [turn[0].outcome for turn in (first, second, third)] == [Label.FIRED, Label.FIRED, Label.FIRED]
    assert second[0].since_turn == 1
    assert [(v.user_turn, v.weight) for v in second[0].views] == [(1, 0.5), (0, 0.5)]
    assert third[0].margin == pytest.approx(1 / 3 - 0.3, abs=1e-6)


# -------------------------------------------------------------------------------------------------------------- expiry
EXPIRING = OperatingPoint(expiry=Expiry(others=1))


def test_expiry_is_replayed_from_the_messages() -> None:
    one = bundle(point=EXPIRING)
    log = said("x", "y", "hello", "x", "hello")
    assert [labels(turn) for turn in one.outcomes(log)] == [
        {"on-x": "fired", "on-y": "not_fired"},
        {"on-x": "expired", "on-y": "fired"},
        {"on-x": "expired", "on-y": "carried_over"},
        {"on-x": "fired", "on-y": "expired"},
        {"on-x": "carried_over", "on-y": "expired"},
    ]
    found = one.discover(log)
    assert [(f.artifact, f.since_turn) for f in found.fired] == [("on-x", 3)]
    assert found.expired == ("on-y",)


def test_the_prefix_never_re_admits_but_a_pin_of_the_turn_itself_does() -> None:
    whole = {"user: x\nassistant: ok\nuser: y\nassistant: ok\nuser: z": X}
    log = said("x", "y", "z")
    assert labels(bundle(point=EXPIRING, encoder=ToyEncoder(whole)).outcomes(log)[2])["on-x"] == "expired"
    pinned = replace(ON_X, pins=(pin((0, 0, 1)),))
    again = bundle(pinned, ON_Y, point=EXPIRING, encoder=ToyEncoder(whole)).outcomes(log)[2]
    assert labels(again)["on-x"] == "fired"


def test_always_neither_expires_nor_pushes_others_out() -> None:
    one = bundle(ON_X, replace(ON_Y, mode=Mode.ALWAYS), point=EXPIRING)
    assert labels(one.outcomes(said("x", "y"))[1]) == {"on-x": "carried_over", "on-y": "always_on"}


def test_an_expired_artifact_that_another_requires_is_a_dependency() -> None:
    one = bundle(ON_X, replace(ON_Y, requires=("on-x",)), point=EXPIRING)
    found = one.discover(said("x", "y"))
    assert reasons(found) == {"on-y": "classifier", "on-x": "dependency"}
    assert found.expired == ()
    assert found.fired[1].since_turn is None


def test_expiry_needs_every_prefix() -> None:
    vectors = ConversationVectors(np.ones((1, 3), dtype=np.float32), np.ones((2, 3), dtype=np.float32))
    with pytest.raises(ScoringError, match="every prefix"):
        bundle(point=EXPIRING).outcomes(vectors)


# -------------------------------------------------------------------------------------- one answer however it is asked
POINTS = st.builds(
    OperatingPoint,
    theta=st.sampled_from([-0.3, 0.0, 0.2]),
    pooling=st.sampled_from([*PRESETS.values(), Pooling(mode="mean"), Pooling(mode="mean", last=2, age_discount=0.2)]),
    expiry=st.builds(Expiry, others=st.none() | st.integers(1, 2), turns=st.none() | st.integers(1, 3)),
)
LOGS = st.lists(st.sampled_from(["x", "y", "x y", "hello", "z"]), min_size=1, max_size=7)
SECOND = artifact("both", (0.5, 0.5, 0.1), bias=-0.45, offset=0.05)
PREFIXES = {"user: x": Y, "user: x\nassistant: ok\nuser: hello": Y, "user: y\nassistant: ok\nuser: y": X}
WORLD = (
    replace(ON_X, pins=(pin((0, 0, 1)),)),
    replace(ON_Y, entails=("both",)),
    SECOND,
    artifact("new"),
    artifact("off", X, mode=Mode.OFF),
)


@settings(deadline=None, max_examples=60)
@given(LOGS, POINTS)
def test_discover_is_the_last_row_of_outcomes_and_sessions_change_nothing(
    log: list[str], point: OperatingPoint
) -> None:
    one = bundle(*WORLD, point=point, encoder=ToyEncoder(PREFIXES))
    messages = said(*log)
    rows = one.outcomes(messages)
    assert len(rows) == len(log)
    session, cache = one.session(), MemoryCache()
    for turn, text in enumerate(log):
        if turn:
            session.add_assistant_turn("ok")
        session.add_user_turn(text)
        found = one.discover(said(*log[: turn + 1]), all=True)
        assert found.fired == ordered(rows[turn])
        assert set(found.expired) == {o.artifact for o in rows[turn] if o.outcome is Label.EXPIRED}
        assert found.not_fired == tuple(o for o in rows[turn] if not o.fired)
        assert session.fired == found.fired
        assert one.discover(said(*log[: turn + 1]), turn_cache=cache).fired == found.fired
        as_json = json.dumps([f.to_json() for f in found.fired], allow_nan=False)
        assert as_json == json.dumps([f.to_json() for f in session.fired])


@settings(deadline=None, max_examples=40)
@given(LOGS, POINTS)
def test_outcomes_carry_the_one_margin_and_views_give_the_same(log: list[str], point: OperatingPoint) -> None:
    encoder = ToyEncoder(PREFIXES)
    one = bundle(*WORLD, point=point, encoder=encoder)
    rows = one.outcomes(said(*log))
    turns = encoder.encode(log)
    whole = encoder.encode(
        ["\nassistant: ok\n".join(f"user: {text}" for text in log[: t + 1]) for t in range(len(log))]
    )
    vectors = ConversationVectors(one.centre_and_normalise(whole), one.centre_and_normalise(turns))
    states = [vectors.views(turn) for turn in range(len(log))]
    assert one.outcomes(vectors) == rows == one.outcomes(states)
    if log:
        part = one.outcomes(vectors, turns={len(log) - 1})
        assert part[-1] == rows[-1]
        for few, every in zip(part, rows, strict=True):  # of the others what fires or has expired
            assert [o for o in few if o.fired] == [o for o in every if o.fired]
            assert set(few) <= set(every)
    for turn, outcomes in enumerate(rows):
        plain = one.margins(states[turn])
        for outcome, kept, number in zip(outcomes, one.artifacts, plain, strict=True):
            if kept.classifier is None:
                assert np.isnan(number)
                continue
            alone = margin(kept.classifier, states[turn], point.pooling)
            assert outcome.margin == alone.value == number
            assert sorted(outcome.views, key=str) == sorted(alone.views, key=str)


def test_a_plain_array_is_user_turns_under_the_max() -> None:
    one = bundle(point=OperatingPoint(pooling=PRESETS["cumulative"]))
    assert one.margins(np.array([X, Y])).tolist() == [0.5, 0.5]
    assert one.margins(np.array([X])).tolist() == [0.5, -0.5]
    assert bundle(artifact("new")).margins(np.array([X])).shape == (1,)


def test_outcomes_without_a_turn_and_states_with_a_missing_view() -> None:
    nothing = np.empty((0, 3), dtype=np.float32)
    assert bundle().outcomes(ConversationVectors(nothing, nothing)) == ()
    with pytest.raises(ScoringError, match="state 0 has 0 cumulative views"):
        bundle().outcomes([Views.of_turns(np.array([X]))])
    with pytest.raises(ScoringError, match="no states"):
        ConversationVectors.of_views([])
    with pytest.raises(ScoringError, match="1 ≤ S"):
        ConversationVectors(np.ones((2, 3), dtype=np.float32), np.ones((1, 3), dtype=np.float32))


def test_messages_may_be_records_and_tool_results_may_be_rendered() -> None:
    encoder = ToyEncoder({"user: a\ntool: r\nuser: b": X, "user: a\nuser: b": Y})
    log = [{"role": "user", "content": "a"}, {"role": "tool", "content": "r"}, {"role": "user", "content": "b"}]
    read = messages_from_json(log)
    assert reasons(bundle(encoder=encoder).discover(read)) == {"on-y": "classifier"}
    shown = bundle(encoder=encoder, rendering=Rendering(tool_results=True))
    assert reasons(shown.discover(read)) == {"on-x": "classifier"}


def test_only_the_prefix_and_the_turns_are_embedded_and_the_cache_spares_the_rest() -> None:
    encoder = ToyEncoder()
    one = bundle(encoder=encoder)
    cache: dict[str, Any] = {}
    one.discover(said("x", "y"), turn_cache=cache)
    assert encoder.encoded == ["x", "y", "user: x\nassistant: ok\nuser: y"]
    encoder.encoded.clear()
    one.discover(said("x", "y", "x"), turn_cache=cache)
    assert encoder.encoded == ["user: x\nassistant: ok\nuser: y\nassistant: ok\nuser: x"]
    one.discover(said("x", "y", "x"), turn_cache=cache)
    assert len(encoder.encoded) == 1


def test_a_very_long_conversation() -> None:
    log = said(*["hello"] * 4999, "x")
    assert reasons(bundle().discover(log)) == {"on-x": "classifier"}


# ------------------------------------------------------------------------------------------------ failure and identity
def test_when_the_encoder_is_away_everything_is_selected() -> None:
    encoder = ToyEncoder()
    encoder.away = True
    one = bundle(ON_X, replace(ON_Y, mode=Mode.ALWAYS), artifact("gone", X, mode=Mode.OFF), encoder=encoder)
    found = one.discover(said("hello"))
    assert reasons(found) == {"on-y": "always", "on-x": "unfitted"}
    assert found.degraded
    assert found.error is not None
    assert "away" in found.error
    assert found == select_all(one, found.error)
    with pytest.raises(EncoderUnavailable):
        one.discover(said("hello"), on_failure="raise")
    with pytest.raises(EncoderUnavailable):
        one.outcomes(said("hello"))
    assert not one.discover([{"role": "assistant", "content": "hi"}]).degraded


def test_another_encoder_is_refused_even_when_failures_are_not() -> None:
    with pytest.raises(EncoderMismatchError, match=r"'toy'.*'other'"):
        bundle().discover(said("x"), encoder=ToyEncoder(id="other"))


def test_the_local_encoder_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    one = bundle(encoder=None)
    one._encoder = None
    monkeypatch.setattr("sq_core.bundle.local_encoder", ToyEncoder)
    assert reasons(one.discover(said("x"))) == {"on-x": "classifier"}
    assert one._encoder is not None


def test_local_encoder_asks_for_minilm(monkeypatch: pytest.MonkeyPatch) -> None:
    from sq_core import bundle as module

    monkeypatch.setattr("sq_core.encoders.get_encoder", lambda name: name)
    assert module.local_encoder() == "minilm"  # type: ignore[comparison-overlap]


def test_a_text_on_the_centre_says_nothing() -> None:
    one = Bundle(
        encoder_id="toy",
        centre=centre_at(X),
        operating_point=OperatingPoint(),
        artifacts=[artifact("on-x", X, bias=0.25)],
        encoder=ToyEncoder(),
    )
    outcome = one.outcomes(said("x"))[0][0]
    assert outcome.margin == 0.25
    assert (outcome.views[0].kind, outcome.views[0].value) == (TURN, 0.0)


def test_adiscover_does_not_block_the_loop() -> None:
    release = threading.Event()

    class Slow(ToyEncoder):
        def encode(self, texts: Any) -> Any:
            assert release.wait(5)
            return super().encode(texts)

    async def main() -> Discovery:
        task = asyncio.create_task(bundle(encoder=Slow()).adiscover(said("x")))
        await asyncio.sleep(0.01)
        release.set()  # reached only because the loop is free
        return await task

    assert reasons(own_loop.run(main())) == {"on-x": "classifier"}


def test_bad_bundles() -> None:
    with pytest.raises(BundleError, match="same key"):
        bundle(ON_X, ON_X)
    with pytest.raises(BundleError, match="weights has shape"):
        bundle(artifact("short", (1.0,)))
    with pytest.raises(BundleError, match="pin p1"):
        bundle(replace(ON_X, pins=(pin((1, 0)),)))
    with pytest.raises(BundleError, match="exemplar e0"):
        bundle(replace(ON_X, exemplars=exemplars((1, 0), alphas=[1])))
    with pytest.raises(BundleError, match="no artifact 'nobody'"):
        bundle().artifact("nobody")
    with pytest.raises(ScoringError, match="same last dimension"):
        bundle().outcomes(ConversationVectors(np.ones((1, 2), dtype=np.float32), np.ones((1, 2), dtype=np.float32)))
    with pytest.raises(ScoringError, match="NaN"):
        bundle().margins(np.full((1, 3), np.nan))


def test_prompt_block_holds_whole_texts() -> None:
    long = replace(ON_X, text="line\n" * 5000)
    one = bundle(long, replace(ON_Y, mode=Mode.ALWAYS, kind="skill"))
    found = one.discover(said("x"))
    block = one.prompt_block(found)
    assert block.startswith("--- begin skill: on-y ---\nOn-Y\n\nThe on-y text.\n--- end skill: on-y ---\n\n")
    assert long.text in block
    assert one.prompt_block(found.fired[:0]) == ""


# ------------------------------------------------------------------------------------------------------------- explain
EXPLAINED = replace(ON_X, exemplars=exemplars(X, Y, alphas=[1.0, -0.5]))  # w = x - y/2 in its exemplars' span


def test_explain_splits_the_margin_over_the_exemplars() -> None:
    fitted = artifact("on-x", (1.0, -0.5, 0.0), exemplars=EXPLAINED.exemplars)
    told = bundle(fitted).explain(said("x", "y"), "on-x")
    assert told.outcome.reason is Reason.CARRIED_OVER
    assert [(term.index, term.value) for term in told.attribution.terms] == [(0, 1.0), (1, 0.0)]
    assert (told.attribution.total, told.attribution.residual, told.margin.value) == (0.5, 0.0, 0.5)
    assert [term.value for term in told.margin.all_values] == [1.0, -0.5, 0.0]
    earlier = bundle(fitted).explain(said("y", "x"), "on-x", turn=0)
    assert (earlier.margin.value, earlier.attribution.total) == (-0.5, -0.5)
    assert earlier.margin.views[0].kind is ViewKind.CUMULATIVE


def test_explaining_the_last_turn_encodes_no_earlier_prefix_unless_expiry_reads_it() -> None:
    fitted, talk = artifact("on-x", (1.0, -0.5, 0.0), exemplars=EXPLAINED.exemplars), said("x", "y", "x y")
    for point, prefixes in ((OperatingPoint(), 1), (OperatingPoint(expiry=Expiry(turns=9)), 3)):
        encoder = ToyEncoder()
        told = bundle(fitted, point=point).explain(talk, "on-x", encoder=encoder)
        assert sum(":" in text for text in encoder.encoded) == prefixes
        assert told.outcome == bundle(fitted, point=point).outcomes(talk)[-1][0]


@pytest.mark.parametrize(
    "pooling", [Pooling(mode="mean", age_discount=0.2), Pooling(age_discount=0.2, cumulative=False)]
)
def test_explained_terms_sum_to_the_margin_under_any_pooling(pooling: Pooling) -> None:
    fitted = artifact("on-x", (1.0, -0.5, 0.0), exemplars=EXPLAINED.exemplars)
    told = bundle(fitted, point=OperatingPoint(pooling=pooling)).explain(said("x", "x y", "z"), "on-x")
    assert told.attribution.residual == pytest.approx(0.0, abs=1e-6)


def test_what_cannot_be_explained_says_why() -> None:
    one = bundle(ON_X, EXPLAINED.__class__("new", "New", "text"), replace(EXPLAINED, key="told"))
    for key, turn, message in (
        ("nobody", None, "no artifact"),
        ("new", None, "no classifier"),
        ("on-x", None, "with exemplars"),
        ("told", 1, "1 user turns"),
        ("told", -1, "1 user turns"),
    ):
        with pytest.raises(BundleError, match=message):
            one.explain(said("x"), key, turn=turn)
    with pytest.raises(BundleError, match="0 user turns"):
        one.explain([{"role": "assistant", "content": "hi"}], "told")


# ---------------------------------------------------------------------------------------------------------------- file
def full() -> Bundle:
    pinned = replace(
        ON_X, pins=(pin((0, 0, 1)), pin((0, 1, 0), cumulative=True, name="p2")), exemplars=EXPLAINED.exemplars
    )
    return bundle(
        pinned,
        replace(ON_Y, kind="skill", requires=("on-x",), entails=("new",), metadata={"C": 1.0, "exemplars": ["d1"]}),
        artifact("new", mode=Mode.ALWAYS),
        point=OperatingPoint(0.1, Pooling(last=2), Expiry(others=4), 0.95, calibrated=True),
        release=7,
        inventory="sky",
        rendering=Rendering(tool_results=True),
        metadata={"numpy": "2.4", "θ": "é"},
    )


def test_a_file_gives_back_the_same_bundle(tmp_path: Path) -> None:
    one, path = full(), tmp_path / "sky.sqb"
    one.save(path)
    again = load_bundle(path, encoder=ToyEncoder())
    assert [p.name for p in tmp_path.iterdir()] == ["sky.sqb"]
    assert again.operating_point == one.operating_point
    assert (again.release, again.inventory, again.metadata) == (7, "sky", {"numpy": "2.4", "θ": "é"})
    assert (again.rendering, again.centre, again.keys) == (one.rendering, one.centre, one.keys)
    assert again.artifacts[0].exemplars is None
    assert again.artifacts[1].metadata == {"C": 1.0, "exemplars": ["d1"]}
    for log in (said("x", "y"), said("hello"), said("y", "x y", "z", "z")):
        assert again.outcomes(log) == one.outcomes(log)
    assert bundle_bytes(again) == path.read_bytes()


def test_exemplars_travel_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "sky.sqb"
    full().save(path, with_exemplars=True)
    told = load_bundle(path, encoder=ToyEncoder()).explain(said("x"), "on-x")
    assert [e.text for e in told.exemplars] == ["text 0", "text 1"]
    assert not any(e.vector.flags.owndata for e in told.exemplars)  # mapped, not read


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sky.sqb"
    path.write_bytes(b"old")

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        full().save(path)
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(BundleError, match="metadata"):
        bundle(metadata={"bad": float("nan")}).save(path)


def resealed(data: bytes, old: bytes, new: bytes, *, after: bytes = b"") -> bytes:
    """`data` with its manifest changed and the checksum made to match: what only the content's own checks can find.

    `after` stands before the centre, for what the manifest then no longer describes.
    """
    length = struct.unpack_from("<8sIQ", data)[2]
    manifest = data[20 : 20 + length]
    assert old in manifest
    manifest = manifest.replace(old, new)
    body = struct.pack("<8sIQ", b"SQBUNDLE", 2, len(manifest)) + manifest + after + data[20 + length : -32]
    return body + hashlib.sha256(body).digest()


def rewritten(data: bytes, old: bytes, new: bytes) -> bytes:
    """`data` with the first `old` replaced by as many bytes, checksum made to match. Weights stand before vectors."""
    at = data.index(old)
    assert len(old) == len(new)
    body = data[:at] + new + data[at + len(old) : -32]
    return body + hashlib.sha256(body).digest()


def test_files_that_are_refused_say_why() -> None:
    data = bundle_bytes(full(), with_exemplars=True)
    flipped = bytearray(data)
    flipped[-100] ^= 1
    weights = np.array(X, dtype="<f4").tobytes() + np.array(Y, dtype="<f4").tobytes()
    cases = {
        "not a bundle": (b"", b"PK\x03\x04 something", b"SQBUNDLF" + data[8:]),
        "truncated": (data[:5], data[:-1], data[:19], data[:200], data[:-40], bytes(flipped), data + b"x"),
        "format 3, .* update this program": (data[:8] + b"\x03" + data[9:],),
        "format 1, .* export it again": (data[:8] + b"\x01" + data[9:],),
        "renderer 9": (
            resealed(
                data, b'"renderer":{"tool_results":true,"user_only":false,"version":1}', b'"renderer":{"version":9}'
            ),
        ),
        "its centre is": (resealed(data, full().centre.digest.encode(), b"0" * 64),),
        "disagree": (
            resealed(data, b'"dimension":3', b'"dimension":4'),
            resealed(data, b'"vectors":4', b'"vectors":400'),
            resealed(data, b'"vectors":4', b'"vectors":-1'),
            resealed(data, b'"vectors":4', b'"vectors":4', after=bytes(8)),
        ),
        "manifest cannot be read": (
            resealed(data, b'"theta":0.1', b'"theto":0.1'),
            resealed(data, b'"always"', b'"often"'),
            resealed(data, b'"versions":[1,1,null]', b'"versions":[1,1]'),
            resealed(data, b'"fitted":[0,1]', b'"fitted":[1,0]'),
            resealed(data, b'"fitted":[0,1]', b'"fitted":[1,3]'),
        ),
        "weights of artifact on-y hold NaN": (
            rewritten(data, weights, weights[:12] + np.full(3, np.nan, dtype="<f4").tobytes()),
        ),
    }
    for reason, files in cases.items():
        for file in files:
            with pytest.raises(BundleError, match=reason):
                bundle_from_bytes(file, "sky.sqb")
    assert bundle_from_bytes(data, "sky.sqb").keys == ("on-x", "on-y", "new")


def test_a_record_that_is_wrong_is_refused_when_its_artifact_is_asked_for() -> None:
    data = bundle_bytes(full())
    weights, moved_weights = (np.array([X, row], dtype="<f4").tobytes() for row in (Y, NEUTRAL))
    moved = bundle_from_bytes(rewritten(data, weights, moved_weights), "sky.sqb")
    broken = bundle_from_bytes(rewritten(data, b'"name":"On-Y"', b'"nome":"On-Y"'), "sky.sqb")
    assert moved.artifact("on-x").name == broken.artifact("on-x").name == "On-X"
    with pytest.raises(BundleError, match="on-y: its weights are not"):
        moved.artifact("on-y")
    with pytest.raises(BundleError, match="record of on-y cannot be read"):
        broken.artifact("on-y")


def test_a_file_in_use_is_replaced_beside_it_and_empty_ones_are_none(tmp_path: Path) -> None:
    path = tmp_path / "sky.sqb"
    bundle(ON_X).save(path)
    old = load_bundle(path, encoder=ToyEncoder())
    bundle(ON_Y).save(path)
    assert (old.keys, load_bundle(path).keys) == (("on-x",), ("on-y",))
    assert reasons(old.discover(said("x"))) == {"on-x": "classifier"}
    path.write_bytes(b"")
    with pytest.raises(BundleError, match="not a bundle"):
        load_bundle(path)


def test_bundles_without_classifiers_or_without_artifacts(tmp_path: Path) -> None:
    path = tmp_path / "sky.sqb"
    bundle(artifact("new")).save(path)
    assert reasons(load_bundle(path, encoder=ToyEncoder()).discover(said("x"))) == {"new": "unfitted"}
    nothing = Bundle(encoder_id="toy", centre=centre_at(X), operating_point=OperatingPoint(), artifacts=())
    nothing.save(path)
    assert load_bundle(path, encoder=ToyEncoder()).discover(said("x")).fired == ()


def test_a_large_bundle_opens_as_columns_over_the_file(tmp_path: Path) -> None:
    """Neither its weights nor its texts are copied, and a turn builds only what fires."""
    rng, path, many, dimension = np.random.default_rng(0), tmp_path / "large.sqb", 3000, 96
    weights = rng.normal(size=(many, dimension)).astype(np.float32)
    Bundle(
        encoder_id="large",
        centre=centre_at([0.0] * dimension),
        operating_point=OperatingPoint(theta=40.0),
        artifacts=[artifact(f"a{n}", row, bias=float(n % 7)) for n, row in enumerate(weights)],
    ).save(path)
    tracemalloc.start()
    one = load_bundle(path)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held < 0.75 * weights.nbytes
    assert not one.columns.weights.flags.owndata
    assert not one.columns.weights.flags.writeable
    views = rng.normal(size=(4, dimension)).astype(np.float32) / 4
    exact = one.margins(views)
    assert exact == pytest.approx((weights @ views.T).max(axis=1) + np.arange(many) % 7, abs=1e-4)
    scored = one.turn_scorer(5.0)(views)
    assert (scored.fired == (exact > 5.0)).all()
    assert [one.artifacts[-1].key, *(a.key for a in one.artifacts[:2])] == [f"a{many - 1}", "a0", "a1"]


@settings(deadline=None, max_examples=40)
@given(LOGS, POINTS)
def test_export_and_load_change_no_margin_and_no_outcome(log: list[str], point: OperatingPoint) -> None:
    one = bundle(*WORLD, point=point, encoder=ToyEncoder(PREFIXES))
    again = bundle_from_bytes(bundle_bytes(one), "sky.sqb").with_encoder(ToyEncoder(PREFIXES))
    assert again.outcomes(said(*log)) == one.outcomes(said(*log))
    assert again.discover(said(*log), all=True) == one.discover(said(*log), all=True)
    assert again.margins(np.array([X, Y])).tobytes() == one.margins(np.array([X, Y])).tobytes()
    assert bundle_bytes(again) == bundle_bytes(one)


def test_other_encoder_and_other_centre_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "sky.sqb"
    full().save(path)
    with pytest.raises(EncoderMismatchError, match="fitted with encoder 'toy'"):
        load_bundle(path, encoder=ToyEncoder(id="other"))
    with pytest.raises(BundleError, match="expected 00"):
        load_bundle(path, centre_digest="00")
    assert load_bundle(path, centre_digest=full().centre.digest)._encoder is None
    with pytest.raises(FileNotFoundError):
        load_bundle(tmp_path / "nothing.sqb")


def test_nothing_of_one_artifact_depends_on_another() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(30, 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    fitted = [artifact(f"a{n}", rng.normal(size=3).tolist(), bias=float(rng.normal())) for n in range(40)]
    log = ConversationVectors(vectors[:15], vectors[15:])
    alone = [bundle(one).outcomes(log) for one in fitted]
    together = bundle(*fitted).outcomes(log)
    for place, rows in enumerate(alone):
        assert [row[0] for row in rows] == [row[place] for row in together]
