"""The form of a new review queue."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from console.forms import lines
from console.forms.runs import TICKED_UP_TO, keys_field
from console.models import Artifact, Inventory, QueueKind, QueueOrder
from console.presenters import review as words
from console.services.review_build import MOST, Asked


class QueueForm(forms.Form):
    kind = forms.ChoiceField(label=_("Kind"), widget=forms.RadioSelect)
    name = forms.CharField(label=_("Name (optional)"), max_length=120, required=False)
    size = forms.IntegerField(label=_("Items"), min_value=1, max_value=MOST, initial=50)
    reviewers = forms.IntegerField(
        label=_("People per item"),
        min_value=1,
        max_value=3,
        initial=1,
        help_text=_("With two or three they do not see each other's answers before all are in."),
    )
    minutes = forms.IntegerField(label=_("Minutes an item is reserved"), min_value=1, max_value=1440, initial=15)
    order = forms.ChoiceField(label=_("Order"), choices=[], initial=QueueOrder.WORST)
    blind = forms.BooleanField(
        label=_("Hide selection and AI reviewer until answered"),
        required=False,
        help_text=_("Random samples always do."),
    )
    policies = forms.MultipleChoiceField(
        label=_("Policies (none ticked: all)"), required=False, widget=forms.CheckboxSelectMultiple
    )
    fired = forms.ChoiceField(label=_("Outcome"), choices=[], required=False)
    judged = forms.ChoiceField(label=_("AI reviewer says"), choices=[], required=False)
    where = forms.CharField(
        label=_("Conversations (optional)"),
        required=False,
        max_length=4_000,
        widget=forms.Textarea({"rows": 3, "class": "mono", "placeholder": "channel:is:voice"}),
        help_text=_("One condition a line, as in the address of the list of conversations (f=…)."),
    )
    seed = forms.IntegerField(
        label=_("Seed of the draw"),
        min_value=0,
        max_value=2**31 - 1,
        initial=1,
        help_text=_("The same seed draws the same sample again."),
    )
    guideline = forms.CharField(
        label=_("Guideline (optional)"),
        required=False,
        max_length=5_000,
        widget=forms.Textarea({"rows": 4}),
        help_text=_("Shown beside every item of this queue."),
    )
    closes_at = forms.DateTimeField(
        label=_("Closes (optional)"),
        required=False,
        widget=forms.DateTimeInput({"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )

    def __init__(self, *args: Any, inventory: Inventory, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        policies = Artifact.objects.filter(inventory=inventory).order_by("key")
        for name, choices in (
            ("kind", [(k, words.KINDS[k].name) for k in words.KINDS]),
            ("order", list(words.ORDERS.items())),
            ("fired", list(words.FIRED.items())),
            ("judged", list(words.JUDGED.items())),
            ("policies", [(key, key) for key in policies.values_list("key", flat=True)]),
        ):
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)  # noqa: S101  # for the type checker
            field.choices = choices

        keys = self.fields["policies"].choices  # type: ignore[attr-defined]
        if len(keys) > TICKED_UP_TO:
            self.fields["policies"] = keys_field(
                label=_("Policies (empty: all)"), help_text=_("Their keys, one per line.")
            )
        self._known = {key for key, _name in keys}

    def clean_policies(self) -> list[str]:
        given = self.cleaned_data["policies"]
        keys = list(lines(given)) if isinstance(given, str) else given
        if unknown := [key for key in keys if key not in self._known]:
            raise forms.ValidationError(_("There is no policy %(key)s.") % {"key": unknown[0][:64]})
        return keys

    def asked(self) -> Asked:
        values = self.cleaned_data
        custom = values["kind"] == QueueKind.CUSTOM
        return Asked(
            kind=values["kind"],
            policies=tuple(values["policies"]),
            size=values["size"],
            seed=values["seed"],
            order=values["order"],
            fired=values["fired"] if custom else "",
            judged=values["judged"] if custom else "",
            where=tuple(line.strip() for line in values["where"].splitlines() if line.strip()),
        )

    def options(self) -> dict[str, Any]:
        names = ("name", "reviewers", "minutes", "blind", "guideline", "closes_at")
        return {name: self.cleaned_data[name] for name in names}
