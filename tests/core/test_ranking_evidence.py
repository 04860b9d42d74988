"""Splits, controls, differences and claims against the cases worked out by hand (TRACES X33 to X43), and whole bundles."""

import dataclasses
import inspect
import itertools
import json
from datetime import UTC, datetime

import numpy as np
import pytest

from sq_core.causal.trace import TraceError
from sq_core.conversation import messages_from_json
from sq_core.evaluation.data import LeakageError
from sq_core.evaluation.resampling import clustered_difference, holm, sign_flip
from sq_core.evidence import comparing
from sq_core.evidence.bundle import STAMP, BundleError, export_evidence, load_bundle
from sq_core.evidence.claims import PERMISSIONS, Check, Claim, ClaimError, judge_claim, judge_claims
from sq_core.evidence.comparing import compare, comparison_of
from sq_core.evidence.contract import STAGES
from sq_core.evidence.controls import (
    ControlError,
    chance,
    donors_within,
    is_opaque,
    opaque_rows,
    permute_candidates,
    shuffle_histories,
)
from sq_core.evidence.fitting import fit_state_adapter, parse_config
from sq_core.evidence.plan import PlanError, parse_plan, read_plan
from sq_core.evidence.rewriting import (
    FREE,
    Concatenation,
    Identity,
    Recorded,
    RewriteMissing,
    RewritesError,
    read_rewrites,
)
from sq_core.evidence.run import run_evidence
from sq_core.evidence.sources import read_file, read_sources
from sq_core.evidence.splits import (
    assert_disjoint,
    group_folds,
    group_split,
    history_of_tools,
    hold_out_tools,
    without_tools,
)
from sq_core.evidence.transfer import TransferCell, ratio, transfer_matrix, with_ratios
from sq_core.ranking.methods import METHODS, Fold, Parts, RankSettings
from sq_core.ranking.metrics import ranks, reciprocal
from sq_core.ranking.prior import count_targets
from sq_core.ranking.state import load_adapter, save_adapter
from sq_core.ranking.worlds import Columns
from tests.core.test_causal import row, rows_of
from tests.core.test_causal import user as said
from tests.core.test_ranking_methods import DATA, LOGS, PARTS
from tests.fakes import FakeEncoder

PAIR = ("a", "b")


def ranked(*values, groups, sessions=None):
    made = [
        row(row_id=str(at), group_id=g, session_id=s)
        for at, (g, s) in enumerate(zip(groups, sessions or groups, strict=True))
    ]
    return np.array(values, dtype=float), made


