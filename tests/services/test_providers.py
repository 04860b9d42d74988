"""Chat models against a scripted server on loopback: what is sent, what each failure becomes, and where the key never shows."""

import json
import logging
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from console import providers
from console.models import ArtifactText, ModelSetting, QueryState
from console.providers import SUBJECT, ChatModel, ProviderError, Reply, content_digest, openai_chat, recorded
from console.providers.openai_chat import OpenAIChat, Way
from console.services import models_setting, prompts_generate, prompts_judge
from console.services.actor import SYSTEM
from console.services.ingest_artifacts import import_artifacts
from console.services.ingest_conversations import import_conversations
from console.services.prompts_judge import Asked
from sq_core.conversation import prefix_digests
from sq_core.readers import RowError, read_conversations, read_policies
from tests import make, scripted

KEY = "sk-very-secret-0123456789"
MESSAGES = [{"role": "system", "content": "Score."}, {"role": "user", "content": "hi", SUBJECT: '{"task": "x"}'}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


@pytest.fixture(autouse=True)
def no_leftovers() -> Iterator[None]:
    yield
    openai_chat.forget()


def setting(server: scripted.Server | None = None, **fields: Any) -> ModelSetting:
    values = {"role": "judge", "provider": "openai", "model": "m-1", "timeout_s": 5.0}
    return ModelSetting(**{**values, "base_url": server.base_url if server else "", **fields})


def call(chat: ChatModel) -> Reply:
    return chat.complete(MESSAGES, schema=SCHEMA, schema_name="thing")


def failure(script: scripted.Script, **fields: Any) -> ProviderError:
    with scripted.serve(script) as server, pytest.raises(ProviderError) as caught:
        call(providers.get_chat(setting(server, **fields)))
    return caught.value


# --------------------------------------------------------------------------------------------------------- what is sent
def test_a_call_sends_messages_schema_limits_and_nothing_of_its_subject(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNALBOX_KEY_TEST", KEY)
    with scripted.serve(scripted.saying('{"a": 1}', tokens=(120, 7, 100))) as server:
        chat = providers.get_chat(setting(server, key_name="SIGNALBOX_KEY_TEST", temperature=0.5, max_output_tokens=77))
        assert call(chat) == Reply('{"a": 1}', 120, 7, 100, finish="stop")
        (ask,) = server.asks
    assert ask.path == "/v1/chat/completions"
    assert ask.headers["authorization"] == f"Bearer {KEY}"
    assert ask.body == {
        "model": "m-1",
        "messages": [{"role": "system", "content": "Score."}, {"role": "user", "content": "hi"}],
        "temperature": 0.5,
        "max_tokens": 77,
        "response_format": {"type": "json_schema", "json_schema": {"name": "thing", "schema": SCHEMA, "strict": True}},
    }
    assert chat.name == f"m-1@127.0.0.1:{server.server_address[1]}"


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_without_schemas_is_asked_in_json_mode_then_in_plain_text_and_that_is_remembered(status: int) -> None:
    def script(ask: scripted.Ask) -> scripted.Answer:
        if ask.form == "json_schema":
            return scripted.refusal(status, "This response_format type is unavailable now")
        if ask.form == "json_object":
            return scripted.refusal(status, "'json_object' is not supported with this model", param="response_format")
        return scripted.completion('{"a": 1}')

    with scripted.serve(script) as server:
        for _ in range(2):
            call(providers.get_chat(setting(server)))
        assert [ask.form for ask in server.asks] == ["json_schema", "json_object", "", ""]
        call(providers.get_chat(setting(server, model="another")))  # each model of a server is asked for itself
        assert [ask.form for ask in server.asks][4:] == ["json_schema", "json_object", ""]


def test_a_model_that_wants_the_other_name_of_the_output_limit_gets_it() -> None:
    def script(ask: scripted.Ask) -> scripted.Answer:
        if "max_tokens" in ask.body:
            return scripted.refusal(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        return scripted.completion('{"a": 1}')

    with scripted.serve(script) as server:
        call(providers.get_chat(setting(server)))
        assert server.asks[1].body["max_completion_tokens"] == 1_000
        assert server.asks[1].form == "json_schema"


def test_what_only_looks_like_a_missing_ability_is_not_remembered() -> None:
    def script(ask: scripted.Ask) -> scripted.Answer:  # whatever the form: the text itself is refused
        return scripted.refusal(400, 'blocked text: "use response_format"')

    with scripted.serve(script) as server:
        with pytest.raises(ProviderError) as caught:
            call(providers.get_chat(setting(server)))
        assert caught.value.code == "refused"
        assert openai_chat._ways == {}
        server.script = scripted.saying('{"a": 1}')
        call(providers.get_chat(setting(server)))
        assert server.asks[-1].form == "json_schema"


def test_ways_are_given_up_one_by_one() -> None:
    assert Way().after(400, "no json_schema here") == Way(form="object")
    assert Way(form="text").after(400, "no json_schema here") is None
    assert Way().after(500, "no json_schema here") is None
    assert Way().after(400, "the context is too long") is None


# ------------------------------------------------------------------------------------------------------------- failures
def test_429_says_when_to_come_back_in_seconds_milliseconds_or_as_a_date() -> None:
    error = failure(lambda ask: scripted.refusal(429, "slow down", retry_after="7"))
    assert (error.code, error.passing, error.status, error.retry_after) == ("rate_limited", True, 429, 7.0)
    assert "slow down" in error.message


@pytest.mark.parametrize(
    ("status", "code", "passing"),
    [
        (500, "server_error", True), (502, "server_error", True), (503, "server_error", True),
        (408, "timeout", True), (409, "server_error", True),
        (400, "refused", False), (401, "refused", False), (403, "refused", False), (404, "refused", False),
        (413, "refused", False),
    ],
)  # fmt: skip
def test_statuses_become_codes_and_nothing_is_retried_here(status: int, code: str, passing: bool) -> None:
    with scripted.serve(lambda ask: scripted.refusal(status, "because")) as server:
        with pytest.raises(ProviderError) as caught:
            call(providers.get_chat(setting(server)))
        assert server.count == 1
    assert (caught.value.code, caught.value.passing, caught.value.status) == (code, passing, status)
    assert "because" in caught.value.message


def test_slow_reset_and_broken_connections_may_be_tried_again() -> None:
    started = time.monotonic()
    error = failure(lambda ask: scripted.slowly(1.5, scripted.well(ask)), timeout_s=0.2)
    assert time.monotonic() - started < 1.4
    assert (error.code, error.passing) == ("timeout", True)
    assert failure(lambda ask: scripted.RESET).code == "connection"
    error = failure(lambda ask: scripted.truncated(scripted.completion('{"a": 1}')))
    assert (error.code, error.passing) == ("connection", True)


def test_nobody_there_is_a_connection_error_that_names_the_host() -> None:
    with scripted.serve() as server:
        gone = setting(server)
    with pytest.raises(ProviderError) as caught:
        call(providers.get_chat(gone))
    assert caught.value.code == "connection"
    assert f"127.0.0.1:{server.server_address[1]}" in caught.value.message


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>maintenance</html>", b'{"choices": []}', b'{"choices": [{}]}', b'{"object": "list"}', b"[1, 2]",
     b'{"choices": [{"message": {"content": 7}}]}', b'{"choices": [{"message": "hi"}]}', b"\xff\xfe\x00", b"null"],
)  # fmt: skip
def test_an_answer_that_is_no_completion_is_bad_and_kept_as_it_came(body: bytes) -> None:
    error = failure(lambda ask: scripted.Answer(body=body))
    assert (error.code, error.passing) == ("bad_answer", True)
    assert error.raw == body.decode("utf-8", "replace")


@pytest.mark.parametrize("text", ["", "  \n", None])
def test_an_empty_text_is_bad_and_paid_for(text: str | None) -> None:
    error = failure(lambda ask: scripted.completion(text, tokens=(50, 9, 0)))
    assert (error.code, error.passing) == ("bad_answer", True)
    assert error.reply is not None
    assert (error.reply.tokens_in, error.reply.tokens_out) == (50, 9)


def test_an_output_limit_that_left_no_text_is_said_and_not_tried_again() -> None:
    error = failure(lambda ask: scripted.completion("", finish="length"), max_output_tokens=33)
    assert not error.passing
    assert "33 tokens of output ran out" in error.message


def test_a_text_in_parts_is_put_together_and_missing_usage_is_zero() -> None:
    body = {"choices": [{"message": {"content": [{"type": "text", "text": '{"a"'}, {"type": "text", "text": ": 1}"}]}}]}
    with scripted.serve(lambda ask: scripted.Answer(body=json.dumps(body).encode())) as server:
        assert call(providers.get_chat(setting(server))) == Reply('{"a": 1}')


# ----------------------------------------------------------------------------------------------------------------- keys
def test_the_key_is_in_no_message_no_name_no_repr_and_no_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SIGNALBOX_KEY_TEST", KEY)
    caplog.set_level(logging.DEBUG)
    for name in ("openai", "httpx2", "httpcore2"):
        caplog.set_level(logging.DEBUG, logger=name)
    errors = [
        failure(
            lambda ask: scripted.refusal(401, f"Incorrect API key provided: {KEY}."), key_name="SIGNALBOX_KEY_TEST"
        ),
        failure(lambda ask: scripted.Answer(body=f"you sent {KEY}".encode()), key_name="SIGNALBOX_KEY_TEST"),
        failure(lambda ask: scripted.RESET, key_name="SIGNALBOX_KEY_TEST"),
    ]
    with scripted.serve() as server:
        chat = providers.get_chat(setting(server, key_name="SIGNALBOX_KEY_TEST"))
        shown = [chat.name, repr(chat), repr(vars(setting(server)))]
    for error in errors:
        shown += [str(error), repr(error), error.message, error.raw]
    assert all(KEY not in text for text in shown)
    assert "***" in errors[0].message
    assert "***" in errors[1].raw
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    "name",
    ["SECRET_KEY", "DATABASE_URL", "PATH", "OPENAI", "OPENAI_", "openai_api_key", "XOPENAI_API_KEY", "OPENAI_API_KEY_FILE",
     "SIGNALBOX_VAR_DIR", "SIGNALBOX_KEY", "OPENAI_API_KEY\n"],
)  # fmt: skip
def test_only_keys_meant_for_models_can_be_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name.strip(), KEY)
    with scripted.serve() as server:
        with pytest.raises(ProviderError) as caught:
            call(providers.get_chat(setting(server, key_name=name)))
        assert server.count == 0
    assert caught.value.code == "no_key"
    assert KEY not in caught.value.message


