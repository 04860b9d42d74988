"""Bundles small enough to be measured in a test: the toy log of test_ranking_evidence, its tasks few and its answers in the
history; and one of Signals and Queries, whose figures are no figures of ranks."""

import hashlib
import io
import json
import zipfile
from functools import cache
from typing import Any

from sq_core.conversation import Conversation
from sq_core.evidence.bundle import Bundle
from sq_core.evidence.plan import parse_plan
from sq_core.evidence.run import run_evidence
from tests.core.test_ranking_evidence import GIVEN, LOGS, PLAN
from tests.fakes import FakeEncoder

SHORT = """
name = "short"
system = "traces"
draws = 100
methods = ["reset", "state", "shuffled_state", "state+prior:tuned"]
[split]
folds = 3
[settings]
iterations = 5
rank = 4
[[sources]]
name = "log"
path = "inventory"
[[checks]]
id = "state-reset"
kind = "clustered-difference"
a = "state"
b = "reset"
[[claims]]
id = "helps"
sentence = "History helps."
requires = ["state-reset"]
"""
SQ = """
name = "sq-short"
system = "sq"
draws = 100
methods = ["sq-generated", "sq-mined-states"]
[[checks]]
id = "better"
kind = "clustered-difference"
a = "sq-mined-states"
b = "sq-generated"
[[checks]]
id = "one-policy"
kind = "policy-heldout"
[[checks]]
id = "judged-twice"
kind = "judge-ceiling"
[[claims]]
id = "mined-better"
sentence = "Mined exemplars are better."
requires = ["better"]
[[claims]]
id = "decoupled"
sentence = "Policies do not touch each other."
requires = ["one-policy"]
[[claims]]
id = "judge"
sentence = "The judge agrees with itself."
requires = ["judged-twice"]
"""


@cache
def trace_bundle() -> Bundle:
    """Every method, both worlds, a transfer matrix, a boundary set, two rewriters."""
    return run_evidence(parse_plan(PLAN), GIVEN, FakeEncoder())


def files(bundle: Bundle | None = None) -> dict[str, bytes]:
    return dict((bundle or trace_bundle()).files())


def packed(given: dict[str, bytes], folder: str = "bundle/") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in given.items():
            file.writestr(folder + name, data)
    return out.getvalue()


def edited(part: str, change: Any) -> dict[str, bytes]:
    """The toy bundle's files after ``change(value)`` has edited one JSON part, its digests put right as a forger would."""
    found = files()
    value = json.loads(found[f"{part}.json"])
    change(value)
    found[f"{part}.json"] = _json(value)
    top = json.loads(found["bundle.json"])
    top["files"] = {name: hashlib.sha256(found[name]).hexdigest() for name in top["files"]}
    found["bundle.json"] = _json(top)
    return found


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1) + "\n").encode()


def logs() -> list[Conversation]:
    return LOGS
