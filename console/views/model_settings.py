"""Which models the runs of an inventory call, whether they answer, and what the reviewer is told. For admins."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from console.forms.models import GuidelineForm, ModelForm
from console.forms.runs import add_run_error
from console.models import Guideline, Inventory, ModelProvider, ModelRole, ModelSetting, Role
from console.permissions import Request, actor_of, require
from console.presenters import labels
from console.services import model_trial, models_setting
from console.services.errors import Invalid
from console.views.frame import say
from console.views.settings_frame import tabs

LISTED = 20


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.ADMIN)
def models_page(request: Request, inventory: Inventory) -> HttpResponse:
    """POST saves the setting of ``role``; with ``try`` it is called once as well."""
    if request.method != "POST":
        return _page(request, inventory)
    role = request.POST.get("role", "")
    if role not in ModelRole.values:
        raise Invalid(_("There is no such model."), field="role", hint=_("Choose the generator or the judge."))
    form = _form(role, models_setting.find_model(inventory, role), request.POST)
    if form.is_valid():
        values = {name: form.cleaned_data[name] for name in ModelForm.base_fields}
        try:
            saved = models_setting.set_model(inventory, role, by=actor_of(request), **values)
        except Invalid as error:
            add_run_error(form, error)
        else:
            if "try" in request.POST:
                trial = model_trial.try_model(inventory, saved, by=actor_of(request))
                return _page(request, inventory, trials={role: trial})
            say(request, _("Saved. Runs already planned keep the model they were planned with."))
            return redirect("settings-models", inventory.slug)
    return _page(request, inventory, forms={role: form}, status=422)


@require_POST
@require(Role.ADMIN)
def guideline(request: Request, inventory: Inventory) -> HttpResponse:
    """The next guideline; the ones before stay, with the judgements that name them."""
    form = GuidelineForm(request.POST)
    if form.is_valid():
        try:
            made = models_setting.new_guideline(
                inventory,
                by=actor_of(request),
                text=form.cleaned_data["text"],
                rubric=form.cleaned_data["rubric"],
                reason=form.cleaned_data["reason"],
            )
        except Invalid as error:
            add_run_error(form, error)
        else:
            say(request, _("Guideline %(n)s holds from the next run on.") % {"n": made.number})
            return redirect("settings-models", inventory.slug)
    return _page(request, inventory, guideline_form=form, status=422)


def _form(role: str, setting: ModelSetting | None, data: Any = None) -> ModelForm:
    default = setting or ModelSetting(role=role, provider=ModelProvider.OPENAI)
    return ModelForm(data, initial=ModelForm.initial_of(default), prefix=None, auto_id=f"{role}_%s")


def _page(
    request: Request,
    inventory: Inventory,
    *,
    forms: dict[str, ModelForm] | None = None,
    trials: dict[str, model_trial.Trial] | None = None,
    guideline_form: GuidelineForm | None = None,
    status: int = 200,
) -> HttpResponse:
    technical = request.user.technical_terms
    roles = []
    for role in (ModelRole.JUDGE, ModelRole.GENERATOR):
        setting = models_setting.find_model(inventory, role)
        roles.append(
            {
                "name": role.value,
                "label": labels.model_role(role, technical=technical),
                "line": labels.MODEL_ROLES[role].line,
                "setting": setting,
                "form": (forms or {}).get(role.value) or _form(role, setting),
                "trial": (trials or {}).get(role.value),
                "missing_key": model_trial.missing_key(setting) if setting else "",
            }
        )
    now = models_setting.guideline(inventory)
    context = {
        "tabs": tabs(request, "settings-models"),
        "roles": roles,
        "guideline": now,
        "guidelines": Guideline.objects.filter(inventory=inventory).order_by("-number")[:LISTED],
        "guideline_form": guideline_form or GuidelineForm(initial={"rubric": now.rubric, "text": now.text}),
    }
    return render(request, "settings/models.html", context, status=status)
