"""The playground: what is typed stays, nothing is stored, and its figures are the score service's."""

import json
import re
import time
from html import unescape
from typing import Any

import pytest

from console.models import AuditEvent, Conversation, Exemplar, Release, Vector
from console.services import score
from console.services.errors import Invalid
from console.views import playground
from console.views.playground import Said, parse
from tests import make
from tests.fakes import FakeEncoder

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
URL = "/i/tiny/playground/"
TYPED = {"role": ["user", "assistant", "user"], "text": ["cancel my order", "Which one?", "and when do I get my money"]}


def test_lines_with_names_are_messages() -> None:
    assert parse("Customer: hello\nthere\n\nAGENT: yes?\nuser:\nbot: a: b") == [
        Said("user", "hello\nthere"),
        Said("assistant", "yes?"),
        Said("assistant", "a: b"),
    ]
    assert parse("no name\r\ngoes on") == [Said("user", "no name\ngoes on")]
    assert parse(" \n ") == []


def test_whole_and_in_part_and_empty(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.viewer)
    page = client.get(URL).content.decode()
    assert "What is selected appears here" in page
    whole, part = client.post(URL, TYPED).content.decode(), client.post(URL, TYPED, headers=HTMX).content.decode()
    assert "<html" in whole
    assert "<html" not in part
    for shown in (whole, part):
        assert shown.count("played-") >= 2
        for text in TYPED["text"]:
            assert f"\n{text}</textarea>" in shown
        assert "exemplars/preview/" not in shown  # a viewer


def test_the_bars_are_the_score_service_s(world: make.World, signed_in: Any) -> None:
    messages = [{"role": r, "content": t} for r, t in zip(TYPED["role"], TYPED["text"], strict=True)]
    expected = score.outcomes_of_messages(world.inventory, messages)
    page = signed_in(world.author).post(URL, TYPED).content.decode()
    for turn, outcomes in enumerate(expected):
        selected = {o.artifact for o in outcomes if o.fired}
        assert set(re.findall(rf'id="not-{turn}-([a-z-]+)"', page)) == selected
        assert set(re.findall(rf'id="must-{turn}-([a-z-]+)"', page)) == {o.artifact for o in outcomes} - selected


def test_nothing_is_stored(world: make.World, signed_in: Any) -> None:
    def counts() -> list[int]:
        return [model.objects.count() for model in (Conversation, Exemplar, Release, AuditEvent, Vector)]

    before = counts()
    signed_in(world.author).post(URL, TYPED)
    assert counts() == before


def test_a_pasted_conversation_becomes_messages(world: make.World, signed_in: Any) -> None:
    form = {"role": ["user"], "text": [""], "paste": "customer: cancel my order\nagent: why?\ncustomer: too late"}
    page = signed_in(world.viewer).post(URL, form).content.decode()
    assert page.count('name="text"') == 3 + 1
    assert "Message 2" in page


def test_an_encoder_that_is_away_loses_nothing(world: make.World, signed_in: Any, encoder: FakeEncoder) -> None:
    client = signed_in(world.viewer)
    for headers, status in (({}, 503), (HTMX, 200)):
        encoder.fail_next = 3
        answer = client.post(
            URL, {**TYPED, "text": ["a text not seen before", "?", "<b>and</b> another"]}, headers=headers
        )
        page = answer.content.decode()
        encoder.fail_next = 0
        assert answer.status_code == status
        assert "told to be away" in page
        assert "What you typed is still here." in page
        assert "a text not seen before</textarea>" in page
        assert "&lt;b&gt;and&lt;/b&gt; another</textarea>" in page
        assert "not selected" not in page.lower()


