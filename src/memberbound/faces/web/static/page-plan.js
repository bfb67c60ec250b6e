// Plan: how many rows are enough?
import { keeping, list } from "./address.js";
import { post } from "./api.js";
import { Chart } from "./charts.js";
import { ColumnChooser } from "./columns.js";
import { asking, delayed, element, empty, fill } from "./dom.js";
import { madeUpPeople } from "./example.js";
import { Exports } from "./exporting.js";
import { Form, Invalid } from "./fields.js";
import { assumptions, figure, figures, verdict } from "./figures.js";
import { JobPanel } from "./jobs.js";
import { count } from "./numbers.js";
import { FilePanel } from "./uploads.js";

export const title = "Plan";
export const heading = "How many rows are enough?";

const DEFAULTS = {
  source: "uniform",
  uniform: "300",
  probabilities: "0.5, 0.3, 0.15, 0.05",
  security: "0.95",
  record_leak: "",
  confidence: "0.95",
  file: "",
  columns: "",
  job: "",
  nu: "0.5",
  lam: "1",
};
const BY_SOURCE = { uniform: ["uniform"], probabilities: ["probabilities"], file: ["confidence"] };

export function open(root, given) {
  const state = { ...DEFAULTS, ...given };
  let file = null;
  let control = new AbortController();
  const results = element("div", { class: "results" });
  const chart = new Chart();
  const exports = new Exports();
  const remember = keeping(
    "plan",
    DEFAULTS,
    () => ({ ...state, ...form.values }),
    () => ["source", "security", ...(BY_SOURCE[form.text("source")] ?? [])],
  );

  const form = new Form(
    "The target",
    state,
    ["source", "uniform", "probabilities", "security", "record_leak", "confidence", "nu", "lam"],
    (name) => {
      arrange();
      if (name === "source") forget();
      remember();
      if (form.text("source") === "file") job.outdated();
      else soon();
    },
  );
  const columns = new ColumnChooser("Columns that a model sees", () => {
    state.columns = columns.kept;
    remember();
    job.outdated();
  });
  const start = element("button", { type: "submit", class: "main", disabled: true }, "Calculate");
  const buttons = element("div", { class: "buttons" }, start);
  const panel = new FilePanel({
    title: "Choose a table",
    hint: "or drop a CSV, Parquet or Arrow file here. Its law is then learnt from its rows, at a price.",
    example: madeUpPeople,
    chosen: (found) => {
      if (found && found.file !== state.file) state.columns = "";
      file = found;
      state.file = found?.file ?? "";
      start.disabled = !found;
      columns.show(found?.columns ?? [], list(state.columns));
      remember();
    },
  });
  const job = new JobPanel({
    state,
    remember,
    found: (done) => {
      show(done.result);
      chart.hide();
      exports.of(done);
    },
  });
  const fromFile = element("div", { class: "stack" }, panel.node, columns.node);

  function arrange() {
    const source = form.text("source");
    form.reveal(["uniform", "probabilities", "confidence"], BY_SOURCE[source]);
    fromFile.hidden = source !== "file";
    buttons.hidden = source !== "file";
  }

  function forget() {
    job.clear();
    state.job = "";
    chart.hide();
    exports.hide();
    fill(
      results,
      empty(form.text("source") === "file" ? "Choose a table and press “Calculate”." : "Calculating …"),
    );
  }

  function options() {
    const asked = {};
    for (const name of ["security", "record_leak"]) {
      const value = form.number(name, { optional: true });
      if (value !== null) asked[name] = value;
    }
    if (Object.keys(asked).length === 0)
      throw new Invalid("security", "Give a security, a leak for the worst record, or both.");
    for (const [name, usual] of [
      ["nu", 0.5],
      ["lam", 1],
    ]) {
      const value = form.number(name);
      if (value !== usual) asked[name] = value;
    }
    const source = form.text("source");
    if (source === "uniform") {
      const atoms = form.number("uniform");
      if (!Number.isInteger(atoms) || atoms < 1)
        throw new Invalid(
          "uniform",
          `The number of cells must be a whole number from 1, got “${form.text("uniform")}”.`,
        );
      asked.uniform = atoms;
    }
    if (source === "probabilities") asked.probabilities = form.numbers("probabilities");
    if (source === "file") {
      const sure = form.number("confidence");
      if (sure !== 0.95) asked.confidence = sure;
      Object.assign(asked, columns.asked);
    }
    return asked;
  }

  function refuse(problem) {
    form.refuse(problem);
    chart.hide();
    exports.hide();
    fill(results, empty("No answer for these values; see the note beside the field."));
  }

  async function calculate() {
    control.abort();
    control = new AbortController();
    const { signal } = control;
    if (form.text("source") === "file") return;
    try {
      const asked = options();
      const [answer, same] = await Promise.all(
        ["", "/equivalents"].map((part) => post(`/api/plan${part}`, asked, signal)),
      );
      if (signal.aborted) return;
      form.clear();
      show(answer);
      exports.show({
        name: "memberbound-plan",
        sentence: answer.sentence,
        json: answer,
        chart,
        command: same.command,
        python: same.python,
      });
      const drawn = await post("/api/plan/chart", asked, signal);
      if (!signal.aborted) chart.show(drawn, "Certified numbers of rows for other targets; the other line is yours.");
    } catch (problem) {
      if (problem.name !== "AbortError") refuse(problem);
    }
  }

  function show(answer) {
    fill(
      results,
      verdict(answer.sentence),
      figures(
        figure(
          "n_required",
          "certified",
          answer.n_required === null ? "" : "≥",
          answer.n_required === null ? "no number certified" : count(answer.n_required),
          { big: true },
        ),
      ),
      assumptions(answer),
    );
  }

  form.node.addEventListener("submit", () => {
    if (form.text("source") !== "file") {
      calculate();
      return;
    }
    try {
      const asked = options();
      form.clear();
      fill(results);
      exports.hide();
      job.start("plan", file.file, asked);
    } catch (problem) {
      refuse(problem);
    }
  });

  const soon = delayed(calculate, 250);
  form.node.append(
    form.choice("source", {
      label: "The records",
      options: [
        ["uniform", "K equally likely kinds"],
        ["probabilities", "known frequencies"],
        ["file", "a table like ours"],
      ],
    }),
    form.numeric("uniform", {
      label: "Number of kinds K",
      help: "How many different records there are, all equally likely. 2 sexes × 5 age groups × 16 regions make 160.",
      slider: { from: 2, to: 1e5, log: true },
    }),
    form.textual("probabilities", {
      label: "Frequencies",
      rows: 3,
      help: "The probability of each kind of record, separated by commas or new lines. They add up to 1.",
    }),
    fromFile,
    form.numeric("security", {
      label: "Security MIS to reach",
      placeholder: "no target",
      help: "For the average row: 0.9 means that nobody is right more than 55 % of the time.",
      slider: { from: 0.5, to: 0.99 },
    }),
    form.numeric("record_leak", {
      label: "Leak allowed for the worst record",
      placeholder: "no target",
      help: "For every record, also the rarest.",
    }),
    form.numeric("confidence", {
      label: "Confidence",
      help: "How sure the answer is, over the chance of drawing these rows.",
      slider: { from: 0.8, to: 0.999, digits: 3 },
    }),
    element(
      "details",
      { class: "more", open: Boolean(given.nu || given.lam) },
      element("summary", {}, "More: ν, λ"),
      form.numeric("nu", { label: "ν (chance of a fresh person)", slider: { from: 0.01, to: 0.99 } }),
      form.numeric("lam", { label: "λ (weight of a missed member)", slider: { from: 0.1, to: 10, log: true } }),
    ),
    form.problem,
    buttons,
  );
  root.append(asking(form, [job.node, results, chart.node], exports.node));
  arrange();
  remember();
  const known = state.job;
  if (form.text("source") === "file") {
    fill(results, empty("Choose a table and press “Calculate”."));
    if (state.file) panel.recall(state.file);
    if (known) job.follow(known);
  } else {
    fill(results, empty("Calculating …"));
    calculate();
  }
  return () => {
    soon.cancel();
    control.abort();
    job.stop();
  };
}
