/* The drawer of a conversation's page: Close empties it and gives the focus back to what opened it. Without this script
   Why is a page of its own. */
(() => {
  "use strict";
  const slot = () => document.getElementById("drawer");
  let opener = null;

  document.addEventListener("click", (event) => {
    const opens = event.target.closest?.("[data-opens-drawer]");
    if (opens) opener = opens.id;
    const closes = event.target.closest?.("[data-close-drawer]");
    if (!closes || !slot()?.contains(closes)) return;
    event.preventDefault();
    slot().replaceChildren();
    document.getElementById(opener)?.focus();
  });

  // The chosen message is brought into view inside its own pane; the page itself stays where it is.
  const pane = document.getElementById("transcript");
  const chosen = pane && pane.querySelector(".turn.at");
  if (chosen && !location.hash && pane.scrollHeight > pane.clientHeight) {
    const far = chosen.getBoundingClientRect().top - pane.getBoundingClientRect().top;
    if (far > pane.clientHeight - 160) pane.scrollTop = far - pane.clientHeight / 3;
  }
})();
