"""The sample's vectors, shipped beside it so that loading it costs seconds; made by the local encoder from its own texts.

They are keyed like any cached vector: an encoder of another identity finds none of them and embeds the texts itself.
"""

from pathlib import Path

import numpy as np

from console.models import Inventory, Vector

FILE = Path(__file__).resolve().parent.parent / "sample" / "vectors.npz"
PIECE = 500


def restore(encoder_id: str, *, path: Path = FILE) -> int:
    """Put the shipped vectors of this encoder into the store; returns how many (0 for another encoder)."""
    if not path.exists():
        return 0
    with np.load(path, allow_pickle=False) as data:
        if str(data["encoder_id"]) != encoder_id:
            return 0
        rows = [
            Vector(key=key.decode(), data=row.astype("<f4").tobytes())
            for key, row in zip(data["keys"], data["vectors"], strict=True)
        ]
    for start in range(0, len(rows), PIECE):
        Vector.objects.bulk_create(rows[start : start + PIECE], ignore_conflicts=True)
    return len(rows)


def freeze(inventory: Inventory, *, path: Path = FILE) -> int:
    """Write the store's vectors to the file, sorted by key: for a database that holds the sample and nothing else."""
    rows = list(Vector.objects.order_by("key").values_list("key", "data"))
    np.savez(
        path,
        encoder_id=np.array(inventory.encoder_id),
        keys=np.array([key.encode() for key, _ in rows]),
        vectors=np.stack([np.frombuffer(data, dtype="<f4") for _, data in rows]),
    )
    return len(rows)
