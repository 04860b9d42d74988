"""One chat in two policies' spaces: a figure per policy, the turn looked at as a star."""

from typing import Any

from console.models import Inventory
from console.presenters import labels
from console.presenters.figures import (
    COLOURS,
    SIZES,
    SYMBOLS,
    as_json,
    graph_objects,
    hover,
    layout_of,
    name_of,
    title_of,
)
from console.presenters.figures_evaluation import LEGEND
from console.services.redaction import masked
from console.services.workbench_beside import Space

ORDER = ("anti_signal", "signal", "unjudged", "irrelevant", "relevant")


def space_figure(space: Space, *, technical: bool, inventory: Inventory | None = None) -> dict[str, Any]:
    go = graph_objects()
    traces = []
    for kind in ORDER:
        for here in (False, True):
            dots = [dot for dot in space.dots if dot.kind == kind and dot.here == here]
            if not dots:
                continue
            symbol = "star" if here and kind != "irrelevant" else "star-open" if here else SYMBOLS[kind]
            name = labels.term("query_state", technical=technical) if here else name_of(kind, technical=technical)
            traces.append(
                go.Scatter(
                    name=name if here else f"{name} ({len(dots)})", meta={"colour": "--accent" if here else COLOURS[kind]},
                    mode="markers+text" if here else "markers", x=[round(d.x, 5) for d in dots], y=[round(d.y, 5) for d in dots],
                    text=[str(d.user_turn + 1) if d.user_turn is not None else "" for d in dots], textposition="top center",
                    textfont={"size": 12}, customdata=[hover(masked(inventory, d.text, 240)) for d in dots],
                    hovertemplate="%{customdata}<br>%{x:+.2f}<extra></extra>",
                    marker={"symbol": symbol, "size": 18 if here else SIZES[kind], "line": {"width": 1}},
                )
            )  # fmt: skip
    shapes = [
        {"type": "line", "xref": "x", "yref": "paper", "x0": 0, "x1": 0, "y0": 0, "y1": 1, "line": {"width": 1.5}}
    ]
    figure = go.Figure(data=traces, layout=layout_of(go, shapes=shapes, height=380))
    title = f"{labels.term('margin', technical=technical)} − {labels.term('cutoff', technical=technical).lower()}"
    figure.update_layout(
        xaxis={"title": title_of(title), "zeroline": False}, yaxis={"showticklabels": False, "zeroline": False},
        dragmode=False, legend=LEGEND, margin={"l": 16, "r": 8, "t": 40, "b": 48},
    )  # fmt: skip
    return as_json(figure)
