/* Review: a note or a flag opened by its key has the focus in its field; Ctrl+Enter answers with the note. While an item is
   read the next one is fetched: once the server has taken the answer, it stands there at once. */
(() => {
  "use strict";

  // The next item as the server would show it, whole; it is put in place only after the answer has been stored.
  let held = null;

  async function fetchAhead() {
    const item = document.getElementById("item");
    held = null;
    if (!item?.dataset.ahead || !document.getElementById("answer")) return;
    try {
      const response = await fetch(item.dataset.ahead, { headers: { "HX-Request": "true" }, credentials: "same-origin" });
      if (response.status !== 200 || document.getElementById("item") !== item) return;
      const next = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("item");
      const form = item.isConnected && document.getElementById("answer");
      if (!next || !form) return;
      const field = document.createElement("input");
      Object.assign(field, { type: "hidden", name: "ahead", value: next.dataset.item });
      form.append(field);
      held = next;
    } catch {
      // the answer is followed as without it
    }
  }

  document.addEventListener("console:swapped", () => {
    const went = document.querySelector("#item[data-went-on]");
    if (went) {
      if (held?.dataset.item !== went.dataset.wentOn) return location.assign(went.dataset.here);
      const next = document.adoptNode(held);
      for (const id of ["progress", "held", "answered"]) {
        const [fresh, old] = [went.querySelector(`#${id}`), next.querySelector(`#${id}`)];
        if (fresh && old) old.replaceWith(fresh);
        else if (fresh) next.querySelector(".review-side")?.append(fresh);
      }
      went.replaceWith(next);
      window.htmx.process(next);
    }
    arrived();
  });

  let seen = null;
  function arrived() {
    const item = document.getElementById("item");
    if (item === seen) return;
    seen = item;
    fetchAhead();
  }
  arrived();

  document.addEventListener(
    "toggle",
    (event) => {
      const slot = event.target;
      if (!slot.open || !slot.matches?.(".note-slot, .flag-slot")) return;
      if (!slot.contains(document.activeElement)) return; // it came open with the page
      slot.querySelector("textarea, input[type=text]")?.focus();
    },
    true,
  );

  document.addEventListener("click", (event) => {
    const summary = event.target.closest?.(".note-slot > summary, .flag-slot > summary");
    if (!summary) return;
    summary.focus(); // its key clicks it: the focus is not there yet
    if (event.detail !== 0 || !summary.parentElement.open) return;
    event.preventDefault(); // a key, on what is open: into the field, not closed
    summary.parentElement.querySelector("textarea, input[type=text]")?.focus();
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) return;
    const form = event.target.closest?.("#answer");
    if (!form) return;
    event.preventDefault();
    const chosen = form.querySelector("input[name=with]:checked");
    if (chosen) form.requestSubmit(form.querySelector("#send-note"));
    else form.querySelector("input[name=with]")?.focus(); // which answer: y, n and o are letters in here
  });
})();
