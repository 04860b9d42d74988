"""The words of the evidence pages: methods, worlds, checks, outcomes, verdicts; whatever has none reads as it is stored."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from console.presenters import labels

Text = str | Promise
GATE_KINDS: dict[str, Text] = {
    "fixed": _("its weight given beforehand"),
    "tuned": _("its weight chosen on validation tasks, 0 among the choices"),
    "learned": _("its weight from how close the best two are, fitted on validation tasks"),
}
METHODS: dict[str, Text] = {
    "popularity": _("how often a value was right in training, over all tools"),
    "prior": _("the same for this tool alone"),
    "reset": _("the newest user message alone, no history"),
    "query_adapter": _("control: knows the tool's name, no history"),
    "shuffled_state": _("control: reads another task's history"),
    "state": _("reads the session's earlier calls and answers"),
    "state+tool": _("history and the tool's name"),
    "copy": _("values that stand in what was read, the latest first"),
    "copy+state": _("copied values first, the others by state"),
    "copy+state+tool": _("copied values first, the others by state and tool"),
    "rewritten:identity": _("the message as it is: equals reset"),
    "rewritten:concatenation": _("all user messages one after the other"),
}
WORLDS: dict[str, Text] = {
    "all_splits": _("All values, also those that only the test has (nothing can be missing)"),
    "train_split": _("Only values seen in training (what is not there is a miss)"),
    "fitted": _("Only policies that every method could be fitted for"),
    "with-generated-fallback": _("Policies without mined examples keep AI-written ones"),
    "unfitted-is-miss": _("All policies; one that could not be fitted is a miss"),
}
KINDS: dict[str, Text] = {
    "clustered-difference": _("Difference, by groups"),
    "shuffled-history": _("Against another's history"),
    "copy-baseline": _("Against copying"),
    "rewriter": _("Against a rewriter"),
    "frequency": _("Frequency, within one tool"),
    "tool-heldout": _("Tools held out"),
    "opaque-ids": _("Without opaque ids"),
    "permuted-candidates": _("Candidates permuted"),
    "transfer": _("On other configurations"),
    "boundary": _("Boundary sets"),
    "shuffled-judgements": _("Against shuffled scores"),
    "policy-heldout": _("A policy held out"),
    "cross-encoder": _("On another text reader"),
    "judge-ceiling": _("The reviewer against itself"),
}
OUTCOMES: dict[str, tuple[Text, str, str]] = {  # words, badge, mark
    "holds": (_("holds"), "ok", "✓"),
    "fails": (_("fails"), "bad", "✗"),
    "not run": (_("not run"), "", "–"),
}
VERDICTS: dict[str, tuple[Text, str, str]] = {
    "supported": (_("supported"), "ok", "✓"),
    "not supported": (_("not supported"), "bad", "✗"),
    "not tested": (_("not tested"), "", "–"),
}
STAGES: dict[str, Text] = {
    "conversion": _("Conversion"),
    "representation": _("Representation"),
    "scoring": _("Scoring"),
    "evaluation": _("Evaluation"),
    "claims": _("Claims"),
}
SYSTEMS: dict[str, Text] = {"traces": _("Tool calls in traces"), "sq": _("Policies on judged turns")}
ORIGINS: dict[str, Text] = {"run": _("a run here"), "command": _("a command here"), "file": _("brought as a bundle")}
GROUPS: dict[str, Text] = {"scenario": _("scenario"), "customer": _("customer"), "session": _("session")}
CALLS: dict[str, Text] = {
    "traces": _("Traces"),
    "calls": _("Calls"),
    "calls_with_rows": _("With rows"),
    "excluded": _("Left out by name"),
    "unparsed_arguments": _("Arguments that are no JSON"),
    "rows_without_query": _("Before any user message"),
    "without_target": _("Without a value"),
    "unanswered": _("Never answered"),
    "rows": _("Rows"),
    "merged": _("Same value twice"),
    "loop_rate": _("Repeat the call before"),
}


def method(name: str, *, technical: bool = False) -> tuple[str, str]:
    """The method's own name and what it ranks by ("" where we have no words)."""
    if name in METHODS:
        return name, str(METHODS[name])
    _base, gated, kind = name.partition("+prior:")
    if gated and kind in GATE_KINDS:
        return name, str(GATE_KINDS[kind])
    said = labels.method(name, technical=technical)
    return (name, said if said != name else "")


def world(name: str) -> str:
    return str(WORLDS.get(name, ""))


def kind(name: str) -> str:
    return str(KINDS.get(name, name))
