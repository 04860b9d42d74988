"""The form of the planner: an amount, and what it is to buy."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _


class PlanForm(forms.Form):
    """Money where the reviewer's price is known, else tokens."""

    money = forms.DecimalField(
        label=_("Money"), min_value=0, max_digits=12, decimal_places=4, help_text=_("In the currency of the prices.")
    )
    tokens = forms.IntegerField(
        label=_("Tokens"),
        min_value=1,
        max_value=2**53,
        help_text=_("The price is not known, so the amount is in tokens."),
    )
    measure = forms.FloatField(
        label=_("Part for measuring, in percent"),
        min_value=0,
        max_value=100,
        initial=25,
        help_text=_("Whole chats drawn at random: figures and the cut-off rest on these alone."),
    )
    wanted = forms.IntegerField(
        label=_("Show examples wanted per policy"),
        min_value=1,
        max_value=1_000,
        initial=10,
        help_text=_("The rest goes to chats with a high match strength, until each policy should have so many."),
    )

    def __init__(self, *args: Any, priced: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["tokens" if priced else "money"]

    def asked(self) -> dict[str, Any]:
        """As `services.judge_plan.plans` takes it."""
        values = self.cleaned_data
        found: dict[str, Any] = {"wanted": values["wanted"], "measure": values["measure"] / 100}
        if "money" in values:
            return found | {"money": float(values["money"])}
        return found | {"tokens": values["tokens"]}
