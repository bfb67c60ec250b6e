// Explain: what does ε mean, and which ε should we take?
import { address, write } from "./address.js";
import { post } from "./api.js";
import { Chart, roc } from "./charts.js";
import { delayed, element, fill, table } from "./dom.js";
import { Exports } from "./exporting.js";
import { Form, Invalid } from "./fields.js";
import { assumptions, figure, figures, meter, verdict } from "./figures.js";
import { percent, percentUp, plain, significant, sixDown, sixUp } from "./numbers.js";

export const title = "Explain";
export const heading = "What does a privacy setting mean, and which one should we take?";

const DEFAULTS = {
  mode: "meaning", notion: "epsilon", epsilon: "8", delta: "1e-5", gdp: "1", noise_multiplier: "1", sample_rate: "0.01", steps: "1000",
  accept: "accuracy", accept_accuracy: "55", accept_tpr: "5", accept_fpr: "1", accept_advantage: "0.1", accept_security: "0.9",
  fpr: "0.1, 0.01, 0.001", prior: "0.5", nu: "0.5", lam: "1", adjacency: "", scale: "linear",
};
/** Which fields are in sight. */
const ALWAYS = ["mode", "notion", "prior", "nu", "lam", "adjacency"];
const BY_NOTION = { epsilon: ["epsilon", "delta"], gdp: ["gdp", "delta"], sgd: ["noise_multiplier", "sample_rate", "steps", "delta"] };
const BY_ACCEPT = { accuracy: ["accept_accuracy"], tpr: ["accept_tpr", "accept_fpr"], advantage: ["accept_advantage"], security: ["accept_security"] };
const FOUND = ["epsilon", "noise_multiplier"];
const LADDER = [0.1, 0.25, 0.5, 1, 2, 4, 8, 16];
const PROMISES = [51, 52, 55, 60, 65, 75, 90];

/** A number of the page in percent as the share it stands for, without the dust of a division. */
const share = (value) => Number((value / 100).toFixed(14));

