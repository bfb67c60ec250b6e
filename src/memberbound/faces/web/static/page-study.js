// Study: the whole examination of a learner on a table, and the viewer of its report.
import { keeping } from "./address.js";
import { get, post } from "./api.js";
import { MoreOptions } from "./arguments.js";
import { Chart } from "./charts.js";
import { count, element, empty, fill, notice, sides } from "./dom.js";
import { Exports, downloads } from "./exporting.js";
import { Form } from "./fields.js";
import { verdict } from "./figures.js";
import { JobPanel } from "./jobs.js";
import { TablePart } from "./table-part.js";
import { ReportDrop } from "./uploads.js";

export const title = "Study";
export const heading = "Study a table and a learner, or open a report";

const LEARNERS = ["logistic", "linear", "ridge", "svm", "naive-bayes", "tree", "random-forest", "boosting", "mlp", "knn"].map(
  (name) => [name, name],
);
const DEFAULTS = {
  data: "table",
  file: "",
  target: "",
  columns: "",
  roles: "",
  learner: "logistic",
  accept: "55",
  shadows: "64",
  confidence: "0.95",
  epsilon: "8",
  job: "",
  view: "",
};

export function open(root, given) {
  const state = { ...DEFAULTS, ...given };
  const results = element("div", { class: "results" });
  const chart = new Chart();
  const exports = new Exports();
  const frame = element("div", {});
  const viewing = element(
    "section",
    { class: "card", "aria-label": "Report", hidden: true },
    element("h2", {}, "The report"),
    frame,
  );
  const remember = keeping("study", DEFAULTS, () => ({ ...state, ...form.values }));
  const form = new Form(
    "What to study",
    state,
    ["data", "target", "learner", "accept", "epsilon", "shadows", "confidence"],
    (name) => {
      if (name === "target") table.choose();
      changed();
    },
  );
  const more = new MoreOptions("study", form, [
    ...["target", "learner", "eta", "epsilon", "shadows", "confidence", "columns", "roles"],
  ]);
  const start = element("button", { type: "submit", class: "main", disabled: true }, "Run the study");
  const missing = element("p", { class: "quiet", id: "study-needs" }, "Choose a table, or the sample, to begin.");
  start.setAttribute("aria-describedby", missing.id);

  const table = new TablePart({
    form,
    state,
    legend: "Columns that the learner sees",
    hint: "or drop a CSV, Excel, Parquet, Stata, SPSS or SAS file here. It stays on this machine.",
    aims: [
      {
        name: "target",
        label: "Column to predict",
        help: "The column that the learner predicts from the others.",
        required: true,
      },
    ],
    changed,
  });

  const own = () => form.text("data") !== "sample";

  /** Nothing runs until there is a table to run it on, and the sample only if it was chosen. */
  function arrange() {
    table.arrange(own());
    start.disabled = own() && !table.file;
    missing.hidden = !start.disabled;
  }

  function changed() {
    arrange();
    remember();
    job.outdated();
  }

  const job = new JobPanel({
    named: false,
    state,
    remember,
    finished: async (done) => {
      const files = downloads(done);
      let report = done.result;
      try {
        // The report as it was written; the answer of the verb adds names of files to it.
        if (done.files.some((each) => each.name === "report.json"))
          report = await get(`/api/jobs/${encodeURIComponent(done.job)}/files/report.json`);
        await show(report, { command: done.command, python: done.python, files });
      } catch (problem) {
        fill(results, notice("bad", problem.message));
      }
    },
  });

  form.starts(start, () => {
    const file = own() ? table.file : null;
    const asked = { learner: form.text("learner") };
    if (file) Object.assign(asked, { target: form.text("target") }, table.columns.asked);
    if (form.number("accept") !== 55) asked.eta = form.gain("accept");
    for (const [name, usual] of [
      ["shadows", 64],
      ["confidence", 0.95],
      ["epsilon", 8],
    ])
      if (form.number(name) !== usual) asked[name] = form.number(name);
    form.clear();
    hide();
    Object.assign(asked, more.asked);
    job.start("study", file?.file ?? null, asked);
  });

  /** Which table a verdict is about, as the report itself has it. */
  const studied = (data) =>
    data
      ? element(
          "p",
          { class: "about" },
          "Table: ",
          element("strong", {}, data.embedded ? "the sample, not yours" : data.name),
          ` — ${data.embedded ? `${data.name}, ` : ""}${count(data.rows)} rows, predicting ${data.target}`,
        )
      : null;

  function hide() {
    fill(results);
    chart.hide();
    exports.hide();
    viewing.hidden = true;
    fill(frame);
    state.view = "";
  }

  /** Show a report: its verdict and its sandwich here, the whole of it in a frame of its own. */
  async function show(report, { command = "", python = "", files = [] } = {}) {
    const { view, chart: drawn } = await post("/api/report", report);
    state.view = view;
    remember();
    showView(view);
    fill(
      results,
      studied(report.data),
      report.verdict ? verdict(report.verdict.sentence) : null,
      report.verdict?.advice ? element("p", {}, report.verdict.advice) : null,
      report.status && report.status !== "complete"
        ? notice("note", "This report is not complete; it says which step failed.")
        : null,
    );
    chart.show(drawn, "The most exposed record; the report has the average record as well.");
    exports.show({
      name: "report",
      sentence: report.verdict?.sentence ?? "",
      json: report,
      chart: drawn ? chart : null,
      command,
      python,
      files,
    });
  }

  function showView(view, leave = null) {
    viewing.hidden = false;
    fill(
      frame,
      element(
        "p",
        { class: "buttons" },
        leave ? element("button", { type: "button", onclick: leave }, "Run a study of your own") : null,
        element(
          "a",
          { href: `/api/views/${encodeURIComponent(view)}`, target: "_blank", rel: "noopener" },
          "Open the report in its own tab",
        ),
      ),
      element("iframe", {
        class: "report",
        src: `/api/views/${encodeURIComponent(view)}`,
        title: "The report",
        sandbox: "allow-scripts allow-downloads",
      }),
    );
  }

  const opening = new ReportDrop({
    begun: () => {
      job.clear();
      state.job = "";
      hide();
      remember();
    },
    show,
  });

  form.node.append(
    form.choice("data", {
      label: "Data",
      options: [
        ["table", "my own table"],
        ["sample", "the sample: 569 patients"],
      ],
    }),
    ...table.nodes,
    form.select("learner", { label: "Learner", options: LEARNERS }),
    form.numeric("accept", {
      label: "Nobody may be right more than",
      unit: "%",
      help: "The limit for which the study looks for a remedy: 55 % is 5 points above blind guessing, which is right 50 % of the time, and a little more often for an odd number of records.",
      slider: { from: 50.5, to: 75 },
    }),
    element(
      "details",
      { class: "more", open: ["epsilon", "shadows", "confidence"].some((name) => given[name]) },
      element("summary", {}, "More: ε, models trained"),
      form.numeric("epsilon", {
        label: "ε to translate",
        help: "The study also says what this ε would mean for these records.",
        slider: { from: 0.1, to: 30, log: true },
      }),
      form.numeric("shadows", {
        label: "Models trained for the audit",
        help: "More models make the audit more precise, and take longer.",
      }),
      form.numeric("confidence", { label: "Confidence", slider: { from: 0.8, to: 0.999, digits: 3 } }),
    ),
    more.node,
    form.problem,
    element("div", { class: "buttons" }, start),
    missing,
  );
  const question = element(
    "div",
    { class: "stack" },
    element(
      "section",
      { class: "card", "aria-labelledby": "run-study" },
      element("h2", { id: "run-study" }, "Run a study"),
      form.node,
    ),
    opening.node,
  );
  const forms = sides(question, "Answer", [job.node, results, chart.node], exports.node);
  root.append(element("div", { class: "stack" }, forms, viewing));
  arrange();
  fill(
    results,
    empty(
      "A study certifies the table, attacks the learner, looks for the cheapest remedy and writes a report. It takes a minute or two on the sample. Or open a report that you already have.",
    ),
  );
  if (state.file) table.panel.recall(state.file);
  if (state.job) job.follow(state.job);
  else if (state.view) {
    fetch(`/api/views/${encodeURIComponent(state.view)}`, { credentials: "same-origin" })
      .then((answer) => {
        if (answer.ok) {
          // Who was sent a report reads it; the forms are one click away.
          forms.hidden = true;
          showView(state.view, () => {
            forms.hidden = false;
            hide();
            remember();
            form.node.querySelector("input").focus();
          });
        } else {
          state.view = "";
          remember();
          fill(results, notice("note", "The server no longer has the report of this link. Open the file again."));
        }
      })
      .catch(() => {});
  }
  return () => {
    job.stop();
  };
}
