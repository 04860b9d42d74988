"""Full-text search in conversations: the same words on every engine, nothing typed is syntax, and where it says so."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from console.models import Conversation, ConversationWords
from console.services import search
from console.services.search_words import marks, sought, words
from tests import make

pytestmark = pytest.mark.django_db


def found(question: str) -> list[str]:
    rows = Conversation.objects.filter(search.matching(question), inventory__slug="tiny")
    return sorted(rows.values_list("external_id", flat=True))


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("green lamp", ["talk-4"]),
        ("LAMP green", ["talk-4"]),
        ("gree", ["talk-4"]),  # the last word is still being typed
        ("gree ", []),
        ("gree lamp", []),
        ("refund", ["talk-3"]),
        ('"cancel my order"', ["talk-1"]),
        ('"my cancel order"', []),
        ("talk-3", ["talk-3"]),
        ("zebra", []),
        ("", ["talk-1", "talk-2", "talk-3", "talk-4", "talk-5"]),
        ("?!", ["talk-1", "talk-2", "talk-3", "talk-4", "talk-5"]),
        ("money hello", ["talk-1"]),  # words of different messages
    ],
)
def test_all_words_in_any_order(world: make.World, question: str, names: list[str]) -> None:
    assert found(question) == names


def test_scripts_of_every_kind(world: make.World) -> None:
    make.conversation(
        world.inventory, "many", ["我要取消订单", "Где мой ЗАКАЗ?", "ﬁnest café", "e\u0301t\u00e9 STRAẞE", "हिन्दी में"]
    )
    for question in ("取消", "заказ", "finest", "CAFÉ", "été", "strasse", "हिन्दी"):
        assert found(question) == ["many"], question
    assert found("消取消取") == ["many"]  # characters in any order; in quotes as they stand
    assert found('"消取"') == []


HOSTILE = [
    "' OR 1=1 --",
    "a' & 'b",
    "foo:* | !bar",
    "\\",
    "%",
    "_",
    "a%b",
    "')",
    "\x00x",
    "<->",
    '"',
    '""',
    "*" * 300,
    "𝕏",
    "\ud800",
]


@pytest.mark.parametrize("question", HOSTILE)
def test_nothing_typed_is_syntax(world: make.World, question: str) -> None:
    found(question)


@given(st.text(max_size=60))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_is_typed(world: make.World, question: str) -> None:
    found(question)


@given(st.text(min_size=1, max_size=80))
@example("㉠")
@example("Foo™ and cafe\u0301, か\u3099く")
@example("i\u0307\u0345x")
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_what_is_in_a_text_is_found_and_marked_in_it(text: str) -> None:
    for word in list(words(text))[:3]:
        wanted = sought(word)
        if wanted.phrases:
            continue
        assert {w for _, _, w in marks(text, wanted)}, word


def test_a_grown_conversation_is_found_by_what_came(world: make.World) -> None:
    make.conversation(world.inventory, "grows", ["hello"])
    assert found("elephant") == []
    make.conversation(world.inventory, "grows", ["hello", "my elephant is blue"])
    assert found("elephant") == ["grows"]
    row = ConversationWords.objects.get(conversation__external_id="grows")
    assert row.upto == row.conversation.message_count == 3
    ConversationWords.objects.all().delete()
    assert search.rebuild() == 6
    assert found("elephant hello") == ["grows"]


def test_a_hit_says_where_with_what_is_sought_marked(world: make.World) -> None:
    talk = world.talks["talk-1"]
    hit = search.hits(talk.inventory, [talk], "money back")[talk.pk]
    assert (hit.user_turn, hit.own, hit.role) == (2, True, "user")
    assert [text for text, marked in hit.parts if marked] == ["money", "back"]
    assert "".join(text for text, _ in hit.parts) == "and when do I get the money back"
    agent = search.hits(talk.inventory, [talk], "let look")[talk.pk]
    assert (agent.role, agent.own, agent.user_turn) == ("assistant", False, 0)
    assert search.hits(talk.inventory, [talk], "") == {}


def test_a_long_message_is_shown_around_the_word(world: make.World) -> None:
    talk = make.conversation(world.inventory, "long", ["x " * 800 + "needle " + "y " * 800])
    hit = search.hits(talk.inventory, [talk], "needle")[talk.pk]
    text = "".join(text for text, _ in hit.parts)
    assert text.startswith("…")
    assert text.endswith("…")
    assert len(text) < 400


def test_a_huge_vocabulary_fits(world: make.World) -> None:
    make.conversation(world.inventory, "huge", [" ".join(f"w{i:09d}" for i in range(60_000)) + " öäü" * 10])
    kept = ConversationWords.objects.get(conversation__external_id="huge").words
    assert len(kept.encode()) <= search.MOST_BYTES
    assert found("w000000001") == ["huge"]
