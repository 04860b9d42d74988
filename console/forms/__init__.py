"""Forms of the console: what a person typed, cleaned and shown again with its errors. Services check it all once more."""

import re
import zoneinfo
from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.core.validators import MaxLengthValidator
from django.utils.translation import gettext_lazy as _

from console.models import Kind, Mode, User
from console.services.accounts import MOST_PASSWORD
from console.services.errors import ServiceError

MAX_TRIED = 5


def lines(text: str) -> tuple[str, ...]:
    """One example per line, empty lines left out, each line once."""
    return tuple(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


def add_service_error(form: forms.BaseForm, error: ServiceError) -> None:
    """A service's refusal under its field, or above the form where the field is none of the form's."""
    text = f"{error.message} {error.hint}".strip()
    form.add_error(error.field if error.field in form.fields else None, text)


class SignInForm(AuthenticationForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].widget.attrs |= {"autocomplete": "username", "autocapitalize": "none"}
        self.fields["password"].widget.attrs |= {"autocomplete": "current-password", "maxlength": str(MOST_PASSWORD)}
        self.fields["password"].validators.append(MaxLengthValidator(MOST_PASSWORD))  # hashing takes time by its length
        self.fields["username"].label = _("User name")


class PolicyForm(forms.Form):
    """New and edit; ``key`` and ``kind`` are asked for only when the policy is new."""

    name = forms.CharField(label=_("Name"), max_length=200)
    key = forms.CharField(
        label=_("Key"),
        max_length=64,
        required=False,
        help_text=_("Used in addresses and by agents: a-z, 0-9 and hyphens. Left empty, it is made from the name."),
    )
    text = forms.CharField(
        label=_("Text"), help_text=_("What the agent is given, word for word."), widget=forms.Textarea({"rows": 6})
    )
    kind = forms.ChoiceField(label=_("Kind"), choices=Kind.choices, initial=Kind.POLICY)
    mode = forms.ChoiceField(
        label=_("Mode"),
        initial=Mode.AUTO,
        choices=[
            (Mode.AUTO, _("Automatic: selected when a turn matches its examples")),
            (Mode.ALWAYS, _("Always on: given to the agent at every turn")),
            (Mode.OFF, _("Off: never selected")),
        ],
        widget=forms.RadioSelect,
    )
    signals = forms.CharField(
        label=_("Messages that need it"),
        required=False,
        help_text=_("One per line, as a customer would write them. Ten are a good start."),
        widget=forms.Textarea({"rows": 10, "spellcheck": "false"}),
    )
    anti_signals = forms.CharField(
        label=_("Look-alikes that don't"),
        required=False,
        help_text=_("One per line: messages that sound alike and need something else."),
        widget=forms.Textarea({"rows": 10, "spellcheck": "false"}),
    )
    borrow = forms.MultipleChoiceField(required=False)
    messages = forms.CharField(
        label=_("Messages to try"),
        required=False,
        help_text=_("Up to five messages, one per line."),
        widget=forms.Textarea({"rows": 5, "spellcheck": "false"}),
    )
    reason = forms.CharField(label=_("Reason (optional)"), max_length=500, required=False)
    base_text = forms.IntegerField(required=False, widget=forms.HiddenInput)
    base_version = forms.IntegerField(required=False, widget=forms.HiddenInput)
    confirmed = forms.BooleanField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, editing: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.editing = editing
        if editing:
            del self.fields["key"], self.fields["kind"]
        if self.is_bound:  # what is ticked was offered by the page before: other texts are the person's own lines
            data: Any = self.data
            ticked = data.getlist("borrow") if hasattr(data, "getlist") else data.get("borrow", [])
            borrow = self.fields["borrow"]
            assert isinstance(borrow, forms.MultipleChoiceField)  # noqa: S101  # for the type checker
            borrow.choices = [(text, text) for text in ticked]

    @property
    def borrowed(self) -> list[str]:
        """What was ticked so far, to be shown ticked again."""
        return list(self.cleaned_data.get("borrow", [])) if self.is_bound and hasattr(self, "cleaned_data") else []

    def clean_signals(self) -> tuple[str, ...]:
        return lines(self.cleaned_data["signals"])

    def clean_anti_signals(self) -> tuple[str, ...]:
        return lines(self.cleaned_data["anti_signals"])

    def clean_messages(self) -> tuple[str, ...]:
        found = lines(self.cleaned_data["messages"])
        if len(found) > MAX_TRIED:
            raise forms.ValidationError(_("These are more than five; the playground takes whole conversations."))
        return found

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        cleaned["anti_signals"] = tuple(
            dict.fromkeys([*cleaned.get("anti_signals", ()), *(text.strip() for text in cleaned.get("borrow", []))])
        )
        if not self.editing and not cleaned.get("key") and cleaned.get("name"):
            cleaned["key"] = key_of(cleaned["name"])
        return cleaned


def key_of(name: str) -> str:
    """A key from a name: "Lost luggage (EU)" gives lost-luggage-eu."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:64].strip("-") or "policy"


class ReleaseForm(forms.Form):
    reason = forms.CharField(label=_("Reason"), max_length=500, required=False)


class ProfileForm(forms.Form):
    time_zone = forms.ChoiceField(label=_("Time zone"), help_text=_("Times are stored in UTC and shown in this zone."))
    technical_terms = forms.BooleanField(
        label=_("Show technical terms (margin, recall, anti-signal) in place of plain words"), required=False
    )
    keys_off = forms.BooleanField(label=_("Single-letter keys off"), required=False)

    def __init__(self, *args: Any, user: User, keys: tuple[tuple[str, Any], ...], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial = {
            "time_zone": user.time_zone,
            "technical_terms": user.technical_terms,
            "keys_off": bool(user.key_map.get("off")),
        }
        zones = self.fields["time_zone"]
        assert isinstance(zones, forms.ChoiceField)  # noqa: S101  # for the type checker
        zones.choices = [(zone, zone) for zone in sorted(zoneinfo.available_timezones())]
        self.key_names = {f"key_{number}": key for number, (key, _what) in enumerate(keys)}
        for name, (key, what) in zip(self.key_names, keys, strict=True):
            self.fields[name] = forms.CharField(
                label=what,
                required=False,
                max_length=1,
                initial=user.key_map.get(key, key),
                widget=forms.TextInput({"size": 2, "autocomplete": "off", "class": "mono"}),
            )

    @property
    def key_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.key_names]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        seen: dict[str, str] = {}
        for name, key in self.key_names.items():
            mine = cleaned.get(name) or key
            if mine in seen:
                self.add_error(name, _("This key is taken by another line."))
            seen[mine] = name
        return cleaned

    def key_map(self) -> dict[str, Any]:
        own = {key: self.cleaned_data[name] for name, key in self.key_names.items()}
        return {"off": self.cleaned_data["keys_off"], **own}
