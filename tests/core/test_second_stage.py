"""The second stage only takes away, only by a clear no, and keeps everything when it fails or is late."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sq_core.artifact import Artifact
from sq_core.bundle import Discovery, Label, Mode, OperatingPoint
from sq_core.conversation import Message
from sq_core.expiry import Expiry
from sq_core.judging import Verdict
from sq_core.pins import PinState
from sq_core.second_stage import JudgeStage, SecondStage, StageAnswer, ask
from tests import own_loop
from tests.core.toy import ON_X, ON_Y, ToyEncoder, X, artifact, bundle, said


class Says:
    """A stage that answers from a table and remembers what it was asked."""

    name = "table"

    def __init__(self, scores: Mapping[str, int] | None = None, error: Exception | None = None) -> None:
        self.scores, self.error = scores or {}, error
        self.asked: list[tuple[list[str], list[str]]] = []

    def verdicts(self, prefix: Sequence[Message], survivors: Sequence[Artifact]) -> Mapping[str, Verdict]:
        self.asked.append(([m.content for m in prefix], [a.key for a in survivors]))
        if self.error:
            raise self.error
        return {key: Verdict(score) for key, score in self.scores.items()}


class Waits(Says):
    """A stage that answers too late, once `go` is set."""

    def __init__(self) -> None:
        super().__init__({"on-x": 1})
        self.go = threading.Event()

    def verdicts(self, prefix: Sequence[Message], survivors: Sequence[Artifact]) -> Mapping[str, Verdict]:
        self.go.wait(10)
        return super().verdicts(prefix, survivors)


def fired(found: Discovery) -> set[str]:
    return {each.artifact for each in found.fired}


@pytest.mark.parametrize(("score", "stays"), [(1, False), (2, False), (3, True), (4, True), (5, True)])
def test_only_a_clear_no_takes_away(score: int, stays: bool) -> None:
    found = bundle().discover(said("x", "y"), second_stage=Says({"on-x": score}), all=True)
    assert ("on-x" in fired(found), "on-y" in fired(found)) == (stays, True)
    label = {o.artifact: (o.outcome, o.margin) for o in found.not_fired}.get("on-x")
    assert label == (None if stays else (Label.FILTERED_LATER, 0.5))
    assert found.second_stage is not None
    assert (found.second_stage.stage, found.second_stage.asked) == ("table", ("on-x", "on-y"))
    assert (found.second_stage.scores, found.second_stage.unjudged) == ({"on-x": score}, ("on-y",))
    assert found.second_stage.dropped == (() if stays else ("on-x",))


def test_it_sees_the_prefix_and_the_survivors_of_the_margin_alone() -> None:
    pin = PinState("p", None, np.array(X, dtype=np.float32))
    one = bundle(
        ON_X,
        replace(ON_X, key="pinned", pins=(pin,)),
        replace(ON_X, key="deaf", classifier=artifact("deaf", (0, 0, 0)).classifier, pins=(pin,)),
        replace(ON_Y, mode=Mode.ALWAYS),
        artifact("new"),
        artifact("quiet", (0, 0, 0)),
    )
    stage = Says(dict.fromkeys(one.keys, 1))
    found = one.discover([*said("x"), {"role": "assistant", "content": "not seen"}], second_stage=stage)
    assert stage.asked == [(["x"], ["on-x"])]
    assert fired(found) == {"pinned", "deaf", "on-y", "new"}  # a pinned state must fire, whoever says no


def test_dependencies_follow_from_what_remains() -> None:
    one = bundle(replace(ON_X, requires=("b",)), replace(ON_Y, requires=("on-x",)), artifact("b", (0, 0, 0)))
    assert fired(one.discover(said("x"), second_stage=Says({"on-x": 1}))) == set()
    found = one.discover(said("x", "y"), second_stage=Says({"on-x": 1}))
    assert {f.artifact: f.reason.value for f in found.fired} == {
        "on-y": "classifier",
        "on-x": "dependency",
        "b": "dependency",
    }


@pytest.mark.parametrize("error", [TimeoutError("model away"), ValueError("not JSON")])
def test_a_stage_that_fails_keeps_everything(error: Exception) -> None:
    found = bundle().discover(said("x", "y"), second_stage=Says(error=error))
    assert fired(found) == {"on-x", "on-y"}
    assert found.second_stage is not None
    assert found.second_stage.error == f"{type(error).__name__}: {error}"
    assert not found.degraded


def test_a_stage_that_answers_nonsense_keeps_everything() -> None:
    class Nonsense(Says):
        def verdicts(self, prefix: Sequence[Message], survivors: Sequence[Artifact]) -> Mapping[str, Verdict]:
            return {"on-x": 1}  # type: ignore[dict-item]

    found = bundle().discover(said("x"), second_stage=Nonsense())
    assert fired(found) == {"on-x"}
    assert found.second_stage is not None
    assert "AttributeError" in (found.second_stage.error or "")


def test_a_late_stage_keeps_everything() -> None:
    stage = Waits()
    found = bundle().discover(said("x"), second_stage=stage, second_stage_timeout=0.02)
    stage.go.set()
    assert fired(found) == {"on-x"}
    assert found.second_stage is not None
    assert found.second_stage.error == "no answer within 0.02 s"
    with pytest.raises(ValueError, match="second-stage timeout is 0"):
        bundle().discover(said("x"), second_stage=stage, second_stage_timeout=0)


def test_nothing_to_ask_asks_nothing() -> None:
    stage = Says()
    for messages in (said("hello"), [{"role": "assistant", "content": "hi"}]):
        assert bundle().discover(messages, second_stage=stage).second_stage == StageAnswer("table", ())
    assert stage.asked == []
    assert bundle().discover(said("x")).second_stage is None


def test_a_degraded_answer_does_not_reach_it() -> None:
    stage, encoder = Says({"on-x": 1}), ToyEncoder()
    encoder.away = True
    found = bundle(encoder=encoder).discover(said("x"), second_stage=stage)
    assert (found.degraded, fired(found), stage.asked) == (True, {"on-x", "on-y"}, [])


def test_the_async_twin_and_the_session_give_the_same() -> None:
    once = bundle().discover(said("x", "y"), second_stage=Says({"on-x": 1}))
    assert own_loop.run(bundle().adiscover(said("x", "y"), second_stage=Says({"on-x": 1}))) == once
    stage = Says({"on-x": 1})
    session = bundle().session(second_stage=stage)
    for message in said("x", "y"):
        session.add(message)
    assert session.discovery == session.discovery == once
    assert len(stage.asked) == 1
    stage.error = TimeoutError()
    session.add_user_turn("x")
    assert session.discovery.second_stage is not None
    stage.error = None
    assert session.discovery.second_stage.error is None  # a failure is not remembered


def test_a_dropped_artifact_still_counts_for_expiry() -> None:
    """The stage changes what is handed out at a turn, not the replay: without it the answer would depend on old calls."""
    one = bundle(point=OperatingPoint(expiry=Expiry(others=1)))
    assert one.discover(said("x", "y"), second_stage=Says({"on-y": 1})).expired == ("on-x",)


class Pairwise:
    """A judge of single pairs; texts that contain `no` score 1, `fail` raises."""

    name = "pairwise"

    def judge(self, prefix: Sequence[Message], artifact_text: str) -> Verdict:
        if "fail" in artifact_text:
            raise TimeoutError("away")
        return Verdict(1 if "no" in artifact_text else 5)


def test_a_pairwise_judge_as_a_stage() -> None:
    texts = {"a": "yes", "b": "no", "c": "fail"}
    survivors = [replace(artifact(key), text=text) for key, text in texts.items()]
    stage: SecondStage = JudgeStage(Pairwise(), workers=2)
    found = ask(stage, (), survivors)
    assert (found.scores, found.dropped, found.unjudged, found.error) == ({"a": 5, "b": 1}, ("b",), ("c",), None)
    assert ask(stage, (), survivors[2:]).error == "TimeoutError: away"
    skill = replace(artifact("d"), kind="skill", name="no way", text="yes")
    assert ask(stage, (), [skill]).dropped == ("d",)  # a skill speaks by its name too


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.sampled_from(["x", "y", "x y", "hello"]), min_size=1, max_size=4),
    st.dictionaries(st.sampled_from(["on-x", "on-y", "both", "unknown"]), st.integers(1, 5)),
    st.booleans(),
)
def test_it_never_adds_and_never_drops_more_than_it_said(log: list[str], scores: dict[str, int], fails: bool) -> None:
    one = bundle(ON_X, ON_Y, artifact("both", (0.5, 0.5, 0.1), bias=-0.45))
    plain = fired(one.discover(said(*log)))
    found = one.discover(said(*log), second_stage=Says(scores, TimeoutError() if fails else None))
    noes = set() if fails else {key for key, score in scores.items() if score <= 2}
    assert fired(found) == plain - noes
