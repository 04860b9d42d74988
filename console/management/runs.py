"""Runs in the foreground: planned as in the console, done by this process, with a bar; Ctrl-C pauses them."""

import json
import time
from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from console.management.shared import COMMAND_LINE, Bar, ServiceCommand, add_inventory, inventory_of
from console.models import Inventory, Run, RunState
from console.services import run_coordinator, run_work, runs


class RunCommand(ServiceCommand):
    """A command of one kind of run; ``asked`` turns its options into scope and params."""

    kind: str

    def add_arguments(self, parser: CommandParser) -> None:
        add_inventory(parser)
        parser.add_argument("artifacts", nargs="*", metavar="ARTIFACT", help="keys; all active ones by default")
        parser.add_argument("--param", action="append", default=[], metavar="NAME=JSON", help="as in docs/api.md")
        parser.add_argument("--cap-tokens", type=int)
        parser.add_argument("--cap-money", metavar="AMOUNT")
        parser.add_argument("--unpriced-ok", action="store_true", help="a model of unknown price may be called")
        parser.add_argument("--dry-run", action="store_true", help="say what it would take, and stop")

    def asked(self, options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        scope = {"artifacts": options["artifacts"]} if options["artifacts"] else {}
        return scope, dict(_param(text) for text in options["param"])

    def run(self, **options: Any) -> None:
        inventory = inventory_of(options["inventory"])
        self.embed_pending(inventory)
        scope, params = self.asked(options)
        if options["dry_run"]:
            self._forecast(inventory, scope, params)
            return
        made = runs.create_run(
            inventory,
            self.kind,
            by=COMMAND_LINE,
            scope=scope,
            params=params,
            cap_tokens=options["cap_tokens"],
            cap_money=_money(options["cap_money"]),
            unpriced_ok=options["unpriced_ok"],
        )
        self._work(made)
        self._tell(made)

    def _forecast(self, inventory: Inventory, scope: dict[str, Any], params: dict[str, Any]) -> None:
        found = runs.forecast(inventory, self.kind, scope=scope, params=params)
        money = "of unknown price" if found.money is None else f"{found.money:.2f}"
        tokens = f"{found.tokens_in} tokens in, {found.tokens_out} out, {money}"
        self.say(f"{found.items} items, {found.calls} calls" + (f", {tokens}" if found.calls else ""))
        for note in found.notes:
            self.say(note)

    def _work(self, run: Run) -> None:
        """Until it has ended, or stops for a reason that somebody must mend."""
        try:
            with Bar(self.kind) as bar:

                def show(run: Run) -> None:
                    now = runs.progress(run)
                    bar(now.done + now.failed, now.total)

                while not _stands(run):
                    if not run_work.work(run.pk, seconds=5.0, on_progress=show):
                        run_coordinator.coordinate(only=run.pk)
                        run.refresh_from_db()
                        if not _stands(run):
                            self._wait(run)
                    run.refresh_from_db()
                show(run)
        except KeyboardInterrupt:
            run.refresh_from_db()
            if not run.ended:
                runs.pause_run(run, by=COMMAND_LINE)
            raise CommandError(f"Paused. Go on with it in the console: run {run.public_id}.") from None

    def _wait(self, run: Run) -> None:
        until = run.wait_until
        time.sleep(min(5.0, max(0.2, (until - timezone.now()).total_seconds())) if until else 0.5)

    def _tell(self, run: Run) -> None:
        run.refresh_from_db()
        now = runs.progress(run)
        price = "" if not run.calls else f", {run.tokens_in + run.tokens_out} tokens, {_price(run)}"
        recorded = " (recorded)" if run.provider.get("provider") == "recorded" else ""
        self.say(f"{self.kind} {run.public_id}{recorded}: {run.state}, {now.done} done, {now.failed} failed{price}.")
        if run.note:
            self.say(run.note)
        for group in runs.error_groups(run):
            self.stderr.write(f"{group.code} × {group.n}, such as {group.sample[0].key}: {group.sample[0].error}")
        if run.result:
            self.say(json.dumps(run.result, ensure_ascii=False, indent=1)[:5_000])
        if run.state == RunState.FAILED:
            raise CommandError("The run failed.")


def _stands(run: Run) -> bool:
    """Whether it has ended, or waits for a person."""
    return run.ended or run.state in {RunState.CAPPED, RunState.PAUSED}


def _price(run: Run) -> str:
    if run.unpriced_calls:
        return f"{run.money:.4f} and {run.unpriced_calls} calls of unknown price"
    return f"{run.money:.4f}"


def _param(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise CommandError(f"--param {text!r} has no “=”. Write --param m=10.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _money(text: str | None) -> Decimal | None:
    if text is None:
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        raise CommandError(f"--cap-money {text!r} is no amount.") from None
