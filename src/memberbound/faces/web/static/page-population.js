// Population: what does ε mean for these records, and which ε should we take?
import { keeping, list } from "./address.js";
import { Chart } from "./charts.js";
import { ColumnChooser } from "./columns.js";
import { asking, element, empty, fill } from "./dom.js";
import { madeUpPeople } from "./example.js";
import { Exports } from "./exporting.js";
import { Form, Invalid } from "./fields.js";
import { JobPanel } from "./jobs.js";
import { MoreOptions } from "./more-options.js";
import { atMost, plain } from "./numbers.js";
import { ATTACKERS, boundsOf } from "./population-answer.js";
import { FilePanel } from "./uploads.js";

export const title = "Population";
export const heading = "What does ε mean for our records, and which ε should we take?";

const DEFAULTS = {
  file: "",
  columns: "",
  mechanism: "gaussian",
  query: "mean",
  amount: "epsilon",
  epsilon: "8",
  sigma: "1",
  target_success: "55",
  target_pmp: "1",
  delta: "",
  clip: "",
  candidates: "",
  size: "",
  releases: "1",
  job: "",
};
const AMOUNTS = { epsilon: "epsilon", sigma: "sigma", success: "target_success", pmp: "target_pmp" };
export function open(root, given) {
  const state = { ...DEFAULTS, ...given };
  let file = null;
  let latest = null;
  const results = element("div", { class: "results" });
  const reading = element("div", { class: "reading", "aria-live": "polite" });
  const beside = new Chart();
  const curves = new Chart();
  const exports = new Exports();
  const remember = keeping(
    "population",
    DEFAULTS,
    () => ({ ...state, ...form.values }),
    () => ["mechanism", "amount", AMOUNTS[form.text("amount")]],
  );

  const form = new Form(
    "The release",
    state,
    ["mechanism", "query", "amount", ...Object.values(AMOUNTS), "delta", "clip", "candidates", "size", "releases"],
    (name) => {
      arrange();
      remember();
      if (name === "epsilon" && latest) readOff();
      else job.outdated();
    },
  );
  const more = new MoreOptions("population", form, [
    ...["mechanism", "query", ...Object.values(AMOUNTS), "delta", "clip", "candidates", "size", "releases", "columns"],
  ]);
  const columns = new ColumnChooser("Columns that are released (numbers only)", () => {
    state.columns = columns.kept;
    remember();
    job.outdated();
  });
  const start = element("button", { type: "submit", class: "main", disabled: true }, "Calculate");
  const panel = new FilePanel({
    title: "Choose the records",
    hint: "or drop a CSV, Parquet or Arrow file here, one record per row. It stays on this machine.",
    example: madeUpPeople,
    chosen: (found) => {
      const changed = found?.file !== state.file;
      file = found;
      if (changed) {
        if (found) state.columns = "";
        clear();
      }
      state.file = found?.file ?? "";
      start.disabled = !found;
      columns.show(
        (found?.columns ?? []).filter((column) => column.numeric),
        list(state.columns),
      );
      remember();
    },
  });
  const job = new JobPanel({ state, remember, found: show });

  function arrange() {
    const gaussian = form.text("mechanism") === "gaussian";
    form.reveal(Object.values(AMOUNTS), [AMOUNTS[form.text("amount")]]);
    form.reveal(["query", "releases", "candidates"], gaussian ? ["query", "releases"] : ["candidates"]);
  }

  function clear() {
    job.clear();
    state.job = "";
    latest = null;
    fill(reading);
    beside.hide();
    curves.hide();
    exports.hide();
    fill(
      results,
      empty(
        "Choose a file with one record per row and press “Calculate”. You will see three attackers side by side: the one that ε promises against, the same one for your records, and one who does not know who was drawn.",
      ),
    );
  }

  function candidates() {
    const rows = form
      .text("candidates")
      .split(/\n+/)
      .map((line) => line.trim())
      .filter(Boolean);
    if (rows.length === 0)
      throw new Invalid(
        "candidates",
        "Candidates must be given for the exponential mechanism: one per line, a number for each column.",
      );
    return rows.map((line) =>
      line.split(/[\s,;]+/).map((part) => {
        const value = Number(part);
        if (!Number.isFinite(value)) throw new Invalid("candidates", `Candidates must be numbers, got “${part}”.`);
        return value;
      }),
    );
  }

  function options() {
    const asked = {};
    const gaussian = form.text("mechanism") === "gaussian";
    if (!gaussian) asked.mechanism = "exponential";
    if (gaussian && form.text("query") === "sum") asked.query = "sum";
    const amount = AMOUNTS[form.text("amount")];
    const value = form.number(amount);
    asked[amount] = amount === "target_success" ? Number((value / 100).toFixed(14)) : value;
    for (const name of ["delta", "clip", "size"]) {
      const number = form.number(name, { optional: true });
      if (number !== null) asked[name] = number;
    }
    if (gaussian && form.number("releases") !== 1) asked.releases = form.number("releases");
    if (!gaussian) asked.candidates = candidates();
    return { ...asked, ...columns.asked, ...more.asked };
  }

  form.starts(start, () => {
    const asked = options();
    form.clear();
    const id = state.file;
    clear();
    state.file = id;
    fill(results);
    job.start("population", file.file, asked);
  });

  function show(done) {
    latest = done;
    const answer = done.result;
    fill(results, boundsOf(answer, form.text("amount")));
    beside.show(
      done.charts.attackers,
      "How often each attacker is right at most, about the worst record. The dotted line is blind guessing.",
    );
    curves.show(
      done.charts.success,
      "Certified at every ε of the curves; move the slider to read off other ε than yours.",
    );
    readOff();
    exports.of(done, curves.shown ? curves : beside);
  }

  /** Read the swept curves at the slider's ε: the next point above it is a certified bound. */
  function readOff() {
    const plot = latest?.plots?.success;
    if (!plot) return;
    const moved = form.text("amount") === "epsilon" ? Number(form.text("epsilon")) : latest.result.epsilon;
    const mark = Number.isFinite(moved) && moved > 0 ? moved : null;
    if (mark === null) {
      fill(reading);
      return;
    }
    const next = plot.epsilon.findIndex((value) => value >= mark * (1 - 1e-12));
    if (next < 0) {
      fill(reading, element("p", {}, `ε = ${moved} lies beyond the curve; press “Calculate” for it.`));
      return;
    }
    if (mark === latest.result.epsilon) {
      fill(reading);
      return;
    }
    fill(
      reading,
      element(
        "p",
        {},
        element("span", { class: "mark certified" }, "≤ certified"),
        ` Read off the curve at ε = ${plain(moved)}: `,
        ATTACKERS.map(([key, , name]) => `${name} ${atMost(plot[key][next])}`).join(", "),
        ". “Calculate” gives the exact numbers for it.",
      ),
    );
  }

  form.node.append(
    panel.node,
    columns.node,
    form.choice("mechanism", {
      label: "How is the result made noisy?",
      help: "Gaussian: noise is added to the mean or the sum of the drawn records. Exponential: one of several candidates is chosen, the better the likelier.",
      options: [
        ["gaussian", "Gaussian noise"],
        ["exponential", "exponential mechanism"],
      ],
    }),
    form.choice("query", {
      label: "What is released",
      options: [
        ["mean", "the mean"],
        ["sum", "the sum"],
      ],
    }),
    form.textual("candidates", {
      label: "Candidates",
      rows: 4,
      placeholder: "1.0, 2.0\n1.5, 2.5",
      help: "One candidate per line: a number for each column. The one nearest to the records is the likeliest.",
    }),
    form.choice("amount", {
      label: "Your question",
      options: [
        ["epsilon", "what does ε mean?"],
        ["success", "which ε for a promise?"],
        ["sigma", "what does a noise σ mean?"],
        ["pmp", "which ε for a practical ε̃?"],
      ],
    }),
    form.numeric("epsilon", {
      label: "ε (epsilon)",
      help: "The worst-case parameter that the mechanism is set to. Smaller is safer.",
      slider: { from: 0.1, to: 100, log: true },
    }),
    form.numeric("sigma", {
      label: "Noise σ",
      help: "Standard deviation of the noise on every released number.",
      slider: { from: 1e-3, to: 100, log: true },
    }),
    form.numeric("target_success", {
      label: "Right at most",
      unit: "%",
      help: "How often the practical attacker may be right about any record. 50 % is blind guessing when half are drawn.",
      slider: { from: 50.5, to: 99.5 },
    }),
    form.numeric("target_pmp", { label: "Practical ε̃ at most", slider: { from: 0.01, to: 10, log: true } }),
    form.numeric("clip", {
      label: "Clipping norm",
      placeholder: "the longest record",
      help: "Longer records are scaled down to this length first. Differential privacy asks for a bound that was fixed beforehand.",
    }),
    element(
      "details",
      { class: "more", open: Boolean(given.delta || given.size || given.releases) },
      element("summary", {}, "More: δ, number drawn, several answers"),
      form.numeric("delta", {
        label: "δ (delta)",
        placeholder: "1e-5; 0 for exponential",
        help: "Chance that the guarantee fails altogether.",
      }),
      form.numeric("size", { label: "Records drawn", placeholder: "half of them" }),
      form.numeric("releases", {
        label: "Independent answers",
        help: "How many times the same question is answered with fresh noise.",
      }),
    ),
    more.node,
    form.problem,
    element("div", { class: "buttons" }, start),
  );
  root.append(asking(form, [job.node, results, beside.node, reading, curves.node], exports.node));
  arrange();
  const known = state.job;
  const id = state.file;
  clear();
  state.job = known;
  state.file = id;
  if (id) panel.recall(id);
  if (known) job.follow(known);
  return () => {
    job.stop();
  };
}