# ---------------------------------------------------------------------------------------------------------- differences
def test_x33_to_x37_are_those_of_the_shared_resampling():
    """Their numbers by hand are in test_resampling.py; here the same through the functions that evidence uses."""
    sums, rows = [4.0, -0.5, 0.5], [1, 1, 1, 1, -0.5, 0.5]
    assert (sign_flip(sums), sign_flip(rows)) == (0.75, 6 / 64)
    assert clustered_difference(rows, np.zeros(6), list("aaaabc")).estimate == pytest.approx(2 / 3)
    sums, counts = np.array([4, -0.5]), np.array([4, 1])
    drawn = [sums[list(pick)].sum() / counts[list(pick)].sum() for pick in itertools.product((0, 1), repeat=2)]
    assert sorted(drawn, reverse=True) == pytest.approx([1.0, 0.7, 0.7, -0.5])
    same, made = ranked(*[2.0] * 8, groups="aabbccdd")
    zero = compare(same, same, made, names=PAIR, world="all_splits").by_group
    assert (zero.low, zero.high) == (0, 0)
    six, made = ranked(*[2.0] * 6, groups="abcdef")
    assert compare(six, six, made, names=PAIR, world="all_splits").by_group.p == 1.0
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    rng = np.random.default_rng(0)
    values = 1 + rng.integers(0, 5, 16).astype(float)
    found, made = ranked(*values, groups=[str(i // 2) for i in range(16)])
    once = compare(found, np.full(16, 2.0), made, names=PAIR, world="all_splits")
    twice = compare(
        np.repeat(found, 2), np.full(32, 2.0), [r for r in made for _ in (0, 1)], names=PAIR, world="all_splits"
    )
    assert (twice.by_group.low, twice.by_group.high, twice.by_group.p) == pytest.approx(
        (once.by_group.low, once.by_group.high, once.by_group.p)
    )


def test_both_clusterings_are_printed_together_and_rows_are_never_the_unit():
    values, made = ranked(*[1.0] * 14, groups=[f"g{i // 2}" for i in range(14)], sessions=[f"s{i}" for i in range(14)])
    found = compare(values, np.full(14, np.inf), made, names=PAIR, world="train_split")
    assert (found.by_session.clusters, found.by_group.clusters, found.coverage) == (14, 7, 1.0)
    assert "by session (14 groups" in str(found)
    assert "by task (7 groups" in str(found)
    assert "coverage 1.000" in str(found)
    assert comparison_of(json.loads(json.dumps(found.record()))) == found
    # The one way to a p value takes rows and reads their sessions and groups; there is no argument for another unit.
    assert not {"groups", "clusters", "unit"} & set(inspect.signature(compare).parameters)
    public = {
        name
        for name, each in vars(comparing).items()
        if inspect.isfunction(each) and each.__module__ == comparing.__name__
    }
    assert public == {"_note", "compare", "comparison_of"}
    with pytest.raises(AssertionError, match="every row is counted"):
        compare(values[:3], values, made, names=PAIR, world="all_splits")


# --------------------------------------------------------------------------------------------------------------- splits
def test_x38_a_tool_held_out_is_in_no_training_row_and_no_training_history():
    made = [row(row_id=f"{tool}{i}", tool=tool, target=str(i), group_id=f"g{i}", session_id=f"{tool}{i}")
            for tool, n in (("a", 5), ("b", 3), ("c", 2)) for i in range(n)]  # fmt: skip
    parts = without_tools(made, {"b"})
    assert (len(parts.train), len(parts.test)) == (7, 3)
    counts = count_targets([made[at] for at in parts.train], [str(i) for i in range(5)])
    assert not counts.prior([made[at] for at in parts.test], np.ones((3, 5), dtype=bool)).any()
    dropped = history_of_tools(DATA.rows, DATA.history, {"find"})
    held = Fold(DATA, hold_out_tools(DATA.rows, PARTS, {"find"}), RankSettings(), donors=np.arange(len(DATA.rows)),
                dropped=dropped)  # fmt: skip
    kept = DATA.history.without(dropped).take(held.parts.train)
    items = [item for at in held.parts.train.tolist() for item in DATA.rows[at].history if item.tool != "find"]
    assert len(kept.indices) == len(items) == 0
    assert not held.inputs("state", held.parts.train, training=True)[1].any()
    assert {DATA.rows[at].tool for at in held.parts.test.tolist()} == {"find"}
    with pytest.raises(ValueError, match="no row calls never"):
        without_tools(made, {"never"})
    with pytest.raises(ValueError, match="history entries"):
        history_of_tools(DATA.rows[:3], DATA.history, {"find"})


def test_groups_and_sessions_stand_on_one_side():
    for parts in (*group_folds(DATA.rows, folds=4, seed=3), group_split(DATA.rows, seed=1)):
        groups = [{DATA.rows[at].group_id for at in places.tolist()} for _, places in parts.all]
        assert not set.intersection(*groups)
        assert sum(map(len, groups)) == 24
    folds = group_folds(DATA.rows, folds=4, seed=3)
    assert sorted(np.concatenate([each.test for each in folds]).tolist()) == list(range(len(DATA.rows)))
    leak = Parts(np.array([0]), np.array([1]), np.arange(2, len(DATA.rows)))
    with pytest.raises(LeakageError, match="is in"):
        assert_disjoint(DATA.rows, leak)
    with pytest.raises(LeakageError, match="rows are in a part"):
        assert_disjoint(DATA.rows, Parts(np.arange(0), np.arange(0), np.arange(0)))
    for broken in ({"folds": 2, "seed": 0}, {"folds": 99, "seed": 0}):
        with pytest.raises(ValueError, match="at least three folds"):
            group_folds(DATA.rows, **broken)
    with pytest.raises(ValueError, match="sum to 1"):
        group_split(DATA.rows, fractions=(0.5, 0.2, 0.2), seed=0)
    with pytest.raises(ValueError, match="got 'row'"):
        group_split(DATA.rows, seed=0, by="row")
    assert len(group_split(DATA.rows, seed=0, by="session").train)


# ------------------------------------------------------------------------------------------------------------- controls
def test_x39_chance_over_all_permutations():
    columns, allowed = Columns(np.array([2]), np.zeros((1, 4), dtype=bool)), np.ones((1, 4), dtype=bool)
    scores = np.array([0.9, 0.1, 0.5, 0.3])
    found = [float(reciprocal(ranks(scores[list(order)][None], columns, allowed))[0])
             for order in itertools.permutations(range(4))]  # fmt: skip
    assert np.mean(found) == pytest.approx(chance(4)) == pytest.approx(0.52083, abs=5e-6)
    assert chance(0) == 0.0
    vectors = np.eye(4)
    moved = permute_candidates(vectors, 2)
    assert sorted(map(tuple, moved)) == sorted(map(tuple, vectors))
    assert (moved != vectors).any()


def test_x40_the_free_rewriters():
    one, two = messages_from_json([said("cancel it")]), messages_from_json([said("cancel it"), said("yes")])
    assert Identity().rewrite("yes", two) == ("yes", 0)
    assert Concatenation().rewrite("cancel it", one) == ("cancel it", 0)
    assert Concatenation().rewrite("yes", two) == ("cancel it\nyes", 0)
    # That both equal reset bit for bit is in test_ranking_methods.


def test_a_recorded_rewriter_is_keyed_by_the_prefix_and_counts_its_tokens():
    from sq_core.conversation import prefix_digests

    two = messages_from_json([said("cancel it"), said("yes")])
    made = Recorded("gpt", "v1", {prefix_digests(two)[-1]: ("cancel the booking", 12)})
    assert made.name == "gpt@v1"
    assert made.rewrite("yes", two) == ("cancel the booking", 12)
    with pytest.raises(RewriteMissing, match="no rewrite of the prefix"):
        made.rewrite("yes", two[:1])


LINE = {"model": "m", "prompt_version": "1", "prefix_digest": "d", "text": "cancel it", "tokens": 3}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "there is no rewrite"),
        (["{"], "line 1: no JSON"),
        ([LINE, {"model": "m"}], "line 2: expected an object with the texts"),
        ([LINE | {"text": " "}], "line 1: expected an object"),
        ([LINE | {"tokens": True}], "tokens is a whole number"),
        ([LINE, LINE | {"model": "n"}], "line 2: another model or prompt"),
        ([LINE, LINE | {"text": "keep it"}], "line 2: another answer to the prefix d"),
    ],
)
def test_a_file_of_rewrites_is_refused_with_its_line(tmp_path, lines, said):
    path = tmp_path / "rewrites.jsonl"
    path.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines))
    with pytest.raises(RewritesError, match=said):
        read_rewrites(path)
    path.write_text(json.dumps(LINE) + "\n\n" + json.dumps(LINE) + "\n")
    assert read_rewrites(path) == Recorded("m", "1", {"d": ("cancel it", 3)})
    path.write_bytes(b"\xff")
    with pytest.raises(RewritesError, match="not UTF-8"):
        read_rewrites(path)


