// What the page adds where scripts run: paper shows what is folded.
(() => {
  "use strict";
  let opened = [];
  const toPaper = () => {
    if (opened.length > 0) return;
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const part of opened) part.open = true;
  };
  const toScreen = () => {
    for (const part of opened) part.open = false;
    opened = [];
  };
  window.addEventListener("beforeprint", toPaper);
  window.addEventListener("afterprint", toScreen);
  matchMedia("print").addEventListener("change", (event) => (event.matches ? toPaper() : toScreen()));

})();
