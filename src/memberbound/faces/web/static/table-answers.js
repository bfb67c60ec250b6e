// The answers of Table: the certificate of a table, and what coarsening did to it.
import { element, table } from "./dom.js";
import { assumptions, ceiling, figure, figures, meter, security, verdict, warnings } from "./figures.js";
import {
  about,
  atMost,
  atMostInWords,
  confident,
  count,
  decimals,
  percentAbout,
  percentUp,
  plain,
  sixUp,
} from "./numbers.js";

/** How many records, and what one is: a row, or a value of a column with all its rows. */
const rowsInWords = (count, unit) =>
  unit ? `${count} different values of “${unit}” (each with all its rows)` : `${count} rows`;
export const many = (unit) => (unit ? `values of “${unit}”` : "rows");

/** The certificate of a table. */
export function certificate(answer) {
  const leak = answer.record_leak;
  const limit = leak.exposed_above ?? 0.5;
  return [
    verdict(answer.sentence),
    meter(
      Math.min(1, answer.accuracy_upper),
      Math.max(answer.nu, answer.lam * (1 - answer.nu)),
      `On the way from blind guessing to always right: ${atMostInWords(answer.accuracy_upper)}.`,
    ),
    warnings(answer),
    figures(
      ceiling("table_accuracy_upper", answer.accuracy_upper, percentUp, { big: true }),
      security("table_security_lower", answer.security_lower),
      ceiling("delta_upper", answer.delta_upper, sixUp),
      answer.delta_plug_in_estimate === null
        ? null
        : figure("delta_plug_in_estimate", "estimated", "≈", about(answer.delta_plug_in_estimate)),
      ceiling("record_leak_median", leak.median, sixUp),
      ceiling("record_leak_p99", leak.p99, sixUp),
      ceiling("record_leak_max", leak.max, sixUp),
      leak.exposed_rows === null
        ? null
        : figure("exposed_rows", "certified", "≤", count(leak.exposed_rows), {
            label: `${answer.unit ? many(answer.unit) : "Rows"} that may leak more than ${plain(limit)}`,
          }),
    ),
    element(
      "p",
      { class: "quiet" },
      `${rowsInWords(count(answer.rows), answer.unit)} fall into ${count(answer.atoms)} different cells; method: ${answer.method}; confidence ${confident(answer.confidence)}.`,
    ),
    exposed(answer),
    assumptions(answer),
  ];
}

function exposed(answer) {
  const cells = answer.exposed_cells ?? [];
  if (cells.length === 0)
    return answer.record_leak.exposed_rows ? null : element("p", {}, `None of the ${many(answer.unit)} is exposed above the limit.`);
  const names = Object.keys(cells[0].values);
  return element(
    "div",
    {},
    element("h3", {}, "The rarest exposed rows"),
    table(
      `The ${cells.length} rarest combinations of values; sensitive: these rows stand out`,
      ["rows", "leak", ...names],
      cells.map((cell) => [
        count(cell.rows),
        atMost(cell.leak_upper, sixUp),
        ...names.map((name) => (cell.values[name] === null ? "(missing)" : String(cell.values[name]))),
      ]),
    ),
  );
}

/** A coarser table, beside the table it was made from. */
export function hardening(answer) {
  const { before, after } = answer;
  const row = (name, pick) => [name, pick(before), pick(after)];
  const scores = answer.accuracy_estimate?.after ?? {};
  return [
    verdict(answer.sentence),
    warnings(answer),
    figures(
      ceiling("table_accuracy_upper", after.accuracy_upper, percentUp, { big: true }),
      security("table_security_lower", after.security_lower),
      ceiling("record_leak_max", after.record_leak.max, sixUp),
      answer.information_kept_estimate === null
        ? null
        : figure("information_kept_estimate", "estimated", "≈", percentAbout(answer.information_kept_estimate)),
    ),
    table(
      "Before and after",
      ["", "before, for comparison", "after, certified"],
      [
        row("different cells", (side) => count(side.atoms)),
        row("rows", (side) => count(side.rows)),
        row("right at most", (side) => atMost(side.accuracy_upper)),
        row("leak Δ, any learner", (side) => atMost(side.delta_upper, sixUp)),
        row("row leak, worst row", (side) => atMost(side.record_leak.max, sixUp)),
        row("exposed rows", (side) => `≤ ${count(side.record_leak.exposed_rows)}`),
        ...Object.keys(scores).map((name) => [
          `accuracy of ${name} (both estimates)`,
          scored(answer.accuracy_estimate.before?.[name]),
          scored(scores[name]),
        ]),
      ],
    ),
    element("h3", {}, "What was made coarser"),
    element(
      "ul",
      { class: "steps" },
      answer.steps.map((text) => element("li", {}, text)),
    ),
    element(
      "p",
      { class: "quiet" },
      `${count(answer.rows_fitted)} rows served to find the recipe and are not released; ${count(answer.rows_released)} are.`,
    ),
    assumptions(answer),
  ];
}

const scored = (value) => (value === undefined || value === null ? "–" : `≈ ${decimals(value, "estimate", 3)}`);

/** What another security would cost, on the frontier that the run estimated; nothing without one. */
export function costOf(result, wanted) {
  const points = result.frontier_estimate.filter((point) => point.security !== null);
  if (points.length === 0 || wanted === "" || !Number.isFinite(Number(wanted))) return null;
  const aimed = Number(wanted);
  const most = Math.max(...points.map((point) => point.information)) || 1;
  const reached = points.filter((point) => point.security >= aimed).map((point) => point.information / most);
  const advice =
    aimed === result.security
      ? "This is the certified run above."
      : "Press the button for a certified run; choosing among several certified runs is not covered by the certificate, so settle here first.";
  const words =
    reached.length === 0
      ? " No coarsening that was tried reaches this security."
      : ` A security of ${aimed} would keep about ${percentAbout(Math.max(0, ...reached))} of the information. ${advice}`;
  return [
    element("h3", {}, "What would another target cost?"),
    element("p", {}, element("span", { class: "mark estimated" }, "≈ estimate"), words),
  ];
}
