"""Evidence: store what a plan measured, list it, read one. Rows are written once; a newer bundle of the same plan supersedes."""

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import BinaryField, Case, Max, When

from console.models import (
    ClaimVerdict,
    Evidence,
    EvidenceCheck,
    EvidenceClaim,
    EvidenceFile,
    EvidenceOrigin,
    EvidenceScorecard,
    EvidenceSystem,
    Inventory,
)
from console.services import audit
from console.services.actor import Actor
from console.services.errors import Invalid, NotFound
from console.services.revision import lock_inventory
from sq_core.evidence.bundle import HEAD, NAMES, Bundle, BundleError, read_bundle
from sq_core.evidence.verifying import verify

PAGE = 50
HINT = "Bring the zip that its page gives out, or the folder that run_evidence --to writes, packed."
NAME_LIMIT = 120
SMALL = ("inputs", "contract", "comparisons", "costs", "fits")  # the parts that a page draws beside the rows
Json = Mapping[str, Any]


# -------------------------------------------------------------------------------------------------------------- storing
def store_bundle(
    inventory: Inventory, bundle: Bundle, *, by: Actor, origin: EvidenceOrigin, written_at: datetime, run: str = ""
) -> tuple[Evidence, bool]:
    """As `store_files`, of a bundle that was measured here."""
    return store_files(inventory, bundle.files(), by=by, origin=origin, written_at=written_at, run=run)


def store_files(
    inventory: Inventory,
    files: Mapping[str, bytes],
    *,
    by: Actor,
    origin: EvidenceOrigin,
    written_at: datetime,
    run: str = "",
) -> tuple[Evidence, bool]:
    """Keep a bundle's files; whether they are new. The same bytes are the same evidence, under the time of the first.

    Verified whole before anything is written: digests, figures against ranks, verdicts against checks. Raises Invalid.
    """
    digest = hashlib.sha256(files.get(HEAD, b"")).hexdigest()
    known = Evidence.objects.filter(inventory=inventory, digest=digest).first()
    if known is not None:
        return known, False
    try:
        bundle = read_bundle(files)
        verify(bundle)
    except BundleError as problem:
        raise Invalid(f"This bundle is not what it says: {problem}.", field="file", hint=HINT) from None
    row = _row(inventory, bundle, digest)
    row.origin, row.written_at, row.actor, row.run = origin, written_at, by.name, run
    packed = {name: gzip.compress(files[name], compresslevel=6, mtime=0) for name in (HEAD, *NAMES)}
    with transaction.atomic():
        lock_inventory(inventory)
        known = Evidence.objects.filter(inventory=inventory, digest=digest).first()
        if known is not None:
            return known, False
        row.save(force_insert=True)
        EvidenceFile.objects.bulk_create(
            EvidenceFile(
                evidence=row,
                name=name,
                size=len(files[name]),
                digest=hashlib.sha256(files[name]).hexdigest(),
                data=data,
            )
            for name, data in packed.items()
        )
        _parts(row, bundle)
        audit.record(
            by=by,
            action="evidence.store",
            object_type="evidence",
            object_id=row.public_id,
            inventory=inventory.slug,
            label=row.name,
            after={
                "digest": digest,
                "origin": origin,
                "held": row.held,
                "failed": row.failed,
                "untested": row.untested,
            },
        )
    return row, True


def _row(inventory: Inventory, bundle: Bundle, digest: str) -> Evidence:
    """Raises Invalid for a name or encoder that is too long to be kept."""
    first, verdicts = bundle.scorecards[0], [claim["verdict"] for claim in bundle.claims]
    system = EvidenceSystem.TRACES if "pool" in first else EvidenceSystem.SQ
    encoder = str(bundle.inputs.get("encoder", ""))
    if not bundle.name.strip() or len(bundle.name) > NAME_LIMIT or len(encoder) > 300 or "\0" in bundle.name:
        raise Invalid(f"A plan's name has 1 to {NAME_LIMIT} characters.", field="file")
    for each in (*bundle.checks, *bundle.claims, *bundle.scorecards):
        name = str(each.get("id") or each.get("method"))
        if len(name) > NAME_LIMIT or len(str(each.get("world", ""))) > 40 or len(str(each.get("family", ""))) > 120:
            raise Invalid(f"{name[:40]!r} is too long a name.", field="file", hint=f"Up to {NAME_LIMIT} characters.")
    return Evidence(
        inventory=inventory,
        digest=digest,
        name=bundle.name,
        system=system,
        encoder_id=encoder,
        plan_digest=bundle.inputs["plan_digest"],
        rows=first.get("rows", first.get("states", 0)),
        groups=first.get("groups", first.get("scenarios", 0)),
        held=verdicts.count(ClaimVerdict.SUPPORTED),
        failed=verdicts.count(ClaimVerdict.NOT_SUPPORTED),
        untested=verdicts.count(ClaimVerdict.NOT_TESTED),
    )


