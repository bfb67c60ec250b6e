// Table: is this table safe to train on, whatever the model? How coarse must it be?
import { keeping, list } from "./address.js";
import { Chart } from "./charts.js";
import { ColumnChooser } from "./columns.js";
import { element, empty, fill, sides } from "./dom.js";
import { madeUpPeople } from "./example.js";
import { Exports } from "./exporting.js";
import { Form } from "./fields.js";
import { JobPanel } from "./jobs.js";
import { MoreOptions } from "./more-options.js";
import { count } from "./numbers.js";
import { certificate, costOf, hardening, many } from "./table-answers.js";
import { certifyFields, hardenFields } from "./table-fields.js";
import { FilePanel } from "./uploads.js";

export const title = "Table";
export const heading = "Is this table safe to train on, whatever the model?";

const DEFAULTS = {
  file: "",
  columns: "",
  n: "",
  confidence: "0.95",
  nu: "0.5",
  lam: "1",
  exposed_above: "0.5",
  unit: "",
  certify: "",
  security: "0.9",
  record_leak: "",
  target: "",
  keep: "",
  harden: "",
};
const LISTED = 10;
const WORDS = {
  "hardened.csv": "Coarser table, CSV",
  "hardened.parquet": "Coarser table, Parquet",
  "recipe.json": "Recipe",
};

