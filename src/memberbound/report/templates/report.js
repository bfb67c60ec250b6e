// Draws the figures from the JSON block, in the colours of the scheme, and again when that changes.
(() => {
  "use strict";
  const specs = JSON.parse(document.getElementById("figures").textContent);
  const holders = [...document.querySelectorAll("[data-figure]")];
  const views = {};
  const root = document.documentElement;
  const paperWidth = 660; // A4 between its margins, in CSS pixels

  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name.slice(1)}`).trim();

  // Colours are the only values that are replaced, and only under keys that hold a colour.
  const painted = (value, key = "") => {
    if (Array.isArray(value)) return value.map((item) => painted(item, key));
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, painted(v, k)]));
    if (typeof value === "string" && value.startsWith("@") && /color$/.test(key)) return colour(value);
    return value;
  };

  const draw = (holder) => {
    const name = holder.dataset.figure;
    const spec = specs[name];
    const { positive, ...axes } = spec.views[views[name]] || {};
    const layout = painted({ ...spec.layout, ...axes });
    // Plotly would draw a point at 0 as a level line to the edge of a logarithmic axis.
    const data = positive
      ? spec.data.map((trace) => ({ ...trace, x: trace.x.map((x) => (x > 0 ? x : null)) }))
      : spec.data;
    layout.font.family = getComputedStyle(document.body).fontFamily;
    const printing = root.hasAttribute("data-printing");
    layout.width = printing ? Math.min(paperWidth, holder.clientWidth || paperWidth) : undefined;
    layout.autosize = !printing;
    return Plotly.react(holder, painted(data), layout, { displayModeBar: false, responsive: true });
  };
  const drawAll = () => Promise.all(holders.map(draw)).then(() => root.setAttribute("data-drawn", ""));

  for (const choice of document.querySelectorAll("input[data-view]"))
    choice.addEventListener("change", () => {
      views[choice.dataset.view] = choice.value;
      draw(document.getElementById(`plot-${choice.dataset.view}`));
    });

  // On paper: light colours, the width of the paper, and nothing folded away.
  let opened = [];
  const toPaper = () => {
    if (root.hasAttribute("data-printing")) return;
    root.setAttribute("data-printing", "");
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const part of opened) part.open = true;
    drawAll();
  };
  const toScreen = () => {
    if (!root.hasAttribute("data-printing")) return;
    root.removeAttribute("data-printing");
    for (const part of opened) part.open = false;
    opened = [];
    drawAll();
  };
  window.addEventListener("beforeprint", toPaper);
  window.addEventListener("afterprint", toScreen);
  matchMedia("print").addEventListener("change", (event) => (event.matches ? toPaper() : toScreen()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);

  // A link to a theorem opens what it is folded into.
  const reveal = () => {
    const target = location.hash && document.querySelector(`[id="${CSS.escape(location.hash.slice(1))}"]`);
    if (!target) return;
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", reveal);
  drawAll().then(reveal);
})();
