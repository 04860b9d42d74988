"""The commands: the whole way from an empty inventory to a bundle, and what they say when something is wrong."""

import errno
import io
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError

from console.management import shared
from console.models import ApiToken, Exemplar, Inventory, Judgement, Run, StateView
from console.services import models_setting, sample
from console.services.accounts import find_token
from console.services.actor import SYSTEM
from sq_core.bundle import load_bundle
from tests import make, scripted
from tests.fakes import FakeEncoder
from tests.make import World

pytestmark = pytest.mark.django_db


def run(*args: Any, **options: Any) -> str:
    out = io.StringIO()
    call_command(*[str(arg) for arg in args], stdout=out, **options)
    return out.getvalue()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The tests' tiny world as files."""
    make.files(tmp_path)
    return tmp_path


def test_the_whole_way_from_files_to_figures_and_a_bundle(files: Path) -> None:
    assert "Inventory shop made, encoder fake:" in run("create_inventory", "shop", "--name", "Shop")
    assert "3 artifacts read: 3 stored" in run("import_artifacts", "shop", files / "policies.jsonl")
    assert "24 exemplars read: 24 stored" in run("import_exemplars", "shop", files / "exemplars.jsonl")
    assert "5 conversations read: 5 stored" in run("import_conversations", "shop", files / "conversations.jsonl")
    assert StateView.objects.count() == 12
    judged = run("import_judgements", "shop", files / "judgements.jsonl", "--rubric", "current-need")
    assert "36 judgements read: 36 stored" in judged
    assert "3 new versions" in run("refit", "shop", "--reason", "first")
    assert "0 new versions" in run("refit", "shop", "cancel-order")
    said = run("calibrate", "shop", "--target", "0.9", "--reason", "first")
    assert "chosen and measured on the same states" in said
    assert "too few labels" in said
    figures = files / "figures.json"
    printed = run("evaluate", "shop", "--json", figures)
    assert "sq-generated" in printed
    answer = json.loads(figures.read_text(encoding="utf-8"))
    assert [row["method"] for row in answer["rows"]][-1] == "sq-generated"
    assert "with-generated-fallback" in run("evaluate", "shop", "--protocol", "mined", "--labels", "running-max")
    assert "3 of 3 versions reproduced" in run("reproduce", "shop")
    assert "cancel-order v1: max |Δw| 0.0e+00" in run("reproduce", "shop", "cancel-order", "1")
    bundle_file = files / "shop.sqb"
    assert "with 3 artifacts" in run("export_bundle", "shop", bundle_file, "--with-exemplars")
    bundle = load_bundle(bundle_file, encoder=FakeEncoder())
    fired = bundle.discover([{"role": "user", "content": "please cancel my order"}]).fired
    assert "cancel-order" in {each.artifact for each in fired}


def test_a_second_run_adds_nothing(files: Path) -> None:
    run("create_inventory", "shop")
    run("import_artifacts", "shop", files / "policies.jsonl")
    again = run("import_artifacts", "shop", files / "policies.jsonl", files / "policies.jsonl")
    assert again.count("0 stored, 3 duplicates") == 2
    assert Inventory.objects.get().release == 2


def test_bad_rows_are_printed_with_their_place_and_a_file_of_them_fails(files: Path) -> None:
    run("create_inventory", "shop")
    bad = files / "bad.jsonl"
    bad.write_text("\n".join(["1"] * 60), encoding="utf-8")
    errors = io.StringIO()
    with pytest.raises(CommandError, match="None of the 60 conversations"):
        run("import_conversations", "shop", bad, stderr=errors)
    assert "bad.jsonl:1: expected an object" in errors.getvalue()
    assert "60 rejected in all" in errors.getvalue()