export function open(root, given) {
  const state = { ...DEFAULTS, ...given };
  let file = null;
  const remember = keeping("table", DEFAULTS, () => ({ ...state, ...form.values, ...coarse.values }));

  const certified = element("div", { class: "results" });
  const leaks = new Chart();
  const exports = new Exports();
  const hardened = element("div", { class: "results" });
  const preview = element("div", { class: "preview", "aria-live": "polite" });
  const effect = new Chart();
  const frontier = new Chart();
  const hardExports = new Exports();

  const form = new Form("What a model sees", state, ["n", "confidence", "nu", "lam", "exposed_above", "unit"], () => {
    remember();
    job.outdated();
  });
  const coarse = new Form("How safe it must become", state, ["security", "record_leak", "target"], () => {
    remember();
    hardJob.outdated();
    showPreview();
  });
  const more = new MoreOptions("certify", form, [
    ...["columns", "n", "confidence", "nu", "lam", "exposed_above", "unit", "list_exposed", "uniform"],
  ]);
  const moreCoarse = new MoreOptions("harden", coarse, ["security", "record_leak", "target", "keep", "confidence"]);
  const unit = element("div", {});
  const aim = element("div", {});
  const keep = new ColumnChooser("Columns that must stay as they are", () => {
    state.keep = keep.names.length ? JSON.stringify(keep.names) : "";
    remember();
    hardJob.outdated();
  });
  const columns = new ColumnChooser("Columns that a model sees", () => {
    state.columns = columns.kept;
    remember();
    job.outdated();
  });
  const start = element("button", { type: "submit", class: "main", disabled: true }, "Certify this table");
  const begin = element("button", { type: "submit", class: "main", disabled: true }, "Make it coarser");

  const panel = new FilePanel({
    title: "Choose a table",
    hint: "or drop a CSV, Parquet or Arrow file here. It stays on this machine.",
    example: madeUpPeople,
    chosen: (found) => {
      const changed = found?.file !== state.file;
      file = found;
      state.file = found?.file ?? "";
      start.disabled = begin.disabled = !found;
      if (found === null || changed) {
        if (changed && found) {
          state.columns = "";
          state.keep = "";
          form.values.unit = "";
          coarse.values.target = "";
        }
        forget("certify");
        forget("harden");
      }
      arrange();
      remember();
    },
  });

  function forget(which) {
    state[which] = "";
    if (which === "certify") {
      job.clear();
      showEmpty();
      leaks.hide();
      exports.hide();
    } else {
      hardJob.clear();
      showTarget();
      effect.hide();
      frontier.hide();
      hardExports.hide();
      fill(preview);
      latest = null;
    }
  }

  function arrange() {
    const found = file?.columns ?? [];
    columns.show(found, list(state.columns), { rows: file?.rows });
    keep.show(found, list(state.keep) ?? []);
    const named = found.map((column) => [column.name, column.name]);
    fill(
      unit,
      form.select("unit", {
        label: "Whose row is it?",
        help: "A column that names the person. Several rows of one person then count as one record.",
        options: [["", "every row is another person"], ...named],
      }),
    );
    fill(
      aim,
      coarse.select("target", {
        label: "Keep most information about",
        help: "The column that a model will predict. Without one, the whole row counts.",
        options: [["", "the whole row"], ...named],
      }),
    );
  }

  function showEmpty() {
    fill(
      certified,
      empty(
        "Choose a table and press “Certify this table”. You will see how often anybody can be right about who is in it, for every model that could be trained on it, and which rows stand out.",
      ),
    );
  }

  function showTarget() {
    fill(
      hardened,
      empty(
        "Set a target and press “Make it coarser” to see what it costs; the coarser table and its recipe can then be downloaded.",
      ),
    );
  }

  const job = new JobPanel({ state, remember, key: "certify", found: showCertificate });
  const hardJob = new JobPanel({ state, remember, key: "harden", found: showHardened });
  let latest = null;

  function settings(source, names) {
    const asked = {};
    for (const [name, usual] of names) {
      const value = source.number(name, { optional: usual === null });
      if (value !== null && value !== usual) asked[name] = value;
    }
    return asked;
  }

  form.starts(start, () => {
    const asked = settings(form, [
      ["n", null],
      ["confidence", 0.95],
      ["nu", 0.5],
      ["lam", 1],
      ["exposed_above", 0.5],
    ]);
    Object.assign(asked, columns.asked, more.asked);
    if (form.text("unit")) asked.unit = form.text("unit");
    else asked.list_exposed = LISTED;
    form.clear();
    fill(certified);
    leaks.hide();
    exports.hide();
    job.start("certify", file.file, asked);
  });

  coarse.starts(begin, () => {
    const asked = settings(coarse, [
      ["security", null],
      ["record_leak", null],
    ]);
    if (coarse.text("target")) asked.target = coarse.text("target");
    if (keep.names.length > 0) asked.keep = keep.names;
    Object.assign(asked, moreCoarse.asked);
    const sure = form.number("confidence");
    if (sure !== 0.95) asked.confidence = sure;
    coarse.clear();
    fill(hardened);
    effect.hide();
    frontier.hide();
    hardExports.hide();
    latest = null;
    fill(preview);
    hardJob.start("harden", file.file, asked);
  });

  function showCertificate(done) {
    const answer = done.result;
    fill(certified, certificate(answer));
    leaks.show(
      done.charts.leaks,
      `How many ${many(answer.unit)} may leak how much. Those at 1 stand alone: a model could give them away completely.`,
    );
    exports.of(done, done.charts.leaks ? leaks : null);
  }

  function showHardened(done) {
    const answer = done.result;
    latest = done;
    fill(hardened, hardening(answer));
    effect.show(done.charts.leaks, "How much the rows leak at most, before and after.");
    frontier.show(done.charts.frontier, "An estimate from the rows that served to find the recipe.");
    hardExports.of(done, effect, WORDS);
    showPreview();
  }

  /** Where the slider stands on the estimated frontier of the last run. */
  function showPreview() {
    if (!latest) return;
    fill(preview, costOf(latest.result, coarse.text("security")));
  }

  form.node.append(
    columns.node,
    certifyFields(form, given, unit),
    more.node,
    form.problem,
    element("div", { class: "buttons" }, start),
  );
  coarse.node.append(
    ...hardenFields(coarse),
    moreCoarse.node,
    aim,
    keep.node,
    coarse.problem,
    element("div", { class: "buttons" }, begin),
  );

  const step = (number, id, words, ...nodes) =>
    element(
      "section",
      { class: "card", "aria-labelledby": id },
      element("h2", { id, class: "step", "data-step": number }, words),
      nodes,
    );
  root.append(
    element(
      "div",
      { class: "stack" },
      sides(
        step("1", "step-certify", "The table as it is", panel.node, form.node),
        "Certificate",
        [job.node, certified, leaks.node],
        exports.node,
      ),
      sides(
        step(
          "2",
          "step-harden",
          "Make it safe",
          element(
            "p",
            { class: "quiet" },
            "Finds coarser columns until the certificate holds, keeping as much information as it can. Works on all columns of the table.",
          ),
          coarse.node,
        ),
        "Coarser table",
        [hardJob.node, hardened, effect.node, preview, frontier.node],
        hardExports.node,
      ),
    ),
  );
  arrange();
  showEmpty();
  showTarget();
  if (state.file) panel.recall(state.file);
  if (state.certify) job.follow(state.certify);
  if (state.harden) hardJob.follow(state.harden);
  return () => {
    job.stop();
    hardJob.stop();
  };
}
