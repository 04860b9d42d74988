"""Candidates in words: the filters as chips, and why there is nothing to decide."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from console.presenters import labels
from console.services.candidates import Filters, Group, Nothing, Page
from console.services.candidates_rank import Candidate


@dataclass(frozen=True)
class Act:
    """The buttons of a row: what was decided and not applied yet; ``following`` is the next row's id on the page,
    ``alike`` how many say nearly the same.
    """

    id: str
    polarity: str
    decision: str
    alike: int
    following: str = ""
    gone: bool = False


@dataclass(frozen=True)
class Row:
    candidate: Candidate
    act: Act


def rows(groups: Sequence[Group], decisions: Mapping[str, str]) -> list[tuple[Group, list[Row]]]:
    """The page's groups with their rows; a decision counts until it is applied."""
    ids = [c.exemplar.public_id for group in groups for c in group.rows]
    after = dict(zip(ids, [f"c-{public_id}" for public_id in ids[1:]], strict=False))

    def row(c: Candidate) -> Row:
        e = c.exemplar
        decision = decisions.get(e.public_id, "")
        return Row(c, Act(e.public_id, e.polarity, decision, c.cluster_size, after.get(e.public_id, "")))

    return [(group, [row(c) for c in group.rows]) for group in groups]


@dataclass(frozen=True)
class Ways:
    """Where the keys lead: the policy before and the next one with something undecided, each as an address or ""."""

    before: str = ""
    after: str = ""
    left: int = 0  # policies with something undecided


def ways(page: Page, policy: str, decided: Mapping[str, int], link: Callable[..., str]) -> Ways:
    keys = [key for key, _name, _n in page.policies]
    at = keys.index(policy) if policy in keys else -1
    undecided = [key for key, _name, n in page.policies if decided.get(key, 0) < n]
    rest = [*keys[at + 1 :], *keys[: max(at, 0)]]  # once round
    after = next((key for key in rest if key in undecided), "")
    before = keys[at - 1] if at > 0 else ""
    return Ways(link(policy=before) if before else "", link(policy=after) if after else "", len(undecided))


@dataclass(frozen=True)
class Chip:
    label: str
    url: str
    on: bool


def chips(filters: Filters, link: Callable[..., str]) -> list[Chip]:
    """The sides and sources to choose from; one that is on links to the list without it."""
    sides = (("signal", "signal", _("Show")), ("anti", "anti_signal", _("Don't show")))
    sources = (("mined", _("From real chats")), ("generated", _("Written by AI")))
    found = [
        Chip(label, link(kind=None if filters.kind == kind else name), filters.kind == kind)
        for name, kind, label in sides
    ]
    found += [
        Chip(label, link(source=None if filters.source == name else name), filters.source == name)
        for name, label in sources
    ]
    if filters.run:
        found.append(Chip(_("Run %(id)s") % {"id": filters.run}, link(run=None), True))
    return found


@dataclass(frozen=True)
class Empty:
    title: str
    text: str
    url: str
    action: str


def nothing(found: Nothing, url: str) -> Empty:
    """What is missing, and the run that would fill the list."""
    words = f" ({found.words})" if found.words else ""
    texts = {
        "filtered": (_("Nothing matches"), _("Others wait, but none of this side and source.")),
        "no_conversations": (
            _("Nothing suggested yet"),
            _(
                "Real chats give the best examples, and none are stored yet: import some. Until then an AI can write some."
            ),
        ),
        "no_labels": (
            _("No turn is reviewed yet"),
            _("Examples are found in turns that the AI reviewer has scored. Let it score some conversations first."),
        ),
        "no_positives": (
            _("No turn needed it so far"),
            _(
                "The AI reviewer scored no turn %(n)s or more, so there is nothing to show. Let it score more conversations."
            )
            % {"n": found.numbers.get("relevant", 4)},
        ),
        "not_mined": (
            _("Not looked for yet"),
            _("Turns are scored, but nobody has looked for examples in them. It calls no model and costs nothing."),
        ),
        "mined_none": (
            _("The last search found nothing new"),
            _("It says why%(words)s. Search again when more turns are scored.") % {"words": words},
        ),
        "decided": (
            _("All decided"),
            _(
                "Every suggestion has its answer. Search again when more turns are scored, or against the newest versions."
            ),
        ),
        "running": (_("A search is running"), _("What it finds appears here.")),
        "run_gave_none": (_("This run suggested nothing"), _("It says why%(words)s.") % {"words": words}),
        "no_such_run": (_("There is no such run"), _("The address names a run that this inventory does not have.")),
    }
    title, text = texts[found.reason]
    return Empty(title, text, url, labels.run_kind(found.run) if url else "")
