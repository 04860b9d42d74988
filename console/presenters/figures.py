"""Figures, built and validated with plotly.py and drawn by the vendored bundle of the same version.

Colours are names of the stylesheet's properties in each trace's ``meta``: the browser fills them in for its theme. Texts
come from conversations, so they are escaped: plotly reads a few tags in hover texts.
"""

import html
import json
import textwrap
from collections.abc import Sequence
from functools import cache
from typing import Any

from django.utils.translation import gettext as _

from console.models import Inventory
from console.presenters import labels
from console.services.redaction import masked
from console.services.workbench_map import KINDS, Map, Point
from sq_core.projection import Strip

SYMBOLS = {
    "signal": "triangle-up",
    "anti_signal": "triangle-down",
    "pin": "diamond",
    "relevant": "circle",
    "irrelevant": "circle-open",
    "unjudged": "circle",
}
SIZES = {"signal": 12, "anti_signal": 12, "pin": 12, "relevant": 9, "irrelevant": 8, "unjudged": 4}
COLOURS = {
    "signal": "--signal",
    "anti_signal": "--anti",
    "pin": "--pin",
    "relevant": "--ink",
    "irrelevant": "--ink",
    "unjudged": "--ink-3",
}
NAMES = {
    "signal": "signals",
    "anti_signal": "anti_signals",
    "pin": "pin",
    "relevant": "relevant",
    "irrelevant": "irrelevant",
    "unjudged": "unjudged",
}
BACK_TO_FRONT = ("unjudged", "irrelevant", "relevant", "anti_signal", "signal", "pin")
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', Arial, sans-serif"


@cache
def graph_objects() -> Any:
    """plotly.py takes a while to import; only pages with a plot pay for it."""
    import plotly.graph_objects

    return plotly.graph_objects


def hover(text: str) -> str:
    """Escaped and folded: at most 240 characters in lines of 60."""
    short = text if len(text) <= 240 else text[:239] + "…"
    return "<br>".join(html.escape(line, quote=False) for line in textwrap.wrap(short, 60)) or "–"


def name_of(kind: str, *, technical: bool) -> str:
    return labels.term(NAMES[kind], technical=technical)


def map_figure(
    points: Sequence[Point],
    *,
    cutoff: float,
    preview: float | None,
    technical: bool,
    inventory: Inventory | None = None,
) -> dict[str, Any]:
    """The scatter of one classifier's space. ``preview`` is another cut-off, drawn as a second line."""
    go = graph_objects()
    groups: dict[str, list[Point]] = {kind: [] for kind in KINDS}
    for point in points:
        groups[point.kind].append(point)
    traces = [
        go.Scatter(
            name=f"{name_of(kind, technical=technical)} ({len(groups[kind])})",
            meta={"kind": kind, "colour": COLOURS[kind]},
            mode="markers",
            x=[round(p.x, 6) for p in groups[kind]],
            y=[round(p.y, 6) for p in groups[kind]],
            ids=[p.id for p in groups[kind]],
            customdata=[
                [p.id, hover(masked(inventory, p.text, 240)), f"{p.margin:+.2f}".replace("-", "−")]
                for p in groups[kind]
            ],
            hovertemplate="%{customdata[1]}<br>%{customdata[2]}<extra></extra>",  # bold would need an inline style
            marker={"symbol": SYMBOLS[kind], "size": SIZES[kind], "line": {"width": 1}},
            unselected={"marker": {"opacity": 0.15}},
            selected={"marker": {"opacity": 1}},
            legendrank=1 + KINDS.index(kind),
        )
        for kind in BACK_TO_FRONT
        if groups[kind]
    ]
    lines = [_line(0, "solid")]
    if preview is not None:
        lines.append(_line(round(preview - cutoff, 6), "dash"))
    figure = go.Figure(data=traces, layout=layout_of(go, shapes=lines, height=460))
    figure.update_layout(
        xaxis={"title": title_of(_x_title(technical)), "zeroline": False},
        yaxis={"title": title_of(_("What else tells the examples apart")), "showticklabels": False, "zeroline": False},
        dragmode="pan",
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "itemsizing": "constant"},
        margin={"l": 32, "r": 8, "t": 56, "b": 48},
    )
    return as_json(figure)


