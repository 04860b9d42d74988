"""Messages that mean something similar: to a turn, to a typed text; nearest first, nothing beyond memory or time."""

import re
from typing import Any

import numpy as np
import pytest

from console.services import caches, embed, similar, table
from console.services.inventories import current_point
from tests import make
from tests.fakes import FakeEncoder

pytestmark = pytest.mark.django_db
PAGE = "/i/tiny/similar/"


def names(found: similar.Found) -> list[tuple[str, int]]:
    return [(row.conversation.external_id, row.user_turn) for row in found.rows]


@pytest.mark.parametrize("small", [50_000, 0])
def test_nearest_first_by_the_centred_cosine_however_it_is_read(
    world: make.World, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    """From the score table, and read through in pieces."""
    monkeypatch.setattr(similar, "SMALL", small)
    monkeypatch.setattr(similar, "CHUNK", 5)
    state = world.state("talk-1", 1)
    found = similar.to_turn(world.inventory, state)
    centre = current_point(world.inventory).centre
    assert centre is not None
    states = table.state_table(world.inventory, centre)
    cosines = states.views.turns @ states.views.turns[states.positions[state.pk]]
    expected = sorted(
        ((round(float(c), 4), int(pk)) for c, pk in zip(cosines, states.state_ids, strict=True) if pk != state.pk),
        key=lambda pair: (-pair[0], -pair[1]),
    )
    assert [row.cosine for row in found.rows] == pytest.approx([c for c, _ in expected], abs=1e-4)
    assert (found.searched, found.total) == (12, 12)
    assert ("talk-1", 1) not in names(found)


def test_the_same_text_is_one_row_with_its_number(world: make.World) -> None:
    for name in ("again-1", "again-2"):
        make.conversation(world.inventory, name, ["thank you"])
    embed.embed_states(world.inventory)
    first = similar.to_text(world.inventory, "thank you").rows[0]
    assert (first.text, first.cosine, first.times) == ("thank you", pytest.approx(1.0), 3)
    assert first.conversation.external_id == "again-2"  # the newest place


def test_time_is_bounded_and_how_far_it_came_is_said(
    world: make.World, signed_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(similar, "SMALL", 0)
    monkeypatch.setattr(similar, "CHUNK", 5)
    monkeypatch.setattr(similar, "SECONDS", -1.0)
    caches.clear_all()
    found = similar.to_text(world.inventory, "cancel")
    assert (found.searched, found.total, len(found.rows)) == (5, 12, 5)
    assert "The newest 5 of 12" in signed_in(world.viewer).get(PAGE, {"q": "cancel"}).content.decode()


def test_the_page(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.viewer)
    talk = world.talks["talk-3"].public_id
    page = client.get(f"{PAGE}?turn={talk}:0").content.decode()
    assert "where is the refund for my lamp" in page
    assert len(re.findall("<li data-row", page)) == 11
    assert 'data-key="~"' in page
    assert "All 12 customer messages" in page
    typed = client.get(PAGE, {"q": "<i>refund</i>"}).content.decode()
    assert "&lt;i&gt;refund&lt;/i&gt;" in typed
    for query in (f"turn={talk}:9", f"turn={talk}:x", "turn=nobody:0", "turn=:0", "turn=1"):
        assert client.get(f"{PAGE}?{query}").status_code == 404
    assert client.get(PAGE, {"q": "x" * 5_000}).status_code == 422
    assert client.get(PAGE, {"q": "\x00"}).status_code == 200
    assert client.get(PAGE).status_code == 200
    assert signed_in(world.stranger).get(f"/i/others/similar/?turn={talk}:0").status_code == 404
    assert signed_in(world.stranger).get("/i/others/similar/?q=x").status_code == 422  # nothing fitted


def test_an_encoder_that_is_away_is_said(world: make.World, signed_in: Any, encoder: FakeEncoder) -> None:
    encoder.fail_next = 5
    answer = signed_in(world.viewer).get(PAGE, {"q": "never embedded before"})
    assert answer.status_code == 503
    assert 'role="alert"' in answer.content.decode()


def test_a_message_that_is_not_read_yet(world: make.World, signed_in: Any) -> None:
    talk = make.conversation(world.inventory, "fresh", ["hello again"])
    answer = signed_in(world.viewer).get(f"{PAGE}?turn={talk.public_id}:0")
    assert answer.status_code == 404
    assert "has not read this message yet" in answer.content.decode()


def test_links_lead_there(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.viewer)
    talk = world.talks["talk-1"].public_id
    page = client.get(f"/i/tiny/conversations/{talk}/?t=1").content.decode()
    assert f'href="/i/tiny/similar/?turn={talk}:1" id="turn-similar" data-key="~"' in page
    assert f'href="/i/tiny/similar/?turn={talk}:0" id="similar-0"' in page
    assert 'formaction="/i/tiny/similar/"' in client.get("/i/tiny/conversations/").content.decode()


def test_few_queries(world: make.World, signed_in: Any, django_assert_max_num_queries: Any) -> None:
    client = signed_in(world.viewer)
    url = f"{PAGE}?turn={world.talks['talk-1'].public_id}:1"
    client.get(url)
    with django_assert_max_num_queries(12):
        client.get(url)
    assert np.isfinite(similar.to_text(world.inventory, "x").rows[0].cosine)
