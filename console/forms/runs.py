"""Forms of runs: one per kind for its scope and params, and what every kind asks for beside them.

Each form reads a scope and params back into its fields (`initial_of`), so that a run can be looked at again with other
values and a schedule edited; what it has no field for is carried along as it is.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext_lazy as _

from console.forms import lines
from console.forms.posted import posted_json
from console.models import ArtifactText, GoLive, Guideline, Inventory, Mode, RunKind, Status
from console.presenters import labels
from console.services import evaluate
from console.services.errors import ServiceError
from sq_core.evidence.shipped import TEXT_LIMIT

TICKED_UP_TO = 80  # policies: beyond, their keys are typed

Json = dict[str, Any]


def keys_field(**options: Any) -> forms.CharField:
    """Where policies' keys are typed, one per line (`lines` reads them)."""
    return forms.CharField(required=False, widget=forms.Textarea({"rows": 4, "spellcheck": "false"}), **options)


def _rest(text: str | None) -> Json:
    """What a form carries along without a field of its own: scope and params. Raises ValueError."""
    rest = posted_json(text or "{}")
    if not isinstance(rest, dict) or not all(isinstance(rest.get(part, {}), dict) for part in ("scope", "params")):
        raise ValueError("no scope and params")
    return rest


def add_run_error(form: forms.Form, error: ServiceError, *others: forms.Form) -> None:
    """A service's refusal under the field of whichever form has it: "params.target" is under ``target``."""
    text = f"{error.message} {error.hint}".strip()
    name = error.field.removeprefix("scope.").removeprefix("params.")
    for each in (form, *others):
        for candidate in (name.replace(".", "_"), name.partition(".")[0]):
            if candidate in each.fields:
                each.add_error(candidate, text)
                return
    form.add_error(None, text)


class KindForm(forms.Form):
    """The scope and params of one kind. ``main`` are shown, ``more`` folded away."""

    kind: ClassVar[str] = ""
    main: ClassVar[tuple[str | tuple[str, ...], ...]] = ()  # a tuple of names stands in one row
    more: ClassVar[tuple[str, ...]] = ()
    scopes: ClassVar[tuple[str, ...]] = ()  # names of the scope that fields stand for
    params_of: ClassVar[tuple[str, ...]] = ()
    derived: ClassVar[tuple[str, ...]] = ()  # params that a run works out for itself
    newest: ClassVar[tuple[str, ...]] = ()  # params that a run freezes at the newest; another run takes its own newest

    rest = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, inventory: Inventory, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.inventory = inventory
        self.prepare()
        for name, field in self.fields.items():
            field.label = field.label or labels.run_option(name, self.kind)

    def prepare(self) -> None:
        """Choices that come from the inventory."""

    @property
    def main_rows(self) -> list[list[forms.BoundField]]:
        rows = [(row,) if isinstance(row, str) else row for row in self.main]
        return [[self[name] for name in row if name in self.fields] for row in rows]

    @property
    def more_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.more if name in self.fields]

    @property
    def more_open(self) -> bool:
        return any(field.errors for field in self.more_fields)

    def clean_rest(self) -> Json:
        try:
            return _rest(self.cleaned_data["rest"])
        except ValueError:
            raise forms.ValidationError(_("What was carried along cannot be read. Start from an empty form.")) from None

    @property
    def carried(self) -> list[tuple[str, str]]:
        """What has no field of its own here, to be shown."""
        try:
            rest = _rest(self["rest"].value())
        except ValueError:
            return []
        parts = [*rest.get("scope", {}).items(), *rest.get("params", {}).items()]
        return [(labels.run_option(name, self.kind), json.dumps(value, ensure_ascii=False)) for name, value in parts]

    def scope(self) -> Json:
        return {**self.cleaned_data["rest"].get("scope", {}), **self.own_scope()}

    def params(self) -> Json:
        return {**self.cleaned_data["rest"].get("params", {}), **self.own_params()}

    def own_scope(self) -> Json:
        return {}

    def own_params(self) -> Json:
        return {}

    @classmethod
    def initial_of(cls, scope: Mapping[str, Any], params: Mapping[str, Any]) -> Json:
        """Field values that give this scope and these params."""
        others = (*cls.params_of, *cls.derived)
        rest = {  # what is off or none is so without being carried along
            "scope": {name: value for name, value in scope.items() if value and name not in cls.scopes},
            "params": {name: value for name, value in params.items() if value and name not in others},
        }
        found = cls.read(scope, params)
        if rest["scope"] or rest["params"]:
            found["rest"] = json.dumps({name: part for name, part in rest.items() if part})
        return found

    @classmethod
    def read(cls, scope: Mapping[str, Any], params: Mapping[str, Any]) -> Json:
        return {name: params[name] for name in cls.params_of if name in params}

    @classmethod
    def defaults(cls) -> tuple[Json, Json]:
        """Scope and params of a first look."""
        return {}, {}

    @classmethod
    def as_shown(cls, inventory: Inventory, initial: Mapping[str, Any]) -> tuple[Json, Json] | None:
        """The scope and params that the form gives when nothing in it is touched; None where that is none it takes."""
        first = {name: field.initial for name, field in cls.base_fields.items() if field.initial is not None}
        untouched = cls({**first, **initial}, inventory=inventory)
        return (untouched.scope(), untouched.params()) if untouched.is_valid() else None


