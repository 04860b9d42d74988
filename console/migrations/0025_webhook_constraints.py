"""A deleted webhook has no address and a time; an alert that was told of is one of Home's."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0024_rewrites"),
    ]

    operations = [
        migrations.AlterField(
            model_name="raisedalert",
            name="name",
            field=models.CharField(choices=[("recall", "Recall"), ("firing", "Firing")], max_length=16),
        ),
        migrations.AddConstraint(
            model_name="raisedalert",
            constraint=models.CheckConstraint(
                condition=models.Q(("name__in", ["recall", "firing"])), name="raisedalert_name"
            ),
        ),
        migrations.AddConstraint(
            model_name="webhook",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "deleted"), _negated=True),
                    models.Q(("address", ""), ("deleted_at__isnull", False)),
                    _connector="OR",
                ),
                name="webhook_deleted",
            ),
        ),
    ]
