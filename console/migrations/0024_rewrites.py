"""What models made of requests, for evidence plans."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0023_webhooks"),
    ]

    operations = [
        migrations.CreateModel(
            name="Rewrite",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("model", models.CharField(max_length=200)),
                ("prompt_version", models.CharField(max_length=40)),
                ("prefix_digest", models.CharField(max_length=64)),
                ("text", models.TextField()),
                ("tokens_in", models.PositiveIntegerField(default=0)),
                ("tokens_out", models.PositiveIntegerField(default=0)),
                ("at", models.DateTimeField(auto_now_add=True)),
                (
                    "conversation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="console.conversation"
                    ),
                ),
                (
                    "inventory",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="rewrites", to="console.inventory"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("inventory", "model", "prompt_version", "prefix_digest"), name="rewrite_once"
                    ),
                    models.CheckConstraint(condition=models.Q(("text", ""), _negated=True), name="rewrite_text"),
                ],
            },
        ),
    ]
