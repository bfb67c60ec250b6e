// The fields of Table.
import { element } from "./dom.js";

/** Settings of the certificate; `unit` holds the choice of a column. */
export function certifyFields(form, given, unit) {
  return element(
    "details",
    { class: "more", open: ["n", "confidence", "nu", "lam", "exposed_above", "unit"].some((name) => given[name]) },
    element("summary", {}, "More: training rows, confidence, whose row"),
    form.numeric("n", {
      label: "Training rows n",
      placeholder: "all rows",
      help: "How many such rows a model will be trained on, if not the whole table.",
    }),
    form.numeric("confidence", {
      label: "Confidence",
      help: "How sure the certificate is, over the chance of drawing these rows.",
      slider: { from: 0.8, to: 0.999, digits: 3 },
    }),
    form.numeric("exposed_above", { label: "A row is exposed above a leak of", slider: { from: 0.05, to: 0.95 } }),
    unit,
    form.numeric("nu", {
      label: "ν (chance of a fresh person)",
      help: "How often the person in question was not in the training data.",
      slider: { from: 0.01, to: 0.99 },
    }),
    form.numeric("lam", {
      label: "λ (weight of a missed member)",
      help: "How bad it is to miss a member, compared with a false accusation.",
      slider: { from: 0.1, to: 10, log: true },
    }),
  );
}

/** Targets of the coarsening. */
export function hardenFields(coarse) {
  return [
    coarse.numeric("security", {
      label: "Security MIS to reach",
      help: "1 − leak of the average row: 0.9 means that nobody is right more than 55 % of the time. Coarser columns reach more.",
      slider: { from: 0.5, to: 0.99 },
    }),
    coarse.numeric("record_leak", {
      label: "Leak allowed for the worst row",
      placeholder: "no limit",
      help: "If given, no released row may leak more than this. Stricter than the average.",
    }),
  ];
}
