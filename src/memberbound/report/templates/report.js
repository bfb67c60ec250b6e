// What the page adds where scripts run: paper shows what is folded, a link opens what it points into.
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

  // The limit as a slider: which of the remedies, as they were made, would be enough for another one.
  const slider = document.getElementById("slider");
  const limit = document.getElementById("limit");
  if (slider && limit) {
    const remedies = [...document.querySelectorAll(".remedy")];
    const show = () => {
      const eta = Number(limit.value);
      // The promise of the study itself stays as it was printed.
      const moved = eta !== Number(slider.dataset.eta);
      const enough = remedies.filter((each) => each.dataset.gain && Number(each.dataset.gain) <= eta);
      for (const each of remedies) each.classList.toggle("short-of", moved && !enough.includes(each));
      const points = Number((eta * 100).toFixed(1));
      document.getElementById("limit-shown").textContent = `${points} ${points === 1 ? "point" : "points"}`;
      document.getElementById("limit-said").textContent = enough.length
        ? `Enough: ${enough.map((each) => each.dataset.label).join("; ")}.`
        : "None of the remedies is enough.";
    };
    limit.addEventListener("input", show);
    slider.hidden = false;
    show();
  }

  const reveal = () => {
    const target = location.hash && document.querySelector(`[id="${CSS.escape(location.hash.slice(1))}"]`);
    if (!target) return;
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", reveal);
  reveal();
})();
