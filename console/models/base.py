"""Pieces shared by the model families: opaque public ids, the validity range of what a release carries, checked choices."""

import secrets
from typing import Any, Self, TypeVar

from django.db import models
from django.db.models import Q

M = TypeVar("M", bound=models.Model)
ID_CHARACTERS = "23456789abcdefghjkmnpqrstuvwxyz"  # no look-alikes: people read these ids to each other


def new_public_id() -> str:
    """Twelve characters, about 59 bits, for URLs and the API in place of row numbers."""
    return "".join(secrets.choice(ID_CHARACTERS) for _ in range(12))


def public_id_field() -> "models.CharField[str, str]":
    return models.CharField(max_length=12, unique=True, default=new_public_id, editable=False)


class CarriedQuerySet(models.QuerySet[M]):
    """Rows that a release carries: valid at n iff from_release <= n and (to_release is null or n <= to_release)."""

    def at(self, release: int) -> Self:
        return self.filter(Q(to_release__isnull=True) | Q(to_release__gte=release), from_release__lte=release)

    def current(self) -> Self:
        """Valid at the newest release (the draft)."""
        return self.filter(to_release__isnull=True)


class Carried(models.Model):
    """Valid from one release of its inventory to another, both included; ``to_release`` null = still valid.

    A row that was made and replaced within one release has to_release < from_release and is valid nowhere.
    """

    from_release = models.PositiveIntegerField()
    to_release = models.PositiveIntegerField(null=True)

    class Meta:
        abstract = True


def one_of(field: str, choices: Any, name: str) -> models.CheckConstraint:
    """The database refuses a value outside the choices, whoever writes it."""
    return models.CheckConstraint(condition=Q(**{f"{field}__in": [c.value for c in choices]}), name=name)
