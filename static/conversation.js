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

  // A message before the chosen one may be far up: what the address names is brought into view once.
  const chosen = document.querySelector("#transcript .turn.at");
  if (chosen && !location.hash && chosen.offsetTop > window.innerHeight) chosen.scrollIntoView({ block: "center" });
})();