def test_an_import_stands_when_the_encoder_is_away(files: Path, encoder: FakeEncoder) -> None:
    run("create_inventory", "shop")
    encoder.fail_next = 1
    errors = io.StringIO()
    assert "5 stored" in run("import_conversations", "shop", files / "conversations.jsonl", stderr=errors)
    assert "not embedded yet" in errors.getvalue()
    assert not StateView.objects.exists()
    assert "5 duplicates" in run("import_conversations", "shop", files / "conversations.jsonl", "--no-embed")
    assert not StateView.objects.exists()
    run("import_conversations", "shop", files / "conversations.jsonl")
    assert StateView.objects.count() == 12


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("refit", "nowhere"), "no inventory 'nowhere'. Known: others, tiny"),
        (("create_inventory", "Tiny"), "slug: 'Tiny' is no slug"),
        (("import_artifacts", "tiny", "nowhere.jsonl"), "nowhere.jsonl cannot be read"),
        (("refit", "tiny", "hats"), "no artifact 'hats'"),
        (("evaluate", "tiny", "--protocol", "near-synonyms"), "nothing to measure here"),
        (("evaluate", "tiny", "--encoder", "openai:x"), "set OPENAI_API_KEY"),
        (("evaluate", "tiny", "--encoder", "openai:x", "--protocol", "cost"), "rests on the inventory's own encoder"),
        (("judge", "tiny"), "No model judges here yet"),
        (("generate", "tiny", "--param", "m"), "has no “=”"),
        (("generate", "tiny", "--cap-money", "much"), "is no amount"),
        (("mine", "tiny", "hats"), "hats"),
        (("evaluate", "tiny", "--json", "/nowhere/at/all.json"), "cannot be written"),
        (("export_bundle", "tiny", "/nowhere/at/all.sqb"), "cannot be written"),
        (("export_bundle", "tiny", "x.sqb", "--release", "99"), "no release 99"),
        (("reproduce", "tiny", "cancel-order", "9"), "There is no such version"),
        (("calibrate", "tiny", "--target", "2"), "target: The target is 2.0"),
        (("create_token", " "), "name: A token needs a name"),
    ],
)
def test_what_is_wrong_ends_a_command_with_one_clear_line(world: World, args: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandError, match=re.escape(message)):
        run(*args)


@pytest.mark.parametrize(
    ("said", "mend"),
    [
        ("no such table: console_inventory", "Run `make setup` first."),
        ("database or disk is full", "Free space where "),
        ("could not extend file: No space left on device", "Free space where "),
        ("attempt to write a readonly database", "SIGNALBOX_VAR_DIR"),
        ("unable to open database file", "SIGNALBOX_VAR_DIR"),
        ("database is locked", "call again in a moment"),
        ("disk I/O error", "Check the disk under "),
        ("database disk image is malformed", "put a backup"),
        ("connection to server at 127.0.0.1 failed: Connection refused", "DATABASE_URL runs"),
        ("something new", "DATABASE_URL"),
    ],
)
def test_a_database_that_refuses_is_named_with_the_mend_that_fits(
    monkeypatch: pytest.MonkeyPatch, said: str, mend: str
) -> None:
    def none(slug: str) -> Any:
        raise OperationalError(said)

    monkeypatch.setattr("console.management.commands.refit.inventory_of", none)
    monkeypatch.setattr("console.services.database_trouble.connection.vendor", "sqlite")
    with pytest.raises(CommandError, match=re.escape(mend)) as caught:
        run("refit", "tiny")
    assert said in str(caught.value)
    assert ("make setup" in str(caught.value)) == said.startswith("no such table")


def test_a_full_disk_ends_the_preparation_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("console.management.commands.serve._collect_static", full)
    with pytest.raises(CommandError, match=r"No space left on device\. Free space where "):
        run("serve", "--prepare-only")


def test_an_altered_version_is_not_reproduced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.exemplar(world.cancel, "please cancel my order").delete()
    with pytest.raises(CommandError, match="Not reproduced: cancel-order"):
        run("reproduce", "tiny")


def test_no_theta_that_reaches_the_target_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from console.management.commands import calibrate as command

    def unreached(*args: Any, **kwargs: Any) -> Any:
        from console.services.calibrate import calibrate

        point = calibrate(*args, **kwargs)
        assert point.calibration is not None
        crossed = {"split": "folds", "recall": 0.5, "precision": 0.5, "kept": 0.5}
        point.calibration = {**point.calibration, "reached": False, "cross_fitted": crossed}
        return point

    monkeypatch.setattr(command, "calibrate", unreached)
    said = run("calibrate", "tiny")
    assert "No θ reaches 90%" in said
    assert "Cross-fitted (folds): recall 0.500" in said


