"""What a form of the workbench asks for, as the services' steps: one row's button, the ticked rows, or steps shown before."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.forms import lines
from console.forms.posted import posted_json
from console.models import Artifact, Exemplar, ExemplarStatus, FitSet, Message, Pin, Polarity, QueryState
from console.presenters import labels
from console.services import bulk
from console.services import workbench_examples as examples
from console.services.errors import Invalid, Malformed
from console.services.filters import Extent, extent
from console.services.plan import ACTIONS, Step

SIDES = {"show": Polarity.SIGNAL.value, "dont_show": Polarity.ANTI_SIGNAL.value}
FIELDS = {"action": str, "exemplar": str, "text": str, "polarity": str, "state": int, "whole": bool, "pin": str}
MOST = 500
# Which exemplars a bulk action is for; ticked ones in another state are passed over and counted.
BULK: dict[str, tuple[str, set[str]]] = {
    "show": ("promote", set(ExemplarStatus.values)),
    "dont_show": ("promote", set(ExemplarStatus.values)),
    "promote": ("promote", {ExemplarStatus.CANDIDATE}),
    "reject": ("reject", {ExemplarStatus.CANDIDATE, ExemplarStatus.PROMOTED, ExemplarStatus.RETIRED}),
    "retire": ("retire", {ExemplarStatus.PROMOTED}),
    "restore": ("restore", {ExemplarStatus.REJECTED, ExemplarStatus.RETIRED}),
    "move": ("move", {ExemplarStatus.PROMOTED}),
}


@dataclass
class Asked:
    """Steps to preview or apply, or another source of examples; ``skipped`` ticked rows were not for this action."""

    steps: list[Step] = field(default_factory=list)
    fit_set: str = ""
    skipped: int = 0

    def as_json(self) -> str:
        """What the strip's form carries, read back by `read`."""
        kept = [
            {k: v for k, v in asdict(step).items() if k in FIELDS and v not in (None, False)} for step in self.steps
        ]
        return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def read(data: QueryDict, artifact: Artifact) -> Asked:
    """Raises Malformed for what no form of ours sends, Invalid for what a person can mend."""
    form = data.dict()
    if "steps" in form:
        return Asked(steps=_from_json(_str(form, "steps")))
    if _str(form, "fit_set"):
        return Asked(fit_set=_fit_set(_str(form, "fit_set")))
    if "bulk" in form:
        return _bulk(_str(form, "bulk"), _rows(data, artifact), artifact)
    return Asked(steps=_single(form))


def _str(form: Mapping[str, object], name: str) -> str:
    return str(form.get(name, ""))


def _fit_set(value: str) -> str:
    if value not in FitSet.values:
        raise Malformed(_("This is no source of examples."), field="fit_set")
    return value


def _single(form: Mapping[str, object]) -> list[Step]:
    do = _str(form, "do")
    if do in SIDES:
        if _str(form, "exemplar"):
            return [Step("promote", exemplar=_str(form, "exemplar"), polarity=SIDES[do])]
        state, whole = _choice(_str(form, "text_of"))
        return [Step("add", state=state, whole=whole, polarity=SIDES[do])]
    if do == "add":
        polarity = SIDES.get(_str(form, "side"))
        texts = lines(_str(form, "texts"))
        if polarity is None:
            raise Invalid(_("Say on which side the new examples are."), field="side")
        if not texts:
            raise Invalid(_("Write at least one message."), field="texts", hint=_("One per line."))
        if len(texts) > MOST:
            raise Invalid(_("At most %(n)s lines at once.") % {"n": MOST}, field="texts")
        return [Step("add", text=text, polarity=polarity) for text in texts]
    if do == "pin" and _str(form, "text_of"):
        return [Step("pin", state=_choice(_str(form, "text_of"))[0])]
    if do == "unpin" and _str(form, "pin"):
        return [Step("unpin", pin=_str(form, "pin"))]
    if do in ACTIONS and do != "add" and _str(form, "exemplar"):
        return [Step(do, exemplar=_str(form, "exemplar"), text=_str(form, "text") if do == "edit" else None)]
    raise Malformed(_("This form is not one of the page's."), hint=_("Load the page again."))


def _rows(data: QueryDict, artifact: Artifact) -> list[str]:
    """The ticked rows; or all of a list, as it was shown ("candidates:12:<digest>"). Raises Moved where it is no longer so."""
    name, _colon, shown = data.get("which", "").partition(":")
    if not name:
        return data.getlist("tick")
    count, _colon, digest = shown.partition(":")
    if name not in examples.WHOLE or not count.isdecimal() or len(count) > 9:
        raise Malformed(_("This is no list of examples."), field="which", hint=_("Load the page again."))
    found = examples.whole(artifact, name)
    bulk.check(extent(found), Extent(int(count), digest))
    return [f"e:{public_id}" for public_id in found.order_by("-pk").values_list("public_id", flat=True)]


