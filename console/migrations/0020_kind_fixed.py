"""Trigger: an artifact's kind stays what it was made as, as `services.artifacts` says; no release knows of another one."""

from django.db import migrations

SAID = "the kind of an artifact is fixed"


def forwards(apps, schema_editor):
    on = "CREATE TRIGGER artifact_kind_fixed BEFORE UPDATE OF kind ON console_artifact "
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(
            f"{on} FOR EACH ROW WHEN (OLD.kind IS DISTINCT FROM NEW.kind) EXECUTE FUNCTION signalbox_refuse('{SAID}')"
        )
    else:
        schema_editor.execute(f"{on} WHEN OLD.kind <> NEW.kind BEGIN SELECT RAISE(ABORT, '{SAID}'); END")


def backwards(apps, schema_editor):
    on = schema_editor.connection.vendor == "postgresql"
    schema_editor.execute("DROP TRIGGER artifact_kind_fixed" + (" ON console_artifact" if on else ""))


class Migration(migrations.Migration):
    dependencies = [("console", "0019_review_kinds")]
    operations = [migrations.RunPython(forwards, backwards)]