def _parts(row: Evidence, bundle: Bundle) -> None:
    EvidenceScorecard.objects.bulk_create(
        EvidenceScorecard(
            evidence=row, position=at, method=card["method"], world=card["world"], coverage=card["coverage"],
            mrr=card.get("mrr"), figures=dict(card),
        )
        for at, card in enumerate(bundle.scorecards)
    )  # fmt: skip
    EvidenceCheck.objects.bulk_create(
        EvidenceCheck(
            evidence=row, position=at, name=check["id"], kind=check["kind"], outcome=check["outcome"],
            detail=check["detail"], p=check.get("p"), figures=check.get("figures", {}),
        )
        for at, check in enumerate(bundle.checks)
    )  # fmt: skip
    EvidenceClaim.objects.bulk_create(
        EvidenceClaim(
            evidence=row, position=at, name=claim["id"], sentence=claim["sentence"], verdict=claim["verdict"],
            reason=claim["reason"], requires=claim["requires"], permits=claim["permits"], forbids=claim["forbids"],
            family=claim["family"], alpha=claim["alpha"],
        )
        for at, claim in enumerate(bundle.claims)
    )  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- reading
@dataclass(frozen=True)
class Listed:
    """A row of the list; ``newest``: nothing newer of the same plan is here."""

    evidence: Evidence
    newest: bool


def list_evidence(
    inventory: Inventory, *, before: int | None = None, size: int = PAGE
) -> tuple[list[Listed], int | None]:
    """Newest first, and the row number that the next page begins below (None: there is none)."""
    rows = Evidence.objects.filter(inventory=inventory).order_by("-id")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows[: size + 1])
    names = Evidence.objects.filter(inventory=inventory, name__in={row.name for row in found[:size]})
    newest = dict(names.order_by().values_list("name").annotate(last=Max("pk")))
    listed = [Listed(row, newest.get(row.name) == row.pk) for row in found[:size]]
    return listed, found[size - 1].pk if len(found) > size else None


@dataclass(frozen=True)
class Read:
    """One evidence with all that its page shows; ``newer`` supersedes it."""

    evidence: Evidence
    scorecards: Sequence[EvidenceScorecard]
    checks: Sequence[EvidenceCheck]
    claims: Sequence[EvidenceClaim]
    inputs: Json
    contract: Json
    comparisons: Sequence[Json]
    costs: Sequence[Json]
    fits: Sequence[Json]
    newer: Evidence | None
    size: int  # bytes of all files, unpacked


def get_evidence(inventory: Inventory, public_id: str) -> Evidence:
    """Raises NotFound."""
    found = Evidence.objects.filter(inventory=inventory, public_id=public_id[:12]).first()
    if found is None:
        raise NotFound("There is no such evidence here.")
    return found


def read_evidence(evidence: Evidence) -> Read:
    """In five queries, whatever it holds; rows.csv and scores.csv stay where they are."""
    small = [f"{part}.json" for part in SMALL]
    own = evidence.files.annotate(read=Case(When(name__in=small, then="data"), output_field=BinaryField()))
    files = list(own.values_list("name", "size", "read"))
    parts = {name.removesuffix(".json"): json.loads(gzip.decompress(bytes(data))) for name, _, data in files if data}
    later = Evidence.objects.filter(inventory=evidence.inventory_id, name=evidence.name, pk__gt=evidence.pk)
    return Read(
        evidence=evidence,
        scorecards=list(evidence.scorecards.order_by("position")),
        checks=list(evidence.checks.order_by("position")),
        claims=list(evidence.claims.order_by("position")),
        newer=later.order_by("-pk").first(),
        size=sum(size for _, size, _ in files),
        **parts,
    )


def files_of(evidence: Evidence) -> dict[str, bytes]:
    """The bundle's files as they were written, by name."""
    return {row.name: gzip.decompress(bytes(row.data)) for row in evidence.files.order_by("name")}


def bundle_of(evidence: Evidence) -> Bundle:
    """The stored bundle, every file checked against its digest again."""
    files = files_of(evidence)
    return read_bundle({name: files[name] for name in (HEAD, *NAMES)})
