"""Rows as Parquet and back, a group of rows at a time. Needs the extra ``parquet`` (pyarrow); without it, says so."""

import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from console.services.errors import Unavailable

GROUP = 5_000  # rows of one row group, held at a time
WHOLE = frozenset({
    "message", "user_turn", "score", "pass_mark", "repeat", "text_revision", "version", "release", "visible_upto",
})  # fmt: skip
TRUTHS = frozenset({"chosen", "current_text", "visible_to_agent"})


def available() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def _needed() -> None:
    if not available():
        raise Unavailable(
            "Parquet needs the package pyarrow, which is not installed.",
            hint="Install the extra “parquet”, or take JSON lines or CSV.",
        )


class _Sink:
    """What the writer writes to: gives away what it has been given."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._at = 0

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._at += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is held open."""

    def taken(self) -> bytes:
        taken, self._pieces = b"".join(self._pieces), []
        return taken


def parquet_pieces(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """A Parquet file, piece by piece: text, whole numbers and truths as such. Raises Unavailable at once."""
    _needed()
    return _written(columns, iter(rows))


def _written(columns: Sequence[str], rows: Iterator[Mapping[str, Any]]) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {name: pa.int64() if name in WHOLE else pa.bool_() if name in TRUTHS else pa.string() for name in columns}
    schema, sink = pa.schema(list(types.items())), _Sink()
    with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), schema, compression="zstd") as writer:
        while group := list(islice(rows, GROUP)):
            arrays = [pa.array([row.get(name) for row in group], type=types[name]) for name in columns]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            yield sink.taken()
    yield sink.taken()


def parquet_columns(path: Path) -> list[str]:
    """Raises as `parquet_rows`."""
    _needed()
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_schema(path).names)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise ValueError(str(error)) from error


def parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Its rows. Raises Unavailable, and ValueError for a file that is none."""
    _needed()
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1_000):
                yield from batch.to_pylist()
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise ValueError(str(error)) from error