def _choice(value: str) -> tuple[int, bool]:
    """ "362" or "362:whole"."""
    state, _colon, whole = value.partition(":")
    if not state.isdecimal() or len(state) > 18 or whole not in {"", "whole"}:
        raise Malformed(_("This is no message of the turn."), field="text_of")
    return int(state), bool(whole)


def _bulk(do: str, ticked: Sequence[str], artifact: Artifact) -> Asked:
    if do not in BULK:
        raise Malformed(_("This is no action for several rows."), field="bulk")
    if not ticked:
        raise Invalid(_("No row is ticked."), field="tick", hint=_("Tick rows with x, all of them with *."))
    if len(ticked) > MOST:
        raise Invalid(_("At most %(n)s rows at once.") % {"n": MOST}, field="tick")
    asked = Asked()
    known = Exemplar.objects.filter(artifact=artifact, public_id__in=[t[2:] for t in ticked if t.startswith("e:")])
    by_id = {e.public_id: e for e in known}
    action, statuses = BULK[do]
    for row in ticked:
        if row.startswith("t:") and do in SIDES:
            state, whole = _choice(row[2:])
            asked.steps.append(Step("add", state=state, whole=whole, polarity=SIDES[do]))
            continue
        exemplar = by_id.get(row[2:])
        polarity = SIDES.get(do)
        usable = exemplar is not None and exemplar.status in statuses
        if (
            exemplar is None
            or not usable
            or (exemplar.status == ExemplarStatus.PROMOTED and exemplar.polarity == polarity)
        ):
            asked.skipped += 1
            continue
        asked.steps.append(Step(action, exemplar=exemplar.public_id, polarity=polarity))
    if not asked.steps:
        raise Invalid(_("This action is for none of the ticked rows."), field="tick")
    return asked


def _from_json(text: str) -> list[Step]:
    bad = Malformed(_("This form is not one of the page's."), field="steps", hint=_("Load the page again."))
    try:
        rows = posted_json(text)
    except ValueError:
        raise bad from None
    if not isinstance(rows, list) or not 1 <= len(rows) <= MOST + 1:
        raise bad
    for row in rows:
        if not isinstance(row, dict) or not set(row) <= set(FIELDS):
            raise bad
        if any(type(value) is not FIELDS[name] for name, value in row.items()) or row.get("state", 0) >= 1 << 62:
            raise bad
        if row.get("action") not in ACTIONS or row.get("polarity", Polarity.SIGNAL) not in Polarity.values:
            raise bad
    return [Step(**row) for row in rows]


# ------------------------------------------------------------------------------------------------------------- in words
def title(asked: Asked, artifact: Artifact, *, technical: bool) -> tuple[str, str]:
    """(what is done, the text it is done to; "" for several)."""
    if asked.fit_set:
        words = labels.term(asked.fit_set, technical=technical)
        return _("%(what)s: %(value)s") % {
            "what": labels.term("fit_set", technical=technical),
            "value": words if words[1:2].isupper() else words.lower(),
        }, ""
    kinds = {(step.action, step.polarity if step.action in {"add", "promote"} else None) for step in asked.steps}
    if len(kinds) > 1:
        return ngettext("%(n)s decision", "%(n)s decisions", len(asked.steps)) % {"n": len(asked.steps)}, ""
    what = _verb(asked.steps[0], technical=technical)
    if len(asked.steps) == 1:
        return what, text_of(asked.steps[0], artifact)
    n = len(asked.steps)
    return ngettext("%(what)s: %(n)s example", "%(what)s: %(n)s examples", n) % {"what": what, "n": n}, ""


def _verb(step: Step, *, technical: bool) -> str:
    if step.action in {"add", "promote"} and step.polarity:
        side = labels.term(step.polarity, technical=technical)
        return _("Use as %(side)s") % {"side": side[:1].lower() + side[1:]}
    return labels.term(step.action, technical=technical)


def text_of(step: Step, artifact: Artifact) -> str:
    """The message or example a step is about."""
    if step.text is not None:
        return step.text
    if step.exemplar is not None:
        return (
            Exemplar.objects.filter(artifact=artifact, public_id=step.exemplar).values_list("text", flat=True).first()
            or ""
        )
    if step.pin is not None:
        return Pin.objects.filter(artifact=artifact, public_id=step.pin).values_list("text", flat=True).first() or ""
    state = QueryState.objects.filter(pk=step.state or 0, conversation__inventory=artifact.inventory_id).first()
    if state is None:
        return ""
    found = Message.objects.filter(conversation=state.conversation_id, index=state.message_index)
    text = found.values_list("content", flat=True).first() or ""
    return _("Whole chat up to: %(text)s") % {"text": text} if step.whole else text
