// Audit: what do real attacks reach on a model that exists?
import { keeping } from "./address.js";
import { Chart } from "./charts.js";
import { asking, element, empty, fill, table } from "./dom.js";
import { Exports } from "./exporting.js";
import { Form } from "./fields.js";
import { assumptions, figure, figures, verdict, warnings } from "./figures.js";
import { JobPanel } from "./jobs.js";
import { LEARNERS, MoreOptions } from "./more-options.js";
import { confident, count, decimals } from "./numbers.js";
import { FilePanel, MODELS } from "./uploads.js";

export const title = "Audit";
export const heading = "What do attacks on this model reach?";

const DEFAULTS = {
  source: "model",
  members: "",
  nonmembers: "",
  model: "",
  predictions: "",
  scores: "",
  target: "",
  learner: "",
  job: "",
};
/** What has to be sent, by what somebody has. */
const NEEDS = {
  model: ["members", "nonmembers", "model"],
  predictions: ["predictions"],
  scores: ["scores"],
};
const PANELS = {
  members: ["The training set", "The model's members, one per row: a table with the target column."],
  nonmembers: ["Fresh records", "Non-members: records of the same source that had no part in the model."],
  model: ["The model", "A .skops or .onnx file. Nothing in it is run."],
  predictions: ["Its predictions", "A table with the columns label, member and probability_<class>, logit_<class> or prediction."],
  scores: ["Scores of an attack", "A table with the columns score (higher: rather a member) and member (1 or 0)."],
};

/** What checkers of outputs look at: facts about the model file itself. */
const facts = (found) =>
  table(
    "Facts for output checking",
    ["fact", "found", "wanted", "result"],
    found.map((fact) => [fact.name, count(fact.value), fact.rule, fact.passes ? "ok" : fact.reason]),
  );

export function open(root, given) {
  const state = { ...DEFAULTS, ...given };
  const files = {};
  const results = element("div", { class: "results" });
  const details = element("div", { class: "results" });
  const chart = new Chart();
  const exports = new Exports();
  const remember = keeping("audit", DEFAULTS, () => ({ ...state, ...form.values }));
  const form = new Form("What to audit", state, ["source", "target", "learner"], () => {
    arrange();
    remember();
    job.outdated();
  });
  const more = new MoreOptions("audit", form, [
    ...["target", "learner", "nonmembers", "model", "predictions", "roles", "unit", "shadows"],
  ]);
  const aim = element("div", {});
  const start = element("button", { type: "submit", class: "main", disabled: true }, "Attack it");
  const missing = element("p", { class: "quiet", id: "audit-needs" });
  start.setAttribute("aria-describedby", missing.id);

  const panels = Object.fromEntries(
    Object.entries(PANELS).map(([name, [words, hint]]) => [
      name,
      new FilePanel({
        title: words,
        hint,
        accept: name === "model" ? MODELS : undefined,
        chosen: (found) => {
          if (name === "members") {
            if (found && found.file !== state.members) form.values.target = found.columns.at(-1)?.name ?? "";
            fill(
              aim,
              found &&
                form.select("target", {
                  label: "Column that the model predicts",
                  options: found.columns.map((column) => [column.name, column.name]),
                }),
            );
          }
          files[name] = found;
          state[name] = found?.file ?? "";
          arrange();
          remember();
          job.outdated();
        },
      }),
    ]),
  );

  function arrange() {
    const needed = NEEDS[form.text("source")];
    for (const [name, panel] of Object.entries(panels)) panel.node.hidden = !needed.includes(name);
    const model = form.text("source") === "model";
    aim.hidden = !model;
    form.reveal(["learner"], model ? ["learner"] : []);
    const left = needed.filter((name) => !files[name]).map((name) => PANELS[name][0].toLowerCase());
    start.disabled = left.length > 0;
    missing.hidden = !start.disabled;
    fill(missing, `Still missing: ${left.join(", ")}.`);
  }

  const job = new JobPanel({ named: false, state, remember, found: show });

  form.starts(start, () => {
    const source = form.text("source");
    const id = (name) => files[name].file;
    const asked = { ...more.asked };
    if (source === "model") {
      Object.assign(asked, { nonmembers: id("nonmembers"), model: id("model"), target: form.text("target") });
      if (form.text("learner")) asked.learner = form.text("learner");
    }
    if (source === "predictions") asked.predictions = id("predictions");
    form.clear();
    fill(results);
    fill(details);
    chart.hide();
    exports.hide();
    job.start("audit", { model: files.members, scores: files.scores }[source]?.file ?? null, asked);
  });

  function show(done) {
    const answer = done.result;
    const best = answer.best_advantage ?? answer.attacks[answer.best].advantage;
    // A floor at blind guessing or below says nothing.
    const between = (found, blind) =>
      [
        `≈ ${decimals(found.estimate, "estimate", 3)}`,
        found.lower > blind ? `≥ ${decimals(found.lower, "lower", 3)}` : "no floor above blind guessing",
      ].join(", ");
    fill(
      results,
      verdict(answer.sentence, "measured"),
      warnings(answer),
      figures(
        figure("attack_advantage", "estimated", "≈", decimals(best.estimate, "estimate", 3)),
        best.lower > 0
          ? figure("attack_floor", "measured", "≥", decimals(best.lower, "lower", 3))
          : figure(
              "attack_floor",
              "unproved",
              "",
              answer.comparable === false ? "no floor: not comparable" : "no more than blind guessing is shown",
            ),
        answer.records?.recognised === undefined
          ? null
          : figure("recognised", "measured", "=", count(answer.records.recognised), {
              label: `Members named, of ${count(answer.records.tried)} tried`,
            }),
      ),
    );
    fill(
      details,
      table(
        `Each attack; the floors hold with confidence ${confident(answer.confidence)}, each on its own`,
        ["attack", "AUC", "advantage (TPR − FPR)"],
        Object.entries(answer.attacks).map(([name, found]) => [name, between(found.auc, 0.5), between(found.advantage, 0)]),
      ),
      answer.facts?.length ? facts(answer.facts) : null,
      assumptions(answer),
    );
    chart.show(
      done.charts.attacks,
      "Circles are estimates, triangles pointing right are measured floors; the dotted line is blind guessing. Nothing here is a ceiling.",
    );
    exports.of(done, chart);
  }

  form.node.append(
    form.choice("source", {
      label: "What do you have?",
      options: [
        ["model", "a model file"],
        ["predictions", "its predictions"],
        ["scores", "scores of an attack"],
      ],
    }),
    ...Object.values(panels).map((panel) => panel.node),
    aim,
    form.select("learner", {
      label: "Reference models",
      help: "Models of this kind are trained on the records sent, to compare with: slower, and often a stronger attack.",
      options: [["", "none"], ...LEARNERS],
    }),
    more.node,
    form.problem,
    element("div", { class: "buttons" }, start),
    missing,
  );
  root.append(asking(form, [job.node, results, chart.node, details], exports.node));
  arrange();
  fill(
    results,
    empty(
      "Known attacks are tried on the model as it is: its training set against fresh records. What they reach is a floor, never a promise; “Protect” gives promises. A learner that is not trained yet is examined under “Study”.",
    ),
  );
  for (const name of NEEDS[form.text("source")]) if (state[name]) panels[name].recall(state[name]);
  if (state.job) job.follow(state.job);
  return () => {
    job.stop();
  };
}
