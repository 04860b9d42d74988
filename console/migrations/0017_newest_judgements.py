"""The newest judgements of a text and of a judge, without reading all of them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("console", "0016_encoder_migration")]
    operations = [
        migrations.AddIndex(
            model_name="judgement",
            index=models.Index(fields=["artifact_text", "-id"], name="judgement_newest_of_text"),
        ),
        migrations.AddIndex(
            model_name="judgement",
            index=models.Index(fields=["judge", "-id"], name="judgement_newest_of_judge"),
        ),
    ]
