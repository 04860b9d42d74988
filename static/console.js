/* The console's one script: keys, focus after a swap, results in #status, and htmx's events in one place.
   Everything works without it but the keys. No inline handlers, no eval: docs/adr on the Content-Security-Policy. */
(() => {
  "use strict";

  const body = document.body;
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  body.dataset.script = "on";

  // -- htmx 2 and 4 name their events differently: nothing else in the console listens to them by name ------------------
  const HTMX = {
    configure: ["htmx:configRequest", "htmx:config:request"],
    before: ["htmx:beforeRequest", "htmx:before:request"],
    after: ["htmx:afterRequest", "htmx:after:request"],
    swapped: ["htmx:afterSettle", "htmx:after:swap"],
    refused: ["htmx:responseError", "htmx:response:error"],
    unreachable: ["htmx:sendError", "htmx:error"],
  };
  const onHtmx = (name, listener) => HTMX[name].forEach((event) => document.addEventListener(event, listener));

  onHtmx("configure", (event) => {
    const token = $('meta[name="csrf-token"]')?.content;
    const headers = event.detail.headers ?? event.detail.ctx?.request?.headers;
    if (token && headers) headers["X-CSRFToken"] = token;
  });

  const targetOf = (event) => event.detail?.target ?? event.detail?.ctx?.target ?? event.target;
  onHtmx("before", (event) => targetOf(event)?.setAttribute?.("aria-busy", "true"));
  onHtmx("after", (event) => targetOf(event)?.removeAttribute?.("aria-busy"));

  // -- the focus is not lost ------------------------------------------------------------------------------------------
  // A button that is switched off while its request runs loses it, and so does what goes with the part that is replaced.
  let asker = null;
  let around = []; // the ids of the asker and of what it stands in, inmost first
  const unfocused = () => !document.activeElement || document.activeElement === body;
  onHtmx("before", () => {
    if (unfocused()) return;
    asker = document.activeElement;
    around = [];
    for (let place = asker; place && place !== body; place = place.parentElement) if (place.id) around.push(place.id);
  });
  onHtmx("after", () => {
    if (unfocused() && asker?.isConnected && !typing(asker)) asker.focus({ preventScroll: true });
  });
  function stay() {
    if (!unfocused() || !asker || asker.isConnected) return;
    for (const id of around) {
      const found = document.getElementById(id);
      const place = found?.matches("details") ? $("summary", found) : found;
      if (!place || place.getClientRects().length === 0) continue;
      place.focus({ preventScroll: true });
      if (unfocused()) place.tabIndex = -1;
      place.focus({ preventScroll: true });
      return;
    }
  }

  onHtmx("refused", async (event) => {
    const text = event.detail.xhr?.responseText ?? event.detail.ctx?.text ?? "";
    const page = new DOMParser().parseFromString(text, "text/html");
    const failure = page.querySelector("[data-failure]");
    toast(failure ? failure.textContent : body.dataset.failed || "That did not work. Nothing was changed.", true);
  });
  onHtmx("unreachable", () => toast(body.dataset.offline || "The server did not answer. What you typed is still here.", true));

  onHtmx("swapped", (event) => {
    const swapped = targetOf(event);
    document.dispatchEvent(new CustomEvent("console:swapped", { detail: { target: swapped } }));
    prepare(document);
    const root = swapped && swapped.isConnected ? swapped : document;
    const next =
      (root.matches?.("[data-focus-after]") ? root : null) ||
      $("[data-focus-after]", root) ||
      $('[aria-invalid="true"]', root) ||
      (root === document ? null : $("[data-focus-after]"));
    if (next) {
      next.focus({ preventScroll: false });
      next.removeAttribute("data-focus-after");
    }
    stay();
  });

  // -- results ------------------------------------------------------------------------------------------------------
  function toast(text, bad = false) {
    const status = $("#status");
    if (!status) return;
    const line = document.createElement("div");
    line.className = bad ? "toast bad" : "toast";
    line.dataset.toast = "";
    const words = document.createElement("span");
    words.textContent = text.trim().replace(/\s+/g, " ");
    const dismiss = document.createElement("button");
    dismiss.type = "button";
    dismiss.className = "btn small";
    dismiss.dataset.dismiss = "";
    dismiss.textContent = body.dataset.dismiss || "Dismiss";
    line.append(words, dismiss);
    status.replaceChildren(line);
  }

  // Results stay 20 s, longer while read with the pointer or the focus in them; failures stay until dismissed.
  function age(line) {
    if (line.dataset.aging || line.classList.contains("bad")) return;
    line.dataset.aging = "yes";
    const leave = () => (line.matches(":hover, :focus-within") ? setTimeout(leave, 4000) : line.remove());
    setTimeout(leave, 20000);
  }

  function prepare(root) {
    $$("[data-dismiss], [data-open-keys], [data-print]", root).forEach((button) => (button.hidden = false));
    $$("[data-toast]", root).forEach(age);
    $$("[data-key]", root).forEach((element) => {
      const key = keyOf(element.dataset.key);
      element.setAttribute("aria-keyshortcuts", key);
      if (element.classList.contains("btn") && !$(".kbd", element)) {
        const hint = document.createElement("span");
        hint.className = "kbd";
        hint.setAttribute("aria-hidden", "true");
        hint.textContent = nameOf(key);
        element.append(" ", hint);
      }
    });
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-dismiss], [data-open-keys], [data-print], [data-tick-all]");
    if (!button) return;
    if ("dismiss" in button.dataset) button.closest("[data-toast]")?.remove();
    if ("openKeys" in button.dataset) sheet();
    if ("print" in button.dataset) window.print();
  });

  // What a summary opens has the focus in its first field.
  document.addEventListener("toggle", (event) => {
    const opened = event.target.matches?.("details[data-focus-inside]") && event.target.open;
    if (opened && event.target.contains(document.activeElement)) $("textarea, input:not([type=hidden])", event.target)?.focus();
  }, true);

  // A form that changes what the page shows as soon as something is chosen (its button is for those without scripts). With
  // keys a choice is passed on the way to another, and a date is wrong until it is whole: then its button is shown instead.
  let passing = false;
  document.addEventListener("keydown", (event) => (passing = event.key !== "Enter"), true);
  document.addEventListener("pointerdown", () => (passing = false), true);
  document.addEventListener("change", (event) => {
    const form = event.target.closest?.("form[data-submit-on-change]");
    if (!form) return;
    if (passing) $$(".no-script", form).forEach((button) => button.classList.remove("no-script"));
    else form.requestSubmit();
  });

  // What is saved as a view is the list of now: since the page came it may have been searched and filtered. An address that
  // names nothing but a view stands for that view's own query, which is in the form already.
  document.addEventListener("submit", (event) => {
    const field = event.target.closest?.(".views-menu form")?.elements.query;
    if (!field) return;
    const now = new URLSearchParams(location.search);
    const named = now.has("view");
    for (const name of ["view", "after"]) now.delete(name);
    if (!named || `${now}`) field.value = `${now}`;
  }, true);

  // -- keys ---------------------------------------------------------------------------------------------------------
  // body[data-keys=off]: single-letter keys are off. body[data-key-map]: {"default key": "own key"} from the profile.
  let own = {};
  try {
    own = JSON.parse(body.dataset.keyMap || "{}") || {};
  } catch {
    own = {};
  }
  const keyOf = (key) => (typeof own[key] === "string" && own[key] ? own[key] : key);
  const nameOf = (key) => (key === "Escape" ? "Esc" : key);
  const toDefault = Object.fromEntries(
    Object.entries(own).filter(([, mine]) => typeof mine === "string" && mine).map(([key, mine]) => [mine, key]),
  );
  const defaultOf = (key) => toDefault[key] ?? (key in own && own[key] ? null : key);
  const lettersOff = () => body.dataset.keys === "off";

  const typing = (element) =>
    element && (element.isContentEditable || /^(textarea|select)$/i.test(element.tagName) ||
      (element.tagName === "INPUT" && !/^(checkbox|radio|button|submit|range)$/.test(element.type)));

  // Rows are elements with data-row; one is active, has the class and, where it holds a link, the focus on it.
  const rows = () => $$("[data-row]").filter((row) => row.offsetParent !== null);
  const activeRow = () =>
    document.activeElement?.closest?.("[data-row]") ?? $("[data-row].active") ?? $("[data-row]:target");
  let lastTicked = null;

  function activate(row) {
    $$("[data-row].active").forEach((other) => other.classList.remove("active"));
    if (!row) return;
    row.classList.add("active");
    const link = $("[data-open], a[href]", row) ?? row;
    if (link === row && !row.hasAttribute("tabindex")) row.tabIndex = -1;
    link.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    document.dispatchEvent(new CustomEvent("console:row", { detail: { row } }));
  }

  function step(by) {
    const all = rows();
    if (!all.length) return false;
    const now = all.indexOf(activeRow());
    activate(all[Math.max(0, Math.min(all.length - 1, now < 0 ? (by > 0 ? 0 : all.length - 1) : now + by))]);
    return true;
  }

  const tickOf = (row) => row && $('input[type="checkbox"][data-tick]', row);
  function tick(row, value) {
    const box = tickOf(row);
    if (!box) return false;
    box.checked = value ?? !box.checked;
    box.dispatchEvent(new Event("change", { bubbles: true }));
    lastTicked = row;
    return true;
  }
  function tickRange(row) {
    const all = rows();
    const [from, to] = [all.indexOf(lastTicked), all.indexOf(row)];
    if (from < 0 || to < 0) return tick(row, true);
    all.slice(Math.min(from, to), Math.max(from, to) + 1).forEach((one) => tick(one, true));
    return true;
  }
  function tickAll() {
    const boxes = rows().map(tickOf).filter(Boolean);
    const value = !boxes.every((box) => box.checked);
    rows().forEach((row) => tick(row, value));
    return boxes.length > 0;
  }

  function sheet() {
    const dialog = $("#keys-sheet");
    if (!dialog) return;
    $$("[data-key-name]", dialog).forEach((name) => {
      const key = name.dataset.keyName;
      name.textContent = keyOf(key);
      name.parentElement.hidden = key.startsWith("g ") && !$(`[data-go="${CSS.escape(key)}"]`); // no page to go to here
    });
    const seen = new Map();
    $$("[data-key]").forEach((element) => {
      const words = element.dataset.keyLabel || element.getAttribute("aria-label") ||
        [...element.childNodes].filter((node) => !node.classList?.contains("kbd")).map((node) => node.textContent).join(" ");
      if (!seen.has(element.dataset.key)) seen.set(element.dataset.key, words.trim().replace(/\s+/g, " "));
    });
    const list = $("[data-page-keys]", dialog);
    list.replaceChildren(
      ...[...seen].map(([key, words]) => {
        const line = document.createElement("div");
        const text = document.createElement("span");
        const name = document.createElement("span");
        text.textContent = words;
        name.className = "kbd";
        name.textContent = nameOf(keyOf(key));
        line.append(text, name);
        return line;
      }),
    );
    $("[data-page-keys-title]", dialog).hidden = seen.size === 0;
    dialog.showModal();
  }

  // An element with data-key is clicked when its key is pressed: the active row's own one, else that of the nearest
  // section around the focus, else the page's first one outside rows.
  function pressed(key) {
    const wanted = (element) => element.dataset.key === key && !element.disabled && element.offsetParent !== null;
    const within = (root) => root && $$("[data-key]", root).find(wanted);
    let found = within(activeRow());
    for (let place = document.activeElement?.closest?.("[data-keys-here]"); !found && place; place = place.parentElement?.closest("[data-keys-here]")) {
      found = within(place);
    }
    found ??= $$("[data-key]").find((element) => wanted(element) && !element.closest("[data-row]"));
    if (!found) return false;
    found.focus({ preventScroll: true });
    found.click();
    return true;
  }

  const COMMANDS = {
    "?": () => (sheet(), true),
    "/": () => {
      const field = $("[data-search]");
      field?.focus();
      field?.select();
      return Boolean(field);
    },
    j: () => step(1),
    k: () => step(-1),
    x: () => tick(activeRow()),
    X: () => tickRange(activeRow()),
    "*": tickAll,
    u: () => {
      const undo = $("#status [data-undo]") ?? $("[data-undo]");
      const mine = body.dataset.myUndo; // else one's own newest act, whatever page it was on
      if (undo) undo.click();
      else if (mine) location.assign(`${mine}?next=${encodeURIComponent(location.pathname + location.search)}`);
      return Boolean(undo || mine);
    },
    ".": () => {
      const row = activeRow();
      const menu = row && ($("[popovertarget]", row) ?? $("summary", row));
      menu?.click();
      return Boolean(menu);
    },
    Enter: () => {
      const row = document.activeElement === activeRow() || document.activeElement === body ? activeRow() : null;
      const link = row && $("[data-open], a[href]", row);
      link?.click();
      return Boolean(link);
    },
  };

  let going = 0;
  document.addEventListener("keydown", (event) => {
    if (event.isComposing || event.keyCode === 229 || event.defaultPrevented) return;
    const focus = document.activeElement;
    if (event.key === "Escape") {
      if (typing(focus)) focus.blur();
      else if (!$("dialog[open]")) pressed("Escape");
      return;
    }
    if (typing(focus) || $("dialog[open]")) return;
    if (event.altKey || event.metaKey || event.ctrlKey) return;
    const key = event.key.length === 1 ? defaultOf(event.key) : event.key;
    if (key === null) return;
    if (lettersOff() && event.key.length === 1) return;
    if (going && Date.now() - going < 1200) {
      going = 0;
      const link = $(`[data-go="g ${CSS.escape(event.key)}"]`);
      if (link) {
        event.preventDefault();
        link.click();
      }
      return;
    }
    if (key === "g" && $("[data-go]") && !event.repeat) {
      going = Date.now();
      return;
    }
    if (key === "Enter" || key === " ") {
      if (focus && focus.matches("a[href], button, summary, input, [role=button]")) return; // theirs
    }
    if (event.repeat && key !== "j" && key !== "k") return;
    const done = pressed(key) || (Object.hasOwn(COMMANDS, key) && COMMANDS[key]());
    if (done) event.preventDefault();
  });

  document.addEventListener("focusin", (event) => {
    const row = event.target.closest?.("[data-row]");
    if (!row || row.classList.contains("active")) return;
    $$("[data-row].active").forEach((other) => other.classList.remove("active"));
    row.classList.add("active");
  });

  // What other scripts of the console (the map) use.
  window.consoleUi = { toast, onHtmx, activate, rows, keyOf };
  prepare(document);
  // A page that answers a form without htmx: to its result, or to the first field that is wrong. An address with a
  // fragment gives the focus to what the fragment names and to nothing else, once the browser has gone there.
  const arrive = () => {
    const named = location.hash ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : document;
    if (named) $('[data-focus-after], [aria-invalid="true"]', named)?.focus();
  };
  if (document.readyState === "complete") arrive();
  else window.addEventListener("load", () => requestAnimationFrame(arrive));
})();
