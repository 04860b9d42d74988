"""What policies are called now."""

from collections.abc import Iterable

from console.models import ArtifactText, Inventory


def policy_names(inventory: Inventory, keys: Iterable[str] | None = None) -> dict[str, str]:
    """Names by key, of all policies or of those with the ``keys``; no query for none."""
    texts = ArtifactText.objects.current().filter(artifact__inventory=inventory)
    if keys is not None:
        wanted = set(keys)
        if not wanted:
            return {}
        texts = texts.filter(artifact__key__in=wanted)
    return dict(texts.values_list("artifact__key", "name"))
