"""What figures rest on, asserted against the stored rows: the centre is of artifact texts alone (TRACES 3.1)."""

import numpy as np

from console.models import ArtifactText, Centre
from console.services import caches, embed, table
from sq_core import embedding
from sq_core.artifact_text import artifact_text
from sq_core.evaluation.fence import CentreLeakError, assert_centre_of_texts

_proven = caches.Cache(1_000)  # centres never change: each is looked at once in a process


def centre_of_texts(centre: Centre) -> embedding.Centre:
    """The centre, after it was found to be the mean of its own inventory's artifact texts. Calls no encoder.

    One made before that was recorded, or of which a text has no vector any more, is taken as it is. Raises
    CentreLeakError, which is a fault and no answer to anybody.
    """
    core = table.core_centre(centre)
    seen = (centre.pk, core.digest)
    if not _proven.peek(seen) and (vectors := _text_vectors(centre)) is not None:
        assert_centre_of_texts(core, vectors)
        _proven.put(seen, True)
    return core


def _text_vectors(centre: Centre) -> embedding.Vectors | None:
    """(n, d) of the recorded texts in their order; None where they cannot be had."""
    ids = centre.texts
    if not ids:
        return None
    rows = ArtifactText.objects.filter(pk__in=ids, artifact__inventory=centre.inventory_id).select_related("artifact")
    texts = {row.pk: artifact_text(row.artifact.kind, row.name, row.text) for row in rows}
    if others := [pk for pk in ids if pk not in texts]:
        raise CentreLeakError(f"text {others[0]}, which the centre is made of, is no artifact text of its inventory")
    keys = [embedding.vector_key(centre.encoder_id, texts[pk]) for pk in ids]
    stored = embed.stored(sorted(set(keys)))
    return np.stack([stored[key] for key in keys]) if len(stored) == len(set(keys)) else None
