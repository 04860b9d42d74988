"""A migration in words: its step, its forecast, the table of figures, and what speaks against it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.models import EncoderMigration, MigrationState
from console.services.migrate import Forecast
from sq_core.migration import Beside

FIGURES = ("recall", "precision", "kept")


@dataclass(frozen=True)
class State:
    words: str
    line: str
    badge: str


def state(row: EncoderMigration) -> State:
    words = {
        MigrationState.EMBEDDING: State(_("reading"), _("Texts are read in the background; nothing decides otherwise."), "info"),
        MigrationState.READY: State(_("ready to look at"), _("Everything is fitted anew beside what decides now."), "info"),
        MigrationState.SWITCHED: State(_("switched"), _("Since then this encoder and centre decide."), "ok"),
        MigrationState.BACKED_OUT: State(_("taken back"), _("What decided before decides again."), "warn"),
        MigrationState.CANCELLED: State(_("cancelled"), _("Nothing was changed."), ""),
        MigrationState.FAILED: State(_("stopped"), _("Nothing was changed. What was read is kept."), "bad"),
    }  # fmt: skip
    return words[MigrationState(row.state)]


@dataclass(frozen=True)
class Line:
    row: EncoderMigration
    state: State
    what: str


def line(row: EncoderMigration) -> Line:
    what = _("to the encoder %(name)s") % {"name": row.encoder} if row.changes_encoder else _("to a new centre")
    return Line(row, state(row), what)


@dataclass(frozen=True)
class Step:
    """How far reading has come; ``left`` of ``all`` turns."""

    left: int
    all: int

    @property
    def done(self) -> int:
        return self.all - self.left


def forecast(found: Forecast) -> dict[str, Any]:
    minutes = max(1, round(found.seconds / 60))
    took = (
        _("as long as its server takes")
        if found.hosted
        else ngettext("about %(n)s minute", "about %(n)s minutes", minutes) % {"n": minutes}
        if found.seconds < 5_400
        else _("about %(n)s hours") % {"n": round(found.seconds / 3600, 1)}
    )
    return {
        "texts": found.texts,
        "tokens": found.tokens,
        "took": took,
        "cost": _("unknown: the price of embeddings is not set here; ask the server's owner")
        if found.hosted
        else _("none: the packaged encoder runs on this machine"),
    }


@dataclass(frozen=True)
class PolicyLine:
    key: str
    before: float | None
    after: float | None
    needed: int
    fired: tuple[int, int]
    started: int
    stopped: int
    lost: int
    turns_started: list[Any]
    turns_stopped: list[Any]

    @property
    def moved(self) -> int:
        return self.started + self.stopped


def report(found: Mapping[str, Any]) -> dict[str, Any]:
    policies = [
        PolicyLine(
            key=row["policy"],
            before=row["recall"] and row["recall"][0],
            after=row["recall"] and row["recall"][1],
            needed=row["needed"],
            fired=tuple(row["fired"]),
            started=row["flips"][0],
            stopped=row["flips"][1],
            lost=row["lost"],
            turns_started=row["started"],
            turns_stopped=row["stopped"],
        )
        for row in found["policies"]
    ]
    policies.sort(key=lambda each: (-each.lost, -each.moved, each.key))  # misses first
    return {
        **found,
        "figures": [(name, Beside(**found["figures"][name])) for name in FIGURES if name in found["figures"]],
        "policies": policies,
        "moved": sum(each.moved > 0 for each in policies),
        "against": [against(code, value) for code, value in found["verdict"]["against"]],
        "go": found["verdict"]["go"],
    }


def against(code: str, value: Any) -> str:
    """One reason not to switch."""
    if code == "no_labels":
        return _("No judged turn needs a policy, so nobody can say what would be missed: judge some first.")
    if code == "recall_falls":
        return _("Caught may fall by as much as %(n)s points (the lower end of the interval).") % {
            "n": f"{-100 * value:.1f}"
        }
    if code == "under_target":
        return _("Caught falls under the target, to %(n)s %%.") % {"n": f"{100 * value:.1f}"}
    if code == "pins_break":
        return ngettext("%(n)s pinned turn would be missed.", "%(n)s pinned turns would be missed.", value) % {
            "n": value
        }
    return ngettext(
        "%(n)s policy would have no version and be shown at every turn.",
        "%(n)s policies would have no version and be shown at every turn.",
        value,
    ) % {"n": value}
