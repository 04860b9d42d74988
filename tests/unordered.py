"""A query without an order may answer in any: here its rows come the other way round.

SQLite gives rows as they were stored and so does PostgreSQL, nearly always; the day it does not, code and tests that
took that for an order fail on somebody else's machine. In the tests they fail on every machine.
"""

from collections.abc import Iterator
from typing import Any

from django.db.models.sql.compiler import SQLCompiler

_ordered_results = SQLCompiler.results_iter


def _has_order(compiler: SQLCompiler) -> bool:
    query = compiler.query
    return bool(
        query.order_by
        or query.extra_order_by
        or query.combinator
        or query.is_sliced
        or (query.default_ordering and query.get_meta().ordering)
    )


def _reversed_results(compiler: SQLCompiler, *arguments: Any, **options: Any) -> Iterator[Any]:
    rows = _ordered_results(compiler, *arguments, **options)
    return iter(rows) if _has_order(compiler) else iter(list(rows)[::-1])


def reverse() -> None:
    SQLCompiler.results_iter = _reversed_results  # type: ignore[method-assign, assignment]
