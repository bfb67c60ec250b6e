// Elements are built here and nowhere else. Text goes in as text nodes only, so that a file name, a
// column name or a cell can never become markup.

/** Build an element: attributes by name, listeners as functions (`onclick`), children as text or nodes. */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

/** Append text and nodes, skipping what is absent. */
export function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

/** Replace everything in a node. */
export function fill(node, ...children) {
  node.replaceChildren();
  return append(node, children);
}

let counter = 0;
/** A fresh id for labels and descriptions. */
export function freshId(stem) {
  counter += 1;
  return `${stem}-${counter}`;
}

/** Say something to a screen reader without showing it. */
export function say(text) {
  const place = document.getElementById("spoken");
  if (place) place.textContent = text;
}

/** Run after a pause; a further call starts the pause again. */
export function delayed(run, pause) {
  let timer = 0;
  const call = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...given), pause);
  };
  call.cancel = () => clearTimeout(timer);
  return call;
}

/** A message in the page: `kind` is "bad", "note" or "good". */
export function notice(kind, ...content) {
  const role = kind === "bad" ? "alert" : null;
  const lead = { bad: "Could not finish: ", note: "", good: "" }[kind];
  return element("div", { class: `notice ${kind}`, role }, lead ? element("strong", {}, lead) : null, ...content);
}

/** Signs and units stay beside their number. */
const together = (cell) => (typeof cell === "string" && /^[≤≥≈] /.test(cell) ? cell.replaceAll(" ", "\u00a0") : cell);

/** A table with a caption, and with heads if there are some; the first cell of each row is its heading. */
export function table(caption, heads, rows, { unseen = false } = {}) {
  const head = element("thead", {}, element("tr", {}, heads.map((words) => element("th", { scope: "col" }, words))));
  const body = rows.map((row) =>
    element(
      "tr",
      {},
      row.map((cell, index) =>
        index === 0 ? element("th", { scope: "row" }, cell) : element("td", {}, together(cell)),
      ),
    ),
  );
  return element(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element(
      "table",
      {},
      element("caption", { class: unseen ? "unseen" : null }, caption),
      heads.length > 0 ? head : null,
      element("tbody", {}, body),
    ),
  );
}

/** What stands where an answer will be. */
export const empty = (words) => element("p", { class: "empty" }, words);

/** A question beside its answer; `below` belongs to the answer. */
export const sides = (question, label, answer, ...below) =>
  element(
    "div",
    { class: "columns2" },
    question,
    element(
      "div",
      { class: "stack" },
      element("section", { class: "card answer", "aria-label": label }, answer),
      below,
    ),
  );

/** The usual page: a form beside its answer. */
export const asking = (form, answer, ...below) =>
  sides(element("section", { class: "card", "aria-label": "Question" }, form.node), "Answer", answer, ...below);

/** A count, with separated thousands. */
export const count = (value) => value.toLocaleString("en-GB");

/** A size in bytes for people. */
export function bytes(value) {
  if (value < 1000) return `${value} bytes`;
  if (value < 1e6) return `${(value / 1e3).toFixed(1)} kB`;
  return value < 1e9 ? `${(value / 1e6).toFixed(1)} MB` : `${(value / 1e9).toFixed(1)} GB`;
}
