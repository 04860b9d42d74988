"""Figures of the evaluation pages: recall–precision frontiers, the slope from AI-written to real examples, a comparison.

As in ``figures``: colours are names of the stylesheet's properties in each trace's ``meta``, so that both themes work; a
line also has its own dash and point, since colour never means anything alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.presenters import labels
from console.presenters.figures import as_json, graph_objects, hover, layout_of, title_of

Json = Mapping[str, Any]
# Back to front; ours last, on top.
LOOKS: dict[str, tuple[str, str, str, float]] = {  # colour, dash, point, width
    "topk-text": ("--ink-3", "dot", "square-open", 1),
    "topk-signals": ("--anti", "dot", "diamond-open", 1),
    "cosine-text": ("--ink-3", "dash", "", 1.5),
    "cosine-signals": ("--anti", "solid", "", 1.5),
    "sq-generic-negatives": ("--pin", "dashdot", "", 1.5),
    "sq-generated": ("--signal", "dash", "", 1.5),
    "sq-active": ("--accent", "solid", "", 3),
}
SHORT: dict[str, Any] = {  # a legend has to fit a phone
    "topk-text": gettext_lazy("B1: K nearest by text"),
    "topk-signals": gettext_lazy("B2: K nearest by example"),
    "cosine-text": gettext_lazy("B3: similar to the text"),
    "cosine-signals": gettext_lazy("B4: similar to an example"),
    "sq-generic-negatives": gettext_lazy("Against others' examples"),
    "sq-generated": gettext_lazy("AI-written examples"),
    "sq-active": gettext_lazy("Versions in use"),
    "family-sq": gettext_lazy("Show and don't-show"),
    "family-cosine": gettext_lazy("Similarity alone"),
}
SLOPES = 60  # policies whose slopes are drawn


def _short(method: str, technical: bool) -> str:
    return labels.method(method, technical=True) if technical else str(SHORT[method])


def _percent(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else round(100 * value, 3) for value in values]


def _rates_axes(technical: bool) -> dict[str, Any]:
    """Recall to the right, precision upwards, both in per cent."""
    return {
        "xaxis": {
            "title": title_of(labels.term("recall", technical=technical)), "range": [-1, 101], "zeroline": False,
            "ticksuffix": "\u00a0%",
        },
        "yaxis": {
            "title": title_of(labels.term("precision", technical=technical)), "rangemode": "tozero", "zeroline": False,
            "ticksuffix": "\u00a0%", "automargin": True,
        },
    }  # fmt: skip


LEGEND = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}


def rates_figure(traces: Sequence[Any], *, target: float, technical: bool, height: int, top: int) -> dict[str, Any]:
    """Curves over caught and needed, with the share to catch as a thin line."""
    go = graph_objects()
    shapes = [{"type": "line", "xref": "x", "yref": "paper", "x0": 100 * target, "x1": 100 * target, "y0": 0, "y1": 1,
               "line": {"width": 1, "dash": "dot"}}]  # fmt: skip
    figure = go.Figure(data=traces, layout=layout_of(go, shapes=shapes, height=height))
    figure.update_layout(
        **_rates_axes(technical), dragmode=False, legend=LEGEND, margin={"l": 8, "r": 8, "t": top, "b": 48}
    )
    return as_json(figure)


def frontier_figure(reading: Json, *, target: float, technical: bool) -> dict[str, Any]:
    """Every method's curve, the cut-off as it stands as a cross, the share to catch as a thin line."""
    go = graph_objects()
    traces = []
    for method, (colour, dash, symbol, width) in LOOKS.items():
        points = reading["frontier"].get(method)
        if not points:
            continue
        traces.append(
            go.Scatter(
                name=_short(method, technical),
                meta={"colour": colour},
                mode="lines+markers" if symbol else "lines",
                x=_percent([p[0] for p in points]),
                y=_percent([p[1] for p in points]),
                customdata=[f"{p[2]:.0f}" if symbol else f"{p[2]:+.3f}" for p in points],
                hovertemplate=f"{'K' if symbol else 'θ'} %{{customdata}}<br>%{{x:.0f}} · %{{y:.1f}}<extra></extra>",
                line={"dash": dash, "width": width},
                marker={"symbol": symbol or "circle", "size": 7},
                legendrank=len(LOOKS) - list(LOOKS).index(method),
            )
        )
    at = reading["headline"]
    if at["recall"] and at["precision"]:
        traces.append(
            go.Scatter(
                name=_("The cut-off as it stands"), meta={"colour": "--ink"}, mode="markers",
                x=_percent([at["recall"][0]]), y=_percent([at["precision"][0]]),
                error_x=_error(at["recall"]), error_y=_error(at["precision"]),
                marker={"symbol": "x", "size": 11}, hovertemplate="%{x:.1f} · %{y:.1f}<extra></extra>", legendrank=0,
            )
        )  # fmt: skip
    return rates_figure(traces, target=target, technical=technical, height=420, top=88)


