"""``evaluate INV [--protocol NAME] [--labels NAME] [--json FILE]``: the paper's tables on an inventory's judgements."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from console.management.shared import ServiceCommand, add_inventory, inventory_of
from console.services import evaluate as service

COLUMNS = (("precision_at_r90", "P@R90"), ("precision", "precision"), ("recall", "recall"), ("auprc", "AUPRC"),
           ("theta", "θ"), ("kept", "kept"), ("coverage", "coverage"), ("sd", "sd"))  # fmt: skip
NAMED = ("method", "world", "k", "interval", "encoder")  # shown in words or with their row


class Command(ServiceCommand):
    help = "Print a table of the paper for this inventory; --json writes it as API.md defines it."

    def add_arguments(self, parser: CommandParser) -> None:
        add_inventory(parser)
        parser.add_argument("--protocol", default="operating-point", choices=service.PROTOCOLS)
        parser.add_argument("--labels", default="as-judged", choices=service.LABELS)
        parser.add_argument(
            "--encoder", action="append", default=[], help="once or twice: side by side; the inventory's own by default"
        )
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the table there too")

    def run(self, **options: Any) -> None:
        inventory = inventory_of(options["inventory"])
        self.embed_pending(inventory)
        answer = service.evaluate(
            inventory, protocol=options["protocol"], labels=options["labels"], encoders=options["encoder"]
        )
        if options["json"]:
            self._write(options["json"], answer)
        for line in table_lines(answer):
            self.say(line)

    def _write(self, path: Path, answer: Mapping[str, Any]) -> None:
        try:
            path.write_text(json.dumps(answer, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}.") from error


def table_lines(answer: Mapping[str, Any]) -> list[str]:
    """The table as text: what every figure rests on first, then one line per method and world."""
    rows = answer["rows"]
    columns = [pair for pair in COLUMNS if any(row.get(pair[0]) is not None for row in rows)]
    own = {name for name, _ in COLUMNS} | set(NAMED)
    extra = list(
        dict.fromkeys(name for row in rows for name, value in row.items() if name not in own and value is not None)
    )
    lines = [
        f"{answer['protocol']} on {answer['inventory']}: {answer['states']} judged states of {answer['scenarios']} "
        f"scenarios, {answer['artifacts']} artifacts",
        f"judge {answer['judge']} ({answer['rubric']}), labels {answer['labels']}, encoder {answer['encoder']}",
    ]
    encoder = None
    if not any(row.get("encoder") for row in rows):
        lines += ["", _title(columns)]
    for row in rows:
        if row.get("encoder") != encoder:
            encoder = row["encoder"]
            lines += ["", f"encoder {encoder}", _title(columns)]
        lines.append(_row(row, columns, extra))
    lines += [f"top-K reaches recall .90 at: {row['method']} K = {row['k']}" for row in answer.get("larger_k", ())]
    if blank := answer.get("text_without_direction"):
        lines.append(f"no text baseline (the text is the centre itself): {', '.join(blank)}")
    return lines


Columns = Sequence[tuple[str, str]]


def _title(columns: Columns) -> str:
    return f"{'method':24s} {'world':24s} " + " ".join(f"{title:>9s}" for _, title in columns)


def _row(row: Mapping[str, Any], columns: Columns, extra: Sequence[str]) -> str:
    """The common figures in their columns, what only this protocol says behind them by name."""
    method = f"{row['method']} K={row['k']}" if row.get("k") else str(row["method"])
    figures = (f"{row[name]:9.3f}" if row.get(name) is not None else f"{'–':>9s}" for name, _ in columns)
    interval = "  P@R90 {:.3f} to {:.3f}".format(*row["interval"]) if row.get("interval") else ""
    said = "".join(f"  {name.replace('_', ' ')} {_shown(row[name])}" for name in extra if row.get(name) is not None)
    return f"{method:24s} {row.get('world', ''):24s} " + " ".join(figures) + interval + said


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)
