"""People, their roles per inventory, and the tokens of agents and scripts."""

import hashlib

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone

from console.models.base import one_of, public_id_field


class Role(models.TextChoices):
    """A ladder: each role may do all that the ones before it may."""

    VIEWER = "viewer"
    REVIEWER = "reviewer"
    AUTHOR = "author"
    PUBLISHER = "publisher"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        return list(Role).index(self)

    def includes(self, other: "Role") -> bool:
        return self.rank >= other.rank


class User(AbstractUser):
    time_zone = models.CharField(max_length=64, default="UTC")
    locale = models.CharField(max_length=16, default="en")
    key_map = models.JSONField(
        default=dict, blank=True
    )  # {} = the default keys; {"off": true} = single-letter keys off
    technical_terms = models.BooleanField(default=False)  # show "margin" where the pages say "match strength"

    class Meta:
        constraints = [models.UniqueConstraint(Lower("username"), name="user_username_ci")]


class SignInTry(models.Model):
    """A try to sign in that has not succeeded, for a quarter of an hour; ``who`` is a digest of the name as typed."""

    who = models.CharField(max_length=64)
    address = models.CharField(max_length=64)
    at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["address", "at"], name="signintry_address"),
            models.Index(fields=["at"], name="signintry_at"),
        ]


class Membership(models.Model):
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    inventory = models.ForeignKey("Inventory", on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "inventory"], name="membership_once"),
            one_of("role", Role, "membership_role"),
        ]


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def usable(self) -> "ApiTokenQuerySet":
        now = timezone.now()
        return self.filter(revoked_at__isnull=True).filter(
            models.Q(expires_at__isnull=True) | models.Q(expires_at__gt=now)
        )


class ApiToken(models.Model):
    """``sb_`` + 32 characters, stored hashed. ``inventory`` null = every inventory of the installation."""

    public_id = public_id_field()
    name = models.CharField(max_length=80)
    digest = models.CharField(max_length=64, unique=True)
    inventory = models.ForeignKey("Inventory", null=True, on_delete=models.CASCADE, related_name="tokens")
    role = models.CharField(max_length=16, choices=Role.choices)
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        constraints = [one_of("role", Role, "apitoken_role")]

    @staticmethod
    def digest_of(token: str) -> str:
        return hashlib.sha256(token.encode()).hexdigest()


class IdempotencyRecord(models.Model):
    """The answer given under an Idempotency-Key, kept 24 h; the same key with another body is refused."""

    caller = models.CharField(max_length=64)  # token or user id, so that two callers' keys never meet
    key = models.CharField(max_length=200)
    path = models.CharField(max_length=500)
    body_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)  # null while the first request is still running
    answer = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["caller", "key", "path"], name="idempotency_once")]
