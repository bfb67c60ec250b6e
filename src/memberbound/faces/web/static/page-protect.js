// Protect: a model or a statistic with just enough noise, and the file to release.
import { keeping } from "./address.js";
import { Chart } from "./charts.js";
import { asking, element, empty, fill, notice } from "./dom.js";
import { madeUpPeople } from "./example.js";
import { Exports } from "./exporting.js";
import { Form } from "./fields.js";
import { assumptions, ceiling, figure, figures, meter, security, verdict, warnings } from "./figures.js";
import { JobPanel } from "./jobs.js";
import { LEARNERS, MoreOptions } from "./more-options.js";
import { about, atMostInWords, count, percent, percentUp, plain, significant, sixUp } from "./numbers.js";
import { TargetTable } from "./target-table.js";
import { BoundsFile } from "./uploads.js";

export const title = "Protect";
export const heading = "Release a model that hides who trained it";

const DEFAULTS = {
  file: "",
  what: "model",
  target: "",
  learner: "logistic",
  statistic: "mean",
  accept: "55",
  record: "every",
  bounds: "",
  columns: "",
  roles: "",
  job: "",
};
const FILES = {
  "release.skops": "The model",
  "release.safetensors": "The statistic",
  "release.skops.certificate.json": "Its certificate",
  "release.safetensors.certificate.json": "Its certificate",
  "bounds.yaml": "The bounds",
};

export function open(root, given) {
  const state = { ...DEFAULTS, ...given };
  const results = element("div", { class: "results" });
  const chart = new Chart();
  const exports = new Exports();
  const remember = keeping("protect", DEFAULTS, () => ({ ...state, ...form.values }));
  const form = new Form(
    "What to release",
    state,
    ["what", "target", "learner", "statistic", "accept", "record", "bounds"],
    (name) => {
      if (name === "what" || name === "target") table.choose();
      changed();
    },
  );
  const more = new MoreOptions("protect", form, [
    ...["target", "learner", "statistic", "eta", "record", "columns", "roles"],
  ]);
  const start = element("button", { type: "submit", class: "main", disabled: true }, "Protect");
  const model = () => form.text("what") === "model";
  const table = new TargetTable({
    form,
    state,
    legend: "Columns to use",
    hint: "or drop a CSV, Parquet or Arrow file here: one record per row. It stays on this machine.",
    help: "What the model learns to say from the other columns.",
    example: madeUpPeople,
    predicts: model,
    chosen: (found) => {
      start.disabled = !found;
      bounds.about(found);
    },
    changed,
  });
  const bounds = new BoundsFile((text) => {
    form.set("bounds", text);
    remember();
    job.outdated();
  });

  function arrange() {
    form.reveal(["learner", "statistic"], [model() ? "learner" : "statistic"]);
    table.arrange();
  }

  function changed() {
    arrange();
    remember();
    job.outdated();
  }

  const job = new JobPanel({ state, remember, found: show });

  form.starts(start, () => {
    const asked = model()
      ? { target: form.text("target"), learner: form.text("learner") }
      : { statistic: form.text("statistic") };
    if (form.number("accept") !== 55) asked.eta = form.gain("accept");
    if (form.text("record") !== "every") asked.record = form.text("record");
    if (form.text("bounds")) asked.bounds = `${form.text("bounds")}\n`;
    Object.assign(asked, table.columns.asked, more.asked);
    form.clear();
    fill(results);
    chart.hide();
    exports.hide();
    job.start("protect", table.file.file, asked);
  });

  function show(done) {
    const answer = done.result;
    const { upper, blind } = done.plots.success;
    const read = answer.curve;
    const score = (value, words) =>
      value === null || value === undefined
        ? null
        : figure("score", "estimated", "≈", about(value), { label: `${answer.score[0].toUpperCase()}${answer.score.slice(1)} ${words}` });
    fill(
      results,
      verdict(answer.sentence),
      meter(upper, blind, `On the way from blind guessing to always right: ${atMostInWords(upper)}.`),
      warnings(answer),
      figures(
        ceiling("accuracy_upper", upper, percentUp, { big: true }),
        read && ceiling("advantage_upper", read.replace_one.advantage_upper, sixUp),
        read &&
          Object.entries(read.replace_one.tpr_upper).map(([fpr, value]) =>
            ceiling("tpr_upper", value, percentUp, { label: `Members found, ${percent(Number(fpr))} of non-members accused` }),
          ),
        Object.entries(answer.guess_upper ?? {}).map(([before, value]) =>
          ceiling("guess_upper", value, percentUp, { label: `A guess right ${percent(Number(before))} of the time before` }),
        ),
        read && security("security_lower", read.security_lower),
        read &&
          figure("epsilon", "certified", "≤", significant(read.replace_one.epsilon_upper, "upper"), {
            label: `ε at δ = ${plain(read.delta)}`,
          }),
        score(answer.score_clean, "without noise"),
        score(answer.score_released, "as released"),
        score(answer.score_baseline, "of a constant answer"),
      ),
      element(
        "p",
        { class: "quiet" },
        `${answer.what}, made from ${count(answer.rows_trained)} rows; method: ${answer.method}.`,
      ),
      assumptions(answer),
    );
    chart.show(done.charts.roc, "No attack on this release gets above the curve; the dotted line is blind guessing.");
    exports.of(done, done.charts.roc ? chart : null, FILES);
  }

  form.node.append(
    table.panel.node,
    form.choice("what", {
      label: "What is released",
      options: [
        ["model", "a model"],
        ["statistic", "a statistic"],
      ],
    }),
    table.aim,
    form.select("learner", {
      label: "Learner",
      help: "Logistic, ridge, linear, SVM and boosting have a form that trains on all rows; the others are trained on a secret half of a public table.",
      options: LEARNERS,
    }),
    form.select("statistic", {
      label: "Statistic",
      options: ["mean", "sum", "histogram", "contingency", "covariance", "quantiles"].map((name) => [name, name]),
    }),
    form.numeric("accept", {
      label: "Nobody may be right more than",
      unit: "%",
      help: "About membership, counted from blind guessing: 55 % is 5 points above it.",
      slider: { from: 50.5, to: 75 },
    }),
    form.choice("record", {
      label: "Whom to protect",
      help: "Every single record, also the most unusual one, or the average record only.",
      options: [
        ["every", "every record"],
        ["average", "the average record"],
      ],
    }),
    form.textual("bounds", {
      label: "What is public about the columns",
      help: "Ranges of numbers and lists of categories that you would know without the table; never its own smallest or largest value, because this text counts as published. What is left out is learnt with noise, which costs a part of the protection.",
      rows: 5,
      placeholder: "age: [0, 120]\nsex: [F, M]",
    }),
    bounds.node,
    table.columns.node,
    more.node,
    form.problem,
    element("div", { class: "buttons" }, start),
  );
  root.append(asking(form, [job.node, results, chart.node], exports.node));
  arrange();
  fill(
    results,
    empty("Choose a table and press “Protect”. You will get a model file with its certificate: nobody who sees the model is right about anybody's membership more often than you allow; what that somebody may know is stated with it."),
    notice("note", "Each release from the same table adds to what the others give away. Decide first, then release once."),
  );
  if (state.file) table.panel.recall(state.file);
  if (state.job) job.follow(state.job);
  return () => {
    job.stop();
  };
}