def _given(values: Mapping[str, Any], names: Sequence[str]) -> Json:
    """Those that were filled in; 0 and False are values."""
    return {name: values[name] for name in names if values.get(name) not in (None, "")}


# ------------------------------------------------------------------------------------------------------- no model is called
class EvaluateForm(KindForm):
    kind = RunKind.EVALUATE
    main, more = ("protocol",), ("labels", "encoders", "plan")
    params_of = ("protocol", "labels", "encoders", "plan")
    derived = ("rewriter", "prompt_version")

    protocol = forms.ChoiceField(initial=evaluate.PROTOCOLS[0])
    labels = forms.ChoiceField(
        initial="as-judged",
        choices=[("as-judged", _("As it was scored")), ("running-max", _("The highest score so far in the chat"))],
        help_text=_("A reviewer whose scores come down again is compared with one whose scores stay by the second."),
    )

    encoders = forms.CharField(
        required=False,
        help_text=_("One or two, one per line, such as openai:MODEL: compared side by side. Left empty: the own one."),
        widget=forms.Textarea({"rows": 2, "spellcheck": "false"}),
    )
    plan = forms.CharField(
        required=False,
        max_length=TEXT_LIMIT,
        help_text=_(
            "Measured in place of the table and kept as evidence: the name of a shipped plan, or a plan's text."
        ),
        widget=forms.Textarea({"rows": 2, "spellcheck": "false"}),
    )

    def prepare(self) -> None:
        choices = [(name, labels.protocol(name)) for name in evaluate.PROTOCOLS]
        self.fields["protocol"].choices = choices  # type: ignore[attr-defined]

    def own_params(self) -> Json:
        plan = self.cleaned_data["plan"]
        found = {"plan": plan} if plan else {name: self.cleaned_data[name] for name in ("protocol", "labels")}
        encoders = lines(self.cleaned_data["encoders"])
        return found | ({"encoders": list(encoders)} if encoders else {})

    @classmethod
    def read(cls, scope: Mapping[str, Any], params: Mapping[str, Any]) -> Json:
        return {**super().read(scope, params), "encoders": "\n".join(params.get("encoders") or ())}


class ScoreForm(KindForm):
    kind = RunKind.SCORE
    main, more = ("release",), ("conversations",)
    scopes, params_of, newest = ("conversations",), ("release",), ("release",)

    release = forms.IntegerField(required=False, min_value=1, help_text=_("Left empty: the newest."))
    conversations = forms.CharField(
        required=False,
        help_text=_("Their ids, one per line. Left empty: all."),
        widget=forms.Textarea({"rows": 4, "spellcheck": "false"}),
    )

    def own_scope(self) -> Json:
        names = lines(self.cleaned_data["conversations"])
        return {"conversations": list(names)} if names else {}

    def own_params(self) -> Json:
        return _given(self.cleaned_data, ["release"])

    @classmethod
    def read(cls, scope: Mapping[str, Any], params: Mapping[str, Any]) -> Json:
        return {"conversations": "\n".join(scope.get("conversations") or ()), **super().read(scope, params)}


