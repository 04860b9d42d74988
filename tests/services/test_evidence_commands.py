"""check_causality, fit_state_adapter, run_evidence, export_evidence: what they say, what they write, how they end."""

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from console.models import Evidence, Inventory, Message
from console.services import evidence as service
from console.services.actor import SYSTEM
from console.services.export import message_json
from console.services.ingest_conversations import import_conversations
from sq_core.evidence.bundle import STAMP, load_bundle
from sq_core.evidence.plan import parse_plan
from sq_core.evidence.run import rewritten_prefixes
from sq_core.ranking.state import load_adapter
from tests import make
from tests.evidence_toy import SHORT, SQ, logs
from tests.make import World

pytestmark = pytest.mark.django_db
CONFIG = 'method = "state"\nfractions = [0.6, 0.2, 0.2]\n[settings]\nrank = 4\niterations = 10\n'


def run(*args: Any, **options: Any) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command(*[str(arg) for arg in args], stdout=out, stderr=err, **options)
    return out.getvalue(), err.getvalue()


def failing(*args: Any) -> tuple[str, str, CommandError]:
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(CommandError) as stopped:
        call_command(*[str(arg) for arg in args], stdout=out, stderr=err)
    return out.getvalue(), err.getvalue(), stopped.value


def rows() -> list[dict[str, Any]]:
    """The toy log as the lines of a file."""
    return [
        {
            "id": log.external_id, "scenario": log.scenario, "config": log.config,
            "messages": [message_json(message) for message in log.messages],
        }
        for log in logs()
    ]  # fmt: skip


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "one.jsonl", rows())


@pytest.fixture
def inv(db: None) -> Inventory:
    made = make.inventory("traces")
    report = import_conversations(made, logs(), by=SYSTEM)
    assert not report.rejected
    return made


# ------------------------------------------------------------------------------------------------------ check_causality
def test_a_sound_log_is_counted(file: Path) -> None:
    said, err = run("check_causality", file)
    assert said.startswith(f"{file}: 48 traces, 96 calls, 96 rows, ")
    assert said.rstrip().endswith("every row rests on earlier messages alone.")
    assert err == ""


Corruption = Callable[[list[dict[str, Any]]], Any]
CORRUPTED: list[tuple[Corruption, str]] = [
    (lambda m: m[2].update(call_id="nobody"), "trace s0-0, message 2: "),  # an answer without an open call
    (lambda m: m.insert(3, dict(m[2])), "trace s0-0, message 3: "),  # a second answer
    (lambda m: m.pop(0), "trace s0-0, message 0: "),  # a call before any user message
    (lambda m: m.__setitem__(slice(None), m[1:3] + m[:1] + m[3:]), "trace s0-0, message 0: "),  # in another order
]  # fmt: skip


@pytest.mark.parametrize(("corrupt", "said"), CORRUPTED)
def test_a_corrupted_copy_ends_with_1_and_names_trace_and_message(
    tmp_path: Path, corrupt: Corruption, said: str
) -> None:
    lines = rows()
    corrupt(lines[0]["messages"])
    out, err, stopped = failing("check_causality", written(tmp_path / "copy.jsonl", lines))
    assert said in err
    assert (stopped.returncode, str(stopped)) == (1, "1 violation.")
    assert "1 violations" in out


def test_a_line_that_cannot_be_read_is_a_violation_and_stops_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "copy.jsonl", rows()[:3])
    path.write_text(path.read_text() + "{broken\n")
    out, err, stopped = failing("check_causality", path)
    assert "3 traces" in out
    assert "copy.jsonl:4" in err
    assert str(stopped) == "1 violation."


def test_calls_before_a_user_message_may_be_counted_instead(tmp_path: Path) -> None:
    lines = rows()
    lines[0]["messages"].pop(0)
    said, _ = run("check_causality", written(tmp_path / "copy.jsonl", lines), "--missing-query", "count")
    assert "every row rests" in said


def test_an_inventorys_log_is_checked_with_the_digests_kept_beside_it(inv: Inventory) -> None:
    said, _ = run("check_causality", "--inventory", "traces")
    assert said.startswith("inventory traces: 48 traces, 96 calls, 96 rows, ")
    assert "144 stored digests" in said
    late = Message.objects.get(conversation__external_id="s3-1", index=3)
    Message.objects.filter(pk=late.pk).update(content="said otherwise afterwards")
    _out, err, _ = failing("check_causality", "--inventory", "traces")
    assert "trace s3-1, message 3: the prefix is not the one that was judged" in err


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    assert "Name a file" in str(failing("check_causality")[2])
    assert "does not exist" in str(failing("check_causality", tmp_path / "none.jsonl")[2])
    empty = written(tmp_path / "empty.jsonl", [])
    assert "holds no conversation" in str(failing("check_causality", empty)[2])
    assert "no inventory 'nowhere'" in str(failing("check_causality", "--inventory", "nowhere")[2])


# ---------------------------------------------------------------------------------------------------- fit_state_adapter
def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_an_adapter_is_the_same_bytes_each_time_from_files_and_from_the_log(
    tmp_path: Path, file: Path, inv: Inventory
) -> None:
    config = tmp_path / "adapter.toml"
    config.write_text(CONFIG)
    for name, source in (("a", [file]), ("b", [file]), ("c", ["--inventory", "traces"])):
        said, _ = run("fit_state_adapter", *source, "--config", config, "--seed", 3, "--to", tmp_path / name)
        assert said.startswith("state fitted on ")
        assert "of 48 conversations: " in said
    assert digests(tmp_path / "a") == digests(tmp_path / "b") == digests(tmp_path / "c")
    assert set(digests(tmp_path / "a")) == {"adapter.npz", "adapter.json"}
    adapter = load_adapter(tmp_path / "a")
    assert (adapter.w1.shape[1], adapter.record["encoder_id"]) == (4, "fake:bag-of-words:64")
    run("fit_state_adapter", file, "--config", config, "--seed", 4, "--to", tmp_path / "d")
    assert digests(tmp_path / "d") != digests(tmp_path / "a")