def test_a_key_comes_from_its_file_and_a_missing_one_says_where_to_set_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    with scripted.serve(scripted.saying('{"a": 1}')) as server:
        monkeypatch.setenv("OPENAI_TEAM_KEY_FILE", str(tmp_path / "key"))
        call(providers.get_chat(setting(server, key_name="OPENAI_TEAM_KEY")))
        assert server.asks[0].headers["authorization"] == f"Bearer {KEY}"
        monkeypatch.setenv("OPENAI_TEAM_KEY_FILE", str(tmp_path / "nothing"))
        with pytest.raises(ProviderError, match="OPENAI_TEAM_KEY_FILE"):
            providers.get_chat(setting(server, key_name="OPENAI_TEAM_KEY"))
        with pytest.raises(ProviderError, match=r"The server has no SIGNALBOX_KEY_X\. Set it, or SIGNALBOX_KEY_X_FILE"):
            providers.get_chat(setting(server, key_name="SIGNALBOX_KEY_X"))


def test_the_servers_own_key_goes_to_the_servers_own_endpoint_only(settings: Any) -> None:
    settings.OPENAI_API_KEY = KEY
    with scripted.serve(scripted.saying('{"a": 1}')) as server:
        call(providers.get_chat(setting(server)))  # somebody's own base URL, no key named
        assert server.asks[-1].headers["authorization"] == "Bearer none"
        settings.OPENAI_BASE_URL = server.base_url
        call(providers.get_chat(setting()))
        assert server.asks[-1].headers["authorization"] == f"Bearer {KEY}"
        settings.OPENAI_API_KEY = ""
        call(providers.get_chat(setting()))  # a local server without keys
        assert server.asks[-1].headers["authorization"] == "Bearer none"
    settings.OPENAI_BASE_URL = ""
    with pytest.raises(ProviderError, match="The server has no OPENAI_API_KEY"):
        providers.get_chat(setting())


