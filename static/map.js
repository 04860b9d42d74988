/* The map of a policy: draws the figures that the server built, and ties them to the list beside them.
   Points carry ids ("t:12", "e:…", "p:…"), rows the same in data-point. The selection is kept here, not by plotly. */
(() => {
  "use strict";

  const frame = document.querySelector("[data-map]");
  const plot = document.getElementById("map-plot");
  const strip = document.getElementById("map-strip");
  if (!frame || !plot || !window.Plotly) return;

  const body = () => document.getElementById("tab-body");
  const said = frame.querySelector("[data-map-said]");
  const state = { address: "", etag: "", figures: null, selected: null, mode: "pan", point: "", drawn: false, draws: 0 };
  const config = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false, showTips: false };

  // -- colours come from the stylesheet, so both themes and forced colours work
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "currentColor";

  function themed(figure) {
    const copy = structuredClone(figure);
    for (const trace of copy.data) {
      const own = colour(trace.meta.colour);
      trace.marker.color = own;
      trace.marker.line = { ...trace.marker.line, color: /open|x-thin/.test(trace.marker.symbol) ? own : colour("--bg") };
    }
    const layout = copy.layout;
    layout.font = { ...layout.font, color: colour("--ink-2") };
    for (const axis of ["xaxis", "yaxis"]) {
      layout[axis] = { ...layout[axis], gridcolor: colour("--line"), linecolor: colour("--line"), tickcolor: colour("--line") };
    }
    for (const line of layout.shapes ?? []) line.line.color = colour("--ink");
    layout.hoverlabel = { ...layout.hoverlabel, bgcolor: colour("--bg"), bordercolor: colour("--ink-2") };
    layout.hoverlabel.font = { ...layout.hoverlabel.font, color: colour("--ink") };
    layout.newselection = { line: { color: colour("--accent"), width: 1.5 } };
    layout.activeselection = { opacity: 0 };
    return copy;
  }

  // -- drawing
  async function load() {
    const address = body()?.dataset.points;
    if (!address) return;
    try {
      const headers = state.etag && state.address === address ? { "If-None-Match": state.etag } : {};
      const response = await fetch(address, { headers, credentials: "same-origin" });
      if (response.status === 304) return;
      if (!response.ok) throw new Error(String(response.status));
      state.figures = await response.json();
      state.etag = response.headers.get("ETag") ?? "";
      state.address = address;
      await draw();
    } catch {
      if (said) said.textContent = frame.dataset.fail;
      frame.querySelector("[data-map-tools]").hidden = false;
    }
  }

  async function draw() {
    if (!state.figures?.map) return;
    const map = themed(state.figures.map);
    for (const trace of map.data) {
      trace.selectedpoints = state.selected ? trace.ids.flatMap((id, n) => (state.selected.has(id) ? [n] : [])) : null;
    }
    map.data.push(ring());
    map.layout.dragmode = state.mode;
    map.layout.selections = []; // the outline goes, the dimmed points say what is selected
    map.layout.selectionrevision = ++state.draws;
    await Plotly.react(plot, map.data, map.layout, config);
    if (strip && state.figures.strip) {
      const low = themed(state.figures.strip);
      await Plotly.react(strip, low.data, low.layout, config);
    }
    if (!state.drawn) {
      state.drawn = true;
      frame.querySelector("[data-map-tools]").hidden = false;
      plot.on("plotly_selected", selected);
      plot.on("plotly_hover", (event) => pointAt(event.points?.[0]?.data.ids?.[event.points[0].pointNumber], true));
      plot.on("plotly_unhover", () => pointAt("", true));
      plot.on("plotly_click", (event) => {
        const id = event.points?.[0]?.data.ids?.[event.points[0].pointNumber];
        const row = id && rowOf(id);
        if (row) window.consoleUi?.activate(row);
        else if (id) visit({ near: id });
      });
      plot.on("plotly_doubleclick", reset);
    }
    plot.dataset.ready = "yes";
  }

  // -- hover: the row's point gets a ring, the point's row a mark
  const rowOf = (id) => document.querySelector(`[data-point="${CSS.escape(id)}"]`);

  function find(id) {
    for (const trace of state.figures?.map?.data ?? []) {
      const n = trace.ids.indexOf(id);
      if (n >= 0) return [trace.x[n], trace.y[n]];
    }
    return null;
  }

  function ring() {
    const at = state.point ? find(state.point) : null;
    return {
      type: "scatter", mode: "markers", x: at ? [at[0]] : [], y: at ? [at[1]] : [], ids: [], meta: {}, hoverinfo: "skip",
      showlegend: false, marker: { symbol: "circle-open", size: 20, line: { width: 2 }, color: colour("--accent") },
    };
  }

  function pointAt(id, fromPlot = false) {
    if (id === state.point) return;
    document.querySelectorAll(".pointed").forEach((row) => row.classList.remove("pointed"));
    state.point = id ?? "";
    if (fromPlot) {
      rowOf(state.point)?.classList.add("pointed");
      return;
    }
    if (!state.drawn) return;
    const at = ring();
    Plotly.restyle(plot, { x: [at.x], y: [at.y] }, [plot.data.length - 1]);
  }
  for (const name of ["mouseover", "focusin"]) {
    document.addEventListener(name, (event) => {
      const row = event.target.closest?.("[data-point]");
      if (row) pointAt(row.dataset.point);
    });
  }

  // -- selection: the lasso is a query, the list is its answer
  function selected(event) {
    const ids = (event?.points ?? []).map((point) => point.data.ids?.[point.pointNumber]).filter(Boolean);
    if (!ids.length) return;
    state.selected = new Set(ids);
    draw();
    ask(ids);
  }

  const token = () => document.querySelector('meta[name="csrf-token"]')?.content ?? "";
  function ask(ids) {
    const values = { ids: ids.join(","), next: location.pathname + location.search, csrfmiddlewaretoken: token() };
    window.htmx?.ajax("POST", location.pathname, { target: "#map-list", swap: "outerHTML", values, source: "#map-plot" });
  }

  function visit(changes) {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) value === null ? query.delete(name) : query.set(name, value);
    query.delete("from");
    location.search = query.toString();
  }

  function reset() {
    const had = state.selected !== null;
    state.selected = null;
    setMode("pan");
    Plotly.relayout(plot, { "xaxis.autorange": true, "yaxis.autorange": true }).then(draw);
    const query = new URLSearchParams(location.search);
    if (["low", "high", "near", "kind"].some((name) => query.has(name))) visit({ low: null, high: null, near: null, kind: null });
    else if (had) window.htmx?.ajax("GET", location.pathname + location.search, { target: "#tab-body", swap: "outerHTML", source: "#map-plot" });
  }

  function setMode(mode) {
    state.mode = mode;
    frame.querySelectorAll("[data-map-mode]").forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.mapMode === mode)));
    if (state.drawn) Plotly.relayout(plot, { dragmode: mode, selections: [] });
  }

  frame.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.mapMode) setMode(button.dataset.mapMode === state.mode ? "pan" : button.dataset.mapMode);
    if ("mapReset" in button.dataset) reset();
    if ("mapNearest" in button.dataset) {
      const id = state.point || document.querySelector(".rows > .active[data-point]")?.dataset.point;
      if (id) visit({ near: id, low: null, high: null });
    }
  });

  // -- a decision swaps the body beside the plot: its points may have moved
  document.addEventListener("console:swapped", () => {
    if (state.drawn) load();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => state.drawn && draw());
  new MutationObserver(() => state.drawn && draw()).observe(document.documentElement, { attributeFilter: ["data-theme"] });

  // A plot that is not shown (narrow screens) is not drawn either.
  if (plot.offsetParent !== null) load();
  else new ResizeObserver((_entries, observer) => plot.offsetParent !== null && (observer.disconnect(), load())).observe(document.body);
})();