def test_x41_the_ratio_to_the_targets_own_fit():
    def cell(source, target, mrr):
        return TransferCell(
            source, target, "state+prior:tuned", "all_splits", 10, 6, 1.0, mrr, 0.3, None, {"lambda": 0.1}, 0.6
        )

    found = with_ratios([cell("A", "B", 0.40), cell("B", "B", 0.50), cell("A", "A", 0.0), cell("B", "A", 0.1)])
    assert [each.ratio for each in found] == [pytest.approx(0.8), 1.0, None, None]
    assert (found[0].gate, found[0].gamma) == ({"lambda": 0.1}, 0.6)
    assert ratio(0.4, 0.5) == pytest.approx(0.8)


def test_x43_a_history_comes_from_another_group_or_not_at_all():
    donors = shuffle_histories(DATA.rows, 1)
    for at, other in enumerate(donors.tolist()):
        assert DATA.rows[other].group_id != DATA.rows[at].group_id
    assert (shuffle_histories(DATA.rows, 1) == donors).all()
    within = donors_within(DATA.rows, PARTS, 0)
    for _, places in PARTS.all:
        assert set(within[places].tolist()) <= set(places.tolist())
    with pytest.raises(ControlError, match="no other group"):
        shuffle_histories(rows_of(said("x"), *[{"role": "assistant", "content": "", "tool_calls": [
            {"id": "1", "name": "a", "arguments": {}}]}]), 0)  # fmt: skip


