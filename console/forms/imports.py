"""What an upload is imported as: its kind, and what that kind asks for beside it."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from console.models import Rubric, Source
from console.presenters import labels
from console.presenters.data import FORMATS, WHATS
from console.services.import_file import OPTIONS
from console.services.upload_text import ENCODINGS

ENCODING_LABELS = {"utf-8": "UTF-8", "utf-16": "UTF-16", "latin-1": _("Latin-1 (Windows-1252)")}


class ImportForm(forms.Form):
    """Only the fields that go with what is chosen are there."""

    what = forms.ChoiceField(label=_("What it holds"))
    format = forms.ChoiceField(
        label=_("Format"),
        required=False,
        choices=[("", _("Recognised row by row")), *FORMATS.items()],
    )
    source = forms.ChoiceField(label=_("Where the examples are from"), required=False)
    rubric = forms.ChoiceField(
        label=_("How a new reviewer scored"),
        required=False,
        choices=[
            ("", _("As the file says; else the present need")),
            (Rubric.CURRENT_NEED, _("The present need: a finished topic scores low again")),
            (Rubric.STICKY, _("Sticky: once relevant, it stays so")),
        ],
    )
    encoding = forms.ChoiceField(label=_("Encoding"), choices=[(name, ENCODING_LABELS[name]) for name in ENCODINGS])

    def __init__(self, data: Mapping[str, Any] | None, *, guess: Mapping[str, Any], technical: bool = False) -> None:
        known = guess.get("what") or ""
        guessed = {"what": known, "encoding": guess.get("encoding", "utf-8"), "format": ""}
        values = {**guessed, **(dict(data.items()) if data else {})}
        self.chosen = bool(values["what"])
        super().__init__(values if data or known else None, initial=guessed)  # what nobody was asked yet is no error
        choices = [(name, label.text(technical=technical)) for name, label in WHATS.items()]
        self.fields["what"].choices = [*([] if known else [("", _("Choose …"))]), *choices]  # type: ignore[attr-defined]
        self.fields["source"].choices = [  # type: ignore[attr-defined]
            ("", _("As the file says; else lists by AI, single rows by people")),
            *((name, labels.term(name, technical=technical)) for name in Source.values),
        ]
        takes = OPTIONS.get(str(values["what"]), ())
        for name in {"format", "source", "rubric"} - set(takes):
            del self.fields[name]

    def options(self) -> dict[str, Any]:
        """What the importer takes beside the kind; of a valid form."""
        return {name: value for name in ("format", "source", "rubric") if (value := self.cleaned_data.get(name))}

    def params(self) -> dict[str, Any]:
        """Of the run, but for the upload; of a valid form."""
        return {"what": self.cleaned_data["what"], "encoding": self.cleaned_data["encoding"], **self.options()}
