"""What can be done to many policies of the list at once."""

from django.utils.translation import gettext_lazy as _

from console.models import Role, RunKind
from console.presenters.bulk import Act
from console.services.run_kinds import KINDS

ACTS: dict[str, Act] = {
    "generate": Act(_("Write examples"), _("A model writes show and don't-show examples from each text."),
                    Role(KINDS[RunKind.GENERATE].role), RunKind.GENERATE),
    "judge": Act(_("Review turns"), _("The AI reviewer says at each customer message whether they are needed."),
                 Role(KINDS[RunKind.JUDGE].role), RunKind.JUDGE),
    "mine": Act(_("Find examples in chats"), _("Turning points and look-alikes become suggested examples."),
                Role(KINDS[RunKind.MINE].role), RunKind.MINE),
    "mode": Act(_("Set the mode"), _("Decided by their examples, always on, or off."), Role.AUTHOR),
    "export": Act(_("Export"), _("As a file, with their examples."), Role.REVIEWER),
}  # fmt: skip


EXPORTS = (
    ("policies.jsonl", _("Policies, JSON lines: an import elsewhere makes the same of it")),
    ("policies.csv", _("Policies, CSV")),
    ("policies.parquet", _("Policies, Parquet")),
    ("exemplars.jsonl", _("Their examples, JSON lines")),
    ("exemplars.csv", _("Their examples, CSV")),
    ("exemplars.parquet", _("Their examples, Parquet")),
)
