"""Settings of people and of how long conversations are kept; audit rows give up texts of what was erased, and nothing else."""

from django.db import migrations, models


KEPT = "id at inventory actor action object_type object_id label reason request_id release".split()


def _refused(same):
    """The condition under which an update is refused: all but an erasure, later than the one before."""
    kept = " AND ".join(f'NEW."{name}" {same} OLD."{name}"' for name in KEPT)
    return f"NOT ({kept} AND NEW.erased_at IS NOT NULL AND (OLD.erased_at IS NULL OR NEW.erased_at > OLD.erased_at))"


def _sqlite(editor):
    editor.execute("DROP TRIGGER auditevent_append_only")
    editor.execute(
        f"CREATE TRIGGER auditevent_append_only BEFORE UPDATE ON console_auditevent WHEN {_refused('IS')} "
        "BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END"
    )


def _postgresql(editor):
    refuse = "FOR EACH ROW {when} EXECUTE FUNCTION signalbox_refuse('audit events are append-only')"
    when = f"WHEN ({_refused('IS NOT DISTINCT FROM')})"
    editor.execute("DROP TRIGGER auditevent_append_only ON console_auditevent")
    editor.execute(
        "CREATE TRIGGER auditevent_append_only BEFORE UPDATE ON console_auditevent " + refuse.format(when=when)
    )
    editor.execute("CREATE TRIGGER auditevent_kept BEFORE DELETE ON console_auditevent " + refuse.format(when=""))


def forwards(apps, schema_editor):
    {"sqlite": _sqlite, "postgresql": _postgresql}[schema_editor.connection.vendor](schema_editor)


def backwards(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute("DROP TRIGGER auditevent_append_only")
        schema_editor.execute(
            "CREATE TRIGGER auditevent_append_only BEFORE UPDATE ON console_auditevent "
            "BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END"
        )
        return
    schema_editor.execute("DROP TRIGGER auditevent_append_only ON console_auditevent")
    schema_editor.execute("DROP TRIGGER auditevent_kept ON console_auditevent")
    schema_editor.execute(
        "CREATE TRIGGER auditevent_append_only BEFORE UPDATE OR DELETE ON console_auditevent "
        "FOR EACH ROW EXECUTE FUNCTION signalbox_refuse('audit events are append-only')"
    )


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0017_newest_judgements"),
    ]

    operations = [
        migrations.AddField(
            model_name="auditevent",
            name="erased_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="conversation",
            name="erased_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="inventory",
            name="keep_days",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="inventory",
            name="override_needed",
            field=models.BooleanField(default=False),
        ),
        migrations.AddIndex(
            model_name="auditevent",
            index=models.Index(fields=["inventory", "label", "-id"], name="auditevent_label"),
        ),
        migrations.AddConstraint(
            model_name="inventory",
            constraint=models.CheckConstraint(
                condition=models.Q(("keep_days__isnull", True), ("keep_days__gte", 1), _connector="OR"),
                name="inventory_keep_days",
            ),
        ),
        migrations.RunPython(forwards, backwards),
    ]
