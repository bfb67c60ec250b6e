// Table: is this table safe to train on, whatever the model? How coarse must it be?
import { list, write } from "./address.js";
import { Chart, histogram, leaksBeforeAfter, lines } from "./charts.js";
import { element, fill, table } from "./dom.js";
import { madeUpPeople } from "./example.js";
import { Exports } from "./exporting.js";
import { Form } from "./fields.js";
import { assumptions, figure, figures, meter, verdict, warnings } from "./figures.js";
import { JobPanel } from "./jobs.js";
import { about, bytes, count, percent, percentUp, sixDown, sixUp } from "./numbers.js";
import { ofCertify, ofHarden } from "./sentences.js";
import { ColumnChooser, FilePanel } from "./uploads.js";

export const title = "Table";
export const heading = "Is this table safe to train on, whatever the model?";

const DEFAULTS = { file: "", columns: "", n: "", confidence: "0.95", nu: "0.5", lam: "1", exposed_above: "0.5", unit: "", certify: "", security: "0.9", record_leak: "", target: "", keep: "", harden: "" };
const LISTED = 10;

export function open(root, given) {
  const state = { ...DEFAULTS, ...given };
  let file = null;
  const remember = () => write("table", Object.fromEntries(Object.entries({ ...state, ...form.values, ...coarse.values }).filter(([name, value]) => value !== DEFAULTS[name] && name in DEFAULTS)));

  const certified = element("div", { class: "results" });
  const leaks = new Chart(320);
  const exports = new Exports();
  const hardened = element("div", { class: "results" });
  const preview = element("div", { class: "preview", "aria-live": "polite" });
  const effect = new Chart(300);
  const frontier = new Chart(320);
  const hardExports = new Exports();

  const form = new Form("What a model sees", state, ["n", "confidence", "nu", "lam", "exposed_above", "unit"], () => { remember(); job.outdated(); });
  const coarse = new Form("How safe it must become", state, ["security", "record_leak", "target"], () => { remember(); hardJob.outdated(); showPreview(); });
  const pick = element("div", {});
  const unit = element("div", {});
  const aim = element("div", {});
  const keep = new ColumnChooser("Columns that must stay as they are", () => { state.keep = keep.names.length ? JSON.stringify(keep.names) : ""; remember(); hardJob.outdated(); });
  const columns = new ColumnChooser("Columns that a model sees", () => { state.columns = columns.all ? "" : JSON.stringify(columns.names); remember(); job.outdated(); });
  const start = element("button", { type: "submit", class: "main", disabled: true }, "Certify this table");
  const begin = element("button", { type: "submit", class: "main", disabled: true }, "Make it coarser");

  const panel = new FilePanel({
    title: "Choose a table", hint: "or drop a CSV, Parquet or Arrow file here. It stays on this machine.", example: madeUpPeople,
    chosen: (found) => {
      const changed = found?.file !== state.file;
      file = found;
      state.file = found?.file ?? "";
      start.disabled = begin.disabled = !found;
      if (found === null || changed) {
        if (changed && found) { state.columns = ""; state.keep = ""; form.values.unit = ""; coarse.values.target = ""; }
        forget("certify");
        forget("harden");
      }
      arrange();
      remember();
    },
  });

  function forget(which) {
    state[which] = "";
    if (which === "certify") { job.clear(); showEmpty(); leaks.hide(); exports.hide(); }
    else { hardJob.clear(); showTarget(); effect.hide(); frontier.hide(); hardExports.hide(); fill(preview); latest = null; }
  }

  function arrange() {
    const found = file?.columns ?? [];
    columns.show(found, list(state.columns));
    keep.show(found, list(state.keep) ?? []);
    const named = found.map((column) => [column.name, column.name]);
    fill(unit, form.select("unit", { label: "Whose row is it?", help: "A column that names the person. Several rows of one person then count as one record.", options: [["", "every row is another person"], ...named] }));
    fill(aim, coarse.select("target", { label: "Keep most information about", help: "The column that a model will predict. Without one, the whole row counts.", options: [["", "the whole row"], ...named] }));
  }

  function showEmpty() {
    fill(certified, element("p", { class: "empty" }, "Choose a table and press “Certify this table”. You will see how often anybody can be right about who is in it, for every model that could be trained on it, and which rows stand out."));
  }

  function showTarget() {
    fill(hardened, element("p", { class: "empty" }, "Set a target and press “Make it coarser” to see what it costs; the coarser table and its recipe can then be downloaded."));
  }

  const job = new JobPanel({ changed: (id) => { state.certify = id; remember(); }, found: showCertificate });
  const hardJob = new JobPanel({ changed: (id) => { state.harden = id; remember(); }, found: showHardened });
  let latest = null;

  function settings(source, names) {
    const asked = {};
    for (const [name, usual] of names) {
      const value = source.number(name, { optional: usual === null });
      if (value !== null && value !== usual) asked[name] = value;
    }
    return asked;
  }

  form.node.addEventListener("submit", () => {
    try {
      const asked = settings(form, [["n", null], ["confidence", 0.95], ["nu", 0.5], ["lam", 1], ["exposed_above", 0.5]]);
      Object.assign(asked, columns.asked);
      if (form.text("unit")) asked.unit = form.text("unit");
      else asked.list_exposed = LISTED;
      form.clear();
      fill(certified);
      leaks.hide();
      exports.hide();
      job.start("certify", file.file, asked);
    } catch (problem) {
      form.refuse(problem);
    }
  });

  coarse.node.addEventListener("submit", () => {
    try {
      const asked = settings(coarse, [["security", null], ["record_leak", null]]);
      if (coarse.text("target")) asked.target = coarse.text("target");
      if (keep.names.length > 0) asked.keep = keep.names;
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
    } catch (problem) {
      coarse.refuse(problem);
    }
  });

  function showCertificate(done) {
    const answer = done.result;
    const leak = answer.record_leak;
    const limit = leak.exposed_above ?? 0.5;
    fill(certified,
      verdict(ofCertify(answer)),
      meter(Math.min(1, answer.accuracy_upper), Math.max(answer.nu, answer.lam * (1 - answer.nu)), `On the way from blind guessing to always right: at most ${percentUp(Math.min(1, answer.accuracy_upper))}.`),
      warnings(answer),
      figures(
        figure("table_accuracy_upper", "certified", "≤", percentUp(Math.min(1, answer.accuracy_upper)), { big: true }),
        figure("table_security_lower", "certified", "≥", sixDown(answer.security_lower)),
        figure("delta_upper", "certified", "≤", sixUp(answer.delta_upper)),
        answer.delta_plug_in_estimate === null ? null : figure("delta_plug_in_estimate", "estimated", "≈", about(answer.delta_plug_in_estimate)),
        figure("record_leak_median", "certified", "≤", sixUp(leak.median)),
        figure("record_leak_p99", "certified", "≤", sixUp(leak.p99)),
        figure("record_leak_max", "certified", "≤", sixUp(leak.max)),
        leak.exposed_rows === null ? null : figure("exposed_rows", "certified", "≤", count(leak.exposed_rows), { label: `Rows that may leak more than ${limit}` })),
      element("p", { class: "quiet" }, `${count(answer.rows)} rows fall into ${count(answer.atoms)} different cells; method: ${answer.method}; confidence ${percent(answer.confidence)}.`),
      exposed(answer),
      assumptions(answer));
    const plot = done.plots?.record_leak;
    if (plot) {
      leaks.show(histogram(plot.edges, plot.rows, limit),
        `Histogram of the certified leak of the rows: half of them leak at most ${sixUp(leak.median)}, the worst at most ${sixUp(leak.max)}; ${count(leak.exposed_rows ?? 0)} rows may leak more than ${limit}.`,
        "How many rows may leak how much. Rows at 1 stand alone: a model could give them away completely.");
    }
    exports.show({ name: "memberbound-certify", sentence: ofCertify(answer), json: answer, chart: plot ? leaks : null, command: done.command, python: done.python });
  }

  function exposed(answer) {
    const cells = answer.exposed_cells ?? [];
    if (cells.length === 0) return answer.record_leak.exposed_rows ? null : element("p", {}, "No row is exposed above the limit.");
    const names = Object.keys(cells[0].values);
    return element("div", {}, element("h3", {}, "The rarest exposed rows"),
      table(`The ${cells.length} rarest combinations of values; sensitive: these rows stand out`, ["rows", "leak", ...names],
        cells.map((cell) => [count(cell.rows), `≤ ${sixUp(cell.leak_upper)}`, ...names.map((name) => (cell.values[name] === null ? "(missing)" : String(cell.values[name])))])));
  }

  function showHardened(done) {
    const answer = done.result;
    latest = done;
    const { before, after } = answer;
    const row = (name, pick) => [name, pick(before), pick(after)];
    const scores = answer.accuracy_estimate?.after ?? {};
    fill(hardened,
      verdict(ofHarden(answer)),
      warnings(answer),
      figures(
        figure("table_accuracy_upper", "certified", "≤", percentUp(Math.min(1, after.accuracy_upper)), { big: true }),
        figure("table_security_lower", "certified", "≥", sixDown(after.security_lower)),
        figure("record_leak_max", "certified", "≤", sixUp(after.record_leak.max)),
        answer.information_kept_estimate === null ? null : figure("information_kept_estimate", "estimated", "≈", `${Math.round(answer.information_kept_estimate * 100)} %`)),
      table("Before and after", ["", "before", "after"], [
        row("different cells", (side) => count(side.atoms)),
        row("rows", (side) => count(side.rows)),
        row("right at most (certified)", (side) => `≤ ${percentUp(Math.min(1, side.accuracy_upper))}`),
        row("leak Δ, any learner (certified)", (side) => `≤ ${sixUp(side.delta_upper)}`),
        row("row leak, worst row (certified)", (side) => `≤ ${sixUp(side.record_leak.max)}`),
        row("exposed rows (certified)", (side) => `≤ ${count(side.record_leak.exposed_rows)}`),
        ...Object.keys(scores).map((name) => [`accuracy of ${name} (estimate)`, about2(answer.accuracy_estimate.before?.[name]), about2(scores[name])]),
      ]),
      element("h3", {}, "What was made coarser"),
      element("ul", { class: "steps" }, answer.steps.map((text) => element("li", {}, text))),
      element("p", { class: "quiet" }, `${count(answer.rows_fitted)} rows served to find the recipe and are not released; ${count(answer.rows_released)} are.`),
      assumptions(answer));
    const { record_leak_before: leakBefore, record_leak_after: leakAfter } = done.plots ?? {};
    if (leakBefore && leakAfter) {
      effect.show(leaksBeforeAfter(leakBefore, leakAfter),
        `Leak of the rows before and after: the worst row leaked at most ${sixUp(before.record_leak.max)} before and leaks at most ${sixUp(after.record_leak.max)} now.`,
        "How much the rows leak at most, before and after.");
    }
    const files = done.files.map((each) => ({ name: each.name, words: `${wordsOf(each.name)} (${bytes(each.bytes)})`, href: `/api/jobs/${encodeURIComponent(done.job)}/files/${encodeURIComponent(each.name)}` }));
    hardExports.show({ name: "memberbound-harden", sentence: ofHarden(answer), json: answer, chart: effect, command: done.command, python: done.python, files });
    showPreview();
  }

  /** Where the slider stands on the estimated frontier of the last run. */
  function showPreview() {
    if (!latest) return;
    const points = latest.result.frontier_estimate.filter((point) => point.security !== null).sort((a, b) => a.security - b.security);
    if (points.length === 0) { frontier.hide(); fill(preview); return; }
    const aimed = Number(coarse.text("security"));
    const most = Math.max(...points.map((point) => point.information)) || 1;
    const reached = points.filter((point) => point.security >= aimed);
    const best = Math.max(0, ...reached.map((point) => point.information / most));
    frontier.show(lines([{ name: "estimate from the fitting rows", x: points.map((point) => point.security), y: points.map((point) => point.information / most), tone: "estimated", dash: "dash" }],
      { x: "security MIS of the table (estimate)", y: "information kept (estimate)", mark: Number.isFinite(aimed) && coarse.text("security") ? aimed : null, markers: true, range: [0, 1.05] }),
    `Estimated information kept against security; at a security of ${aimed} about ${Math.round(best * 100)} % is kept.`,
    "An estimate from the rows that served to find the recipe. Move the slider to see what another target would cost.");
    fill(preview, element("h3", {}, "What would another target cost?"), coarse.text("security") === "" || !Number.isFinite(aimed) ? null
      : reached.length === 0
        ? element("p", {}, "≈ No coarsening that was tried reaches this security.")
        : element("p", {}, element("span", { class: "mark estimated" }, "≈ estimate"), ` A security of ${aimed} would keep about ${Math.round(best * 100)} % of the information. `,
          aimed === latest.result.security ? "This is the certified run above." : "Press the button for a certified run; choosing among several certified runs is not covered by the certificate, so settle here first."));
  }

  form.node.append(columns.node, pick,
    element("details", { class: "more", open: ["n", "confidence", "nu", "lam", "exposed_above", "unit"].some((name) => given[name]) }, element("summary", {}, "More: training rows, confidence, whose row"),
      form.numeric("n", { label: "Training rows n", placeholder: "all rows", help: "How many such rows a model will be trained on, if not the whole table." }),
      form.numeric("confidence", { label: "Confidence", help: "How sure the certificate is, over the chance of drawing these rows.", slider: { from: 0.8, to: 0.999, digits: 3 } }),
      form.numeric("exposed_above", { label: "A row is exposed above a leak of", slider: { from: 0.05, to: 0.95 } }),
      unit,
      form.numeric("nu", { label: "ν (chance of a fresh person)", help: "How often the person in question was not in the training data.", slider: { from: 0.01, to: 0.99 } }),
      form.numeric("lam", { label: "λ (weight of a missed member)", help: "How bad it is to miss a member, compared with a false accusation.", slider: { from: 0.1, to: 10, log: true } })),
    form.problem, element("div", { class: "buttons" }, start));
  coarse.node.append(
    coarse.numeric("security", { label: "Security MIS to reach", help: "1 − leak of the average row: 0.9 means that nobody is right more than 55 % of the time. Coarser columns reach more.", slider: { from: 0.5, to: 0.99 } }),
    coarse.numeric("record_leak", { label: "Leak allowed for the worst row", placeholder: "no limit", help: "If given, no released row may leak more than this. Stricter than the average." }),
    aim, keep.node, coarse.problem, element("div", { class: "buttons" }, begin));

  root.append(element("div", { class: "stack" },
    element("div", { class: "columns2" },
      element("section", { class: "card", "aria-labelledby": "step-certify" }, element("h2", { id: "step-certify", class: "step", "data-step": "1" }, "The table as it is"), panel.node, form.node),
      element("div", { class: "stack" },
        element("section", { class: "card answer", "aria-label": "Certificate" }, job.node, certified, leaks.node),
        exports.node)),
    element("div", { class: "columns2" },
      element("section", { class: "card", "aria-labelledby": "step-harden" }, element("h2", { id: "step-harden", class: "step", "data-step": "2" }, "Make it safe"),
        element("p", { class: "quiet" }, "Finds coarser columns until the certificate holds, keeping as much information as it can. Works on all columns of the table."), coarse.node),
      element("div", { class: "stack" },
        element("section", { class: "card answer", "aria-label": "Coarser table" }, hardJob.node, hardened, effect.node, preview, frontier.node),
        hardExports.node))));
  arrange();
  showEmpty();
  showTarget();
  if (state.file) panel.recall(state.file);
  if (state.certify) job.follow(state.certify);
  if (state.harden) hardJob.follow(state.harden);
  return () => { job.stop(); hardJob.stop(); leaks.close(); effect.close(); frontier.close(); };
}

const about2 = (value) => (value === undefined || value === null ? "–" : `≈ ${value.toFixed(3)}`);
const wordsOf = (name) => ({ "hardened.csv": "Coarser table, CSV", "hardened.parquet": "Coarser table, Parquet", "recipe.json": "Recipe" })[name] ?? name;