@pytest.mark.parametrize(
    ("target", "opaque"),
    [
        ("https://example.org/x", True), ("www.example.org", True), ("HAT069", True), ("credit_card_4421486", True),
        ("mia_li_3668", True), ("EHGLPT", True), ("2024-05-20", False), ("12", False), ("-1.5", False), ("economy", False),
        ("JFK", False), ("Mia Li", False), ("12:30", False), ("one_way", False), ("true", False),
    ],
)  # fmt: skip
def test_opaque_ids(target, opaque):
    assert is_opaque(target) == opaque
    assert opaque_rows([row(target=target)]).tolist() == [opaque]


# --------------------------------------------------------------------------------------------------------------- claims
def check(name, outcome="holds", p=None, kind="clustered-difference"):
    return Check(name, kind, outcome, f"detail of {name}", p=p)


def test_a_claim_holds_by_every_check_it_names():
    known = {
        each.id: each for each in (check("a", p=0.01), check("b", "fails"), check("c", "not run"), check("d", p=0.04))
    }

    def verdict(*requires, family=()):
        return judge_claim(Claim("x", "It helps.", requires), known, family)

    assert verdict("a").verdict == "supported"
    assert verdict("a").permits == ("the difference is unlikely under exchangeable groups",)
    assert verdict("a", "b").verdict == "not supported"
    assert verdict("b", "c").verdict == "not tested"
    assert verdict("d").verdict == "supported"
    # Holm over the family: .01 and .04 are .02 and .04; with a third of .03 the last two become .06.
    known["e"] = check("e", p=0.03)
    wide = [Claim("y", "", ("a", "d")), Claim("z", "", ("e",))]
    found = judge_claim(Claim("x", "", ("d",)), known, wide)
    assert (found.verdict, "p = 0.060 after Holm over 3 checks" in found.reason) == ("not supported", True)
    with pytest.raises(ClaimError, match="which no check is called"):
        verdict("never")
    with pytest.raises(ClaimError, match="needs a check"):
        Claim("x", "It helps.", ())
    with pytest.raises(ClaimError, match="no kind is called 'magic'"):
        check("x", kind="magic")


def test_claims_of_a_family_are_adjusted_together():
    claims = [Claim(str(i), "", (str(i),), family="f") for i in range(3)]
    checks = [check("0", p=0.01), check("1", p=0.04), check("2", p=0.03)]
    assert [each.verdict for each in judge_claims(claims, checks)] == ["supported", "not supported", "not supported"]
    alone = [dataclasses.replace(each, family="") for each in claims]
    assert [each.verdict for each in judge_claims(alone, checks)] == ["supported"] * 3


def test_every_kind_says_what_it_permits_and_what_not():
    assert all(each.permits and each.forbids for each in PERMISSIONS.values())
    assert {stage.stage for stage in STAGES} == {"conversion", "representation", "scoring", "evaluation", "claims"}


# ---------------------------------------------------------------------------------------------------------------- plans
PLAN = """
name = "toy"
system = "traces"
draws = 200
[rows]
target_mode = "field"
[split]
folds = 4
[settings]
iterations = 15
rank = 8
l2 = 1e-5
[[sources]]
name = "one"
path = "one.jsonl"
config = "model-a"
[[sources]]
name = "two"
path = "two.jsonl"
config = "model-b"
role = "transfer"
[[sources]]
name = "far"
path = "far.jsonl"
role = "boundary"
[[checks]]
id = "state-reset"
kind = "clustered-difference"
a = "state"
b = "reset"
[[checks]]
id = "shuffled"
kind = "shuffled-history"
a = "state"
b = "shuffled_state"
[[checks]]
id = "rewriter"
kind = "rewriter"
a = "state"
b = "rewritten:concatenation"
margin = 0.9
[[checks]]
id = "prior"
kind = "frequency"
a = "state+prior:tuned"
b = "state"
[[checks]]
id = "opaque"
kind = "opaque-ids"
a = "state"
b = "reset"
[[checks]]
id = "permuted"
kind = "permuted-candidates"
a = "reset"
draws = 6
[[checks]]
id = "unseen"
kind = "tool-heldout"
tools = ["weather"]
[[checks]]
id = "transfer"
kind = "transfer"
at_least = 0.5
[[checks]]
id = "far"
kind = "boundary"
[[claims]]
id = "helps"
sentence = "History helps."
requires = ["state-reset", "shuffled"]
family = "state"
[[claims]]
id = "apart"
sentence = "The far set is shown apart."
requires = ["far"]
"""
OTHERS = [
    dataclasses.replace(log, external_id=f"o-{log.external_id}", config="model-b")
    for log in LOGS
    if log.external_id[-1] == "0"
]
FAR = [dataclasses.replace(log, external_id=f"f-{log.external_id}", config=None) for log in LOGS[:16]]
GIVEN = {"one": LOGS, "two": OTHERS, "far": FAR}


