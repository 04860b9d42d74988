"""The form of what is hidden from people."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from console.forms.settings import reason, roles
from console.models import Inventory, Role
from console.presenters.quoting import KINDS
from sq_core.redaction import BUILT_IN, LONGEST_TERM, MOST_TERMS, PLACES, Rules


class RedactionForm(forms.Form):
    on = forms.BooleanField(label=_("Hide personal data in conversations from people"), required=False)
    kinds = forms.MultipleChoiceField(
        label=_("What is hidden"),
        required=False,
        choices=[(kind, KINDS[kind]) for kind in BUILT_IN],
        widget=forms.CheckboxSelectMultiple,
    )
    terms = forms.CharField(
        label=_("Words and phrases of your own"),
        required=False,
        max_length=MOST_TERMS * (LONGEST_TERM + 2),
        help_text=_("One per line; found as whole words, in upper and lower case."),
        widget=forms.Textarea({"rows": 5, "spellcheck": "false"}),
    )
    reveal_role = forms.ChoiceField(label=_("Who may reveal a conversation: this role and those above"), choices=roles)
    reason = reason(required=True)

    @staticmethod
    def initial_of(inventory: Inventory) -> dict[str, Any]:
        """Switched on for the first time, every kind is ticked."""
        fresh = not inventory.redaction and not inventory.redaction_kinds and not inventory.redaction_terms
        return {
            "on": inventory.redaction,
            "kinds": list(BUILT_IN) if fresh else inventory.redaction_kinds,
            "terms": "\n".join(inventory.redaction_terms),
            "reveal_role": inventory.reveal_role or Role.AUTHOR,
        }

    def values(self) -> dict[str, Any]:
        """What `services.redaction.save` takes; of a valid form."""
        given = self.cleaned_data
        names = ("on", "kinds", "reveal_role", "reason")
        return {name: given[name] for name in names} | {"terms": given["terms"].splitlines()}

    def rules(self) -> Rules:
        """Of what is in the form now, or of what is saved where it cannot be read."""
        given = self.cleaned_data if self.is_bound and not self.errors else self.initial
        kinds = [kind for kind in given.get("kinds") or () if kind in PLACES]
        return Rules(frozenset(kinds), tuple(filter(None, map(str.strip, (given.get("terms") or "").splitlines()))))
