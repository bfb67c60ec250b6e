// Numbers on the page. Certified, estimated and measured ones differ in sign, word and frame, not
// only in colour.
import { element, say } from "./dom.js";
import { tip } from "./tips.js";
import { GLOSSARY } from "./glossary.js";

const WORDS = {
  certified: "certified",
  estimated: "estimate",
  measured: "measured",
  given: "setting",
  unproved: "not proved",
};

/** One number: `name` is its entry in the glossary; the sign of its text (≤, ≥, ≈ or =) says what it is. */
export function figure({ name, text, label, big }) {
  const entry = GLOSSARY[name];
  const title = label ?? entry.label;
  const [, sign, value] = /^([≤≥≈=] )?(.*)$/.exec(text);
  const kind = { "≈ ": "estimated", "= ": "given" }[sign] ?? (sign ? "certified" : "unproved");
  return element(
    "div",
    { class: `figure ${kind}${big ? " big" : ""}`, "data-number": name },
    element("p", { class: "title" }, element("span", {}, title), tip(title, entry.text, entry.theorems)),
    element(
      "p",
      { class: "value" },
      element("span", { class: "sign" }, sign ?? ""),
      element("span", { class: "amount" }, value),
    ),
    element("p", { class: "kind" }, WORDS[kind]),
  );
}

/** Several numbers side by side. */
export const figures = (...nodes) => element("div", { class: "figures" }, nodes.flat());

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
      given.map((text) => element("li", {}, `${text[0].toUpperCase()}${text.slice(1).replace(/\.$/, "")}.`)),
    ),
  );
}

/** A bar from blind guessing to always right, with the bound on it. */
export function meter({ share, blind, way, success }) {
  const span = Math.max(1 - blind, 1e-9);
  const wide = Math.min(100, Math.max(0, ((share - blind) / span) * 100));
  const fillbar = element("span", { class: "fill" });
  fillbar.style.width = `${wide}%`;
  // A bound that excludes nothing has the look of what is not proved.
  return element(
    "div",
    { class: `meter${success.startsWith("≤") ? "" : " unproved"}`, role: "img", "aria-label": way },
    element("div", { class: "bar" }, fillbar),
    element(
      "div",
      { class: "ends", "aria-hidden": "true" },
      element("span", {}, "blind guess"),
      element("span", {}, "always right"),
    ),
  );
}
