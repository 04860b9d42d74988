"""What the evidence commands share: logs from files or an inventory, plans and configurations, core errors as one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

from django.core.management.base import CommandError

from console.management.shared import refused_by_disk
from sq_core.causal.trace import GroupBy, TraceError
from sq_core.causal.vectors import VectorError
from sq_core.evaluation.data import EvaluationError
from sq_core.evidence.bundle import BundleError
from sq_core.evidence.claims import ClaimError
from sq_core.evidence.controls import ControlError
from sq_core.evidence.plan import PlanError

GROUPINGS = get_args(GroupBy)
TARGETS = ("field", "whole")
CORE = (PlanError, TraceError, VectorError, ClaimError, ControlError, BundleError, EvaluationError)


@contextmanager
def plainly() -> Iterator[None]:
    """What the core refuses, and a disk that cannot be used, as one clear line."""
    try:
        yield
    except CORE as problem:
        raise CommandError(str(problem)) from problem
    except OSError as problem:
        raise refused_by_disk(problem) from problem


def read_text(path: Path) -> str:
    """A plan's or configuration's text."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as problem:
        raise CommandError(f"{path} cannot be read: {problem.strerror}.") from None
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not UTF-8 text.") from None