@pytest.fixture(scope="module")
def bundle():
    return run_evidence(parse_plan(PLAN), GIVEN, FakeEncoder())


def test_a_run_measures_every_method_in_both_worlds_with_coverage(bundle):
    assert len(bundle.scorecards) == 2 * (len(METHODS) + len(FREE))
    assert all(
        {"coverage", "world", "pool", "rows", "sessions", "groups"} <= set(card)
        and card["mrr"] <= card["coverage"] + 1e-9
        for card in bundle.scorecards
    )
    assert all("coverage" in each["comparison"] for each in bundle.comparisons)
    assert {tuple(each["id"] for each in bundle.checks)} == {
        ("state-reset", "shuffled", "rewriter", "prior", "opaque", "permuted", "unseen", "transfer", "far")
    }  # fmt: skip
    for each in bundle.checks:
        if each["kind"] != "opaque-ids" and each["outcome"] != "not run":
            assert "coverage" in each["detail"], each["id"]
    assert len(bundle.rows) == 1 + len(DATA.rows) * len(bundle.scorecards)
    assert bundle.scores[0][:6] == ["row", "fold", "world", "reset", "state", "prior"]
    assert len(bundle.scores) == 1 + 2 * len(DATA.rows)


def test_what_the_checks_found(bundle):
    outcome = {each["id"]: each for each in bundle.checks}
    assert outcome["state-reset"]["outcome"] == "holds"
    # 96 actions, but both sessions of a task say the same up to them.
    assert outcome["rewriter"]["figures"]["costs"] == [{"rewriter": "concatenation", "rewrites": 48, "tokens": 0}]
    assert outcome["rewriter"]["p"] is None  # a margin has no p
    assert outcome["permuted"]["outcome"] == "holds"
    assert outcome["unseen"]["figures"]["prior"] == 0.0
    cells = outcome["transfer"]["figures"]["matrix"]
    assert {(cell["source"], cell["target"]) for cell in cells} == set(
        itertools.product(("model-a", "model-b"), repeat=2)
    )
    assert outcome["transfer"]["outcome"] == "holds"
    assert all(cell["mrr"] > cell["baseline"] for cell in outcome["transfer"]["figures"]["matrix"])
    assert outcome["far"]["figures"]["far"]["configs"] == ["far"]
    assert [each["verdict"] for each in bundle.claims][1] == "supported"
    assert bundle.claims[0]["permits"]
    assert bundle.contract["sources"]["one"]["calls"] == 96
    assert bundle.contract["violations"] == 0


def test_a_run_again_gives_the_same_bytes_but_for_the_time(bundle, tmp_path):
    again = run_evidence(parse_plan(PLAN), GIVEN, FakeEncoder())
    first = export_evidence(bundle, tmp_path / "a", written_at=datetime(2026, 1, 1, tzinfo=UTC))
    second = export_evidence(again, tmp_path / "b", written_at=datetime(2026, 1, 2, tzinfo=UTC))
    assert [path.name for path in first] == [path.name for path in second]
    different = [a.name for a, b in zip(first, second, strict=True) if a.read_bytes() != b.read_bytes()]
    assert different == [STAMP]
    assert bundle.digest == again.digest


