/* Plots of a page: fetches the figures that the server built (data-plots: their address) and draws each into the element
   that names it (data-plot). Colours are names in each trace's meta, filled in from the stylesheet, so both themes and forced
   colours work. Every plot has its table on the page; without this script, or where it fails, that is all there is. */
(() => {
  "use strict";

  if (!window.Plotly) return;
  const config = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false, showTips: false };
  const held = new Map(); // frame -> its figures

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "currentColor";

  function themed(figure, wide) {
    const copy = structuredClone(figure);
    for (const trace of copy.data) {
      const own = colour(trace.meta?.colour ?? "--ink");
      const open = /open|thin/.test(trace.marker?.symbol ?? "");
      if (trace.marker) trace.marker.color = own;
      if (trace.marker && trace.type !== "bar") {
        trace.marker.line = { width: 1, ...trace.marker.line, color: open ? own : colour("--bg") };
      }
      if (trace.line) trace.line.color = own;
      for (const side of ["error_x", "error_y"]) if (trace[side]) trace[side].color = own;
      if (trace.textfont) trace.textfont.color = own;
    }
    const layout = copy.layout;
    layout.font = { ...layout.font, color: colour("--ink-2") };
    for (const axis of Object.keys(layout).filter((name) => /^[xy]axis/.test(name))) {
      layout[axis] = { ...layout[axis], gridcolor: colour("--line"), linecolor: colour("--line"), tickcolor: colour("--line"), fixedrange: true };
    }
    for (const line of layout.shapes ?? []) line.line.color = colour(line.name === "faint" ? "--line" : "--ink");
    for (const note of layout.annotations ?? []) note.font = { ...note.font, color: colour("--ink-2") };
    layout.hoverlabel = { ...layout.hoverlabel, bgcolor: colour("--bg"), bordercolor: colour("--ink-2") };
    layout.hoverlabel.font = { ...layout.hoverlabel.font, color: colour("--ink") };
    if (!wide && layout.legend) { // a long legend over a narrow plot would leave no room for it
      layout.legend = { ...layout.legend, y: -0.22, yanchor: "top" };
      layout.margin = { ...layout.margin, t: layout.annotations?.length ? 28 : 8 };
      layout.height += 22 * copy.data.filter((trace) => trace.showlegend !== false).length;
    }
    return copy;
  }

  async function draw(frame) {
    for (const plot of frame.querySelectorAll("[data-plot]")) {
      const figure = held.get(frame)?.[plot.dataset.plot];
      if (!figure || plot.clientWidth === 0) continue; // hidden at this width
      const ready = themed(figure, plot.clientWidth > 560);
      await Plotly.react(plot, ready.data, ready.layout, config);
      if (plot.dataset.ready !== "yes" && figure.layout.meta?.links) {
        plot.on("plotly_click", (event) => {
          const to = event.points?.[0]?.customdata?.[0];
          if (typeof to === "string" && to.startsWith("/")) location.assign(to);
        });
      }
      plot.dataset.ready = "yes";
    }
  }

  async function load(frame) {
    try {
      const response = await fetch(frame.dataset.plots, { credentials: "same-origin" });
      if (!response.ok) throw new Error(String(response.status));
      held.set(frame, await response.json());
      await draw(frame);
    } catch {
      for (const plot of frame.querySelectorAll("[data-plot]")) {
        plot.textContent = frame.dataset.fail ?? "";
        plot.dataset.ready = "yes";
      }
    }
  }

  const all = () => document.querySelectorAll("[data-plots]");
  const redraw = () => all().forEach((frame) => draw(frame));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  document.addEventListener("toggle", redraw, true); // a plot inside <details> has no width until it opens
  for (const name of ["htmx:afterSwap", "htmx:after:swap"]) {
    document.addEventListener(name, () => all().forEach((frame) => held.has(frame) || load(frame)));
  }
  all().forEach(load);
})();
