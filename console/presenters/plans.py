"""What an amount buys of reviews: the planner's ways to spend it, side by side."""

from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.presenters import amounts, run_words
from console.services.judge_plan import MEASURE, LabelPlan, Part
from console.services.judge_plan_start import name_of


@dataclass(frozen=True)
class Way:
    """One plan; ``seen`` names it, so that what is started is what was shown."""

    plan: LabelPlan

    @property
    def seen(self) -> str:
        return name_of(self.plan)

    @property
    def name(self) -> str:
        n = self.plan.per_call
        each = ngettext("%(n)s policy a call", "%(n)s policies a call", n) % {"n": n}
        return _("%(each)s, as a batch") % {"each": each} if self.plan.batch else each

    @property
    def pairs(self) -> str:
        return amounts.figure(self.plan.pairs)

    @property
    def calls(self) -> str:
        return amounts.figure(self.plan.calls)

    @property
    def tokens(self) -> str:
        return amounts.tokens(self.plan.tokens)

    @property
    def money(self) -> str:
        return amounts.money(self.plan.money)

    @property
    def time(self) -> str:
        """By the model's limits; "" where it has none."""
        if self.plan.batch:
            return _("within a day")
        hours = self.plan.hours
        return "" if hours is None else amounts.span(3600 * hours)

    @property
    def signals(self) -> str:
        return f"{self.plan.signals:.0f}"

    @property
    def parts(self) -> list[tuple[str, str]]:
        return [(_purpose(part), _said(part)) for part in self.plan.parts]


def _purpose(part: Part) -> str:
    return _("For measuring") if part.purpose == MEASURE else _("For learning")


def _said(part: Part) -> str:
    drawn = part.purpose == MEASURE
    what = run_words.sample(part.scope["sample"]) if drawn else run_words.by_margin(part.scope["by_margin"])
    reviews = ngettext("%(n)s review", "%(n)s reviews", part.pairs) % {"n": amounts.figure(part.pairs)}
    return _("%(what)s (%(reviews)s, money: %(money)s)") % {
        "what": what, "reviews": reviews, "money": amounts.money(part.money),
    }  # fmt: skip
