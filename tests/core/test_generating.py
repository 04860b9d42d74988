"""Coverage-driven generation and the hunt for anti-signals, with a generator and a judge that can be read."""

import numpy as np
import pytest

from sq_core.classifier import Polarity
from sq_core.generating import Suspect, generate_until_covered, hunt_anti_signals
from sq_core.judging import Verdict


class Script:
    """Gives the listed batches one after the other, then the last one again."""

    def __init__(self, up, down):
        self.up, self.down, self.avoided = list(up), list(down), []

    def signals(self, artifact_text, count, avoid):
        self.avoided.append(tuple(avoid))
        return self.up.pop(0) if len(self.up) > 1 else self.up[0]

    def anti_signals(self, artifact_text, count, avoid):
        return self.down.pop(0) if len(self.down) > 1 else self.down[0]


def embed(texts):
    """A text is its angle in degrees, as "+10" or "-170"."""
    angles = np.radians([float(text) for text in texts])
    return np.column_stack((np.cos(angles), np.sin(angles)))


def test_it_ends_when_a_held_out_batch_is_told_right():
    script = Script([["0", "40"], ["20", "61", "62"]], [["180", "140"], ["160", "119"]])
    found = generate_until_covered("text", script, embed)
    assert found.reason == "covered"
    assert [(each.new, each.repeated, each.right) for each in found.rounds] == [(4, 0, None), (4, 1, 1.0)]
    # 18.2° is a cosine of .95: 62 only repeats 61
    assert found.signals == ("0", "40", "20", "61")
    assert script.avoided == [(), ("0", "40")]
    assert len(found.signals) == len(found.signal_vectors)


def test_it_ends_when_new_text_only_repeats():
    found = generate_until_covered("text", Script([["0", "0 "]], [["90"]]), embed)
    assert found.reason == "repeating"
    assert (found.signals, found.anti_signals) == (("0",), ("90",))
    assert found.rounds[1].repeated == 3


def test_it_goes_on_while_new_text_is_told_wrong():
    up = [["0"], ["120"], ["240"]]
    down = [["60"], ["180"], ["300"]]
    found = generate_until_covered("text", Script(up, down), embed, rounds=3)
    assert found.reason == "rounds"
    assert all(each.right < 0.9 for each in found.rounds[1:])
    assert found.diversity == pytest.approx((1.5, 1.5))  # three directions 120° apart: mean cosine −.5


def test_a_side_without_text_is_refused():
    with pytest.raises(ValueError, match="no usable text for a side"):
        generate_until_covered("text", Script([["0"]], [["0", " "]]), embed)


class Rule:
    """Relevant up to 30 degrees, unsure up to 40, irrelevant beyond."""

    name = "rule"

    def __init__(self):
        self.asked = []

    def judge(self, prefix, artifact_text):
        angle = abs(float(prefix[0]))
        self.asked.append(angle)
        return Verdict(5 if angle <= 30 else 3 if angle <= 40 else 1)


def suspect(angle, name="c"):
    return Suspect(name, 0, str(angle), (str(angle),), embed([str(angle)])[0])


def test_the_hunt_takes_what_fires_wrongly_and_refits():
    judge = Rule()
    hunt = hunt_anti_signals(
        "text", embed(["0", "10"]), embed(["180"]), [suspect(a) for a in (5, 35, 60, 70, 80, 175)], judge, batch=3
    )
    assert judge.asked[:3] == [5, 35, 60]  # the strongest first
    assert [each.polarity for each in hunt.judged[:3]] == [Polarity.SIGNAL, None, Polarity.ANTI_SIGNAL]
    assert 175 not in judge.asked  # never fired
    assert {each.suspect.text for each in hunt.anti_signals} <= {"60", "70", "80"}
    assert hunt.false_alarms[0] == pytest.approx(1 / 3)
    margin = embed(["60"])[0] @ hunt.fit.weights + hunt.fit.bias
    assert margin < next(each.margin for each in hunt.judged if each.suspect.text == "60")
    assert hunt.reason in ("quiet", "clean")


def test_the_hunt_keeps_to_its_budget_and_judges_a_text_once():
    judge = Rule()
    twice = [suspect(60), suspect(60, "d"), suspect(70), suspect(75), suspect(78)]
    hunt = hunt_anti_signals("text", embed(["0"]), embed(["180"]), twice, judge, budget=3, batch=3)
    assert (len(hunt.judged), hunt.reason) == (3, "budget")
    assert judge.asked == [60, 70, 75]
    assert hunt.judged[0].suspect.conversation == "c"
    assert hunt_anti_signals("text", embed(["0"]), embed(["180"]), [], judge).reason == "quiet"
    assert hunt_anti_signals("text", embed(["0"]), embed(["180"]), [suspect(3)], judge).reason == "clean"
    with pytest.raises(ValueError, match="at least 1 call"):
        hunt_anti_signals("text", embed(["0"]), embed(["180"]), [], judge, budget=0)


@pytest.mark.parametrize("score", [0, 6, 2.0, True])
def test_a_verdict_is_a_whole_number_from_1_to_5(score):
    with pytest.raises(ValueError, match="from 1 to 5"):
        Verdict(score)
