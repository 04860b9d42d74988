"""Bundles from outside, and plans from outside: what is made up, or asked for too much, is refused with its place."""

import json

import pytest

from sq_core.evaluation.recipes import RECIPES
from sq_core.evidence.bundle import HEAD, BundleError, read_bundle
from sq_core.evidence.plan import PlanError
from sq_core.evidence.shipped import TEXT_LIMIT, plan_from_outside, shipped_plans
from sq_core.evidence.verifying import verify
from tests.evidence_toy import SHORT, edited, files, trace_bundle


def test_a_measured_bundle_is_what_it_says():
    bundle = read_bundle(files())
    verify(bundle)
    assert bundle.files() == trace_bundle().files()


@pytest.mark.parametrize(
    ("name", "said"),
    [(HEAD, "bundle.json is missing"), ("rows.csv", "rows.csv is missing")],
)
def test_a_file_that_is_missing_is_named(name, said):
    given = files()
    del given[name]
    with pytest.raises(BundleError, match=said):
        read_bundle(given)


def test_a_changed_byte_and_another_way_of_writing_the_head_are_refused():
    with pytest.raises(BundleError, match=r"claims\.json is not what was written"):
        read_bundle(files() | {"claims.json": b"[]\n"})
    head = json.loads(files()[HEAD])
    with pytest.raises(BundleError, match="not as it was written"):
        read_bundle(files() | {HEAD: json.dumps(head).encode()})
    for broken in (b"", b"[]", b"\xff", b"[" * 100_000):
        with pytest.raises(BundleError, match="no head of a bundle"):
            read_bundle(files() | {HEAD: broken})


def better(cards):
    cards[0]["mrr"] = cards[0]["coverage"] * 0.99


def above(cards):
    card = next(card for card in cards if card["world"] == "train_split")
    card["mrr"] = 1.0


def without_coverage(cards):
    del cards[0]["coverage"]


def supported(claims):
    for claim in claims:
        claim["verdict"] = "supported" if claim["verdict"] != "supported" else "not supported"


FORGED = [
    ("scorecards", better, "its figures are not those of rows.csv"),
    ("scorecards", above, "exceeds its coverage"),
    ("scorecards", without_coverage, r"scorecards\[0\]\.coverage: expected a number"),
    ("scorecards", lambda cards: cards[0].update(recall_at=[[1, "x"]]), "expected a number"),
    ("scorecards", lambda cards: cards[0].update(rows=-1), "expected a count"),
    ("scorecards", lambda cards: cards.append(dict(cards[0])), "twice in one world"),
    ("scorecards", lambda cards: cards.clear(), "there is none"),
    ("scorecards", lambda cards: cards.insert(0, 7), "expected an object"),
    ("claims", supported, "its checks say"),
    ("claims", lambda claims: claims[0].update(requires=["nowhere"]), "no check is called"),
    ("claims", lambda claims: claims[0].update(permits="all"), "expected a list"),
    ("checks", lambda checks: checks[0].update(outcome="surely"), "expected holds, fails or not run"),
    ("checks", lambda checks: checks[0].update(kind="row-level"), "no kind is called"),
    ("checks", lambda checks: checks.append(dict(checks[0])), "an id is there twice"),
    ("checks", lambda checks: checks[7]["figures"]["matrix"][0].pop("coverage"), "no cell of a transfer matrix"),
    ("checks", lambda checks: checks[8]["figures"]["far"]["scorecards"][0].pop("coverage"), "expected a number"),
    ("comparisons", lambda rows: rows[0]["comparison"].pop("by_group"), "both clusterings"),
    ("comparisons", lambda rows: rows[0]["comparison"]["by_session"].update(p=7), "a share from 0 to 1"),
    ("contract", lambda contract: contract.update(stages=[{"stage": 1}]), "expected a text"),
    ("inputs", lambda inputs: inputs.update(plan="another"), "the plan is not the one its digest names"),
]


@pytest.mark.parametrize(("part", "change", "said"), FORGED)
def test_what_was_made_up_by_hand_is_refused_although_its_digests_fit(part, change, said):
    bundle = read_bundle(edited(part, change))
    with pytest.raises(BundleError, match=said):
        verify(bundle)


# ---------------------------------------------------------------------------------------------------------------- plans
def test_shipped_plans_can_be_run_and_name_what_there_is():
    plans = {name: plan_from_outside(text) for name, text in shipped_plans().items()}
    assert {name: (plan.name, plan.system) for name, plan in plans.items()} == {
        "generated-against-mined": ("generated-against-mined", "sq"),
        "history-of-tool-calls": ("history-of-tool-calls", "traces"),
    }
    assert set(plans["generated-against-mined"].methods) <= set(RECIPES)
    assert {f"state+prior:{kind}" for kind in ("fixed", "tuned", "learned")} <= set(
        plans["history-of-tool-calls"].methods
    )


ASKED = [
    ("draws = 100", "draws = 1000000", "draws is 1000000"),
    ("draws = 100", 'draws = "many"', "draws is 'many'"),
    ("draws = 100", "draws = true", "draws is True"),
    ("folds = 3", "folds = 1", "folds is 1"),
    ("rank = 4", "rank = 4.5", "rank is 4.5"),
    ("rank = 4", "rank = 4\ngrid = []", "1 to 100 numbers"),
    ("rank = 4", 'rank = 4\npool = "all"', "settings.pool is 'all'"),
    ('"state+prior:tuned"]', '"magic"]', "magic"),
    ('b = "reset"', 'b = "copy"', "'copy' is not measured"),
    ('b = "reset"', "", "needs b"),
    ('b = "reset"', 'b = "reset"\nworld = "mars"', "world is 'mars'"),
    ('b = "reset"', 'b = "reset"\nmargin = 5', "margin is 5"),
    ('kind = "clustered-difference"', 'kind = "tool-heldout"\ntools = []', "1 to 20 names"),
    ('name = "short"', f'name = "{"x" * 130}"', "name: a text"),
    ('sentence = "History helps."', "sentence = 3", "claims.sentence"),
    ('path = "inventory"', 'path = "inventory"\nrole = "transfer"', "no main source"),
    ("[split]", "[[split]]", "another kind of value"),
    ('system = "traces"', 'system = "dice"', "system is 'dice'"),
    ('system = "traces"', 'system = "traces"\nrewriters = ["llm"]', "none is called 'llm'"),
]


@pytest.mark.parametrize(("old", "new", "said"), ASKED)
def test_a_plan_that_asks_for_too_much_or_for_nothing_known_is_refused_with_its_key(old, new, said):
    assert old in SHORT
    with pytest.raises(PlanError, match=said):
        plan_from_outside(SHORT.replace(old, new, 1))


def test_a_plan_is_no_novel():
    with pytest.raises(PlanError, match="up to 50,000 characters"):
        plan_from_outside("#" * (TEXT_LIMIT + 1))
