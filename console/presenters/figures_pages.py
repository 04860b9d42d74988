"""Figures of pages that had tables alone: agreement (κ with its interval per comparison) and costs (money by day)."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from django.utils.translation import gettext as _

from console.presenters import labels
from console.presenters.agreement import Card
from console.presenters.figures import as_json, graph_objects, layout_of, title_of
from console.presenters.figures_evaluation import LEGEND
from console.services.costs import Line


def agreement_figure(cards: Sequence[Card], *, technical: bool) -> dict[str, Any]:
    """One row per comparison that has a κ: a point, its 95 % interval, n beside its name; 0 is chance."""
    go = graph_objects()
    shown = [card for card in cards if card.kappa is not None]
    places = list(range(len(shown)))
    high = [max(0.0, (card.high or 0) - (card.kappa or 0)) if card.low is not None else 0.0 for card in shown]
    low = [max(0.0, (card.kappa or 0) - card.low) if card.low is not None else 0.0 for card in shown]
    trace = go.Scatter(
        meta={"colour": "--accent"}, mode="markers", x=[round(card.kappa or 0.0, 4) for card in shown], y=places,
        error_x={"type": "data", "symmetric": False, "array": high, "arrayminus": low, "width": 5, "thickness": 1.5},
        marker={"symbol": "circle", "size": 9}, hovertemplate="κ %{x:.2f}<extra></extra>", showlegend=False,
    )  # fmt: skip
    shapes = [
        {
            "type": "line",
            "xref": "x",
            "yref": "paper",
            "x0": 0,
            "x1": 0,
            "y0": 0,
            "y1": 1,
            "line": {"width": 1, "dash": "dot"},
        }
    ]
    figure = go.Figure(data=[trace], layout=layout_of(go, shapes=shapes, height=90 + 44 * len(shown)))
    figure.update_layout(
        xaxis={"title": title_of(labels.term("kappa", technical=technical)), "range": [-0.3, 1.05], "zeroline": False},
        yaxis={
            "tickvals": places, "ticktext": [f"{card.words.title} (n = {card.n})" for card in shown], "automargin": True,
            "range": [len(shown) - 0.5, -0.5], "zeroline": False, "showgrid": False,
        },
        dragmode=False, margin={"l": 8, "r": 8, "t": 8, "b": 48},
    )  # fmt: skip
    return as_json(figure)


def costs_figure(lines: Sequence[Line], month: date) -> dict[str, Any]:
    """Money of every day of the month; calls of unknown price have no height and are marked over their day."""
    go = graph_objects()
    following = (month.replace(day=28) + timedelta(days=4)).replace(day=1)
    days = [(month + timedelta(days=n)).isoformat() for n in range((following - month).days)]
    by_day = {line.key.isoformat(): line for line in lines}
    traces = [
        go.Bar(
            name=_("Money"), meta={"colour": "--accent"}, x=days,
            y=[float(by_day[day].money) if day in by_day else None for day in days],
            hovertemplate="%{x}: %{y:.4f}<extra></extra>", marker={"opacity": 1},
        )
    ]  # fmt: skip
    unknown = [day for day in days if day in by_day and by_day[day].unknown_calls]
    if unknown:
        traces.append(
            go.Scatter(
                name=_("Calls of unknown price"), meta={"colour": "--anti"}, mode="markers", x=unknown, y=[0] * len(unknown),
                customdata=[f"{by_day[day].unknown_calls:,}" for day in unknown],
                marker={"symbol": "diamond-open", "size": 9}, cliponaxis=False,
                hovertemplate="%{x}: %{customdata}<extra></extra>",
            )
        )  # fmt: skip
    figure = go.Figure(data=traces, layout=layout_of(go, height=240))
    figure.update_layout(
        xaxis={"type": "date", "zeroline": False, "showgrid": False},
        yaxis={"rangemode": "tozero", "zeroline": False, "automargin": True}, dragmode=False, legend=LEGEND, bargap=0.25,
        margin={"l": 8, "r": 8, "t": 32, "b": 48}, showlegend=bool(unknown),
    )  # fmt: skip
    return as_json(figure)
