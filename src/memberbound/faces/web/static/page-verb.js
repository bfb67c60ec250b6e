// The page of a verb, made from its declaration: a form, and the answer as everybody gets it.
import { keeping } from "./address.js";
import { field, isTyped, typed, words } from "./arguments.js";
import { Chart } from "./charts.js";
import { asking, element, empty, fill } from "./dom.js";
import { madeUpPeople } from "./example.js";
import { Exports } from "./exporting.js";
import { Form } from "./fields.js";
import { assumptions, summary, verdict, warnings } from "./figures.js";
import { JobPanel } from "./jobs.js";
import { TablePart } from "./table-part.js";
import { FilePanel, MODELS, TABLES } from "./uploads.js";

/** Groups of arguments that most questions need no word about. */
const FOLDED = ["Computation", "Output"];

/** The page of the verb `name`; `verb` is its declaration. */
export function pageOf(name, verb) {
  return { title: words(name), heading: verb.summary, open: (root, given) => open(root, given, name, verb) };
}

function open(root, given, name, verb) {
  const uploads = verb.arguments.filter(({ kind }) => ["file", "files", "points"].includes(kind));
  const chooses = verb.table && verb.arguments.some((each) => each.name === "columns");
  const roles = chooses && verb.arguments.some((each) => each.name === "roles");
  const inColumns = (each) => chooses && (each.name === "columns" || each.name === "roles");
  // Columns of a table are chosen, those of other files typed.
  const columned = verb.arguments.filter(({ kind }) => verb.table && kind === "column");
  const plain = verb.arguments.filter((each) => isTyped(each) && !inColumns(each) && !columned.includes(each));
  const usual = Object.fromEntries(
    [...verb.arguments.map((each) => each.name), "file", "columns", "roles", "job"].map((key) => [key, ""]),
  );
  const state = { ...usual, ...given };
  const results = element("div", { class: "results" });
  const charts = element("div", {});
  const exports = new Exports();
  const start = element("button", { type: "submit", class: "main" }, words(name));
  const missing = element("p", { class: "quiet", id: "needs" });
  start.setAttribute("aria-describedby", missing.id);
  const remember = keeping(name, usual, () => ({ ...state, ...form.values }));
  const form = new Form("Question", state, [...plain, ...columned].map((each) => each.name), (changedField) => {
    if (columned.some((each) => each.name === changedField)) source.choose();
    changed();
  });
  const job = new JobPanel({ state, remember, finished: show });
  const source = new TablePart({
    form,
    state,
    legend: "Columns to use",
    hint: "or drop a CSV, Excel, Parquet, Stata, SPSS or SAS file here: one record per row. It stays on this machine.",
    aims: columned.map((each) => (each)),
    changed,
    example: madeUpPeople,
    chooses,
    roles,
  });
  const others = Object.fromEntries(
    uploads.map((each) => [
      each.name,
      new FilePanel({
        title: each.label,
        hint: each.help,
        accept: `${TABLES},${MODELS}`,
        chosen: (chosen) => {
          state[each.name] = chosen?.file ?? "";
          changed();
        },
      }),
    ]),
  );

  function changed() {
    const needed = [
      ...(verb.table === "required" && !source.file ? ["a table"] : []),
      ...uploads.filter((each) => each.required && !state[each.name]).map((each) => each.label),
    ];
    start.disabled = needed.length > 0;
    missing.hidden = needed.length === 0;
    fill(missing, `Still missing: ${needed.join(", ")}.`);
    remember();
    job.outdated();
  }

  form.starts(start, () => {
    const asked = typed(form, [...plain, ...(source.file ? columned : [])]);
    if (chooses && source.file) Object.assign(asked, source.asked);
    for (const each of uploads) if (state[each.name]) asked[each.name] = state[each.name];
    form.clear();
    for (const place of [results, charts]) fill(place);
    exports.hide();
    job.start(name, source.file?.file ?? null, asked);
  });

  function show(done) {
    const answer = done.result;
    const shown = Object.values(done.charts).map((drawn) => {
      const chart = new Chart();
      chart.show(drawn, drawn.title);
      return chart;
    });
    fill(
      results,
      answer.sentence ? verdict(answer.sentence, verb.measures ? "measured" : "certified") : null,
      warnings(answer),
      typeof answer.template === "string"
        ? element("pre", { tabindex: "0", "aria-label": "Template" }, answer.template)
        : summary(done.summary, answer.sentence),
    );
    fill(charts, shown.map((chart) => chart.node), answer.theorems?.length ? assumptions(answer) : null);
    exports.of(done, shown[0] ?? null);
  }

  const folded = FOLDED.map((title) => [title, plain.filter((each) => each.group === title)]);
  form.node.append(
    ...(verb.table ? source.nodes : []),
    ...Object.values(others).map((each) => each.node),
    ...plain.filter((each) => !FOLDED.includes(each.group)).map((each) => field(form, each)),
    ...folded
      .filter(([, inside]) => inside.length > 0)
      .map(([title, inside]) =>
        element(
          "details",
          { class: "more", "data-more": title, open: inside.some((each) => given[each.name]) },
          element("summary", {}, title),
          inside.map((each) => field(form, each)),
        ),
      ),
    form.problem,
    element("div", { class: "buttons" }, start),
    missing,
  );
  root.append(asking(form, [job.node, results, charts], exports.node));
  fill(results, empty(`${verb.table ? "Choose a table" : "Fill in the form"} and press “${words(name)}”.`));
  changed();
  if (state.file) source.panel.recall(state.file);
  for (const each of uploads) if (state[each.name]) others[each.name].recall(state[each.name]);
  if (state.job) job.follow(state.job);
  return () => job.stop();
}
