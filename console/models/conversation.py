"""Conversations, their messages, query states and vectors."""

from django.db import models
from django.db.models import Q

from console.models.base import public_id_field
from console.models.inventory import Inventory


class Conversation(models.Model):
    """Unique per inventory by its external id; may only grow."""

    public_id = public_id_field()
    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="conversations")
    external_id = models.CharField(max_length=200)
    scenario = models.CharField(
        max_length=200
    )  # the external id where the log names none; the unit of splits and intervals
    customer = models.CharField(max_length=200, blank=True)
    config = models.CharField(max_length=200, blank=True)
    channel = models.CharField(max_length=40, blank=True)
    started_at = models.DateTimeField(null=True)
    metadata = models.JSONField(default=dict)
    message_count = models.PositiveIntegerField(default=0)
    user_turn_count = models.PositiveIntegerField(default=0)
    digest = models.CharField(max_length=64, blank=True)  # the prefix digest of the last message
    replaced_characters = models.PositiveIntegerField(default=0)  # NUL and lone surrogates that became U+FFFD
    addresses_judge = models.BooleanField(default=False)  # a message speaks to the judge: flagged, never obeyed
    created_at = models.DateTimeField(auto_now_add=True)
    erased_at = models.DateTimeField(null=True)  # a tombstone: its id and this alone are left

    class Meta:
        constraints = [models.UniqueConstraint(fields=["inventory", "external_id"], name="conversation_external_id")]
        indexes = [
            models.Index(fields=["inventory", "-id"]),
            models.Index(fields=["inventory", "scenario"]),
            models.Index(
                fields=["inventory", "-erased_at"], condition=Q(erased_at__isnull=False), name="conversation_erased"
            ),
            models.Index(fields=["inventory", "-user_turn_count", "-id"], name="conversation_by_turns"),
        ]  # and conversation_by_start (migration 0013): by start, those without one last

    def __str__(self) -> str:
        return self.external_id


class Message(models.Model):
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="messages")
    index = models.PositiveIntegerField()  # 0-based over all roles, as in the log
    role = models.CharField(max_length=16)
    content = models.TextField(blank=True)
    at = models.DateTimeField(null=True)
    tool_calls = models.JSONField(default=list)
    call_id = models.CharField(max_length=200, blank=True)
    requestor = models.CharField(max_length=40, blank=True)
    visible_to_agent = models.BooleanField(default=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["conversation", "index"], name="message_index")]
        ordering = ["index"]


class QueryState(models.Model):
    """A conversation prefix ending at a user turn: what is scored and judged."""

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="states")
    user_turn = models.PositiveIntegerField()  # 0-based; pages print it + 1
    message_index = models.PositiveIntegerField()  # of the user message it ends with
    prefix_digest = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["conversation", "user_turn"], name="querystate_turn")]
        ordering = ["conversation_id", "user_turn"]


class Vector(models.Model):
    """A text's vector under one encoder, content-addressed: the same text is never embedded twice."""

    key = models.CharField(max_length=64, primary_key=True)  # sq_core.embedding.vector_key(encoder id, text)
    data = models.BinaryField()  # little-endian float32, l2-normalised, not centred


class StateView(models.Model):
    """The keys of a query state's two vectors under one encoder; absent = not embedded yet, "not scored", never zero."""

    state = models.ForeignKey(QueryState, on_delete=models.CASCADE, related_name="views")
    encoder_id = models.CharField(max_length=300)
    renderer_version = models.PositiveSmallIntegerField()
    cumulative_key = models.CharField(max_length=64)
    turn_key = models.CharField(max_length=64)
    cut = models.BooleanField(default=False)  # the prefix did not fit the encoder's window

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["state", "encoder_id", "renderer_version"], name="stateview_once")
        ]


class ConversationWords(models.Model):
    """The different words of a conversation, as `services.search` writes them: what full-text search looks in.

    On PostgreSQL a GIN index over them as a tsvector answers, without its parser: words are split in one place for all
    engines.
    """

    conversation = models.OneToOneField(
        Conversation, on_delete=models.CASCADE, primary_key=True, related_name="found_by"
    )
    words = models.TextField(blank=True)  # sorted, one space between two
    upto = models.PositiveIntegerField(default=0)  # messages read
