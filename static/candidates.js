/* Candidates: with a decision the focus goes to the next row that says something else, at the end to the tray. It does not
   wait for the answer, so that keys can follow each other as fast as they are read. */
(() => {
  "use strict";

  let atEnd = false;

  // Before htmx reads the form: a request that waits for the one before it would no longer know which button it was.
  function keep(form, button) {
    const field = form.querySelector("input[name=do]") ?? document.createElement("input");
    Object.assign(field, { type: "hidden", name: "do", value: button.value });
    form.append(field);
  }

  document.addEventListener(
    "submit",
    (event) => {
      const row = event.target.closest?.("#cand-list [data-row]");
      const pressed = event.submitter;
      if (!row || !pressed || !event.target.matches(".row-actions")) return;
      keep(event.target, pressed);
      if (pressed.getAttribute("aria-pressed") === "true") return; // taken back: decide again
      const all = window.consoleUi.rows();
      const whole = pressed.value === "reject_cluster";
      const rest = all.slice(all.indexOf(row) + 1);
      const next = rest.find((each) => !whole || each.dataset.cluster !== row.dataset.cluster);
      atEnd = !next;
      if (next) window.consoleUi.activate(next);
    },
    true,
  );

  // To another policy: the focus goes with it, to its heading.
  let leaving = null; // what is left, until something else stands in its place
  // A key faster than the page could be made ready loads it whole: the same.
  const from = document.referrer ? new URL(document.referrer) : null;
  if (from?.pathname === location.pathname && new URLSearchParams(location.search).has("policy") && !location.hash) {
    document.querySelector("[data-group]")?.focus({ preventScroll: true });
  }
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("[data-to-policy]")) leaving = document.querySelector("[data-group]") ?? document.body;
  });

  // Until it is there a key would decide about the one that is being left.
  document.addEventListener(
    "keydown",
    (event) => {
      if (leaving && event.key !== "Tab" && document.querySelector("#cand[aria-busy]")) event.stopPropagation();
    },
    true,
  );

  document.addEventListener("console:swapped", () => {
    const arrived = document.querySelector("[data-group]");
    if (leaving && arrived && arrived !== leaving) {
      leaving = null;
      arrived.focus();
    }
    if (!atEnd) return;
    const look = document.getElementById("tray-look");
    if (!look) return;
    atEnd = false;
    look.focus();
  });
})();
