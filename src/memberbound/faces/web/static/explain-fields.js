// The fields of Explain, and the question that they ask.
import { element } from "./dom.js";
import { Invalid } from "./fields.js";

export const DEFAULTS = {
  mode: "meaning",
  notion: "epsilon",
  epsilon: "8",
  delta: "1e-5",
  gdp: "1",
  noise_multiplier: "1",
  sample_rate: "0.01",
  steps: "1000",
  accept: "accuracy",
  accept_accuracy: "55",
  accept_tpr: "5",
  accept_fpr: "1",
  accept_advantage: "0.1",
  accept_security: "0.9",
  accept_width: "0.02",
  accept_rows: "10000",
  fpr: "0.1, 0.01, 0.001",
  baseline: "",
  prior: "0.5",
  nu: "0.5",
  lam: "1",
  adjacency: "",
  scale: "linear",
};
/** Which fields are in sight. */
export const ALWAYS = ["mode", "notion", "baseline", "prior", "nu", "lam", "adjacency"];
export const BY_NOTION = {
  epsilon: ["epsilon", "delta"],
  gdp: ["gdp", "delta"],
  sgd: ["noise_multiplier", "sample_rate", "steps", "delta"],
};
export const BY_ACCEPT = {
  accuracy: ["accept_accuracy"],
  tpr: ["accept_tpr", "accept_fpr"],
  advantage: ["accept_advantage"],
  security: ["accept_security"],
  interval: ["accept_width", "accept_rows"],
};
export const FOUND = ["epsilon", "noise_multiplier"];

/** A number of the page in percent as the share it stands for, without the dust of a division. */
const share = (value) => Number((value / 100).toFixed(14));

/** The keyword arguments of `memberbound.explain`; defaults of the verb are left out. */
export function options(form) {
  const asked = {};
  const choose = form.text("mode") === "choose";
  const take = (name, optional = false) => {
    const value = form.number(name, { optional });
    if (value !== null) asked[name] = value;
  };
  const precise = choose && form.text("accept") === "interval";
  if (choose) {
    const accept = form.text("accept");
    if (precise) {
      asked.target_interval = form.number("accept_width");
      asked.n = form.number("accept_rows");
      if (!Number.isInteger(asked.n))
        throw new Invalid("accept_rows", `Rows must be a whole number, got “${form.text("accept_rows")}”.`);
    }
    // “Right 55 % of the time” is η = 5 %; the decimal text is kept, not the dust of 0.55 - 0.5.
    if (accept === "accuracy") asked.target_eta = share(form.number("accept_accuracy") - 50);
    if (accept === "advantage") asked.target_advantage = form.number("accept_advantage");
    if (accept === "security") asked.target_security = form.number("accept_security");
    if (accept === "tpr") {
      asked.target_tpr = share(form.number("accept_tpr"));
      asked.fpr = [share(form.number("accept_fpr"))];
    }
    if (asked.target_eta !== undefined && !(asked.target_eta > 0 && asked.target_eta < 0.5)) {
      throw new Invalid(
        "accept_accuracy",
        `“Attack success at most” must be above 50 % (a coin) and below 100 %, got ${form.text("accept_accuracy")} %.`,
      );
    }
  }
  for (const name of precise ? [] : BY_NOTION[form.text("notion")]) {
    if (!(choose && FOUND.includes(name))) take(name, name === "delta");
  }
  if (asked.steps !== undefined && !Number.isInteger(asked.steps))
    throw new Invalid("steps", `Steps must be a whole number, got “${form.text("steps")}”.`);
  const guesses = form.numbers("baseline");
  if (guesses.length > 0) asked.baseline = guesses;
  if (asked.fpr === undefined) {
    const rates = form.numbers("fpr");
    if (rates.length > 0 && rates.join() !== "0.1,0.01,0.001") asked.fpr = rates;
  }
  for (const [name, usual] of [
    ["nu", 0.5],
    ["lam", 1],
    ["prior", 0.5],
  ]) {
    const value = form.number(name);
    if (value !== usual) asked[name] = value;
  }
  if (form.text("adjacency")) asked.adjacency = form.text("adjacency");
  return asked;
}

