// The answer of Population: three attackers, and whom they find most easily.
import { element, table } from "./dom.js";
import { assumptions, ceiling, figure, figures, verdict, warnings } from "./figures.js";
import { NOTHING, about, atMost, count, percentUp, plain, significant, sixUp } from "./numbers.js";

/** Name in the swept curves, key of the answer, name for people. */
export const ATTACKERS = [
  ["worst_case", "success_worst_case_upper", "worst case"],
  ["population", "success_population_upper", "these records"],
  ["practical", "success_upper", "practical attacker"],
];

const dp = (name, value) =>
  value === null
    ? figure(name, "unproved", "", NOTHING)
    : figure(name, "certified", "≤", significant(value, "upper"));

/** The bounds; `amount` says what was given: an ε that was looked for is rounded down, one that follows up. */
export function boundsOf(answer, amount) {
  const found = ["success", "pmp"].includes(amount);
  const side = found ? "lower" : "upper";
  const quoted = amount === "epsilon" ? plain(answer.epsilon) : significant(answer.epsilon, side);
  const epsilon = answer.epsilon === null ? "no finite ε" : quoted;
  const sigma = amount === "sigma" ? plain(answer.sigma) : significant(answer.sigma, "upper");
  return [
    verdict(answer.sentence),
    warnings(answer),
    figures(
      found
        ? figure("epsilon", "given", "=", epsilon, { label: `Take ε (δ = ${plain(answer.delta)})`, big: true })
        : null,
      ATTACKERS.map(([, key]) => ceiling(key, answer[key], percentUp, { big: key === "success_upper" })),
      dp("epsilon_population", answer.epsilon_population),
      dp("pmp_epsilon_upper", answer.pmp_epsilon_upper),
      ceiling("eta_upper", answer.eta_upper, sixUp, { limit: 0.5 }),
      answer.sigma === null ? null : figure("sigma", "given", "=", sigma),
      found ? null : figure("epsilon", "given", "=", epsilon, { label: `ε at δ = ${plain(answer.delta)}` }),
    ),
    element(
      "p",
      { class: "quiet" },
      `${count(answer.records)} records, ${count(answer.size)} drawn; method: ${answer.method}.`,
      answer.clipped_records ? ` ${count(answer.clipped_records)} records were scaled down to the clipping norm.` : "",
    ),
    table(
      "The most exposed records (rows counted from 0)",
      ["row", "right at most", "mean distance to the others", "of a typical record's"],
      answer.most_exposed.map((each) => [
        count(each.record),
        atMost(each.success_upper),
        `≈ ${about(each.mean_distance)}`,
        each.times_median === null ? "–" : `≈ ${significant(each.times_median, "estimate", 2)} ×`,
      ]),
    ),
    assumptions(answer),
  ];
}
