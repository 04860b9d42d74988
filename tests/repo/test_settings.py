"""A bad setting stops the start with a line that names it; secrets can come from files."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from console import env

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "mysql://127.0.0.1/signalbox"),
        ("DATABASE_URL", "sqlite:///:memory:"),
        ("REDIS_URL", "amqp://127.0.0.1"),
        ("LOCK_TIMEOUT_S", "0"),
        ("PORT", "eighty"),
        ("PORT", "70000"),
        ("SECRET_KEY", "short"),
        ("DEBUG", "maybe"),
        ("SIGNALBOX_ENCODER", "word2vec"),
        ("WEBHOOK_NETWORKS", "10.0.0.1/8"),
        ("WEBHOOK_NETWORKS", "localhost"),
        ("WEBHOOK_HTTP", "perhaps"),
    ],
)
def test_a_bad_value_stops_the_start_with_a_line_that_names_the_setting(name: str, value: str, tmp_path: Path) -> None:
    kept = {key: text for key, text in os.environ.items() if key not in {"DATABASE_URL", "REDIS_URL", "PORT", "DEBUG"}}
    environment = {
        **kept,
        "SIGNALBOX_VAR_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "console.settings",
        name: value,
    }
    done = subprocess.run(
        [sys.executable, "-c", "import console.settings"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("django.core.exceptions.ImproperlyConfigured: ")
    assert name in last


@pytest.mark.parametrize("beneath", ["", "/further"])
def test_a_file_in_the_place_of_the_folder_ends_a_command_with_one_line(tmp_path: Path, beneath: str) -> None:
    (tmp_path / "var").write_text("")
    environment = {**os.environ, "SIGNALBOX_VAR_DIR": f"{tmp_path}/var{beneath}"}
    environment["DJANGO_SETTINGS_MODULE"] = "console.settings"
    done = subprocess.run(
        [sys.executable, "manage.py", "serve"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert "SIGNALBOX_VAR_DIR" in done.stderr
    assert str(tmp_path / "var") in done.stderr


def test_a_folder_that_cannot_be_written_is_named_with_its_setting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SECRET_KEY", raising=False)

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "touch", refused)  # root may write anywhere: the kernel's answer is played
    with pytest.raises(ImproperlyConfigured, match=r"SIGNALBOX_VAR_DIR: .*secret_key .*Read-only file system"):
        env.secret_key(tmp_path)


def test_a_secret_may_come_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from a mounted file\n")
    monkeypatch.setenv("OPENAI_API_KEY_FILE", str(tmp_path / "key"))
    assert env.text("OPENAI_API_KEY") == "from a mounted file"
    monkeypatch.setenv("OPENAI_API_KEY_FILE", str(tmp_path / "nothing"))
    with pytest.raises(ImproperlyConfigured, match="OPENAI_API_KEY_FILE"):
        env.text("OPENAI_API_KEY")


def test_the_key_made_for_an_installation_is_kept_and_private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SECRET_KEY", raising=False)
    first = env.secret_key(tmp_path / "var")
    assert len(first) >= 32
    assert env.secret_key(tmp_path / "var") == first
    assert (tmp_path / "var" / "secret_key").stat().st_mode & 0o077 == 0
    assert [path.name for path in (tmp_path / "var").iterdir()] == ["secret_key"]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite:///var/a.sqlite3", {"NAME": "var/a.sqlite3"}),
        ("sqlite:////srv/a%20b.sqlite3", {"NAME": "/srv/a b.sqlite3"}),
        (
            "postgres://ada:p%40ss@127.0.0.1:5433/box",
            {"NAME": "box", "USER": "ada", "PASSWORD": "p@ss", "PORT": "5433"},
        ),
        ("postgresql://ada@/box?host=/run/postgresql", {"HOST": "/run/postgresql", "NAME": "box"}),
    ],
)
def test_database_urls(url: str, expected: dict[str, str]) -> None:
    read = env.database(url)
    assert {key: read[key] for key in expected} == expected


def test_sqlite_takes_the_write_lock_when_a_transaction_begins() -> None:
    options = env.database("sqlite:///a.sqlite3")["OPTIONS"]
    assert isinstance(options, dict)
    assert options["transaction_mode"] == "IMMEDIATE"
    assert options["timeout"] == 20
    assert env.database("postgres://ada@127.0.0.1/box", lock_s=7)["OPTIONS"] == {"options": "-c lock_timeout=7s"}
    assert "journal_mode=WAL" in options["init_command"]