/** All fields; the page shows those that belong to the question. */
export function fields(form, given) {
  return [
    form.choice("mode", {
      label: "Your question",
      options: [
        ["meaning", "What does our setting mean?"],
        ["choose", "Which setting do we need?"],
      ],
    }),
    form.choice("notion", {
      label: "The setting is given as",
      help: "ε and δ are what most documents quote. DP-SGD parameters say more about a training run and usually give a better bound.",
      options: [
        ["epsilon", "ε and δ"],
        ["gdp", "Gaussian DP μ"],
        ["sgd", "DP-SGD"],
      ],
    }),
    form.choice("accept", {
      label: "We can accept that …",
      options: [
        ["accuracy", "a guess is right"],
        ["tpr", "members are found"],
        ["advantage", "an advantage"],
        ["security", "a security MIS"],
        ["interval", "an interval of a mean"],
      ],
    }),
    form.numeric("accept_accuracy", {
      label: "Attack success at most",
      unit: "%",
      help: "50 % is tossing a coin. 55 % means: of 100 guesses, 55 are right on average.",
      slider: { from: 50.5, to: 99.5, digits: 2 },
    }),
    form.numeric("accept_tpr", {
      label: "Members identified at most",
      unit: "%",
      help: "Share of the members that the best attack may identify.",
      slider: { from: 0.1, to: 100, log: true },
    }),
    form.numeric("accept_fpr", {
      label: "… at this share of false alarms",
      unit: "%",
      help: "Share of the non-members that it may wrongly call members (FPR).",
      slider: { from: 0.001, to: 50, log: true },
    }),
    form.numeric("accept_advantage", { label: "Advantage (TPR − FPR) at most", slider: { from: 0.01, to: 0.99 } }),
    form.numeric("accept_security", { label: "Security MIS at least", slider: { from: 0.01, to: 0.99 } }),
    form.numeric("accept_width", {
      label: "Width of a 95 % interval",
      help: "For a mean or share of values between 0 and 1: 0.02 is ± 1 percentage point. The answer says which η is precise enough, from noise alone and with sampling.",
      slider: { from: 0.0005, to: 0.5, log: true },
    }),
    form.numeric("accept_rows", {
      label: "Rows",
      help: "Number of rows (or persons) of that mean.",
      slider: { from: 100, to: 1e6, log: true, digits: 2 },
    }),
    form.numeric("epsilon", {
      label: "ε (epsilon)",
      help: "The strength of a differential-privacy guarantee. Smaller is safer; 0 reveals nothing.",
      slider: { from: 0.01, to: 30, log: true },
    }),
    form.numeric("gdp", {
      label: "μ (Gaussian DP)",
      help: "Distance between the two bell curves the attacker has to tell apart. Smaller is safer.",
      slider: { from: 0.01, to: 10, log: true },
    }),
    form.numeric("noise_multiplier", {
      label: "Noise multiplier σ",
      help: "Standard deviation of the noise divided by the clipping norm. Larger is safer.",
      slider: { from: 0.3, to: 30, log: true },
    }),
    form.numeric("sample_rate", {
      label: "Sampling rate q",
      help: "Batch size divided by the number of records.",
      slider: { from: 1e-4, to: 1, log: true },
    }),
    form.numeric("steps", {
      label: "Steps",
      help: "Number of gradient steps of the whole training: epochs divided by the sampling rate.",
      slider: { from: 1, to: 1e5, log: true, digits: 2 },
    }),
    form.numeric("delta", {
      label: "δ (delta)",
      placeholder: "1e-5",
      help: "Chance that the guarantee fails altogether. It should be well below 1 divided by the number of people.",
      slider: { from: 1e-12, to: 1e-2, log: true, digits: 1 },
    }),
    form.textual("fpr", {
      label: "False-positive rates",
      help: "Shares of non-members that an attacker may wrongly call members, separated by commas. Small ones matter most: an attacker who names few people is believed.",
      placeholder: "0.1, 0.01, 0.001",
    }),
    element(
      "details",
      {
        class: "more",
        open: Boolean(given.baseline || given.prior || given.nu || given.lam || given.adjacency),
      },
      element("summary", {}, "More: other guesses, prior, ν, λ, what “out” means"),
      form.textual("baseline", {
        label: "Other guesses, chance before the release",
        placeholder: "0.1, 0.001",
        help: "How likely somebody guesses something else about a record without the release: an attribute, the record itself, which of many people it is. The answer says how likely at most with it.",
      }),
      form.numeric("prior", {
        label: "Prior",
        help: "Share of the candidates who were in. Changes how often a guess is right, not the curve.",
        slider: { from: 0.01, to: 0.99 },
      }),
      form.numeric("nu", {
        label: "ν (chance of a fresh person)",
        help: "Security MIS: how often the person in question was not in the training data.",
        slider: { from: 0.01, to: 0.99 },
      }),
      form.numeric("lam", {
        label: "λ (weight of a missed member)",
        help: "Security MIS: how bad it is to miss a member, compared with a false alarm.",
        slider: { from: 0.1, to: 10, log: true },
      }),
      form.select("adjacency", {
        label: "“Out” means",
        help: "Which of the two the guarantee was given for. Accountants of DP-SGD usually mean the second.",
        options: [
          ["", "as usual for this notion"],
          ["replace-one", "another record in its place"],
          ["add-remove", "the data without the record"],
        ],
      }),
    ),
  ];
}