def test_removing_what_comes_after_the_last_action_changes_no_stored_number(bundle):
    def cut(log):
        last = max(m.index for m in log.messages if m.tool_calls)
        return dataclasses.replace(log, messages=log.messages[: last + 1])

    short = run_evidence(
        parse_plan(PLAN), {name: [cut(log) for log in logs] for name, logs in GIVEN.items()}, FakeEncoder()
    )
    before, after = bundle.files(), short.files()
    for name in (
        "rows.csv",
        "scores.csv",
        "scorecards.json",
        "comparisons.json",
        "checks.json",
        "claims.json",
        "fits.json",
    ):
        assert before[name] == after[name], name


def test_a_bundle_is_read_back_and_a_changed_one_refused(bundle, tmp_path):
    export_evidence(bundle, tmp_path, written_at=datetime(2026, 1, 1, tzinfo=UTC))
    again = load_bundle(tmp_path)
    assert again.digest == bundle.digest
    export_evidence(bundle, tmp_path, written_at=datetime(2026, 1, 2, tzinfo=UTC))
    with pytest.raises(BundleError, match="superseded, never edited"):
        export_evidence(
            dataclasses.replace(bundle, name="other"), tmp_path, written_at=datetime(2026, 1, 1, tzinfo=UTC)
        )
    (tmp_path / "rows.csv").write_text("row\n")
    with pytest.raises(BundleError, match=r"rows.csv is not what was written"):
        load_bundle(tmp_path)
    (tmp_path / "bundle.json").write_text('{"version": 2}')
    with pytest.raises(BundleError, match="version 2"):
        load_bundle(tmp_path)
    with pytest.raises(BundleError, match="is no bundle"):
        load_bundle(tmp_path / "nothing")


def test_what_a_run_refuses():
    plan = parse_plan(PLAN)
    with pytest.raises(PlanError, match="has no conversations"):
        run_evidence(plan, {"one": LOGS}, FakeEncoder())
    with pytest.raises(PlanError, match="no rewriter is called llm"):
        run_evidence(dataclasses.replace(plan, rewriters=("llm",)), GIVEN, FakeEncoder())
    with pytest.raises(PlanError, match="ids must differ"):
        run_evidence(plan, {**GIVEN, "two": LOGS}, FakeEncoder())
    with pytest.raises(PlanError, match="run_sq_evidence"):
        run_evidence(dataclasses.replace(plan, system="sq"), GIVEN, FakeEncoder())
    broken = dataclasses.replace(LOGS[0], messages=LOGS[0].messages[:1] + LOGS[0].messages[2:])
    with pytest.raises(TraceError, match="trace s0-0, message 2"):
        run_evidence(plan, {**GIVEN, "one": [broken, *LOGS[1:]]}, FakeEncoder())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = [", "not TOML"),
        ('version = 9\nname = "x"', "version is 9"),
        (PLAN.replace("iterations = 15", "iteration = 15"), "settings: unknown iteration"),
        (PLAN.replace('id = "far"\nkind', 'id = "prior"\nkind'), "prior is given twice"),
        (PLAN.replace('requires = ["far"]', 'requires = ["never"]'), "requires never"),
        (PLAN.replace('requires = ["far"]', "requires = []"), "names no check"),
        (PLAN.replace('kind = "boundary"', 'kind = "magic"'), "kind is 'magic'"),
        (PLAN.replace('config = "model-a"', 'role = "transfer"'), "no main source"),
        ('system = "traces"', "missing 1 required"),
        (PLAN.replace("[settings]", "[settings.aggregation]\ngamma = 0\n[settings]"), "0 < gamma"),
    ],
)
def test_a_plan_that_cannot_be_run_says_why(text, message):
    with pytest.raises(PlanError, match=message):
        parse_plan(text)


def test_checks_refuse_what_they_do_not_take(bundle):
    plan = parse_plan(PLAN.replace("draws = 6", "draw = 6"))
    small = dataclasses.replace(plan, checks=plan.checks[5:6], claims=(), methods=("reset",), rewriters=())
    with pytest.raises(ClaimError, match="takes a, draws, world, not draw"):
        run_evidence(small, GIVEN, FakeEncoder())
    other = dataclasses.replace(small.checks[0], kind="policy-heldout")
    with pytest.raises(ClaimError, match="is no check of traces"):
        run_evidence(dataclasses.replace(small, checks=(other,)), GIVEN, FakeEncoder())
    with pytest.raises(ValueError, match="state in all_splits was not measured"):
        run_evidence(dataclasses.replace(small, checks=plan.checks[:1]), GIVEN, FakeEncoder())


