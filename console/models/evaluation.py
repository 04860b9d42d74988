"""What an evaluation found, stored once by its run: the pages read it and work nothing out again."""

from django.db import models

from console.models.inventory import Inventory
from console.models.run import Run


class Evaluation(models.Model):
    """One measurement of a release's versions on the judged turns; never changed afterwards.

    ``summary`` is what a list shows, ``detail`` what its page draws (per reading of the labels), ``pairs`` every judged pair
    as compressed columns (services.evaluation_pairs), which error lists and comparisons of two evaluations read.
    """

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="evaluation")
    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="evaluations")
    release = models.PositiveIntegerField()
    summary = models.JSONField()
    detail = models.JSONField()
    pairs = models.BinaryField()
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["inventory", "-id"])]
