"""What a run brought, in words and tables: one view of a result per kind, and a plain one for what has none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.models import Artifact, Inventory
from console.presenters import amounts, labels
from console.presenters.names import policy_names

Json = Mapping[str, Any]
SHARES = ("precision_at_r90", "precision", "recall", "kept", "coverage")
FIGURES = ("auprc", "sd", "theta")
INTERVALS = {"precision_at_r90": "interval", "auprc": "auprc_interval"}  # shown under the figure they belong to
FIRST = ("method", "world", "encoder", "k")


@dataclass(frozen=True)
class Cell:
    text: str
    number: bool = True
    sub: str = ""


@dataclass(frozen=True)
class Table:
    """A table of an evaluation; ``heads`` are (name, is a number)."""

    heads: list[tuple[str, bool]]
    rows: list[list[Cell]]

    @property
    def labelled(self) -> list[list[tuple[str, Cell]]]:
        """Each cell with the head of its column."""
        return [[(head, cell) for (head, _number), cell in zip(self.heads, row, strict=True)] for row in self.rows]


def evaluation(result: Json, *, technical: bool = False) -> Table:
    """The rows as they were computed: the columns that any of them has, known ones first and in their usual order."""
    rows: Sequence[Json] = [row for row in result.get("rows", ()) if isinstance(row, Mapping)]
    there = [
        name for row in rows for name, value in row.items() if value is not None and name not in INTERVALS.values()
    ]
    known = [name for name in (*FIRST, *SHARES, *FIGURES) if name in there]
    worlds = {row.get("world") for row in rows}
    if worlds <= {"fitted", None} and "world" in known:
        known.remove("world")
    extra = [name for name in dict.fromkeys(there) if name not in (*FIRST, *SHARES, *FIGURES)]
    columns = [*known, *extra]
    return Table(
        heads=[(_head(name, technical), not _is_text(name, rows)) for name in columns],
        rows=[[_cell(name, row, technical, number=not _is_text(name, rows)) for name in columns] for row in rows],
    )


def _head(name: str, technical: bool) -> str:
    if technical and name == "precision_at_r90":
        return "P@R90"
    if name in ("recall", "precision"):
        return labels.term(name, technical=technical)
    if name == "auprc" and technical:
        return "AUPRC"
    return labels.evaluation_head(name)


def _is_text(name: str, rows: Sequence[Json]) -> bool:
    return any(isinstance(row.get(name), str | list | dict | bool) for row in rows)


def _cell(name: str, row: Json, technical: bool, *, number: bool) -> Cell:
    value = row.get(name)
    if value is None:
        return Cell(amounts.NONE, number)
    if name == "method":
        return Cell(labels.method(str(value), technical=technical), number=False)
    if name in SHARES and isinstance(value, int | float):
        interval = row.get("interval") if name == "precision_at_r90" else None
        sub = f"{100 * interval[0]:.0f}–{100 * interval[1]:.0f}" if interval else ""
        return Cell(f"{100 * value:.1f}\u00a0%", sub=sub)
    if isinstance(value, float):
        interval = row.get(INTERVALS.get(name, ""))
        sub = f"{interval[0]:.3f}–{interval[1]:.3f}" if interval else ""
        return Cell(f"{value:.3f}".replace("-", "−"), number, sub)
    if isinstance(value, int) and not isinstance(value, bool):
        return Cell(amounts.figure(value), number)
    return Cell(plain(value), number=False)


def plain(value: Any) -> str:
    match value:
        case float():
            return f"{value:.4g}"
        case list():
            return ", ".join(plain(each) for each in value)
        case dict():
            return ", ".join(f"{name} {plain(each)}" for name, each in value.items())
        case _:
            return str(value)


def named(inventory: Inventory, rows: Sequence[Json]) -> list[dict[str, Any]]:
    """Policies that a result says something about, with their names: ``artifact`` is a key."""
    keys = [str(row.get("artifact", "")) for row in rows]
    names = policy_names(inventory, keys)
    there = set(Artifact.objects.filter(inventory=inventory, key__in=keys).values_list("key", flat=True))
    return [
        {**row, "name": names.get(key, key), "key": key if key in there else ""}
        for row, key in zip(rows, keys, strict=True)
    ]
