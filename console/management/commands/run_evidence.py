"""``run_evidence PLAN [--inventory SLUG] [--data DIR] [--rewrites FILE] [--to DIR]``: measure a plan, keep the bundle."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from console.management.evidence import plainly, read_text
from console.management.shared import COMMAND_LINE, Bar, ServiceCommand, inventory_of
from console.models import EvidenceOrigin, Inventory
from console.services import evidence, evidence_data, evidence_run
from sq_core.evidence.bundle import Bundle, export_evidence
from sq_core.evidence.comparing import comparison_of
from sq_core.evidence.plan import EvidencePlan, read_plan
from sq_core.evidence.rewriting import FREE, MODEL, Recorded, Rewriter, RewritesError, read_rewrites
from sq_core.evidence.run import run_evidence
from sq_core.evidence.shipped import shipped_plans
from sq_core.evidence.sources import read_sources


class Command(ServiceCommand):
    help = (
        "Measure an evidence plan on an inventory's own data, or on files; print scorecards, differences and verdicts."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("plan", help=f"a TOML file, or a shipped plan: {', '.join(shipped_plans())}")
        parser.add_argument(
            "--inventory", metavar="SLUG", help="measure its log and judgements, and keep the evidence there"
        )
        parser.add_argument("--data", type=Path, metavar="DIR", help="the plan's sources are paths below this folder")
        parser.add_argument(
            "--encoder", action="append", default=[], help="S&Q: also refit under this one, up to twice"
        )
        parser.add_argument(
            "--rewrites",
            type=Path,
            metavar="FILE",
            help="what the plan's rewriter model gave: JSON lines, docs/traces.md",
        )
        parser.add_argument("--to", type=Path, metavar="DIR", help="write the bundle's files there")

    def run(self, **options: Any) -> None:
        if not options["inventory"] and not (options["data"] and options["to"]):
            raise CommandError("Name --inventory, or --data and --to.")
        inventory = inventory_of(options["inventory"]) if options["inventory"] else None
        with plainly():
            plan = _plan(options["plan"])
            options["rewriter"] = _rewrites(plan, options["rewrites"])
            bundle = self._measured(inventory, plan, options)
            now = timezone.now()
            if options["to"]:
                export_evidence(bundle, options["to"], written_at=now)
        for line in told(bundle):
            self.say(line)
        if inventory is not None:
            found, new = evidence.store_bundle(
                inventory, bundle, by=COMMAND_LINE, origin=EvidenceOrigin.COMMAND, written_at=now
            )
            self.say(f"\nEvidence {found.public_id} {'kept' if new else 'was there already: the same bytes'}.")
        if options["to"]:
            self.say(f"Written to {options['to']}.")

    def _measured(self, inventory: Inventory | None, plan: EvidencePlan, options: dict[str, Any]) -> Bundle:
        say = lambda message: self.stderr.write(f"  {message}")  # noqa: E731
        if options["data"] is None:
            if inventory is None:  # refused above; for the types
                raise CommandError("Name --inventory.")
            evidence_run.check_sources(plan, field="plan")
            self.embed_pending(inventory)
            return evidence_run.measure(
                inventory, plan, encoders=options["encoder"], rewriter=options["rewriter"], say=say
            )
        if plan.system == "sq":
            raise CommandError("A plan of S&Q reads an inventory: import the set and name --inventory.")
        known: dict[str, Rewriter] = {**FREE, **({MODEL: options["rewriter"]} if options["rewriter"] else {})}
        if MODEL in plan.rewriters and MODEL not in known:
            raise CommandError("The plan's rewriter model has nothing to give: name --rewrites.")
        with Bar("embedding") as bar:
            encoder = evidence_data.stored_encoder(plan.encoder, bar)
            try:
                return run_evidence(plan, read_sources(plan, options["data"]), encoder, rewriters=known, progress=say)
            except evidence_run.REFUSED as problem:
                raise CommandError(f"{plan.name}: {problem}") from problem


def _plan(given: str) -> EvidencePlan:
    """A shipped plan by its name, else a file."""
    if given in shipped_plans():
        return evidence_run.plan_of(given)
    read_text(Path(given))  # what cannot be read is said before anything is measured
    return read_plan(Path(given))


def _rewrites(plan: EvidencePlan, path: Path | None) -> Recorded | None:
    """What a model gave, from a file."""
    if path is None:
        return None
    if MODEL not in plan.rewriters:
        raise CommandError(f"--rewrites: the plan {plan.name} names no rewriter {MODEL}.")
    try:
        read_text(path)
        return read_rewrites(path)
    except RewritesError as problem:
        raise CommandError(f"{path}: {problem}") from problem


def told(bundle: Bundle) -> list[str]:
    """Scorecards, each figure beside its coverage, differences with both clusterings, checks and claims."""
    lines = [f"{'method':28s} {'world':24s} coverage  figures"]
    for card in bundle.scorecards:
        figures = [f"{name} {card[key]:.3f}" for key, name in FIGURES if card.get(key) is not None]
        figures += [f"R@{k} {share:.3f}" for k, share in card.get("recall_at") or ()]
        lines.append(f"{card['method']:28s} {card['world']:24s} {card['coverage']:.3f}     {'  '.join(figures)}")
    lines += [f"{each['check']}: {comparison_of(each['comparison'])}" for each in bundle.comparisons]
    lines += [f"[{check['outcome']}] {check['id']} ({check['kind']}): {check['detail']}" for check in bundle.checks]
    lines += [f"{claim['verdict'].upper()}: {claim['sentence']}\n    {claim['reason']}" for claim in bundle.claims]
    return lines


FIGURES = (
    ("mrr", "MRR"), ("mrr_mean_of_folds", "(mean of folds)"), ("ndcg_at_10", "NDCG@10"), ("precision_at_r90", "P@R90"),
    ("auprc", "AUPRC"),
)  # fmt: skip
