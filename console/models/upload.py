"""Files that people bring, kept in the database so that any worker of any machine can read them."""

from django.db import models

from console.models.account import User
from console.models.base import public_id_field
from console.models.inventory import Inventory


class Upload(models.Model):
    """A file, known by its content: the same bytes again are the same upload. ``complete`` once every part is there;
    ``erased_at`` when its parts are gone and only its name and digest are left."""

    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="uploads")
    public_id = public_id_field()
    name = models.CharField(max_length=200)
    size = models.PositiveBigIntegerField()  # bytes, as they came
    sha256 = models.CharField(max_length=64)
    guess = models.JSONField(default=dict)  # {"what", "format", "encoding", "gzip", "lines", "fields", "invalid"}
    by = models.CharField(max_length=150, blank=True)
    user = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(auto_now_add=True)
    complete = models.BooleanField(default=False)
    erased_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["inventory", "sha256"], name="upload_content_once")]
        indexes = [models.Index(fields=["inventory", "-id"])]

    def __str__(self) -> str:
        return self.name

    @property
    def readable(self) -> bool:
        return self.complete and self.erased_at is None


class UploadPart(models.Model):
    """At most 256 KiB of an upload; its parts in their order are the file."""

    upload = models.ForeignKey(Upload, on_delete=models.CASCADE, related_name="parts")
    number = models.PositiveIntegerField()
    data = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["upload", "number"], name="uploadpart_number")]
        ordering = ["number"]