# ------------------------------------------------------------------------------------------------------ tokens, access
def test_a_token_is_printed_once(world: World) -> None:
    said = run("create_token", "agent", "--role", "author", "--inventory", "tiny", "--days", "7")
    token = find_token(said.split()[0])
    assert token is not None
    assert (token.name, token.role, token.inventory) == ("agent", "author", world.inventory)
    assert "author on tiny, until 2" in said
    assert "viewer on every inventory, for ever" in run("create_token", "script", "--days", "0")


@pytest.fixture
def var(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "VAR_DIR", tmp_path)
    return tmp_path


def test_the_sample_is_loaded_reset_and_its_access_printed(
    files: Path, var: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "exemplars.jsonl").rename(files / "exemplars_generated.jsonl")
    monkeypatch.setattr(sample, "FILES", files)
    assert "Sample inventory sky-airline loaded" in run("load_sample")
    assert run("load_sample") == ""
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "sample: shipped vectors: 0/8"
    assert lines[-1] == "sample: done: 8/8"
    said = run("demo_access")
    tokens = re.findall(r"sb_[A-Za-z0-9_-]{32}", said)
    assert len(tokens) == 1
    assert find_token(tokens[0]) is not None
    assert re.search(r"login +publisher +\S{16}", said)
    assert f"http://127.0.0.1:{settings.PORT}/" in said
    run("demo_access")
    assert find_token(tokens[0]) is None
    assert ApiToken.objects.usable().count() == 1
    assert "removed" in run("load_sample", "--reset")


def test_access_without_a_sample_is_said() -> None:
    with pytest.raises(CommandError, match="no inventory 'sky-airline'"):
        run("demo_access")


# ------------------------------------------------------------------------------------------------------------ progress
class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_moves_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with shared.Bar("turns") as bar:
        bar(1, 2)
        bar(2, 2)
    assert terminal.getvalue() == f"\rturns [{'#' * 15}{'-' * 15}] 1/2\rturns [{'#' * 30}] 2/2\n"


def test_a_count_moves_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with shared.Counter("log.jsonl") as count:
        for read in range(1, 250):
            count(read)
    assert terminal.getvalue() == "\rlog.jsonl: 1 read\rlog.jsonl: 100 read\rlog.jsonl: 200 read\n"


@pytest.mark.parametrize(
    ("calls", "lines"),
    [
        (
            [(n, 100) for n in range(101)],
            ["turns: 0/100", "turns: 25/100", "turns: 50/100", "turns: 75/100", "turns: 100/100"],
        ),
        ([(0, 0)], ["turns: 0/0"]),
    ],
)
def test_elsewhere_progress_is_a_few_lines(
    calls: list[tuple[int, int]], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with shared.Bar("turns") as bar:
        for done, total in calls:
            bar(done, total)
    assert capsys.readouterr().err.splitlines() == lines


def test_a_command_must_say_what_it_runs() -> None:
    command: Callable[..., None] = shared.ServiceCommand().run
    with pytest.raises(NotImplementedError):
        command()


def test_the_loop_runs_in_the_foreground_over_a_model(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "no secret")
    with scripted.serve() as server:
        for role in ("generator", "judge"):
            models_setting.set_model(
                world.inventory, role, by=SYSTEM, provider="openai", model="scripted", base_url=server.base_url,
                key_name="OPENAI_API_KEY",
            )  # fmt: skip
        assert "36 items, 36 calls" in run("judge", "tiny", "--dry-run")
        with pytest.raises(CommandError, match="unpriced_ok"):
            run("judge", "tiny")
        assert not Run.objects.exists()
        said = run("judge", "tiny", "--unpriced-ok")
        assert ": complete, 36 done, 0 failed" in said
        assert "36 calls of unknown price" in said
        assert Judgement.objects.filter(judge__name__startswith="scripted").count() == 36
        said = run(
            "generate", "tiny", "cancel-order", "--param", "m=3", "--param", "again=true", "--cap-tokens", "100000"
        )
        assert ": complete" in said
        made = Exemplar.objects.filter(artifact=world.cancel, status="candidate", source="generated")
        assert made.count() == 6
    assert ": complete" in run("mine", "tiny")