class CalibrateForm(KindForm):
    kind = RunKind.CALIBRATE
    main, params_of = ("target",), ("target",)

    target = forms.FloatField(required=False, min_value=1, max_value=100, help_text=_("In percent."))

    def prepare(self) -> None:
        share = f"{100 * self.inventory.target_recall:.4g}"
        self.fields["target"].help_text = _("In percent. Left empty: the inventory's %(share)s.") % {"share": share}

    def own_params(self) -> Json:
        target = self.cleaned_data["target"]
        return {} if target is None else {"target": target / 100}

    @classmethod
    def read(cls, scope: Mapping[str, Any], params: Mapping[str, Any]) -> Json:
        target = params.get("target")
        return {} if target is None else {"target": float(f"{100 * target:.6g}")}


# --------------------------------------------------------------------------------------------------------- about policies
class PoliciesForm(KindForm):
    """A kind whose scope names policies."""

    scopes: ClassVar[tuple[str, ...]] = ("artifacts",)

    artifacts = forms.MultipleChoiceField(required=False, help_text=_("None ticked: all whose mode is automatic."))

    def prepare(self) -> None:
        texts = ArtifactText.objects.current().filter(
            artifact__inventory=self.inventory,
            artifact__settings__to_release__isnull=True,
            artifact__settings__status=Status.ACTIVE,
        )
        named = texts.order_by("artifact__position", "artifact_id").values_list(
            "artifact__key", "name", "artifact__settings__mode"
        )
        listed = list(named[: TICKED_UP_TO + 1])
        if len(listed) > TICKED_UP_TO:
            help_text = _("Their keys, one per line. Left empty: all whose mode is automatic.")
            self.fields["artifacts"] = keys_field(help_text=help_text)
            if not self.is_bound and self.initial.get("artifacts"):
                self.initial["artifacts"] = "\n".join(self.initial["artifacts"])
            return
        self.fields["artifacts"].choices = [  # type: ignore[attr-defined]
            (key, name if mode == Mode.AUTO else f"{name} ({labels.term(mode)})") for key, name, mode in listed
        ]
        self.fields["artifacts"].widget = forms.CheckboxSelectMultiple(choices=self.fields["artifacts"].choices)  # type: ignore[attr-defined]

    def own_scope(self) -> Json:
        given = self.cleaned_data["artifacts"]
        keys = list(lines(given)) if isinstance(given, str) else given
        return {"artifacts": keys} if keys else {}

    @classmethod
    def read(cls, scope: Mapping[str, Any], params: Mapping[str, Any]) -> Json:
        return {"artifacts": scope.get("artifacts") or [], **super().read(scope, params)}


class GenerateForm(PoliciesForm):
    kind = RunKind.GENERATE
    main, more = ("m", "mode", "artifacts"), ("rounds", "neighbours", "again")
    params_of = ("m", "mode", "rounds", "neighbours", "again")

    m = forms.IntegerField(required=False, min_value=1, max_value=50, initial=10)
    mode = forms.ChoiceField(
        choices=[
            ("plain", _("So many, in one call per side")),
            ("covered", _("Round by round, until new ones are already known")),
        ],
        widget=forms.RadioSelect,
        initial="plain",
    )
    rounds = forms.IntegerField(
        required=False, min_value=1, max_value=20, help_text=_("Of the second way. Left empty: the usual number.")
    )
    neighbours = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=10,
        help_text=_("0: the model sees the policy's own text alone, as in the paper."),
    )
    again = forms.BooleanField(required=False)

    def own_params(self) -> Json:
        return _given(self.cleaned_data, ["m", "mode", "rounds", "neighbours"]) | (
            {"again": True} if self.cleaned_data["again"] else {}
        )


