"""Triggers: audit events are never changed, classifier versions only get a ``to_release``."""

from django.db import migrations

FIXED = (
    "artifact_id number exemplars weights bias alphas inverse_penalty class_weight stop libraries encoder_id centre_id "
    "fit_set counts weight_hash from_release offset_rule"
).split()


def _sqlite(editor):
    columns = ", ".join(FIXED)
    editor.execute(
        "CREATE TRIGGER auditevent_append_only BEFORE UPDATE ON console_auditevent "
        "BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END"
    )
    editor.execute(
        f'CREATE TRIGGER classifierversion_immutable BEFORE UPDATE OF {columns}, "offset" ON console_classifierversion '
        "BEGIN SELECT RAISE(ABORT, 'classifier versions are immutable'); END"
    )


def _postgresql(editor):
    columns = ", ".join([*FIXED, '"offset"'])
    editor.execute(
        "CREATE FUNCTION signalbox_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation'; END $$",
        params=None,  # no parameters: the percent sign is plpgsql's
    )
    editor.execute(
        "CREATE TRIGGER auditevent_append_only BEFORE UPDATE OR DELETE ON console_auditevent "
        "FOR EACH ROW EXECUTE FUNCTION signalbox_refuse('audit events are append-only')"
    )
    editor.execute(
        f"CREATE TRIGGER classifierversion_immutable BEFORE UPDATE OF {columns} ON console_classifierversion "
        "FOR EACH ROW EXECUTE FUNCTION signalbox_refuse('classifier versions are immutable')"
    )


def forwards(apps, schema_editor):
    {"sqlite": _sqlite, "postgresql": _postgresql}[schema_editor.connection.vendor](schema_editor)


def backwards(apps, schema_editor):
    on = schema_editor.connection.vendor == "postgresql"
    schema_editor.execute("DROP TRIGGER auditevent_append_only" + (" ON console_auditevent" if on else ""))
    schema_editor.execute("DROP TRIGGER classifierversion_immutable" + (" ON console_classifierversion" if on else ""))
    if on:
        schema_editor.execute("DROP FUNCTION signalbox_refuse()")


class Migration(migrations.Migration):
    dependencies = [("console", "0001_tables")]
    operations = [migrations.RunPython(forwards, backwards)]
