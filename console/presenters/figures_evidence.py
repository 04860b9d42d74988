"""The forest plot of an evidence: every difference with both of its intervals, and the line at no difference.

As in ``figures``: colours are names of the stylesheet's properties; the two clusterings also differ in mark and place.
"""

import html
from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _

from console.presenters.evidence import Contrast, span_names
from console.presenters.figures import as_json, graph_objects, layout_of, title_of

LOOKS = (("--ink-3", "diamond-open", 0.14), ("--accent", "circle", -0.14))  # the first span above the second
ROW = 58  # px of one difference: its name, and its intervals below
LABEL = 56  # characters


def forest_figure(rows: Sequence[Contrast]) -> dict[str, Any]:
    """One trace per clustering; names stand above their intervals, since a
    narrow screen has no room beside them.
    """
    go = graph_objects()
    names, labelled = span_names(rows), names_of(rows)
    top = len(rows) - 1
    traces = []
    for place, name in enumerate(names):
        colour, symbol, shift = LOOKS[place % len(LOOKS)]
        points = [
            (len(rows) - 1 - at, row, span) for at, row in enumerate(rows) for span in row.spans if span.name == name
        ]
        traces.append(
            go.Scatter(
                name=name,
                showlegend=False,  # the page prints it, above the plot at any width
                meta={"colour": colour},
                mode="markers",
                x=[round(row.estimate, 6) for _y, row, _span in points],
                y=[y + shift for y, _row, _span in points],
                error_x={
                    "type": "data", "symmetric": False, "thickness": 1.5, "width": 4,
                    "array": [round(span.high - row.estimate, 6) for _y, row, span in points],
                    "arrayminus": [round(row.estimate - span.low, 6) for _y, row, span in points],
                },
                customdata=[f"{labelled[top - y]}<br>{row.shown} {span.text}, {span.clusters}" for y, row, span in points],
                hovertemplate="%{customdata}<extra></extra>",
                marker={"symbol": symbol, "size": 9},
            )
        )  # fmt: skip
    low = min((span.low for row in rows for span in row.spans), default=-1.0)
    high = max((span.high for row in rows for span in row.spans), default=1.0)
    room = 0.04 * (max(high, 0) - min(low, 0) or 1)
    zero = {"type": "line", "xref": "x", "yref": "paper", "x0": 0, "x1": 0, "y0": 0, "y1": 1, "line": {"width": 1.5}}
    labels = [
        {
            "xref": "paper", "x": 0, "xanchor": "left", "yref": "y", "y": len(rows) - 1 - at + 0.42, "yanchor": "middle",
            "text": labelled[at], "showarrow": False, "font": {"size": 12},
        }
        for at, row in enumerate(rows)
    ]  # fmt: skip
    figure = go.Figure(
        data=traces, layout=layout_of(go, shapes=[zero], annotations=labels, height=72 + ROW * len(rows))
    )
    figure.update_layout(
        xaxis={"title": title_of(_("Difference (right of the line: the first is better)")), "zeroline": False,
               "range": [min(low, 0) - room, max(high, 0) + room]},
        yaxis={"range": [-0.5, len(rows) - 0.3], "showticklabels": False, "ticks": "", "showgrid": False, "zeroline": False},
        dragmode=False,
        margin={"l": 8, "r": 8, "t": 8, "b": 56},
    )  # fmt: skip
    return as_json(figure)


def names_of(rows: Sequence[Contrast]) -> list[str]:
    """What stands above each difference: short enough for a phone; where two would read alike, their check tells them apart."""
    short = [f"{row.a} − {row.b} · {row.world}".replace("rewritten:", "") for row in rows]
    full = [
        f"{name} ({row.check})" if short.count(name) > 1 and row.check else name
        for name, row in zip(short, rows, strict=True)
    ]
    return [html.escape(name if len(name) <= LABEL else name[: LABEL - 1] + "…", quote=False) for name in full]