class MineForm(PoliciesForm):
    kind = RunKind.MINE
    main = ("mode", "recipe", "artifacts")
    more = ("rule", "quiet_hours", "negatives_per_signal", "max_irrelevant", "max_candidates", "auto_promote")
    params_of = (
        "rule", "recipe", "mode", "negatives_per_signal", "max_irrelevant", "max_candidates", "auto_promote",
        "quiet_hours",
    )  # fmt: skip
    derived = ("judge",)

    mode = forms.ChoiceField(
        choices=[
            ("plain", _("Show and don't-show examples from reviewed chats")),
            ("adversarial", _("Don't-show examples only: what is selected most wrongly now")),
        ],
        widget=forms.RadioSelect,
        initial="plain",
    )
    recipe = forms.ChoiceField(
        choices=[
            ("paper", _("Where a policy became relevant, and the nearest look-alikes")),
            ("states", _("Every reviewed message")),
        ],
        widget=forms.RadioSelect,
        initial="paper",
    )
    rule = forms.ChoiceField(
        choices=[
            ("whole_conversation", _("Whole, once it has ended")),
            ("running", _("Message by message, as it goes on")),
        ],
        initial="whole_conversation",
        required=False,
    )
    quiet_hours = forms.IntegerField(required=False, min_value=0)
    negatives_per_signal = forms.IntegerField(required=False, min_value=1, max_value=100)
    max_irrelevant = forms.IntegerField(required=False, min_value=1, max_value=4)
    max_candidates = forms.IntegerField(required=False, min_value=2, max_value=500)
    auto_promote = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=100,
        help_text=_("0: all wait for somebody's yes. What is taken goes into the draft, never to agents."),
    )

    def prepare(self) -> None:
        super().prepare()
        if self.inventory.go_live != GoLive.AFTER_REVIEW:
            del self.fields["auto_promote"]

    def own_params(self) -> Json:
        return _given(self.cleaned_data, self.params_of)


class JudgeForm(PoliciesForm):
    kind = RunKind.JUDGE
    main = ("unjudged_only", "since", ("sample_of", "sample_amount", "sample_unit"), "artifacts")
    more = ("channel", "until", "conversations", "per_call", "repeat_sample", "guideline", "sample_seed", "batch")
    scopes = ("artifacts", "conversations", "channel", "since", "until", "sample", "unjudged_only")
    params_of = ("per_call", "repeat_sample", "guideline", "batch")
    derived, newest = ("judge", "prompt_version"), ("guideline",)

    unjudged_only = forms.BooleanField(required=False, initial=True)
    since = forms.CharField(
        required=False, max_length=40, help_text=_("An age such as 7d or 24h, or a day such as 2026-03-02. Empty: all.")
    )
    sample_of = forms.ChoiceField(
        label=_("How many of them"),
        required=False,
        choices=[("", _("All")), ("share", _("A random share")), ("n", _("A random number"))],
    )
    sample_amount = forms.FloatField(
        label=_("Percent, or number"), required=False, min_value=0, help_text=_("Of a random part only.")
    )
    sample_unit = forms.ChoiceField(
        label=_("Drawn are"),
        required=False,
        choices=[("conversation", _("whole chats")), ("column", _("policies over a whole chat"))],
    )
    sample_seed = forms.IntegerField(
        label=_("Seed of the random choices"),
        required=False,
        help_text=_("The same seed draws the same ones. Left empty: 0."),
    )
    channel = forms.CharField(required=False, max_length=100)
    until = forms.CharField(required=False, max_length=40)
    conversations = forms.CharField(
        required=False,
        help_text=_("Their ids, one per line. Left empty: all."),
        widget=forms.Textarea({"rows": 4, "spellcheck": "false"}),
    )
    per_call = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=50,
        help_text=_("1: each policy is scored on its own. More is cheaper, and the scores may differ."),
    )
    repeat_sample = forms.FloatField(
        required=False,
        min_value=0,
        max_value=100,
        help_text=_("In percent. Shows how far the reviewer agrees with itself."),
    )
    guideline = forms.TypedChoiceField(required=False, coerce=int, empty_value=None)
    batch = forms.BooleanField(
        required=False,
        help_text=_("For nightly runs on servers that have OpenAI's batches: answers come within a day."),
    )

    def prepare(self) -> None:
        super().prepare()
        numbers = (
            Guideline.objects.filter(inventory=self.inventory).order_by("-number").values_list("number", flat=True)
        )
        choices = [
            ("", _("The newest")),
            (0, _("The built-in one")),
            *((n, _("Number %(n)s") % {"n": n}) for n in numbers[:50]),
        ]
        self.fields["guideline"].choices = choices  # type: ignore[attr-defined]

    def clean(self) -> Json:
        cleaned = super().clean() or {}
        of, amount = cleaned.get("sample_of"), cleaned.get("sample_amount")
        if of and not amount:
            self.add_error("sample_amount", _("Say how many."))
        elif of == "share" and amount is not None and amount > 100:
            self.add_error("sample_amount", _("A share is at most 100 percent."))
        elif of == "n" and amount is not None and amount != int(amount):
            self.add_error("sample_amount", _("A number of chats is a whole one."))
        return cleaned

    def own_scope(self) -> Json:
        cleaned, found = self.cleaned_data, super().own_scope()
        if names := lines(cleaned["conversations"]):
            found["conversations"] = list(names)
        found |= _given(cleaned, ["channel", "since", "until"])
        if of := cleaned["sample_of"]:
            amount = cleaned["sample_amount"]
            found["sample"] = {
                of: amount / 100 if of == "share" else int(amount),
                "unit": cleaned["sample_unit"] or "conversation",
                **({"seed": cleaned["sample_seed"]} if cleaned["sample_seed"] is not None else {}),
            }
        if cleaned["unjudged_only"]:
            found["unjudged_only"] = True
        return found

    def own_params(self) -> Json:
        found = _given(self.cleaned_data, ["per_call", "guideline"])
        if share := self.cleaned_data["repeat_sample"]:
            found["repeat_sample"] = share / 100
        if self.cleaned_data.get("batch"):
            found["batch"] = True
        return found

    @classmethod
    def read(cls, scope: Mapping[str, Any], params: Mapping[str, Any]) -> Json:
        found = super().read(scope, params) | {name: scope.get(name, "") for name in ("channel", "since", "until")}
        found["conversations"] = "\n".join(scope.get("conversations") or ())
        found["unjudged_only"] = bool(scope.get("unjudged_only"))
        if "repeat_sample" in found:
            found["repeat_sample"] = float(f"{100 * found['repeat_sample']:.6g}")
        if drawn := scope.get("sample"):
            of = "share" if "share" in drawn else "n"
            found |= {
                "sample_of": of,
                "sample_amount": float(f"{100 * drawn[of]:.6g}") if of == "share" else drawn[of],
                "sample_unit": drawn.get("unit", "column"),
                "sample_seed": drawn.get("seed"),
            }
        return found

    @classmethod
    def defaults(cls) -> tuple[Json, Json]:
        return {"unjudged_only": True}, {}