def title_of(text: str) -> dict[str, Any]:
    return {"text": text, "font": {"size": 13}}


def _x_title(technical: bool) -> str:
    words = {name: labels.term(name, technical=technical) for name in ("margin", "cutoff", "fired")}
    return _("%(margin)s − %(cutoff)s (right of the line: %(fired)s)") % {
        "margin": words["margin"],
        "cutoff": words["cutoff"].lower() if not technical else words["cutoff"],
        "fired": words["fired"].lower(),
    }


def _line(x: float, dash: str) -> dict[str, Any]:
    return {
        "type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1,
        "line": {"width": 1.5 if dash == "solid" else 1, "dash": dash},
    }  # fmt: skip


def layout_of(go: Any, **more: Any) -> Any:
    return go.Layout(
        template=go.layout.Template(),
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONT, "size": 13},
        hovermode="closest",
        hoverlabel={"align": "left", "font": {"family": FONT, "size": 13}},
        uirevision="map",
        **more,
    )


ROWS = (("signals", "signal"), ("anti_signals", "anti_signal"), ("relevant", "relevant"), ("irrelevant", "irrelevant"))
STRIP_SYMBOLS = {
    "signals": "triangle-up",
    "anti_signals": "triangle-down",
    "relevant": "star",
    "irrelevant": "x-thin-open",
}


def strip_figure(found: Strip, *, cutoff: float, preview: float | None, technical: bool) -> dict[str, Any]:
    """The paper's Figure 2: four rows on match strength, each row spread a little so that points do not hide each other."""
    go = graph_objects()
    traces, ticks = [], []
    for row, (group, kind) in enumerate(ROWS):
        values = getattr(found, group)
        level = len(ROWS) - 1 - row
        ticks.append((level, name_of(kind, technical=technical)))
        traces.append(
            go.Scatter(
                name=ticks[-1][1],
                meta={"kind": kind, "colour": COLOURS[kind]},
                mode="markers",
                x=[round(v, 6) for v in values],
                y=[level + _spread(n) for n in range(len(values))],
                hovertemplate="%{x:+.2f}<extra></extra>",
                marker={
                    "symbol": STRIP_SYMBOLS[group],
                    "size": 7 if group == "irrelevant" else 9,
                    "opacity": 0.7,
                    "line": {"width": 1},
                },
                showlegend=False,
            )
        )
    lines = [_line(round(cutoff, 6), "solid")]
    if preview is not None:
        lines.append(_line(round(preview, 6), "dash"))
    figure = go.Figure(data=traces, layout=layout_of(go, shapes=lines, height=220))
    figure.update_layout(
        xaxis={"title": title_of(labels.term("margin", technical=technical)), "zeroline": False},
        yaxis={
            "tickvals": [level for level, _name in ticks],
            "ticktext": [name for _level, name in ticks],
            "range": [-0.6, len(ROWS) - 0.4],
            "zeroline": False,
            "showgrid": False,
            "fixedrange": True,
            "automargin": True,
        },
        dragmode=False,
        margin={"l": 8, "r": 8, "t": 8, "b": 40},
    )
    return as_json(figure)


def _spread(n: int) -> float:
    """A fixed pattern within ±0.25: the golden ratio's multiples fill the row evenly in any number."""
    return round(((n * 0.618_033_988_75) % 1 - 0.5) * 0.5, 4)


def as_json(figure: Any) -> dict[str, Any]:
    done: dict[str, Any] = json.loads(figure.to_json())
    done["layout"].pop("template", None)
    return done


def map_json(drawn: Map, *, preview: float | None, technical: bool) -> dict[str, Any]:
    """Everything the map's script fetches."""
    points = drawn.points()
    other = None if preview is None else drawn.recount(preview).cutoff
    return {
        "map": map_figure(
            points, cutoff=drawn.cutoff, preview=other, technical=technical, inventory=drawn.ground.inventory
        ),
        "strip": strip_figure(drawn.strip(), cutoff=drawn.cutoff, preview=other, technical=technical),
        "points": len(points),
    }