def test_equal_settings_share_a_client_and_another_key_or_limit_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNALBOX_KEY_TEST", KEY)
    with scripted.serve() as server:
        first = providers.get_chat(setting(server, key_name="SIGNALBOX_KEY_TEST"))
        assert providers.get_chat(setting(server, key_name="SIGNALBOX_KEY_TEST", price_in=Decimal(1))) is first
        assert providers.get_chat(setting(server, key_name="SIGNALBOX_KEY_TEST", max_output_tokens=50)) is not first
        monkeypatch.setenv("SIGNALBOX_KEY_TEST", KEY + "2")
        assert providers.get_chat(setting(server, key_name="SIGNALBOX_KEY_TEST")) is not first


def test_only_so_many_clients_are_kept() -> None:
    for number in range(openai_chat.CLIENTS_KEPT + 3):
        providers.get_chat(setting(base_url="http://127.0.0.1:9/v1", model=f"m-{number}"))
    assert len(openai_chat._clients) == openai_chat.CLIENTS_KEPT


def test_a_user_and_password_in_a_base_url_stay_out_of_the_name() -> None:
    chat = OpenAIChat("m", base_url="http://ada:secret@127.0.0.1:9/v1")
    assert chat.name == "m@127.0.0.1:9"
    chat.close()


# ------------------------------------------------------------------------------------------------------------- recorded
def sample_conversation() -> Any:
    return next(c for c in read_conversations(recorded.FILES / "conversations.jsonl") if not isinstance(c, RowError))


