"""Forms of schedules: when a run starts, and which runs the standing loop starts every night."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from console.models import Overlap


class ScheduleForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=120)
    cron = forms.CharField(
        label=_("When"),
        max_length=100,
        help_text=_("Minute, hour, day of month, month, day of week: “0 2 * * *” is every night at 2:00."),
        widget=forms.TextInput({"class": "mono", "list": "cron-lines", "spellcheck": "false", "autocomplete": "off"}),
    )
    time_zone = forms.ChoiceField(label=_("Time zone"))
    overlap = forms.ChoiceField(
        label=_("While the run before has not ended"),
        choices=[
            (Overlap.SKIP, _("skip the next one, and say so")),
            (Overlap.QUEUE, _("start the next one beside it")),
        ],
        widget=forms.RadioSelect,
        initial=Overlap.SKIP,
    )
    enabled = forms.BooleanField(label=_("Switched on"), required=False, initial=True)

    def __init__(self, *args: Any, zones: Sequence[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["time_zone"].choices = [(zone, zone) for zone in zones]  # type: ignore[attr-defined]


class LoopForm(forms.Form):
    """Which schedules of the standing loop are made, and what each of their model runs may spend."""

    steps = forms.MultipleChoiceField(error_messages={"required": _("Tick at least one.")})
    time_zone = forms.ChoiceField(label=_("Time zone"))
    cap_money = forms.DecimalField(
        label=_("Money a night, at most"), required=False, max_digits=12, decimal_places=4, min_value=0
    )
    cap_tokens = forms.IntegerField(
        label=_("Tokens a night, at most"),
        required=False,
        min_value=1,
        max_value=2**53,
        initial=2_000_000,
        help_text=_("A run that reaches it pauses, and says so."),
    )

    def __init__(self, *args: Any, zones: Sequence[str], steps: Sequence[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["time_zone"].choices = [(zone, zone) for zone in zones]  # type: ignore[attr-defined]
        self.fields["steps"].choices = list(steps)  # type: ignore[attr-defined]
