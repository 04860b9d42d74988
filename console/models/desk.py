"""What people keep beside the data: saved views of a list, and notes and flags on anything, with the people they name."""

from django.db import models
from django.db.models import Q

from console.models.account import User
from console.models.base import one_of, public_id_field
from console.models.inventory import Inventory


class ViewPage(models.TextChoices):
    """The lists that can be saved as a view; the value is the URL name of the page."""

    POLICIES = "policies"
    CONVERSATIONS = "conversations"
    CANDIDATES = "candidates"
    EXEMPLARS = "policy-exemplars"
    RUNS = "runs"
    AUDIT = "audit"


class SavedView(models.Model):
    """A list as an address shows it: ``query`` is the address's own query string, ``ids`` a shared selection of public ids.

    Private to ``owner`` unless ``shared``; the address itself stays the only state, so two tabs cannot overwrite each other.
    """

    public_id = public_id_field()
    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="saved_views")
    page = models.CharField(max_length=24, choices=ViewPage.choices)
    name = models.CharField(max_length=80)
    query = models.TextField(blank=True)
    ids = models.JSONField(null=True)
    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="saved_views")
    shared = models.BooleanField(default=False)
    at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            one_of("page", ViewPage, "savedview_page"),
            models.UniqueConstraint(fields=["inventory", "owner", "page", "name"], name="savedview_name"),
            models.CheckConstraint(condition=~Q(name=""), name="savedview_named"),
        ]

    def __str__(self) -> str:
        return self.name


class Note(models.Model):
    """A note on any object, or a flag (something is wrong here) whose text is the reason. Taken back, it stays as a row.

    ``object_type`` and ``object_id`` are those of audit rows, so that both stand beside the same thing. A draft is seen by
    its writer only.
    """

    public_id = public_id_field()
    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="notes")
    object_type = models.CharField(max_length=40)
    object_id = models.CharField(max_length=200)
    label = models.CharField(max_length=300, blank=True)  # what it is on, in words, for lists
    url = models.CharField(max_length=300, blank=True)  # the page it was written on
    text = models.TextField(blank=True)
    flag = models.BooleanField(default=False)
    draft = models.BooleanField(default=False)
    by = models.ForeignKey(User, on_delete=models.CASCADE, related_name="notes")
    at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)
    closed_at = models.DateTimeField(null=True)  # a flag seen to, a note taken back
    closed_by = models.CharField(max_length=150, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(draft=True) | ~Q(text=""), name="note_text"),
            models.UniqueConstraint(
                fields=["inventory", "object_type", "object_id", "by"], condition=Q(draft=True), name="note_one_draft"
            ),
        ]
        indexes = [models.Index(fields=["inventory", "object_type", "object_id"], name="note_object")]


class Mention(models.Model):
    """A person named in a note (``@name``), until they have seen it."""

    note = models.ForeignKey(Note, on_delete=models.CASCADE, related_name="mentions")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="mentions")
    seen_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["note", "user"], name="mention_once")]
        indexes = [models.Index(fields=["user"], condition=Q(seen_at__isnull=True), name="mention_unseen")]
