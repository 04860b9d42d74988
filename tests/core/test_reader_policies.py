"""Policies of ABCD's guidelines and of Botpress, with the phrases that they bring."""

import json
from typing import Any

import pytest

from sq_core.readers import ArtifactText, RowError, read_policies
from sq_core.readers.head import recognise

Json = dict[str, Any]


def read(*rows: Any) -> list[ArtifactText | RowError]:
    return list(read_policies([json.dumps(row) for row in rows], "p.json"))


def errors(*rows: Any) -> list[tuple[int, str]]:
    return [(e.line, e.field) for e in read(*rows) if isinstance(e, RowError)]


ABCD: Json = {
    "Product Defect": {
        "description": "The product is broken.",
        "subflows": {
            "Initiate Refund": {
                "instructions": ["Be kind.", ""],
                "actions": [
                    {"type": "kb query", "button": "Pull up Account", "text": "Ask for the name.",
                        "subtext": ["Full name.", "Or id."]},
                    {"type": "interaction", "button": "N/A", "text": "", "subtext": "If rude, end."},
                    {"type": "x"},
                ],
            },
            "Return": {"instructions": "Check the date.", "actions": None},
        },
    },
    "Order Issue": {"description": None, "subflows": {"Status": {"actions": [{"text": "Look it up."}]}}},
}  # fmt: skip


def test_each_subflow_is_a_policy_with_what_an_agent_reads_there() -> None:
    refund, back, status = read(ABCD)
    assert refund == ArtifactText(
        "product-defect-initiate-refund",
        "Product Defect: Initiate Refund",
        "The product is broken.\nBe kind.\n1. Pull up Account: Ask for the name."
        "\n- Full name.\n- Or id.\n2. N/A\n- If rude, end.",
    )
    assert back == ArtifactText(
        "product-defect-return", "Product Defect: Return", "The product is broken.\nCheck the date."
    )
    assert status == ArtifactText("order-issue-status", "Order Issue: Status", "1. Look it up.")
    assert [each.line for each in (refund, back, status) if isinstance(each, ArtifactText)] == [1, 2, 3]
    assert (recognise([ABCD]).what, recognise([ABCD]).format) == ("artifacts", "abcd")


def test_bad_subflows_stop_nothing() -> None:
    flows = {
        "a": 5,
        "b": {"subflows": {
            "empty": {}, "list": [], "odd": {"instructions": [5]}, "bad": {"actions": {}}, "worse": {"actions": [7]},
            "point": {"actions": [{"subtext": 5}]}, "!": {"instructions": "x"}, "good": {"instructions": "x"}}},
        "!": {"subflows": {"!": {"instructions": "x"}}},
    }  # fmt: skip
    assert errors(flows) == [
        (1, "a.subflows"), (2, "b.subflows.empty.instructions"), (3, "b.subflows.list"), (4, "b.subflows.odd.instructions"),
        (5, "b.subflows.bad.actions"), (6, "b.subflows.worse.actions[0]"), (7, "b.subflows.point.actions[0].subtext"),
        (10, "!.subflows.!"),
    ]  # fmt: skip
    assert [each.key for each in read(flows) if isinstance(each, ArtifactText)] == ["b", "b-good"]


def question(id_: str, questions: Any, answers: Any, **more: Any) -> Json:
    return {"id": id_, "data": {"action": "text", "contexts": ["global"], "enabled": True, "questions": questions,
                                "answers": answers, "redirectFlow": "", "redirectNode": "", **more}}  # fmt: skip


@pytest.mark.parametrize(
    ("questions", "answers"),
    [
        (["Where is it?", "my parcel?", "Where is it?"], ["On its way.", "Soon."]),
        ({"en": ["Where is it?"], "de": ["my parcel?"]}, {"de": ["Bald."], "en": ["On its way."]}),
        ({"fr": ["Where is it?", "my parcel?"]}, {"fr": [" ", "#!builtin_text-x", "On its way."]}),
    ],
)
def test_questions_of_botpress_bring_their_answer_and_their_phrases(questions: Any, answers: Any) -> None:
    row = question("x1_where_is_it", questions, answers)
    policy = ArtifactText("x1-where-is-it", "Where is it?", "On its way.", "policy", ("Where is it?", "my parcel?"))
    assert read(row) == read([row]) == read({"qnas": [row], "contentElements": []}) == [policy]
    assert (recognise([row]).what, recognise([row]).format) == ("artifacts", "botpress")


def test_a_question_that_leads_elsewhere_asks_for_a_text() -> None:
    (found,) = read(question("go", {"en": ["talk to a person"]}, {"en": []}, action="redirect"))
    assert isinstance(found, ArtifactText)
    assert found.text == "Question: talk to a person"


def test_intents_of_botpress_suggest_their_phrases() -> None:
    intent = {"name": "track_order", "contexts": ["global"], "slots": [], "utterances": {
        "en": ["where is [my order](order)", ""], "fr": ["où est ma commande"]}}  # fmt: skip
    signals = ("where is my order", "où est ma commande")
    assert read(intent) == [ArtifactText("track-order", "Track order", "Intent: track order", "policy", signals)]
    assert recognise([intent]).format == "botpress"
    assert recognise([{"name": "a", "utterances": []}]).format == "semantic-router"


def test_bad_rows_of_botpress_are_named() -> None:
    rows = [
        question("a", {"en": 5}, []), question("b", ["x", 5], []), question("c", [" "], []), question("d", ["x"],
            {"en": ["y"]}, enabled=False),
        question("!", ["?"], ["y"]), {"name": "!", "contexts": [], "utterances": []}, {"name": "e", "slots": [],
            "utterances": ["x"] * 10_001},
        {"qnas": [7, question("g", ["x"], 5)]},
    ]  # fmt: skip
    assert errors(*rows) == [
        (1, "data.questions.en"), (2, "data.questions[1]"), (3, "data.questions"), (4, "data.enabled"), (5, "id"), (6,
            "name"),
        (7, "utterances"), (1, "qnas[0]"), (2, "qnas[1].data.answers"),
    ]  # fmt: skip
