"""Full-text search: the words of each conversation, with a GIN index on PostgreSQL; orders of the list by start and turns."""

import django.db.models.deletion
from django.db import migrations, models

from console.services.search_words import words

PIECE = 200
MOST = 400_000


def indexes(apps, schema_editor):
    on = schema_editor.connection.vendor == "postgresql"
    last = "started_at DESC NULLS LAST" if on else "started_at DESC"
    schema_editor.execute(
        f"CREATE INDEX conversation_by_start ON console_conversation (inventory_id, {last}, id DESC)", params=None
    )
    if on:
        schema_editor.execute(
            "CREATE INDEX conversationwords_gin ON console_conversationwords "
            "USING gin (array_to_tsvector(string_to_array(words, ' ')))",
            params=None,
        )


def no_indexes(apps, schema_editor):
    schema_editor.execute("DROP INDEX conversation_by_start")
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP INDEX conversationwords_gin")


def fill(apps, schema_editor):
    """The words of what is there already; imports write those of what comes."""
    conversation, message = apps.get_model("console", "Conversation"), apps.get_model("console", "Message")
    made = apps.get_model("console", "ConversationWords")
    last = 0
    while piece := list(conversation.objects.filter(pk__gt=last).order_by("pk")[:PIECE]):
        found = {c.pk: words(f"{c.external_id} {c.scenario} {c.customer}") for c in piece}
        said = message.objects.filter(conversation__in=piece).values_list("conversation_id", "content")
        for pk, content in said.iterator(chunk_size=2_000):
            found[pk] |= words(content)
        made.objects.bulk_create(made(conversation=c, words=_kept(found[c.pk]), upto=c.message_count) for c in piece)
        last = piece[-1].pk


def _kept(found):
    text = " ".join(sorted(found))
    if len(text.encode()) > MOST:
        text = text.encode()[:MOST].decode(errors="ignore").rpartition(" ")[0]
    return text


class Migration(migrations.Migration):
    dependencies = [("console", "0012_evaluation")]
    operations = [
        migrations.CreateModel(
            name="ConversationWords",
            fields=[
                (
                    "conversation",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="found_by",
                        serialize=False,
                        to="console.conversation",
                    ),
                ),
                ("words", models.TextField(blank=True)),
                ("upto", models.PositiveIntegerField(default=0)),
            ],
        ),
        migrations.AddIndex(
            model_name="conversation",
            index=models.Index(fields=["inventory", "-user_turn_count", "-id"], name="conversation_by_turns"),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.RunPython(indexes, no_indexes),
    ]
