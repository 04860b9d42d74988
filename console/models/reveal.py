"""Who sees which conversation in the clear, and until when; why stands in the audit row."""

from django.db import models


class Reveal(models.Model):
    user = models.ForeignKey("User", on_delete=models.CASCADE, related_name="reveals")
    conversation = models.ForeignKey("Conversation", on_delete=models.CASCADE, related_name="reveals")
    until = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "conversation"], name="reveal_once")]
