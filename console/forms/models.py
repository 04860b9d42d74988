"""Forms of the model settings page: one per role, and the reviewer's guideline."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from console.models import ModelProvider, ModelSetting, Rubric


class ModelForm(forms.Form):
    """What `services.models_setting.set_model` takes; it checks it all once more. Empty limits = none, prices = unknown."""

    provider = forms.ChoiceField(
        label=_("Answers come from"),
        choices=[
            (
                ModelProvider.OPENAI,
                _("A server that speaks OpenAI's chat completions: hosted, vLLM, Ollama, llama.cpp …"),
            ),
            (ModelProvider.RECORDED, _("The sample's recorded answers: no key, no cost, its own policies only")),
        ],
        widget=forms.RadioSelect,
    )
    model = forms.CharField(
        label=_("Model"), required=False, max_length=200, help_text=_("Its name, as the server knows it.")
    )
    base_url = forms.CharField(
        label=_("Base URL"),
        required=False,
        max_length=500,
        help_text=_("Such as http://127.0.0.1:11434/v1. Left empty: the server's default."),
        widget=forms.URLInput({"autocomplete": "off", "spellcheck": "false"}),
    )
    key_name = forms.CharField(
        label=_("Name of its key"),
        required=False,
        max_length=100,
        help_text=_("The variable of the server that holds it, such as SIGNALBOX_KEY_JUDGE; never the key itself."),
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false", "class": "mono"}),
    )
    temperature = forms.FloatField(label=_("Temperature"), min_value=0, max_value=2)
    max_output_tokens = forms.IntegerField(label=_("Longest reply, in tokens"), min_value=16)
    timeout_s = forms.FloatField(label=_("Seconds until a call is given up"), min_value=1, max_value=600)
    concurrency = forms.IntegerField(label=_("Calls at once, per worker"), min_value=1, max_value=64)
    requests_per_minute = forms.IntegerField(label=_("Requests a minute"), required=False, min_value=1)
    tokens_per_minute = forms.IntegerField(label=_("Tokens a minute"), required=False, min_value=1_000)
    price_in = forms.DecimalField(
        label=_("Price of a million tokens in"), required=False, min_value=0, decimal_places=4
    )
    price_out = forms.DecimalField(
        label=_("Price of a million tokens out"), required=False, min_value=0, decimal_places=4
    )

    server = ("model", "base_url", "key_name")
    way = ("temperature", "max_output_tokens", "timeout_s", "concurrency")
    limits = ("requests_per_minute", "tokens_per_minute", "price_in", "price_out")

    @classmethod
    def initial_of(cls, setting: ModelSetting) -> dict[str, Any]:
        values = {name: getattr(setting, name) for name in cls.base_fields}
        prices = {name: values[name] and values[name].normalize() for name in ("price_in", "price_out")}
        return values | {name: value if value is None else f"{value:f}" for name, value in prices.items()}

    @property
    def server_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.server]

    @property
    def way_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.way]

    @property
    def limit_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.limits]


class GuidelineForm(forms.Form):
    rubric = forms.ChoiceField(
        label=_("A topic that is finished"),
        choices=[
            (Rubric.CURRENT_NEED, _("scores low again: what counts is the present need")),
            (Rubric.STICKY, _("keeps its score: once relevant, always relevant")),
        ],
        widget=forms.RadioSelect,
    )
    text = forms.CharField(
        label=_("What holds for this agent in particular"),
        required=False,
        max_length=20_000,
        help_text=_("It stands in every call, after the scale. Left empty: the scale alone."),
        widget=forms.Textarea({"rows": 10}),
    )
    reason = forms.CharField(label=_("Reason (optional)"), required=False, max_length=500)
