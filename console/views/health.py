"""Whether the process lives, and whether everything it needs is there. Neither asks who calls; outside ``/api``."""

from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from console.services import health


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """200 as soon as the process answers; touches nothing else."""
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Database, broker, encoder and worker: ``ok`` or what is away; 503 if anything is."""
    parts = health.readiness()
    ready = all(state == health.OK for state in parts.values())
    response = JsonResponse({"status": "ok" if ready else "away", **parts}, status=200 if ready else 503)
    # Whoever asks every few seconds reads the answer; the log need not repeat it as an error each time.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response