export function open(root, given) {
  const started = { ...DEFAULTS, ...given };
  const results = element("div", { class: "results", "aria-busy": "false" });
  const ladder = element("section", { class: "card", hidden: true });
  const curve = element("section", { class: "card", "aria-label": "Curve of the best attack", hidden: true });
  const chart = new Chart();
  const exports = new Exports();
  let control = new AbortController();
  let latest = null;
  let ladderKey = "";

  const form = new Form("The setting", started, Object.keys(DEFAULTS), (name) => {
    arrange();
    remember();
    if (name === "scale") drawCurve(); else soon();
  });

  function shownFields() {
    const choose = form.text("mode") === "choose";
    const notion = choose && form.text("notion") === "gdp" ? "epsilon" : form.text("notion");
    const accept = choose ? ["accept", ...BY_ACCEPT[form.text("accept")]] : [];
    const own = BY_NOTION[notion].filter((name) => !(choose && FOUND.includes(name)));
    const fpr = choose && form.text("accept") === "tpr" ? [] : ["fpr"];
    return [...ALWAYS, ...own, ...accept, ...fpr];
  }

  function arrange() {
    const choose = form.text("mode") === "choose";
    const gdp = form.groups.get("notion").querySelector('input[value="gdp"]');
    gdp.disabled = choose;
    if (choose && form.text("notion") === "gdp") form.set("notion", "epsilon");
    form.reveal(form.groups.keys(), shownFields().concat("scale"));
  }

  function remember() {
    const kept = {};
    for (const name of shownFields()) {
      if (form.text(name) !== DEFAULTS[name] || ["mode", "notion"].includes(name) || BY_NOTION[form.text("notion")].includes(name)) kept[name] = form.text(name);
    }
    if (form.text("scale") !== DEFAULTS.scale) kept.scale = form.text("scale");
    write("explain", kept);
  }

  /** The keyword arguments of `memberbound.explain`; defaults of the verb are left out. */
  function options() {
    const asked = {};
    const choose = form.text("mode") === "choose";
    const take = (name, optional = false) => {
      const value = form.number(name, { optional });
      if (value !== null) asked[name] = value;
    };
    if (choose) {
      const accept = form.text("accept");
      // “Right 55 % of the time” is η = 5 %; the decimal text is kept, not the dust of 0.55 - 0.5.
      if (accept === "accuracy") asked.target_eta = share(form.number("accept_accuracy") - 50);
      if (accept === "advantage") asked.target_advantage = form.number("accept_advantage");
      if (accept === "security") asked.target_security = form.number("accept_security");
      if (accept === "tpr") {
        asked.target_tpr = share(form.number("accept_tpr"));
        asked.fpr = [share(form.number("accept_fpr"))];
      }
      if (asked.target_eta !== undefined && !(asked.target_eta > 0 && asked.target_eta < 0.5)) {
        throw new Invalid("accept_accuracy", `“Right at most” must be above 50 % (a coin) and below 100 %, got ${form.text("accept_accuracy")} %.`);
      }
    }
    for (const name of BY_NOTION[form.text("notion")]) {
      if (!(choose && FOUND.includes(name))) take(name, name === "delta");
    }
    if (asked.steps !== undefined && !Number.isInteger(asked.steps)) throw new Invalid("steps", `Steps must be a whole number, got “${form.text("steps")}”.`);
    if (asked.fpr === undefined) {
      const rates = form.numbers("fpr");
      if (rates.length > 0 && rates.join() !== "0.1,0.01,0.001") asked.fpr = rates;
    }
    for (const [name, usual] of [["nu", 0.5], ["lam", 1], ["prior", 0.5]]) {
      const value = form.number(name);
      if (value !== usual) asked[name] = value;
    }
    if (form.text("adjacency")) asked.adjacency = form.text("adjacency");
    return asked;
  }

  async function calculate() {
    control.abort();
    control = new AbortController();
    const { signal } = control;
    let asked;
    try {
      asked = options();
    } catch (problem) {
      refuse(problem);
      return;
    }
    results.setAttribute("aria-busy", "true");
    try {
      const [answer, ceiling, same] = await Promise.all(["", "/roc", "/equivalents"].map((part) => post(`/api/explain${part}`, asked, signal)));
      if (signal.aborted) return;
      latest = { answer, ceiling, same };
      form.clear();
      show();
      compare(asked);
    } catch (problem) {
      if (problem.name !== "AbortError") refuse(problem);
    } finally {
      if (!signal.aborted) results.setAttribute("aria-busy", "false");
    }
  }

  function refuse(problem) {
    latest = null;
    form.refuse(problem);
    fill(results, element("p", { class: "empty" }, "No answer for these values; see the note beside the field."));
    curve.hidden = true;
    chart.hide();
    exports.hide();
    ladder.hidden = true;
  }

  function show() {
    const { answer, same } = latest;
    const blind = Math.max(answer.prior, 1 - answer.prior);
    const found = form.text("mode") === "choose";
    const setting = answer.notion === "DP-SGD"
      ? figure("noise_multiplier", "given", "=", significant(answer.noise_multiplier, 6, true), { label: found ? "Take a noise multiplier of" : null, big: found })
      : null;
    const quoted = answer.epsilon === null ? "no finite ε" : found && !setting ? significant(answer.epsilon, 6, false) : significant(answer.epsilon, 6, true);
    const derived = answer.notion !== "(ε, δ)-DP";
    const epsilon = figure("epsilon", derived ? "certified" : "given", derived ? "≤" : "=", quoted,
      { label: found && !setting ? `Take ε (at δ = ${plain(answer.delta)})` : `ε at δ = ${plain(answer.delta)}`, big: found && !setting });
    const accuracy = figure("accuracy_upper", "certified", "≤", percentUp(answer.accuracy_upper), { label: answer.prior === 0.5 ? "Right at most" : `Right at most, when ${percent(answer.prior)} were in`, big: true });
    fill(results,
      verdict(answer.sentence),
      meter(answer.accuracy_upper, blind, `On the way from blind guessing (${percent(blind)}) to always right: at most ${percentUp(answer.accuracy_upper)}.`),
      figures(
        found ? [setting ?? epsilon, accuracy] : accuracy,
        Object.entries(answer.tpr_upper).map(([fpr, value]) => figure("tpr_upper", "certified", "≤", percentUp(value), { label: `Members found, ${percent(Number(fpr))} of outsiders accused` })),
        figure("advantage_upper", "certified", "≤", sixUp(answer.advantage_upper)),
        figure("eta_upper", "certified", "≤", sixUp(answer.eta_upper)),
        figure("security_lower", "certified", "≥", sixDown(answer.security_lower)),
        answer.security_lower_iid === null ? null : figure("security_lower_iid", "certified", "≥", sixDown(answer.security_lower_iid)),
        figure("precision_upper", "certified", "≤", percentUp(answer.precision_upper)),
        found ? (setting ? epsilon : null) : [setting, epsilon]),
      found ? element("p", { class: "quiet" }, "Bounds are rounded up in the last digit shown, so the promise itself may look a hair above what you asked for.") : null,
      found ? null : element("p", { class: "next" }, "Too weak for you? ", element("a", { href: address("explain", { mode: "choose", notion: answer.notion === "DP-SGD" ? "sgd" : "epsilon", delta: form.text("delta"), ...(answer.notion === "DP-SGD" ? { sample_rate: form.text("sample_rate"), steps: form.text("steps") } : {}) }) }, "Find the setting for the promise you want to make.")),
      assumptions(answer));
    drawCurve();
    exports.show({ name: "memberbound-explain", sentence: answer.sentence, json: answer, chart, command: same.command, python: same.python });
  }

  function drawCurve() {
    if (!latest) return;
    const { answer, ceiling } = latest;
    curve.hidden = false;
    const log = form.text("scale") === "log";
    const points = Object.entries(answer.tpr_upper).map(([fpr, value]) => [Number(fpr), value]);
    chart.show(roc(ceiling, points, log),
      `Curve of the best possible attack, ${log ? "logarithmic" : "linear"} axes. ${points.map(([fpr, value]) => `Accusing ${percent(fpr)} of the outsiders finds at most ${percentUp(value)} of the members.`).join(" ")}`,
      "Every attack lies on or below the line. The further it bends away from the dotted diagonal, the more membership can be guessed.");
  }

  /** The same question at other settings, side by side. */
  async function compare(asked) {
    const choose = form.text("mode") === "choose";
    const useful = form.text("notion") === "epsilon" && (!choose || form.text("accept") === "accuracy");
    ladder.hidden = !useful;
    if (!useful) return;
    const { epsilon, target_eta: target, ...rest } = asked;
    const key = JSON.stringify([choose, rest]);
    const same = key === ladderKey;
    ladderKey = key;
    const { signal } = control;
    try {
      if (!same || !ladder.answers) {
        const questions = choose ? PROMISES.map((value) => ({ ...rest, target_eta: share(value - 50) })) : LADDER.map((value) => ({ ...rest, epsilon: value }));
        ladder.answers = null;
        // A promise that δ alone breaks has no ε; the row says so.
        const answers = await Promise.all(questions.map((question) => post("/api/explain", question, signal).catch((problem) => {
          if (problem.name === "AbortError") throw problem;
          return null;
        })));
        ladder.answers = answers;
      }
    } catch {
      ladderKey = "";
      return;
    }
    if (signal.aborted) return;
    const rows = ladder.answers.map((answer, index) => {
      const promise = PROMISES[index];
      const value = choose ? promise : LADDER[index];
      const nearest = answer && Object.keys(answer.tpr_upper).sort((a, b) => Math.abs(a - 0.01) - Math.abs(b - 0.01))[0];
      const use = element("button", { type: "button", class: "small", "aria-label": choose ? `Use ${promise} %` : `Use ε = ${value}`, onclick: () => {
        form.set(choose ? "accept_accuracy" : "epsilon", value);
        remember();
        calculate();
      } }, "Use");
      const current = choose ? target === share(promise - 50) : epsilon === value;
      if (!answer) return { current, cells: [choose ? `${promise} %` : `ε = ${value}`, "not possible at this δ", "", use] };
      const first = choose ? [`${promise} %`, `ε = ${significant(answer.epsilon, 4, false)}`] : [`ε = ${value}`, `≤ ${percentUp(answer.accuracy_upper)}`];
      return { current, cells: [...first, nearest ? `≤ ${percentUp(answer.tpr_upper[nearest])}` : "–", use] };
    });
    const near = Object.keys(ladder.answers.find(Boolean)?.tpr_upper ?? { 0.01: 0 }).sort((a, b) => Math.abs(a - 0.01) - Math.abs(b - 0.01))[0];
    const found = `members found, ${percent(Number(near))} of outsiders accused`;
    fill(ladder, element("h2", {}, choose ? "Which ε for which promise?" : "Other ε side by side"),
      choose
        ? table("Largest ε that keeps a promise", ["nobody is right more than", "largest ε", found, "take it"], rows)
        : table("What other values of ε allow", ["setting", "right at most", found, "take it"], rows));
  }

  const soon = delayed(calculate, 180);

  form.node.append(
    form.choice("mode", { label: "Your question", options: [["meaning", "What does our setting mean?"], ["choose", "Which setting should we take?"]] }),
    form.choice("notion", { label: "The setting is given as", help: "ε and δ are what most documents quote. DP-SGD parameters say more about a training run and usually give a better bound.", options: [["epsilon", "ε and δ"], ["gdp", "Gaussian DP μ"], ["sgd", "DP-SGD"]] }),
    form.choice("accept", { label: "We can accept that …", options: [["accuracy", "a guess is right"], ["tpr", "members are found"], ["advantage", "an advantage"], ["security", "a security MIS"]] }),
    form.numeric("accept_accuracy", { label: "Right at most", unit: "%", help: "50 % is tossing a coin. 55 % means: of 100 guesses, 55 are right on average.", slider: { from: 50.5, to: 99.5, digits: 2 } }),
    form.numeric("accept_tpr", { label: "Members found at most", unit: "%", help: "Share of the members that the best attack may find.", slider: { from: 0.1, to: 100, log: true } }),
    form.numeric("accept_fpr", { label: "… while accusing this share of outsiders", unit: "%", help: "Share of the outsiders that it may wrongly accuse (FPR).", slider: { from: 0.001, to: 50, log: true } }),
    form.numeric("accept_advantage", { label: "Advantage (TPR − FPR) at most", slider: { from: 0.01, to: 0.99 } }),
    form.numeric("accept_security", { label: "Security MIS at least", slider: { from: 0.01, to: 0.99 } }),
    form.numeric("epsilon", { label: "ε (epsilon)", help: "The strength of a differential-privacy guarantee. Smaller is safer; 0 tells nothing.", slider: { from: 0.01, to: 30, log: true } }),
    form.numeric("gdp", { label: "μ (Gaussian DP)", help: "Distance between the two bell curves the attacker has to tell apart. Smaller is safer.", slider: { from: 0.01, to: 10, log: true } }),
    form.numeric("noise_multiplier", { label: "Noise multiplier σ", help: "Standard deviation of the noise divided by the clipping norm. Larger is safer.", slider: { from: 0.3, to: 30, log: true } }),
    form.numeric("sample_rate", { label: "Sampling rate q", help: "Batch size divided by the number of records.", slider: { from: 1e-4, to: 1, log: true } }),
    form.numeric("steps", { label: "Steps", help: "Number of gradient steps of the whole training: epochs divided by the sampling rate.", slider: { from: 1, to: 1e5, log: true, digits: 2 } }),
    form.numeric("delta", { label: "δ (delta)", placeholder: "1e-5", help: "Chance that the guarantee fails altogether. It should be well below 1 divided by the number of people.", slider: { from: 1e-12, to: 1e-2, log: true, digits: 1 } }),
    form.textual("fpr", { label: "False-positive rates", help: "Shares of outsiders that an attacker may wrongly accuse, separated by commas. Small ones matter most: who accuses few people is believed.", placeholder: "0.1, 0.01, 0.001" }),
    element("details", { class: "more", open: Boolean(given.prior || given.nu || given.lam || given.adjacency) }, element("summary", {}, "More: prior, ν, λ, what “out” means"),
      form.numeric("prior", { label: "Prior", help: "Share of the candidates who were in. Changes how often a guess is right, not the curve.", slider: { from: 0.01, to: 0.99 } }),
      form.numeric("nu", { label: "ν (chance of a fresh person)", help: "Security MIS: how often the person in question was not in the training data.", slider: { from: 0.01, to: 0.99 } }),
      form.numeric("lam", { label: "λ (weight of a missed member)", help: "Security MIS: how bad it is to miss a member, compared with a false accusation.", slider: { from: 0.1, to: 10, log: true } }),
      form.select("adjacency", { label: "“Out” means", help: "Which of the two the guarantee was given for. Accountants of DP-SGD usually mean the second.", options: [["", "the usual one of the notion"], ["replace-one", "another record in its place"], ["add-remove", "the data without the record"]] })),
    form.problem);

  curve.append(
    element("div", { class: "headline" }, element("h2", {}, "The best possible attack"),
      form.choice("scale", { label: "Axes", options: [["linear", "linear"], ["log", "log–log"]] })),
    chart.node);
  root.append(
    element("div", { class: "columns2" },
      element("section", { class: "card", "aria-label": "Question" }, form.node),
      element("div", { class: "stack" },
        element("section", { class: "card answer", "aria-label": "Answer" }, results),
        ladder,
        curve,
        exports.node)));
  fill(results, element("p", { class: "empty" }, "Calculating …"));
  arrange();
  remember();
  calculate();
  return () => { soon.cancel(); control.abort(); chart.close(); };
}
