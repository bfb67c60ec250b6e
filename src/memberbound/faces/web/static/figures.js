// Numbers on the page. Certified, estimated and measured ones differ in sign, word and frame, not
// only in colour.
import { element, say, table } from "./dom.js";

const KINDS = { certificate: "certified", audit: "measured", estimate: "estimated", unproved: "unproved" };

/** A part of a summary: a table, or lines of text without the sentence and the warnings above it. */
function part({ heads, rows }, index, sentence) {
  const cell = ({ text, kind }) => (KINDS[kind] ? element("span", { class: `kept ${KINDS[kind]}` }, text) : text);
  const cells = rows.map((row) => row.map(cell));
  if (rows[0].length > 1) return table(`The answer in numbers, part ${index}`, heads, cells, { unseen: true });
  const lines = rows.map(([{ text }]) => text).filter((text) => text !== sentence && !/^note\b[^:]*: /.test(text));
  return lines.map((text) => element("p", {}, text));
}

/** The tables that the command line prints below the sentence. */
export const summary = (parts, sentence) => parts.map((block, index) => part(block, index, sentence));

/** The sentence to pass on; a screen reader says it when it changes. */
export function verdict(text, kind = "certified") {
  say(text);
  return element("blockquote", { class: `verdict ${kind}` }, element("p", { class: "sentence" }, text));
}

/** What has to be true, and the results it rests on. */
export function assumptions(answer) {
  return element(
    "details",
    { class: "assumptions" },
    element("summary", {}, "What this rests on"),
    element(
      "p",
      {},
      answer.protects === "every record" ? "About every record." : "About the average record.",
      ` Theorems: ${answer.theorems.join(", ")} (“memberbound theorems ${answer.theorems[0]}” shows one).`,
    ),
    element(
      "ul",
      {},
      answer.assumptions.map((text) => element("li", {}, text)),
    ),
  );
}

/** A note with a capital letter, unless it begins with a file's or a column's name. */
const raised = (text) => (/^[a-z]+[ ,:]/.test(text) ? `${text[0].toUpperCase()}${text.slice(1)}` : text);

/** Warnings of an answer, if any. */
export function warnings(answer) {
  const given = answer.warnings ?? [];
  if (given.length === 0) return null;
  return element(
    "div",
    { class: "notice note" },
    element("strong", {}, "Please note. "),
    element(
      "ul",
      {},
      given.map((text) => element("li", {}, `${raised(text).replace(/\.$/, "")}.`)),
    ),
  );
}

/** A bar from blind guessing to always right, with the bound on it; the sentence says it in words. */
export function meter({ accuracy_upper: bound, prior }) {
  const blind = Math.max(prior, 1 - prior);
  const bar = element("span", { class: "fill" });
  bar.style.width = `${((bound - blind) / Math.max(1 - blind, 1e-9)) * 100}%`;
  // A bound that excludes nothing has the look of what is not proved.
  return element(
    "div",
    { class: `meter${bound < 0.9999 ? "" : " unproved"}`, "aria-hidden": "true" },
    element("div", { class: "bar" }, bar),
    element("div", { class: "ends" }, element("span", {}, "blind guess"), element("span", {}, "always right")),
  );
}
