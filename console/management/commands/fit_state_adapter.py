"""``fit_state_adapter --config FILE --seed N --to DIR (FILE… | --inventory SLUG)``: one adapter, the same bytes each time."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from console.management.evidence import plainly, read_text
from console.management.shared import Bar, ServiceCommand, inventory_of
from console.services import evidence_data
from sq_core.conversation import Conversation
from sq_core.evidence.fitting import fit_state_adapter, parse_config
from sq_core.evidence.sources import read_file
from sq_core.ranking.state import save_adapter


class Command(ServiceCommand):
    help = "Fit what the history adds to a query (docs/traces.md) and write adapter.npz and adapter.json."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="files or folders of conversations")
        parser.add_argument("--inventory", metavar="SLUG", help="the stored log, in place of files")
        parser.add_argument(
            "--config", type=Path, required=True, metavar="FILE", help="TOML; docs/traces.md has its keys"
        )
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--to", type=Path, required=True, metavar="DIR")

    def run(self, **options: Any) -> None:
        with plainly():
            config = parse_config(read_text(options["config"]))
            logs = _logs(options)
            began = time.perf_counter()
            with Bar("embedding") as bar:
                encoder = evidence_data.stored_encoder(config.encoder, bar)
                try:
                    adapter = fit_state_adapter(config, logs, encoder, seed=options["seed"])
                except ValueError as problem:  # of the core: no row can train, no other group to draw from
                    raise CommandError(str(problem)) from problem
            save_adapter(adapter, options["to"])
        record = adapter.record
        self.say(
            f"{record['method']} fitted on {record['rows']:,} rows and {record['candidates']:,} candidates of "
            f"{len(logs):,} conversations: {record['iterations']} iterations, loss {record['loss']:.4f}, "
            f"{time.perf_counter() - began:.1f} s; encoder {record['encoder_id']}."
        )
        self.say(f"Written to {options['to']}: adapter.npz, adapter.json.")


def _logs(options: dict[str, Any]) -> Sequence[Conversation]:
    if bool(options["files"]) == bool(options["inventory"]):
        raise CommandError("Name files or --inventory, one of the two.")
    if options["inventory"]:
        return list(evidence_data.logs(inventory_of(options["inventory"])))
    return [each for path in options["files"] for each in read_file(path)]