# --------------------------------------------------------------------------------------------------------- any other kind
class JsonForm(KindForm):
    """A kind that has no form of its own yet: its scope and params as they are stored."""

    main = ("scope_json", "params_json")

    scope_json = forms.JSONField(label=_("Scope, as JSON"), required=False, initial=dict)
    params_json = forms.JSONField(label=_("Params, as JSON"), required=False, initial=dict)

    def clean(self) -> Json:
        cleaned = super().clean() or {}
        for name in ("scope_json", "params_json"):
            if cleaned.get(name) and not isinstance(cleaned[name], dict):
                self.add_error(name, _("This is no JSON object."))
        return cleaned

    def own_scope(self) -> Json:
        return dict(self.cleaned_data["scope_json"] or {})

    def own_params(self) -> Json:
        return dict(self.cleaned_data["params_json"] or {})

    @classmethod
    def initial_of(cls, scope: Mapping[str, Any], params: Mapping[str, Any]) -> Json:
        return {"scope_json": dict(scope), "params_json": dict(params)}


FORMS: dict[str, type[KindForm]] = {
    str(form.kind): form for form in (GenerateForm, JudgeForm, MineForm, ScoreForm, EvaluateForm, CalibrateForm)
}


def form_of(kind: str) -> type[KindForm]:
    return FORMS.get(kind, JsonForm)


# ------------------------------------------------------------------------------------------------------------------- caps
class CapForm(forms.Form):
    """What a run may spend at most. Empty = no cap; consent is asked for where the price is unknown."""

    cap_money = forms.DecimalField(
        label=_("Money, at most"), required=False, max_digits=12, decimal_places=4, help_text=_("Left empty: no cap.")
    )
    cap_tokens = forms.IntegerField(
        label=_("Tokens, at most"), required=False, max_value=2**53, help_text=_("Left empty: no cap.")
    )
    unpriced_ok = forms.BooleanField(
        label=_("Start although the price is unknown"),
        required=False,
        help_text=_("Its cost stays unknown, and a cap on money cannot hold."),
    )
