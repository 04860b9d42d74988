"""One policy per call against several, on the same pairs: how far they agree, and what each took."""

import re
from typing import Any

import pytest

from console.models import Judgement
from console.services import judge_versions, models_setting, run_work, runs
from console.services.actor import SYSTEM
from tests import scripted
from tests.make import World

URL = "/i/tiny/runs/judges/"


def text(response: Any) -> str:
    assert response.status_code == 200
    return str(response.content.decode())


@pytest.fixture
def both(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The whole log judged twice by a scripted model, three policies in one call the second time."""
    monkeypatch.setenv("OPENAI_API_KEY", "no secret")
    with scripted.serve() as server:
        models_setting.set_model(
            world.inventory, "judge", by=SYSTEM, provider="openai", model="scripted", base_url=server.base_url,
            key_name="OPENAI_API_KEY", price_in=1, price_out=4,
        )  # fmt: skip
        for per_call in (1, 3):
            run = runs.create_run(world.inventory, "judge", by=SYSTEM, params={"per_call": per_call})
            run_work.work(run.pk)
    return world


def test_the_same_pairs_stand_side_by_side_with_their_price(both: World, signed_in: Any) -> None:
    one, many = (v for v in judge_versions.versions(both.inventory) if v.judge.startswith("scripted"))
    assert {one.per_call, many.per_call} == {1, 3}
    assert (one.n, many.n) == (36, 36)
    found = judge_versions.compare(both.inventory, one, many)
    assert (found.scores.n, found.scores.percent, found.sides.percent, found.differences) == (36, 1.0, 1.0, ())
    single = one if one.per_call == 1 else many
    three = many if single is one else one
    assert judge_versions.price(both.inventory, single).calls == 36
    assert judge_versions.price(both.inventory, three).calls == 12
    page = text(signed_in(both.viewer).get(URL, {"a": single.key, "b": three.key}))
    assert re.search(r"100\s%", page)
    assert "120" in page  # tokens a pair: one call each of 100 in and 20 out
    assert "0.1800" in page  # money per 1,000 pairs: 1,000 × (100 + 4 × 20) / a million


def test_differences_are_listed_widest_first(both: World, signed_in: Any) -> None:
    one, _many = (v for v in judge_versions.versions(both.inventory) if v.judge.startswith("scripted"))
    row = Judgement.objects.filter(judge__name=one.judge, prompt_version=one.prompt, score=1).first()
    assert row is not None
    row.score = 3
    row.save()
    page = text(signed_in(both.viewer).get(URL))
    assert "Where they differ most" in page
    assert row.state.conversation.external_id in page


def test_without_two_versions_it_says_what_to_do_and_strangers_find_nothing(world: World, signed_in: Any) -> None:
    assert "Nothing to compare yet" in text(signed_in(world.author).get(URL))
    assert signed_in(world.stranger).get(URL).status_code == 404


def test_an_unknown_version_is_not_found(both: World, signed_in: Any) -> None:
    assert signed_in(both.viewer).get(URL, {"a": "nobody|1"}).status_code == 404
