"""Forms of an inventory's settings: general, members, tokens, webhooks, how long conversations are kept, erasing one now."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from console.models import GoLive, Inventory, Role
from console.presenters import labels, webhook_words
from console.services.settings_general import MOST_DAYS
from console.services.webhooks import ADDRESS_LENGTH

REASON = {"autocomplete": "off"}


def roles() -> list[tuple[str, str]]:
    """Lowest first, each with what it may do."""
    return [(role.value, f"{labels.role(role).plain}: {labels.role(role).line}") for role in Role]


def reason(*, required: bool = False, **more: Any) -> forms.CharField:
    label = _("Reason") if required else _("Reason (optional)")
    return forms.CharField(label=label, required=required, max_length=500, widget=forms.TextInput(REASON), **more)


class GeneralForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=200)
    go_live = forms.ChoiceField(
        label=_("When agents get a change"),
        choices=[
            (GoLive.AT_ONCE, _("At once: every change is live as soon as it is made")),
            (GoLive.AFTER_REVIEW, _("After review: changes gather in the draft until a publisher lets it go live")),
        ],
        widget=forms.RadioSelect,
    )
    override_needed = forms.BooleanField(
        label=_("A change that breaks a must-select turn, or falls under the share to catch, takes a publisher"),
        required=False,
        help_text=_("Without it an author gives a reason. Going back to an earlier state is never held up."),
    )
    target_recall = forms.FloatField(
        label=_("Share to catch, in percent"),
        min_value=1,
        max_value=100,
        help_text=_("Of 100 turns that need a policy, so many shall get it. A change makes a release."),
        widget=forms.NumberInput({"step": "any"}),
    )
    minimum_material = forms.IntegerField(
        label=_("Examples from real chats before a policy may learn from them"),
        min_value=1,
        max_value=1_000,
        help_text=_("So many on each side."),
    )
    reason = reason()

    @staticmethod
    def initial_of(inventory: Inventory) -> dict[str, Any]:
        names = ("name", "go_live", "override_needed", "minimum_material")
        percent = round(100 * inventory.target_recall, 6)
        return {name: getattr(inventory, name) for name in names} | {"target_recall": f"{percent:g}"}


class MemberForm(forms.Form):
    """Somebody who has an account, or with ``make`` a new account."""

    username = forms.CharField(
        label=_("User name"), max_length=150, widget=forms.TextInput({"autocomplete": "off", "autocapitalize": "none"})
    )
    role = forms.ChoiceField(label=_("Role"), choices=roles, initial=Role.REVIEWER)


class TokenForm(forms.Form):
    name = forms.CharField(
        label=_("Name"),
        max_length=80,
        help_text=_("Of the agent or script that will use it: it stands in the audit and beside the releases."),
        widget=forms.TextInput({"autocomplete": "off"}),
    )
    role = forms.ChoiceField(label=_("Role"), choices=roles, initial=Role.VIEWER)
    until = forms.DateField(
        label=_("Works until"),
        required=False,
        help_text=_("The last day, UTC. Left empty it does not expire."),
        widget=forms.DateInput({"type": "date"}),
    )


class EventsForm(forms.Form):
    events = forms.MultipleChoiceField(
        label=_("Events"), choices=webhook_words.choices, widget=forms.CheckboxSelectMultiple
    )


class WebhookForm(EventsForm):
    address = forms.CharField(
        label=_("Address"),
        max_length=ADDRESS_LENGTH,
        help_text=_("Of your receiver: https, on a public host."),
        widget=forms.URLInput({"autocomplete": "off", "class": "mono", "placeholder": "https://"}),
    )
    reason = reason()
    field_order = ("address", "events", "reason")


class KeepForm(forms.Form):
    keep_days = forms.IntegerField(
        label=_("Days that conversations are kept"),
        required=False,
        min_value=1,
        max_value=MOST_DAYS,
        help_text=_("Counted from their start. Left empty they are never erased."),
    )
    reason = reason()


class FindForm(forms.Form):
    conversation = forms.CharField(
        label=_("Conversation"),
        max_length=200,
        help_text=_("Its id in the log, or in its address here."),
        widget=forms.TextInput({"autocomplete": "off", "class": "mono"}),
    )


class EraseForm(forms.Form):
    typed = forms.CharField(
        label=_("Its id, typed by hand"),
        max_length=200,
        widget=forms.TextInput({"autocomplete": "off", "class": "mono"}),
    )
    reason = reason(required=True)
