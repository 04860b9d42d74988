"""What can be done to many conversations of the list at once."""

from django.utils.translation import gettext_lazy as _

from console.models import Role, RunKind
from console.presenters.bulk import Act
from console.services.run_kinds import KINDS

ACTS: dict[str, Act] = {
    "judge": Act(_("Review turns"), _("The AI reviewer says at each of their customer messages what is needed."),
                 Role(KINDS[RunKind.JUDGE].role), RunKind.JUDGE),
    "flag": Act(_("Flag"), _("Something is wrong with them: others see the flag and its reason until it is seen to."),
                Role.REVIEWER),
    "export": Act(_("Export"), _("As a file, or the scores of their turns."), Role.REVIEWER),
}  # fmt: skip
EXPORTS = (
    ("conversations.jsonl", _("Conversations, JSON lines: an import elsewhere makes the same of it")),
    ("conversations.csv", _("Their messages, CSV")),
    ("conversations.parquet", _("Their messages, Parquet")),
    ("judgements.jsonl", _("Scores of their turns, JSON lines")),
    ("judgements.csv", _("Scores of their turns, CSV")),
    ("judgements.parquet", _("Scores of their turns, Parquet")),
)