def test_checks_that_cannot_be_run_say_so():
    few = LOGS[:10]  # five tasks
    text = PLAN.split('[[sources]]\nname = "two"')[0] + "[[checks]]" + PLAN.split("[[checks]]", 1)[1]
    plan = parse_plan(text)
    wanted = {"state-reset", "prior", "opaque", "unseen", "transfer", "far"}
    some = dataclasses.replace(
        plan,
        checks=tuple(each for each in plan.checks if each.id in wanted),
        claims=(),
        methods=("reset", "state", "state+prior:tuned"),
        settings=dataclasses.replace(plan.settings, pool="global", iterations=2),
    )
    found = {each["id"]: each for each in run_evidence(some, {"one": few}, FakeEncoder()).checks}
    assert {name: each["outcome"] for name, each in found.items()} == dict.fromkeys(wanted, "not run")
    said = {name: each["detail"] for name, each in found.items()}
    assert "too few groups" in said["state-reset"]
    assert "tool pool" in said["prior"]
    assert "transfer needs two" in said["transfer"]
    assert "no boundary source" in said["far"]


def test_transfer_needs_two_configurations_with_rows_in_every_part():
    how = {"method": "reset", "world": "all_splits", "seed": 0}
    with pytest.raises(ValueError, match="needs two configurations, got model-a"):
        transfer_matrix(DATA, RankSettings(), **how)
    rows = tuple(dataclasses.replace(r, config_id="b" if r.group_id == "task-0" else "a") for r in DATA.rows)
    with pytest.raises(ValueError, match="a part has no rows"):
        transfer_matrix(dataclasses.replace(DATA, rows=rows), RankSettings(), **how)


def test_the_shipped_plans_can_be_read():
    from pathlib import Path

    for path in sorted((Path(__file__).resolve().parents[2] / "bench").glob("traces_*.toml")):
        plan = read_plan(path)
        assert plan.claims
        assert all(claim.requires for claim in plan.claims)


def test_sources_are_files_below_one_folder(tmp_path):
    log = {"id": "s1", "messages": [{"role": "user", "content": "x"}]}
    (tmp_path / "one.jsonl").write_text(json.dumps(log))
    plan = dataclasses.replace(parse_plan(PLAN), sources=parse_plan(PLAN).sources[:1])
    assert [each.external_id for each in read_sources(plan, tmp_path)["one"]] == ["s1"]
    (tmp_path / "bad.jsonl").write_text("{")
    with pytest.raises(PlanError, match=r"bad.jsonl:1"):
        read_file(tmp_path / "bad.jsonl")
    with pytest.raises(PlanError, match="does not exist"):
        read_file(tmp_path / "none.jsonl")


# ------------------------------------------------------------------------------------------------------ fit_state_adapter
CONFIG = 'method = "state"\nfractions = [0.6, 0.2, 0.2]\n[rows]\ntarget_mode = "field"\n[settings]\niterations = 10\nrank = 4\n'


def test_an_adapter_from_a_configuration_is_the_same_bytes_twice(tmp_path):
    config = parse_config(CONFIG)
    for name in ("a", "b"):
        save_adapter(fit_state_adapter(config, LOGS, FakeEncoder(), seed=3), tmp_path / name)
    for file in ("adapter.npz", "adapter.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    record = load_adapter(tmp_path / "a").describe()
    assert (record["encoder_id"], record["seed"], record["aggregation"]["gamma"]) == (FakeEncoder().id, 3, 0.6)
    assert len(record["training_rows"]) == 64
    other = fit_state_adapter(config, LOGS, FakeEncoder(), seed=4)
    assert other.record["training_rows"] != record["training_rows"]
    for method in ("shuffled_state", "query_adapter", "state+tool"):
        made = fit_state_adapter(parse_config(CONFIG.replace('"state"', f'"{method}"')), LOGS, FakeEncoder())
        assert made.record["method"] == method
    whole = fit_state_adapter(parse_config("[settings]\niterations = 2"), LOGS, FakeEncoder())
    assert whole.record["rows"] == len(DATA.rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [("[", "not TOML"), ("modus = 1", "unknown modus"), ('method = "copy"', "method is 'copy'")],
)
def test_a_configuration_that_cannot_be_used(text, message):
    with pytest.raises(PlanError, match=message):
        parse_config(text)
