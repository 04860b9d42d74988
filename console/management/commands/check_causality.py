"""``check_causality [FILE…] [--inventory SLUG]``: does any row of a log depend on what came after it?"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from console.management.evidence import GROUPINGS, TARGETS
from console.management.shared import SHOWN, ServiceCommand, inventory_of
from console.services import evidence_data
from sq_core.causal.stability import CausalityCheck, check_causality
from sq_core.conversation import Conversation
from sq_core.readers import CONVERSATION_FORMATS, RowError, read_conversations


class Command(ServiceCommand):
    help = "Convert every trace and every prefix of it; exit 1 with trace and message of what does not hold."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="files or folders of conversations")
        parser.add_argument("--inventory", metavar="SLUG", help="the stored log too, with the digests kept beside it")
        parser.add_argument("--format", choices=CONVERSATION_FORMATS, help="recognised when left out")
        parser.add_argument(
            "--targets", choices=TARGETS, default="field", help="what is a row: a field, or all arguments"
        )
        parser.add_argument("--group-by", choices=GROUPINGS, default="scenario")
        parser.add_argument("--exclude-tool", action="append", default=[], metavar="TOOL")
        parser.add_argument(
            "--missing-query",
            choices=("error", "count"),
            default="error",
            help="a call before any user message: a violation (the default), or counted and left out",
        )

    def run(self, **options: Any) -> None:
        if not options["files"] and not options["inventory"]:
            raise CommandError("Name a file or --inventory.")
        wrong = sum(self._file(path, options) for path in options["files"])
        if options["inventory"]:
            inventory = inventory_of(options["inventory"])
            digests = evidence_data.stored_digests(inventory)
            found = self._checked(evidence_data.logs(inventory), options, digests)
            wrong += self._tell(f"inventory {inventory.slug}", found, [])
        if wrong:
            raise CommandError(f"{wrong} violation{'s' if wrong > 1 else ''}.")

    def _file(self, path: Path, options: dict[str, Any]) -> int:
        if not path.exists():
            raise CommandError(f"{path} does not exist.")
        unread: list[RowError] = []
        found = self._checked(_read(path, options["format"], unread), options)
        if not found.report.traces and not found.violations and not unread:
            raise CommandError(f"{path} holds no conversation.")
        return self._tell(str(path), found, unread)

    def _checked(
        self, logs: Iterable[Conversation], options: dict[str, Any], digests: dict[str, dict[int, str]] | None = None
    ) -> CausalityCheck:
        return check_causality(
            logs,
            target_mode=options["targets"],
            exclude_tools=frozenset(options["exclude_tool"]),
            missing_query=options["missing_query"],
            group_by=options["group_by"],
            stored_digests=digests,
        )

    def _tell(self, name: str, found: CausalityCheck, unread: list[RowError]) -> int:
        """Prints what was checked and every violation; how many there are."""
        wrong = [*map(str, unread), *map(str, found.violations)]
        report = found.report
        said = f"{name}: {report.traces:,} traces, {report.calls:,} calls, {report.rows:,} rows, "
        said += f"{found.prefixes:,} prefixes"
        said += f", {found.digests:,} stored digests" if found.digests else ""
        self.say(f"{said}: {f'{len(wrong)} violations' if wrong else 'every row rests on earlier messages alone'}.")
        for line in wrong[:SHOWN]:
            self.stderr.write(line)
        if len(wrong) > SHOWN:
            self.stderr.write(f"… the first {SHOWN} of {len(wrong)}")
        return len(wrong)


def _read(path: Path, form: str | None, unread: list[RowError]) -> Iterator[Conversation]:
    """The conversations of a file; rows that cannot be read go into ``unread`` and stop nothing."""
    for each in read_conversations(path, form):
        if isinstance(each, RowError):
            unread.append(each)
        else:
            yield each
