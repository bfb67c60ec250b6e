// The answer of Population: three attackers, and whom they find most easily.
import { element, table } from "./dom.js";
import { assumptions, figure, figures, verdict, warnings } from "./figures.js";
import { about, count, percentUp, significant, sixUp } from "./numbers.js";
import { ofPopulation } from "./sentences.js";

/** Name in the swept curves, key of the answer, name for people, tone, dash. */
export const ATTACKERS = [
  ["worst_case", "success_worst_case_upper", "worst case", "far", "dot"],
  ["population", "success_population_upper", "these records", "mid", "dash"],
  ["practical", "success_upper", "practical attacker", "certified", "solid"],
];

const quoted = (value) => (value === null ? "no finite ε" : significant(value, 5));

/** The bounds; `found` says that the ε was asked for, so that it is rounded down. */
export function boundsOf(answer, found) {
  return [
    verdict(ofPopulation(answer)),
    warnings(answer),
    figures(
      found
        ? figure(
            "epsilon",
            "given",
            "=",
            answer.epsilon === null ? "no finite ε" : significant(answer.epsilon, 5, false),
            { label: `Take ε (δ = ${answer.delta})`, big: true },
          )
        : null,
      ATTACKERS.map(([, key]) =>
        figure(key, "certified", "≤", percentUp(answer[key]), { big: key === "success_upper" }),
      ),
      figure("epsilon_population", "certified", "≤", quoted(answer.epsilon_population)),
      figure("pmp_epsilon_upper", "certified", "≤", quoted(answer.pmp_epsilon_upper)),
      figure("eta_upper", "certified", "≤", sixUp(answer.eta_upper)),
      answer.sigma === null ? null : figure("sigma", "given", "=", significant(answer.sigma, 6, true)),
      found ? null : figure("epsilon", "given", "=", quoted(answer.epsilon), { label: `ε at δ = ${answer.delta}` }),
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
        `≤ ${percentUp(each.success_upper)}`,
        `≈ ${about(each.mean_distance)}`,
        each.times_median === null ? "–" : `≈ ${each.times_median.toFixed(1)} ×`,
      ]),
    ),
    assumptions(answer),
  ];
}
