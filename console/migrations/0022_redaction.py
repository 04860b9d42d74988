"""Whether, what of and from which role on personal data is shown to people; who sees which conversation in the clear."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0021_lists_in_order"),
    ]

    operations = [
        migrations.CreateModel(
            name="Reveal",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("until", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.AddField(
            model_name="inventory",
            name="redaction",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="inventory",
            name="redaction_kinds",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="inventory",
            name="redaction_terms",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="inventory",
            name="reveal_role",
            field=models.CharField(
                choices=[
                    ("viewer", "Viewer"),
                    ("reviewer", "Reviewer"),
                    ("author", "Author"),
                    ("publisher", "Publisher"),
                    ("admin", "Admin"),
                ],
                default="author",
                max_length=16,
            ),
        ),
        migrations.AddConstraint(
            model_name="inventory",
            constraint=models.CheckConstraint(
                condition=models.Q(("reveal_role__in", ["viewer", "reviewer", "author", "publisher", "admin"])),
                name="inventory_reveal_role",
            ),
        ),
        migrations.AddField(
            model_name="reveal",
            name="conversation",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="reveals", to="console.conversation"
            ),
        ),
        migrations.AddField(
            model_name="reveal",
            name="user",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="reveals", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddConstraint(
            model_name="reveal",
            constraint=models.UniqueConstraint(fields=("user", "conversation"), name="reveal_once"),
        ),
    ]