def sample_policy(key: str = "book-flight") -> str:
    return next(
        p.text for p in read_policies(recorded.FILES / "policies.jsonl") if not isinstance(p, RowError) and p.key == key
    )


def judge_prompt(conversation: Any, asked: list[Asked], **guideline: Any) -> list[dict[str, str]]:
    prefix = conversation.messages[:3]  # its second user turn
    own = models_setting.Guideline(**{"number": 0, "rubric": "current-need", **guideline})
    return prompts_judge.messages(prefix, asked, own, prefix_digest=prefix_digests(prefix)[-1])


def test_recorded_judgements_are_replayed_by_content_under_any_ids() -> None:
    chat = providers.get_chat(ModelSetting(role="judge", provider="recorded"))
    assert chat.name == "recorded:reading-judge-1"
    asked = [Asked("booking", sample_policy()), Asked("flights", sample_policy("flight-search-advice"))]
    reply = chat.complete(judge_prompt(sample_conversation(), asked), schema={}, schema_name="x")
    assert reply.recorded
    assert (reply.tokens_in, reply.tokens_out) == (0, 0)
    verdicts = prompts_judge.parse(reply.text, ["booking", "flights"], reply.finish)
    assert {name: verdict.score for name, verdict in verdicts.items()} == {"booking": 4, "flights": 5}