def test_what_cannot_be_worked_out_says_why(world: make.World, signed_in: Any, monkeypatch: Any) -> None:
    client = signed_in(world.viewer)
    answer = client.post(URL, {"role": ["assistant"], "text": ["hello"]})
    assert answer.status_code == 422
    assert "There is no customer message yet." in answer.content.decode()
    monkeypatch.setattr(playground, "MOST_CHARACTERS", 5)
    assert client.post(URL, TYPED).status_code == 422


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"paste": "a\n" * 600_000}, "has 1200000 characters; the playground takes 100000"),
        ({"paste": "user:a\n" * 1_000}, "has 1000 messages; the playground takes 200"),
        ({"role": ["user"], "text": ["x" * 100_001]}, "has 100001 characters"),
        ({"role": ["user"] * 21, "text": ["hello there"] * 21}, "has 21 customer messages; the playground takes 20"),
    ],
)
def test_what_is_too_much_is_refused_before_any_work_and_stays_in_the_form(
    world: make.World, signed_in: Any, encoder: FakeEncoder, form: dict[str, Any], words: str
) -> None:
    client = signed_in(world.viewer)
    encoder.calls.clear()
    began = time.perf_counter()
    answer = client.post(URL, form)
    assert time.perf_counter() - began < 5
    page = answer.content.decode()
    assert answer.status_code == 422
    assert words in page
    assert encoder.calls == []
    for text in (form.get("paste", ""), form.get("text", [""])[0]):
        assert text.strip() in page


def test_twenty_long_customer_messages_are_worked_out(world: make.World, signed_in: Any, encoder: FakeEncoder) -> None:
    form = {"role": ["user", "assistant"] * 20, "text": [f"{n} " + "word " * 300 for n in range(40)]}
    encoder.calls.clear()
    assert signed_in(world.viewer).post(URL, form).status_code == 200
    assert sum(map(len, encoder.calls)) == playground.MOST_READ


def test_an_encoder_that_reads_prefixes_whole_is_given_less() -> None:
    said = [{"role": "user", "content": "x" * 5_000}] * 3
    playground._check_work(said, "e:cumulative-tail")
    playground._check_work(said, "e")
    with pytest.raises(Invalid, match="has 3 customer messages; the playground takes about 1 of this length"):
        playground._check_work(said, "e:cumulative-whole")


def test_pasting_takes_linear_time() -> None:
    assert parse("user: a\n" + "b\n" * 500_000) == [Said("user", "a\n" + "\n".join("b" * 500_000))]


def test_hostile_texts_are_text(world: make.World, signed_in: Any) -> None:
    texts = [
        "</textarea><script>alert(1)</script>",
        "NUL\x00 end",
        '"}]<img src=x onerror=alert(2)>',
        "שלום 👩‍👩‍👧 \u202e",
    ]
    page = signed_in(world.author).post(URL, {"role": ["user"] * 4, "text": texts}).content.decode()
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    steps = [json.loads(unescape(v)) for v in re.findall(r'name="steps" value="([^"]*)"', page)]
    assert {step[0]["polarity"] for step in steps} == {"signal", "anti_signal"}
    assert texts[2] in {step[0]["text"] for step in steps}


def test_the_release_asked_for_decides(world: make.World, signed_in: Any) -> None:
    page = signed_in(world.viewer).post(URL, {**TYPED, "release": "live"}).content.decode()
    assert '<option value="live" selected>' in page


def test_a_button_shows_the_strip_first(world: make.World, signed_in: Any) -> None:
    """The typed message as an example written by a person: more than one line stays one example."""
    client = signed_in(world.author)
    page = client.post(URL, {"role": ["user"], "text": ["stop it\nplease"]}).content.decode()
    form = re.search(r'<form method="post" id="must-0">.*?name="steps" value="([^"]*)"', page, re.DOTALL)
    assert form
    before = Exemplar.objects.count()
    strip = client.post("/i/tiny/policies/cancel-order/exemplars/preview/", {"steps": unescape(form[1])})
    assert strip.status_code == 200
    assert "stop it\nplease" in strip.content.decode()
    assert Exemplar.objects.count() == before
