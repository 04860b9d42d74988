"""What `docker compose` would run: every part watched, bounded, without a secret in the file; and its commands exist."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
SERVICES = {"web", "worker", "beat", "postgres", "redis"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8")))


def test_every_part_is_watched_and_bounded(compose: dict[str, Any]) -> None:
    assert set(compose["services"]) == SERVICES
    for name, service in compose["services"].items():
        assert service["healthcheck"]["test"], name
        assert service["restart"] == "unless-stopped", name
        limits = service["deploy"]["resources"]["limits"]
        assert set(limits) == {"cpus", "memory"}, name
    assert {"var", "postgres"} <= set(compose["volumes"])


def test_secrets_are_files_and_none_has_a_default(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        for key, value in service.get("environment", {}).items():
            assert "PASSWORD" not in key or key.endswith("_FILE"), (name, key)
            assert not str(value).startswith("postgres://"), (name, key)
        for secret in service.get("secrets", []):
            assert compose["secrets"][secret]["file"].startswith("./secrets/")
    ignored = (ROOT / ".gitignore").read_text() + (ROOT / ".dockerignore").read_text()
    assert ignored.count("secrets") == 2


def test_make_secrets_writes_what_the_file_names_and_overwrites_nothing(
    compose: dict[str, Any], tmp_path: Path
) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)

    def make() -> dict[str, str]:
        subprocess.run(["make", "secrets"], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
        return {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}

    first = make()
    assert set(first) == set(compose["secrets"])
    assert len(first["secret_key"].strip()) >= 32
    assert first["postgres_password"] in first["database_url"]
    assert make() == first


def test_the_compose_client_accepts_the_file_where_there_is_one(tmp_path: Path) -> None:
    commands = [["docker", "compose"], ["docker-compose"]]
    found = next((c for c in commands if shutil.which(c[0]) and _answers([*c, "version"])), None)
    if found is None:
        pytest.skip("no compose client here")
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    done = subprocess.run(
        [*found, "config", "--quiet"], cwd=tmp_path, capture_output=True, env=dict(os.environ), check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def _answers(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
