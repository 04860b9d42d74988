"""Many rows into one table: COPY on PostgreSQL, inserts of many elsewhere. For the load test's seeding alone."""

import json
import secrets
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from django.db import connection, models
from django.db.models import Max

from console.models.base import ID_CHARACTERS
from console.services.errors import Conflict

AT_ONCE = 500  # rows per insert where there is no COPY
_TO_ID = bytes(ord(ID_CHARACTERS[n % len(ID_CHARACTERS)]) for n in range(256))
Row = tuple[Any, ...]


def public_id() -> str:
    """As `console.models.base.new_public_id`, at a tenth of the time; some characters come a little more often."""
    return secrets.token_bytes(12).translate(_TO_ID).decode()


def copies() -> bool:
    """Whether this database takes rows by COPY."""
    return connection.vendor == "postgresql"


def reserve(model: type[models.Model], count: int) -> int:
    """The first of ``count`` row numbers in a row that nobody else gets. Raises Conflict where others write meanwhile."""
    table, column = model._meta.db_table, model._meta.pk.column
    if not copies():
        return int(model._default_manager.aggregate(n=Max("pk"))["n"] or 0) + 1
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT min(n), max(n) FROM (SELECT nextval(pg_get_serial_sequence(%s, %s)) AS n"
            " FROM generate_series(1, %s)) AS taken",
            [table, column, count],
        )
        first, last = cursor.fetchone()
    if count and last - first + 1 != count:
        raise Conflict(f"Others are writing to {table}.", hint="Seed a database that nobody uses.")
    return int(first or 0)


class Writer:
    """Rows of one table, given as tuples of ``fields``; every other column has ``constants`` or the model's default."""

    def __init__(self, model: type[models.Model], fields: Sequence[str], /, **constants: Any) -> None:
        self._model, self._fields, self._constants = model, tuple(fields), constants
        rest = [f for f in model._meta.concrete_fields if f.attname not in fields and not _numbered(f)]
        self._columns = [*(_field(model, name) for name in fields), *rest]
        self._rest = tuple(_plain(f, constants.get(f.attname, f.get_default())) for f in rest)

    def write(self, rows: Iterable[Row], *, known: bool = False) -> None:
        """``known``: a row that is there already stays as it is."""
        if copies() and not known:
            self._copy(rows)
            return
        source = iter(rows)
        while piece := list(islice(source, AT_ONCE)):
            self._model._default_manager.bulk_create(
                [self._model(**dict(zip(self._fields, row, strict=True)), **self._constants) for row in piece],
                ignore_conflicts=known,
            )

    def _copy(self, rows: Iterable[Row]) -> None:
        names = ", ".join(connection.ops.quote_name(f.column) for f in self._columns)
        table = connection.ops.quote_name(self._model._meta.db_table)
        with connection.cursor() as cursor, cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row + self._rest)


def _numbered(field: Any) -> bool:
    return isinstance(field, models.AutoField | models.BigAutoField)


def _field(model: type[models.Model], name: str) -> Any:
    return next(f for f in model._meta.concrete_fields if f.attname == name)


def _plain(field: Any, value: Any) -> Any:
    """A constant as COPY takes it."""
    if isinstance(field, models.JSONField):
        return None if value is None else json.dumps(value)
    if getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False):
        return field.pre_save(field.model(), add=True)
    return value
