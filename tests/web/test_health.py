"""healthz touches nothing; readyz names what is away."""

import io
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.management import call_command
from django.db import DatabaseError
from django.test import Client
from django.utils import timezone

import sq_core.encoders
from console.models import Heartbeat
from console.services import health, heartbeat
from sq_core.embedding import EncoderUnavailable
from sq_core.encoders import minilm_weights
from sq_core.encoders.local import MiniLM
from tests.conftest import missing


def test_healthz_answers_without_database_or_session(client: Client) -> None:
    # No `db` fixture: a query would fail the test.
    response = client.get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert "no-store" in response["Cache-Control"]
    assert client.post("/healthz").status_code == 405


@pytest.mark.django_db
def test_readyz_is_ok_when_every_part_is_there(client: Client) -> None:
    heartbeat.beat(heartbeat.WORKER)
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == dict.fromkeys(["status", "database", "broker", "encoder", "worker"], "ok")


@pytest.mark.django_db
def test_readyz_says_that_no_worker_reported_and_how_long_one_is_silent(client: Client) -> None:
    response = client.get("/readyz")
    assert (response.status_code, response.json()["worker"]) == (503, "away: no worker has reported yet")
    heartbeat.beat(heartbeat.WORKER)
    Heartbeat.objects.update(at=timezone.now() - timedelta(seconds=90))
    assert client.get("/readyz").json()["worker"] in {"away: silent for 90 s", "away: silent for 91 s"}


@pytest.mark.django_db
def test_readyz_says_why_the_encoder_is_away(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(name: str, **options: Any) -> None:
        raise EncoderUnavailable("its files are missing: run make setup")

    monkeypatch.setattr("console.services.embed.get_encoder", away)
    body = client.get("/readyz").json()
    assert (body["status"], body["encoder"]) == ("away", "away: its files are missing: run make setup")
    assert sq_core.encoders  # the registry itself is untouched


@pytest.mark.django_db
@pytest.mark.minilm
def test_truncated_weights_are_told_by_readyz_and_at_the_start(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x")
    tokenizer = minilm_weights.default_directory() / "tokenizer.json"
    if not tokenizer.is_file():
        missing("the local encoder's weights are absent; `make setup` fetches them", unless="REQUIRE_ENGINES")
    (tmp_path / "tokenizer.json").symlink_to(tokenizer)
    monkeypatch.setitem(sq_core.encoders._built, ("minilm", ()), MiniLM(tmp_path))
    said = f"away: minilm: {tmp_path}/model.safetensors has 1 bytes, expected 90868376"
    assert client.get("/readyz").json()["encoder"].startswith(said)

    errors = io.StringIO()
    monkeypatch.setattr("console.management.commands.serve._check_port", lambda port: None)
    monkeypatch.setattr("console.management.commands.serve._collect_static", lambda: None)
    monkeypatch.setattr("console.management.commands.serve.connections.close_all", lambda: None)
    monkeypatch.setattr("console.management.supervisor.Supervisor.run", lambda self: 0)
    call_command("serve", "--no-sample", stdout=io.StringIO(), stderr=errors)
    assert f"The encoder is {said}" in errors.getvalue()


@pytest.mark.django_db
def test_readyz_names_a_redis_that_does_not_answer(client: Client, settings: LazySettings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    body = client.get("/readyz").json()
    assert body["status"] == "away"
    assert body["broker"].startswith("away: ")
    assert "127.0.0.1:1" in body["broker"]


@pytest.mark.django_db
def test_readyz_names_a_queue_folder_that_is_gone(client: Client, settings: LazySettings) -> None:
    settings.CELERY_BROKER_TRANSPORT_OPTIONS = {"data_folder_in": str(settings.VAR_DIR / "gone")}
    assert client.get("/readyz").json()["broker"] == "away: No such file or directory"


def test_a_database_that_is_away_does_not_hide_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    class Away:
        def cursor(self) -> None:
            raise DatabaseError("could not connect\nis the server running?")

    def silent(name: str) -> None:
        raise DatabaseError("could not connect")

    monkeypatch.setattr(health, "connection", Away())
    monkeypatch.setattr(heartbeat, "silence", silent)
    assert health.readiness() == {
        "database": "away: could not connect",
        "broker": "ok",
        "encoder": "ok",
        "worker": "unknown: its sign of life is in the database",
    }
