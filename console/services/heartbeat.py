"""Signs of life of the background processes, in the database because every process can see it there."""

from datetime import timedelta

from django.utils import timezone

from console.models import Heartbeat

WORKER = "worker"
FRESH = timedelta(seconds=60)  # four beats of 15 s


def beat(name: str) -> None:
    Heartbeat.objects.update_or_create(name=name, defaults={"at": timezone.now()})


def silence(name: str) -> timedelta | None:
    """How long ago it last said that it lives; None = never."""
    row = Heartbeat.objects.filter(name=name).first()
    return timezone.now() - row.at if row else None