def test_a_configuration_that_cannot_be_used_is_one_line(tmp_path: Path, file: Path) -> None:
    config = tmp_path / "adapter.toml"
    config.write_text("methd = 1")
    assert "unknown methd" in str(failing("fit_state_adapter", file, "--config", config, "--to", tmp_path)[2])
    config.write_text(CONFIG)
    assert "one of the two" in str(failing("fit_state_adapter", "--config", config, "--to", tmp_path)[2])
    none = tmp_path / "none.toml"
    assert "cannot be read" in str(failing("fit_state_adapter", file, "--config", none, "--to", tmp_path)[2])
    lone = written(tmp_path / "lone.jsonl", [{"id": "x", "messages": [{"role": "user", "content": "hello"}]}])
    assert failing("fit_state_adapter", lone, "--config", config, "--to", tmp_path)[2]


# ------------------------------------------------------------------------------------------- run_evidence, export_evidence
def test_a_plan_is_measured_kept_and_exported_byte_for_byte(tmp_path: Path, inv: Inventory) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(SHORT)
    said, _ = run("run_evidence", plan, "--inventory", "traces", "--to", tmp_path / "one")
    found = Evidence.objects.get()
    assert f"Evidence {found.public_id} kept." in said
    assert (found.origin, found.actor) == ("command", "command line")
    for line in said.splitlines():
        if " all_splits " in line or " train_split " in line:
            assert "coverage" in line or line.split()[2][0] in "01", line
    assert "SUPPORTED: History helps." in said
    assert load_bundle(tmp_path / "one").digest == found.digest
    again, _ = run("run_evidence", plan, "--inventory", "traces", "--to", tmp_path / "one")
    assert "the same bytes" in again
    run("export_evidence", "traces", found.public_id, "--to", tmp_path / "two")
    first, second = (
        {p.name: p.read_bytes() for p in (tmp_path / n).iterdir() if p.name != STAMP} for n in ("one", "two")
    )
    assert first == second == service.files_of(found)
    _out, _err, stopped = failing("export_evidence", "traces", "nothing", "--to", tmp_path / "three")
    assert "no such evidence" in str(stopped)


def test_a_plan_over_files_needs_no_inventory(tmp_path: Path, file: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(SHORT.replace('"inventory"', f'"{file.name}"'))
    said, _ = run("run_evidence", plan, "--data", tmp_path, "--to", tmp_path / "one")
    assert "Written to" in said
    assert not Evidence.objects.exists()
    (tmp_path / "other.toml").write_text(
        SHORT.replace('"inventory"', f'"{file.name}"').replace("seed", "seed") + "\n# b"
    )
    _o, _e, stopped = failing("run_evidence", tmp_path / "other.toml", "--data", tmp_path, "--to", tmp_path / "one")
    assert "holds another bundle" in str(stopped)
    make.inventory("traces")
    _o, _e, stopped = failing("run_evidence", plan, "--inventory", "traces")
    assert "which a run cannot read" in str(stopped)


def test_rewrites_of_a_model_come_from_a_file(tmp_path: Path, file: Path) -> None:
    plan, given = tmp_path / "plan.toml", tmp_path / "rewrites.jsonl"
    source = SHORT.replace('"inventory"', f'"{file.name}"')
    plan.write_text(source.replace("draws = 100", 'draws = 100\nrewriters = ["model"]'))
    to = ("--data", tmp_path, "--to", tmp_path / "one")
    assert "name --rewrites" in str(failing("run_evidence", plan, *to)[2])
    wanted = rewritten_prefixes(parse_plan(plan.read_text()), {"log": logs()})
    lines = [
        {"model": "m", "prompt_version": "v1", "prefix_digest": each.digest, "text": f"text {n}", "tokens": n}
        for n, each in enumerate(wanted)
    ]
    written(given, lines[1:])
    assert "m@v1 has no rewrite of the prefix" in str(failing("run_evidence", plan, *to, "--rewrites", given)[2])
    written(given, lines)
    run("run_evidence", plan, *to, "--rewrites", given)
    found = load_bundle(tmp_path / "one")
    assert found.costs == [{"rewriter": "m@v1", "rewrites": 48, "tokens": sum(range(48))}]
    assert "rewritten:m@v1" in {card["method"] for card in found.scorecards}
    plan.write_text(source)
    assert "names no rewriter model" in str(failing("run_evidence", plan, *to, "--rewrites", given)[2])


def test_a_plan_of_sq_reads_an_inventory(tmp_path: Path, world: World) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(SQ)
    said, _ = run("run_evidence", plan, "--inventory", "tiny")
    assert "NOT TESTED: Mined exemplars are better." in said
    assert Evidence.objects.get().system == "sq"
    assert "name --inventory" in str(failing("run_evidence", plan, "--data", tmp_path, "--to", tmp_path / "x")[2])
    assert "or --data and --to" in str(failing("run_evidence", plan)[2])
    assert "cannot be read" in str(failing("run_evidence", tmp_path / "none.toml", "--inventory", "tiny")[2])