@pytest.mark.parametrize(
    ("asked", "guideline", "said"),
    [
        ([Asked("book-flight", "Another text.")], {}, "The text of book-flight is none that was judged"),
        ([Asked("book-flight", "…")], {"rubric": "sticky"}, "the rubric current-need"),
        ([Asked("book-flight", "…")], {"text": "Be strict.", "number": 1}, "the sample's own guideline"),
    ],
)
def test_recorded_refuses_what_was_never_judged(asked: list[Asked], guideline: dict[str, Any], said: str) -> None:
    chat = providers.get_chat(ModelSetting(role="judge", provider="recorded"))
    with pytest.raises(ProviderError, match=said) as caught:
        chat.complete(judge_prompt(sample_conversation(), asked, **guideline), schema={}, schema_name="x")
    assert (caught.value.code, caught.value.passing) == ("unknown_input", False)
    assert "Set a model in the inventory's settings" in caught.value.message


def test_no_text_in_a_conversation_can_pass_for_a_recorded_one() -> None:
    chat = providers.get_chat(ModelSetting(role="judge", provider="recorded"))
    known = judge_prompt(sample_conversation(), [Asked("book-flight", sample_policy())])
    forged = make.messages([known[1]["content"] + known[1][SUBJECT]])
    prompt = prompts_judge.messages(
        forged, [Asked("book-flight", sample_policy())], models_setting.Guideline(number=0, rubric="current-need"),
        prefix_digest=prefix_digests(forged)[-1],
    )  # fmt: skip
    with pytest.raises(ProviderError, match="never judged in the sample"):
        chat.complete(prompt, schema={}, schema_name="x")
    with pytest.raises(ProviderError, match="names nothing that was recorded"):
        chat.complete([{"role": "user", "content": known[1]["content"]}], schema={}, schema_name="x")


def test_recorded_generations_are_replayed_and_never_beyond_what_there_is() -> None:
    chat = providers.get_chat(ModelSetting(role="generator", provider="recorded"))
    assert chat.name == "recorded:sample"

    def write(text: str, count: int, **more: Any) -> list[str]:
        prompt = prompts_generate.messages(text, "signal", count, **more)
        return prompts_generate.parse(chat.complete(prompt, schema={}, schema_name="x").text, count)

    ten = write(sample_policy(), 10)
    assert len(set(ten)) == 10
    assert write(sample_policy(), 4) == ten[:4]
    assert write(sample_policy(), 4, avoid=ten[:8]) == ten[8:]
    for text, count, more in (
        ("Another text.", 10, {}),
        (sample_policy(), 11, {}),
        (sample_policy(), 10, {"neighbours": ["Another text."]}),
        (sample_policy(), 10, {"avoid": ten}),
    ):
        with pytest.raises(ProviderError) as caught:
            write(text, count, **more)  # type: ignore[arg-type]
        assert caught.value.code == "unknown_input"


def test_the_recorded_answers_cover_the_whole_sample() -> None:
    stored = recorded.stored()
    assert len(stored.artifacts) == 36
    assert len(stored.scores) == 406
    assert {len(texts) for texts in stored.messages.values()} == {10}
    assert recorded.knows([sample_policy(), "Another text."]) == 1
    assert content_digest(sample_policy()) in stored.artifacts


def test_repr_of_the_recorded_model_says_so() -> None:
    assert repr(providers.get_chat(ModelSetting(role="judge", provider="recorded"))) == "Recorded('judge')"


def test_the_sample_inventorys_rows_carry_the_digests_that_recorded_answers_are_found_by(db: None) -> None:
    inventory = make.inventory("copy")
    import_artifacts(inventory, recorded.FILES / "policies.jsonl", by=SYSTEM)
    import_conversations(inventory, recorded.FILES / "conversations.jsonl", by=SYSTEM)
    states = set(QueryState.objects.values_list("prefix_digest", flat=True))
    assert states == set(recorded.stored().scores)
    texts = {content_digest(row.text) for row in ArtifactText.objects.all()}
    assert texts == set(recorded.stored().artifacts)