def _error(rate: Sequence[float | None]) -> dict[str, Any] | None:
    estimate, low, high = rate
    if estimate is None or low is None or high is None:
        return None
    return {"type": "data", "symmetric": False, "array": [100 * max(0.0, high - estimate)],
            "arrayminus": [100 * max(0.0, estimate - low)], "width": 4, "thickness": 1}  # fmt: skip


def slope_figure(reading: Json, names: Mapping[str, str], *, technical: bool) -> dict[str, Any]:
    """Area under the curve on held-out scenarios, from AI-written to mined examples: policies thin, families thick."""
    go = graph_objects()
    rows = sorted((r for r in reading["policies"] if r["slope"]), key=lambda r: -r["needed"])[:SLOPES]
    ticks = [labels.term("generated", technical=technical), labels.term("mined", technical=technical)]
    traces = [
        go.Scatter(
            name=names.get(row["key"], row["key"]),
            meta={"colour": "--signal" if row["slope"][1] >= row["slope"][0] else "--anti"},
            mode="lines+markers", x=[0, 1], y=[round(v, 4) for v in row["slope"][:2]], showlegend=False,
            line={"width": 1, "dash": "solid" if row["slope"][1] >= row["slope"][0] else "dot"},
            marker={"symbol": "circle", "size": 4}, opacity=0.55,
            text=hover(names.get(row["key"], row["key"])), hovertemplate="%{text}<br>%{y:.2f}<extra></extra>",
        )
        for row in rows
    ]  # fmt: skip
    for family, colour, dash, symbol in (
        ("cosine", "--ink-2", "dash", "square"),
        ("sq", "--accent", "solid", "circle"),
    ):
        found = next((row for row in reading["upgrade"]["families"] if row["family"] == family), None)
        if found and None not in found["auprc"]:
            traces.append(
                go.Scatter(
                    name=_short(f"family-{family}", technical), meta={"colour": colour}, mode="lines+markers",
                    x=[0, 1], y=[round(v, 4) for v in found["auprc"]], line={"width": 3, "dash": dash},
                    marker={"symbol": symbol, "size": 9}, hovertemplate="%{y:.3f}<extra></extra>",
                )
            )  # fmt: skip
    figure = go.Figure(data=traces, layout=layout_of(go, height=420))
    figure.update_layout(
        xaxis={"tickvals": [0, 1], "ticktext": ticks, "range": [-0.15, 1.15], "zeroline": False, "showgrid": False},
        yaxis={"title": title_of(str(labels.evaluation_head("auprc"))), "range": [0, 1], "zeroline": False, "automargin": True},
        dragmode=False, legend=LEGEND, margin={"l": 8, "r": 8, "t": 56, "b": 32},
    )  # fmt: skip
    return as_json(figure)


def compared_figure(readings: Sequence[tuple[str, Json]], *, target: float, technical: bool) -> dict[str, Any]:
    """Our own curve of two evaluations, each with its cut-off: the first dashed, the second solid."""
    go = graph_objects()
    traces = []
    for (name, reading), (colour, dash, symbol) in zip(
        readings, (("--ink-2", "dash", "x-thin"), ("--accent", "solid", "x")), strict=True
    ):
        points, at = reading["frontier"]["sq-active"], reading["headline"]
        traces.append(
            go.Scatter(
                name=name, meta={"colour": colour}, mode="lines", x=_percent([p[0] for p in points]),
                y=_percent([p[1] for p in points]), line={"dash": dash, "width": 2},
                hovertemplate="%{x:.0f} · %{y:.1f}<extra></extra>",
            )
        )  # fmt: skip
        if at["recall"] and at["precision"]:
            traces.append(
                go.Scatter(
                    name=_("%(name)s, its cut-off") % {"name": name}, meta={"colour": colour}, mode="markers",
                    x=_percent([at["recall"][0]]), y=_percent([at["precision"][0]]),
                    marker={"symbol": symbol, "size": 11, "line": {"width": 2}},
                    hovertemplate="%{x:.1f} · %{y:.1f}<extra></extra>",
                )
            )  # fmt: skip
    return rates_figure(traces, target=target, technical=technical, height=360, top=56)
