"""Figures of a policy's Metrics tab: rates by day with its versions, the recall–precision curve, scores by judgement."""

from datetime import date, timedelta
from typing import Any

from django.utils.translation import gettext as _

from console.presenters import labels
from console.presenters.figures import as_json, graph_objects, layout_of, name_of, title_of
from console.presenters.figures_evaluation import LEGEND, rates_figure
from console.services.metrics import Curve, Daily, Day, Histogram

SERIES = (  # name of the rate, its term, colour, dash, point
    ("recall", "recall", "--accent", "solid", "circle"),
    ("precision", "precision", "--signal", "dash", "diamond"),
    ("firing", "firing_share", "--ink-2", "dot", "square"),
    ("positive", "relevant", "--anti", "dashdot", "triangle-up"),
)
MOST_DAYS = 400


def daily_figure(found: Daily, *, technical: bool) -> dict[str, Any]:
    """Four rates; a day without data is a gap in every line, a version a thin vertical line with its number."""
    go = graph_objects()
    days = _every_day(found.days)
    by_day = {row.day: row for row in found.days}
    traces = []
    for rate, term, colour, dash, symbol in SERIES:
        values = [getattr(by_day[day], rate) if day in by_day else None for day in days]
        traces.append(
            go.Scatter(
                name=labels.term(term, technical=technical), meta={"colour": colour}, mode="lines+markers",
                x=[day.isoformat() for day in days], y=[None if v is None else round(100 * v, 2) for v in values],
                connectgaps=False, line={"width": 2, "dash": dash}, marker={"symbol": symbol, "size": 6},
                hovertemplate="%{x}: %{y:.0f} %<extra></extra>",
            )
        )  # fmt: skip
    shapes, notes = [], []
    for day, number in found.versions:
        shapes.append({"type": "line", "xref": "x", "yref": "paper", "x0": day.isoformat(), "x1": day.isoformat(),
                       "y0": 0, "y1": 1, "line": {"width": 1, "dash": "dot"}})  # fmt: skip
        notes.append({"x": day.isoformat(), "y": 1, "yref": "paper", "yanchor": "bottom", "showarrow": False,
                      "text": f"v{number}", "font": {"size": 12}})  # fmt: skip
    figure = go.Figure(data=traces, layout=layout_of(go, shapes=shapes, annotations=notes, height=340))
    figure.update_layout(
        xaxis={"type": "date", "zeroline": False}, yaxis={"range": [-2, 102], "ticksuffix": "\u00a0%", "zeroline": False},
        dragmode=False, legend={**LEGEND, "y": 1.1}, margin={"l": 48, "r": 8, "t": 72, "b": 32},
    )  # fmt: skip
    return as_json(figure)


def _every_day(days: list[Day]) -> list[date]:
    if not days:
        return []
    first, last = max(days[0].day, days[-1].day - timedelta(days=MOST_DAYS)), days[-1].day
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def curve_figure(found: Curve, *, target: float, technical: bool) -> dict[str, Any]:
    go = graph_objects()
    traces = [
        go.Scatter(
            name=_("Every cut-off"), meta={"colour": "--accent"}, mode="lines",
            x=[round(100 * float(v), 2) for v in found.recall], y=[round(100 * float(v), 2) for v in found.precision],
            customdata=[f"{v:+.2f}" for v in found.cutoff], line={"width": 2},
            hovertemplate="%{customdata}<br>%{x:.0f} · %{y:.0f}<extra></extra>",
        ),
        go.Scatter(
            name=_("The cut-off in use"), meta={"colour": "--ink"}, mode="markers", x=[round(100 * found.recall_at, 2)],
            y=[round(100 * found.precision_at, 2)], marker={"symbol": "x", "size": 11},
            hovertemplate="%{x:.0f} · %{y:.0f}<extra></extra>",
        ),
    ]  # fmt: skip
    return rates_figure(traces, target=target, technical=technical, height=340, top=40)


def histogram_figure(found: Histogram, *, technical: bool) -> dict[str, Any]:
    """Bars over margin − cut-off; what was needed in front, hatched otherwise, so that colour is not alone."""
    go = graph_objects()
    middles = [(a + b) / 2 for a, b in zip(found.edges[:-1], found.edges[1:], strict=True)]
    width = float(found.edges[1] - found.edges[0])
    looks = {"relevant": ("--accent", ""), "irrelevant": ("--anti", "/"), "unjudged": ("--ink-3", ".")}
    traces = [
        go.Bar(
            name=f"{name_of(group, technical=technical)} ({sum(found.counts[group])})", meta={"colour": colour},
            x=[round(float(v), 4) for v in middles], y=found.counts[group], width=width * 0.94,
            marker={"pattern": {"shape": shape, "size": 5, "solidity": 0.4}},
            hovertemplate="%{x:+.2f}: %{y}<extra></extra>",
        )
        for group, (colour, shape) in looks.items()
        if sum(found.counts[group])
    ]  # fmt: skip
    shapes = [
        {"type": "line", "xref": "x", "yref": "paper", "x0": 0, "x1": 0, "y0": 0, "y1": 1, "line": {"width": 1.5}}
    ]
    figure = go.Figure(data=traces, layout=layout_of(go, shapes=shapes, height=340))
    title = _("%(margin)s − %(cutoff)s") % {
        "margin": labels.term("margin", technical=technical), "cutoff": labels.term("cutoff", technical=technical).lower(),
    }  # fmt: skip
    figure.update_layout(
        barmode="stack", bargap=0, xaxis={"title": title_of(title), "zeroline": False},
        yaxis={"title": title_of(_("Turns")), "zeroline": False, "automargin": True}, dragmode=False, legend=LEGEND,
        margin={"l": 8, "r": 8, "t": 40, "b": 48},
    )  # fmt: skip
    return as_json(figure)
