// The first page: what this is, and a door for each kind of reader.
import { address } from "./address.js";
import { element } from "./dom.js";

export const title = "Start";
export const heading = "How often can anybody be right about who was in the training set?";

const DOORS = [
  {
    who: "I have a table of people",
    links: [
      ["study", "Study it: how much would a model give away, and what helps?"],
      ["certify", "Certify it: what can any model reveal at most?"],
      ["synthesize", "Make new rows that may be handed over"],
    ],
  },
  {
    who: "I have a model",
    links: [
      ["audit", "Attack it, and see how often attacks are right"],
      ["protect", "Train one that protects every record"],
      ["audit-text", "Attack a language model"],
    ],
  },
  {
    who: "I have to decide, or to check",
    links: [
      ["explain", "What does ε = 8 mean for a person?"],
      ["verify", "Check the certificate of a released file"],
      ["export", "Write the pages to sign, or to hand on"],
      ["compare", "Compare two reports"],
    ],
  },
];

export function open(root) {
  root.append(
    element(
      "p",
      { class: "lead" },
      "memberbound proves an upper bound that holds against every attack, measures what real attacks reach, ",
      "and lowers the risk until the bound is low enough.",
    ),
    element(
      "div",
      { class: "doors" },
      DOORS.map(({ who, links }) =>
        element(
          "section",
          { class: "card" },
          element("h2", {}, who),
          element(
            "ul",
            {},
            links.map(([page, text]) => element("li", {}, element("a", { href: address(page) }, text))),
          ),
        ),
      ),
    ),
  );
  return () => {};
}
