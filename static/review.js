/* Review: a note or a flag opened by its key has the focus in its field; Ctrl+Enter answers with the note. */
(() => {
  "use strict";

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
    if (summary) summary.focus(); // its key clicks it: the focus is not there yet
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
