"""The console's rows as they are, kept in memory and put back in one go: building a world once is enough."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.core.management.color import no_style
from django.db import connection, transaction
from django.db.models import Model


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def take() -> list[Table]:
    """Every table of the console that has rows, with their row numbers."""
    tables = []
    with connection.cursor() as cursor:
        for model in _models():
            name = model._meta.db_table
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(name)}")
            rows = cursor.fetchall()
            if rows:
                tables.append(Table(name, tuple(column[0] for column in cursor.description), rows))
    return tables


def put_back(tables: list[Table]) -> None:
    """Insert the rows under their old numbers; foreign keys are checked at the end of the transaction, so in any order."""
    quote = connection.ops.quote_name
    with transaction.atomic(), connection.cursor() as cursor:
        for table in tables:
            columns = ", ".join(map(quote, table.columns))
            places = ", ".join(["%s"] * len(table.columns))
            cursor.executemany(f"INSERT INTO {quote(table.name)} ({columns}) VALUES ({places})", table.rows)
        for statement in connection.ops.sequence_reset_sql(
            no_style(), list(_models())
        ):  # PostgreSQL: numbers go on after ours
            cursor.execute(statement)


def _models() -> Iterator[type[Model]]:
    return apps.get_app_config("console").get_models(include_auto_created=True)
