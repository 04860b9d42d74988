/* The workbench without its map: one open strip at a time, Cancel closes it and gives the focus back. */
(() => {
  "use strict";

  const openers = new Map(); // slot id -> id of the element that opened it

  document.addEventListener("submit", (event) => {
    const target = event.target.getAttribute("hx-target");
    if (target?.startsWith("#strip-") && !event.target.closest("[data-strip]")) {
      openers.set(target.slice(1), (event.submitter ?? document.activeElement)?.id);
    }
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("[hx-get][hx-target^='#strip-']");
    if (link) openers.set(link.getAttribute("hx-target").slice(1), link.id);
    const cancel = event.target.closest?.("[data-cancel]");
    const slot = cancel?.closest(".strip-slot");
    if (!slot || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    slot.replaceChildren();
    const row = slot.closest("[data-row]") ?? slot.parentElement;
    const opener = document.getElementById(openers.get(slot.id) ?? "") ?? row?.querySelector("button, a[href]");
    opener?.focus();
  });

  // The bar for ticked rows appears with the first tick.
  function count() {
    const n = document.querySelectorAll("[data-tick][form=bulk]:checked").length;
    document.querySelectorAll(".bulkbar").forEach((bar) => {
      bar.classList.toggle("on", n > 0);
      const words = bar.querySelector("[data-ticked]");
      if (words) words.textContent = `${words.dataset.ticked} ${n}`;
    });
  }
  document.addEventListener("change", (event) => event.target.matches?.("[data-tick]") && count());
  document.addEventListener("console:swapped", count);
  count();

  // A second strip takes the place of the first: both stand on the same version, only one can be applied.
  document.addEventListener("console:swapped", (event) => {
    const now = event.detail.target;
    if (!now?.classList?.contains("strip-slot") || !now.isConnected || !now.firstElementChild) return;
    document.querySelectorAll(".strip-slot").forEach((slot) => slot !== now && slot.replaceChildren());
  });
})();
