"""Webhooks with their deliveries, which alerts were told of, and per inventory which events are wanted."""

import console.models.base
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0022_redaction"),
    ]

    operations = [
        migrations.AddField(
            model_name="inventory",
            name="wanted_events",
            field=models.JSONField(default=dict),
        ),
        migrations.CreateModel(
            name="Webhook",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "public_id",
                    models.CharField(
                        default=console.models.base.new_public_id, editable=False, max_length=12, unique=True
                    ),
                ),
                ("address", models.CharField(blank=True, max_length=500)),
                ("events", models.JSONField(default=list)),
                (
                    "state",
                    models.CharField(
                        choices=[("active", "Active"), ("paused", "Paused"), ("deleted", "Deleted")],
                        default="active",
                        max_length=16,
                    ),
                ),
                ("note", models.CharField(blank=True, max_length=300)),
                ("rotation", models.PositiveIntegerField(default=1)),
                ("actor", models.CharField(blank=True, max_length=150)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("deleted_at", models.DateTimeField(null=True)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("failing_since", models.DateTimeField(null=True)),
                ("not_before", models.DateTimeField(null=True)),
                ("tried_at", models.DateTimeField(null=True)),
                (
                    "inventory",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="webhooks", to="console.inventory"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="WebhookDelivery",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "public_id",
                    models.CharField(
                        default=console.models.base.new_public_id, editable=False, max_length=12, unique=True
                    ),
                ),
                ("event", models.CharField(max_length=40)),
                ("event_id", models.CharField(max_length=12)),
                ("body", models.TextField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("sending", "Sending"),
                            ("delivered", "Delivered"),
                            ("failed", "Failed"),
                        ],
                        default="waiting",
                        max_length=16,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("queued_at", models.DateTimeField()),
                ("due_at", models.DateTimeField()),
                ("tries", models.PositiveIntegerField(default=0)),
                ("claim", models.CharField(blank=True, max_length=32)),
                ("lease_until", models.DateTimeField(null=True)),
                ("tried_at", models.DateTimeField(null=True)),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("error", models.CharField(blank=True, max_length=200)),
                (
                    "webhook",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="console.webhook"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RaisedAlert",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=16)),
                ("key", models.CharField(blank=True, max_length=64)),
                ("since", models.DateTimeField()),
                (
                    "inventory",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="raised_alerts",
                        to="console.inventory",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("inventory", "name", "key"), name="raisedalert_once")],
            },
        ),
        migrations.AddConstraint(
            model_name="webhook",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["active", "paused", "deleted"])), name="webhook_state"
            ),
        ),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(fields=["webhook", "-id"], name="webhookdelivery_newest"),
        ),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(
                condition=models.Q(("state", "waiting")), fields=["webhook", "due_at"], name="webhookdelivery_due"
            ),
        ),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(
                condition=models.Q(("state", "sending")), fields=["lease_until"], name="webhookdelivery_held"
            ),
        ),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(fields=["created_at"], name="webhookdelivery_age"),
        ),
        migrations.AddConstraint(
            model_name="webhookdelivery",
            constraint=models.UniqueConstraint(fields=("webhook", "event_id"), name="webhookdelivery_once"),
        ),
        migrations.AddConstraint(
            model_name="webhookdelivery",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["waiting", "sending", "delivered", "failed"])),
                name="webhookdelivery_state",
            ),
        ),
        migrations.AddConstraint(
            model_name="webhookdelivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "sending"), _negated=True),
                    models.Q(("lease_until__isnull", False), models.Q(("claim", ""), _negated=True)),
                    _connector="OR",
                ),
                name="webhookdelivery_claim",
            ),
        ),
    ]
