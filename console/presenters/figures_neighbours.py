"""The matrix of neighbours: which policies are selected together, or have learnt alike, ordered by cluster."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from console.presenters.figures import as_json, graph_objects, hover, layout_of
from console.services.neighbours import Neighbourhood

NAME = 22  # characters of a name beside the matrix


def matrix_figure(
    found: Neighbourhood, names: Mapping[str, str], links: Mapping[tuple[str, str], str], *, by: str
) -> dict[str, Any]:
    """A mark per pair of drawn policies, the larger the more; a click opens the pair. Below zero it is an open diamond.

    Marks and no heat map: plotly's heat map writes a style into the page, which the Content-Security-Policy forbids.
    """
    go = graph_objects()
    drawn = found.drawn.tolist()
    keys = [found.keys[j] for j in drawn]
    full = [names.get(key, key) for key in keys]
    table: Any = {"one": found.one, "rate": found.rate, "cosine": found.cosine}[by]
    cells = [
        (x, y, float(table[i, j])) for y, i in enumerate(drawn) for x, j in enumerate(drawn) if i != j and table[i, j] != 0
    ]  # fmt: skip
    most = max((abs(value) for _, _, value in cells), default=1.0)
    traces = []
    for colour, symbol, sign in (("--accent", "square", 1), ("--anti", "diamond-open", -1)):
        own = [(x, y, value) for x, y, value in cells if value * sign > 0]
        if own:
            traces.append(
                go.Scatter(
                    meta={"colour": colour}, mode="markers", x=[x for x, _, _ in own], y=[y for _, y, _ in own],
                    customdata=[
                        [links.get((keys[y], keys[x]), ""), hover(full[y]), hover(full[x]), _told(value, by)]
                        for x, y, value in own
                    ],
                    hovertemplate="%{customdata[1]}<br>%{customdata[2]}<br>%{customdata[3]}<extra></extra>",
                    marker={"symbol": symbol, "size": [2 + round(13 * (abs(v) / most) ** 0.5, 1) for _, _, v in own]},
                    showlegend=False,
                )
            )  # fmt: skip
    places = list(range(len(keys)))
    ticks = [f"{name if len(name) <= NAME else name[: NAME - 1] + '…'}  {n + 1}" for n, name in enumerate(full)]
    figure = go.Figure(data=traces, layout=layout_of(go, height=max(360, 19 * len(keys) + 60), meta={"links": True}))
    axis = {"tickvals": places, "range": [-0.7, len(keys) - 0.3], "zeroline": False}
    figure.update_layout(
        xaxis={**axis, "ticktext": [str(n + 1) for n in places], "side": "top"},
        yaxis={**axis, "ticktext": ticks, "range": [len(keys) - 0.3, -0.7], "automargin": True},
        dragmode=False, margin={"l": 8, "r": 8, "t": 32, "b": 8},
    )  # fmt: skip
    return as_json(figure)


def _told(value: float, by: str) -> str:
    if by == "one":
        return f"{value:,.0f}"
    return f"{100 * value:.0f} %" if by == "rate" else f"{value:+.2f}".replace("-", "−")


def caption(by: str) -> str:
    return {
        "one": _("Turns at which both are selected and the reviewer says that only one is needed"),
        "rate": _("Of the turns at which either is selected, the share at which both are"),
        "cosine": _("Similarity of what the two have learnt: the cosine of their weights"),
    }[by]
