"""The load test's inventory: the sizes asked for, nothing that passes for real, and rows the rest of the app takes."""

import pytest
from django.core.management import CommandError, call_command

from console.models import (
    ClassifierVersion,
    Conversation,
    ConversationWords,
    Decision,
    Discovery,
    Inventory,
    Judgement,
    Message,
    QueryState,
    StateView,
    Vector,
)
from console.services import fit, seed_talk
from console.services.actor import SYSTEM
from console.services.embed import encoder_for, pending_states, stored, to_message
from console.services.errors import Invalid
from console.services.seed_large import Size, seed_large
from sq_core import conversation as log
from sq_core.embedding import vector_key
from tests import make

SMALL = Size(
    policies=12, conversations=60, turns=300, judgements=1_500, decisions=700, dimension=32, seed=7, scored=0.5
)


@pytest.fixture
def seeded(db: None) -> Inventory:
    return seed_large("made-up", SMALL, by=SYSTEM)


def test_it_has_the_sizes_asked_for(seeded: Inventory) -> None:
    states = QueryState.objects.filter(conversation__inventory=seeded)
    assert Conversation.objects.filter(inventory=seeded).count() == SMALL.conversations
    assert ConversationWords.objects.filter(conversation__inventory=seeded).count() == SMALL.conversations
    assert states.count() == SMALL.turns
    assert Judgement.objects.filter(judge__inventory=seeded).count() == SMALL.judgements
    assert Discovery.objects.filter(inventory=seeded).count() == SMALL.turns
    assert Decision.objects.filter(discovery__inventory=seeded).count() == SMALL.decisions
    assert ClassifierVersion.objects.current().filter(artifact__inventory=seeded).count() == SMALL.policies
    scored = StateView.objects.filter(state__conversation__inventory=seeded).values("state__conversation").distinct()
    assert scored.count() == SMALL.conversations * SMALL.scored


def test_what_is_made_up_says_so(seeded: Inventory) -> None:
    assert "made up" in seeded.name
    assert seeded.encoder_id == "synthetic:unit-vectors/1:seed=7:dim=32"
    assert set(Judgement.objects.filter(judge__inventory=seeded).values_list("reason", flat=True)) == {"made up"}
    assert set(Discovery.objects.filter(inventory=seeded).values_list("agent", flat=True)) == {"made-up agent"}


def test_rows_are_those_an_import_would_have_made(seeded: Inventory) -> None:
    conversation = Conversation.objects.filter(inventory=seeded, states__views__isnull=False).latest("pk")
    messages = [to_message(row) for row in Message.objects.filter(conversation=conversation)]
    digests = log.prefix_digests(messages)
    assert (conversation.message_count, conversation.digest) == (len(messages), digests[-1])
    states = list(QueryState.objects.filter(conversation=conversation))
    assert [s.message_index for s in states] == list(log.user_turns(messages))
    assert [s.prefix_digest for s in states] == [digests[s.message_index] for s in states]
    view = StateView.objects.get(state=states[-1])
    encoder = encoder_for(seeded)
    assert view.cumulative_key == vector_key(encoder.id, log.render(messages))
    assert (stored([view.cumulative_key])[view.cumulative_key] == encoder.encode([log.render(messages)])[0]).all()
    judged = Judgement.objects.filter(judge__inventory=seeded).select_related("state")
    assert all(j.prefix_digest == j.state.prefix_digest for j in judged)


def test_versions_are_fitted_and_reproduce(seeded: Inventory) -> None:
    versions = ClassifierVersion.objects.current().filter(artifact__inventory=seeded)
    for version in versions.select_related("artifact__inventory", "centre"):
        assert fit.reproduce(version).max_abs_difference == 0
    first = versions.get(artifact__key="policy-00000")
    assert first.number == 13  # twelve examples have made a history
    assert first.metrics["n"] > 0
    caught = sum(v.metrics["tp"] for v in versions)
    assert caught > 0.5 * sum(v.metrics["relevant"] for v in versions)  # it has learnt something


def test_pages_open(seeded: Inventory, client: object) -> None:
    user = make.user("rita", "admin", seeded)
    client.force_login(user)  # type: ignore[attr-defined]
    talk = Conversation.objects.filter(inventory=seeded, states__views__isnull=False).latest("pk").public_id
    for page in ("", "policies/", "policies/policy-00000/", "conversations/", f"conversations/{talk}/", "releases/"):
        assert client.get(f"/i/made-up/{page}").status_code == 200, page  # type: ignore[attr-defined]


def test_the_same_seed_says_the_same(db: None) -> None:
    one, two = (seed_large(slug, SMALL, by=SYSTEM) for slug in ("one", "two"))
    said = [
        [
            text.rpartition(" (")[0]
            for text in Message.objects.filter(conversation__inventory=inventory)
            .order_by("conversation_id", "index")
            .values_list("content", flat=True)
        ]
        for inventory in (one, two)
    ]
    assert said[0] == said[1]
    hashes = [
        list(
            ClassifierVersion.objects.current()
            .filter(artifact__inventory=inventory)
            .order_by("artifact__position")
            .values_list("weight_hash", flat=True)
        )
        for inventory in (one, two)
    ]
    assert hashes[0] == hashes[1]


def test_an_inventory_that_exists_is_refused_and_left_alone(world: make.World) -> None:
    before = Vector.objects.count()
    with pytest.raises(CommandError, match="There is an inventory tiny already"):
        call_command("seed_large", "tiny", conversations=10, turns=20, judgements=10, decisions=10)
    assert Vector.objects.count() == before
    assert Conversation.objects.filter(inventory=world.inventory).count() == len(world.talks)


@pytest.mark.parametrize(
    ("field", "size"),
    [
        ("turns", Size(conversations=10, turns=9)),
        ("policies", Size(policies=1)),
        ("scored", Size(scored=0)),
        ("judgements", Size(policies=2, conversations=10, turns=10, judgements=1_000)),
    ],
)
def test_sizes_that_cannot_be_are_refused(db: None, field: str, size: Size) -> None:
    with pytest.raises(Invalid) as refused:
        seed_large("made-up", size, by=SYSTEM)
    assert refused.value.field == field
    assert not Inventory.objects.exists()


def test_everything_is_scored_unless_asked_otherwise(db: None) -> None:
    size = Size(policies=3, conversations=10, turns=25, judgements=40, decisions=30, dimension=16)
    inventory = seed_large("whole", size, by=SYSTEM)
    assert not pending_states(inventory).exists()
    counts = list(Conversation.objects.filter(inventory=inventory).values_list("user_turn_count", flat=True))
    assert sum(counts) == size.turns
    assert min(counts) >= 1


def test_words_are_another_one_for_each_number() -> None:
    assert len({seed_talk.word(n) for n in range(20_000)}) == 20_000
