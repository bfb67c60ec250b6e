// The sentence that opens each answer, for verbs whose dictionary has none: the words and the
// rounding are those of the command line (a test compares them).
import { percent, percentUp, significant, sixUp } from "./numbers.js";

const g = (value) => String(Number(value.toPrecision(6)));

/** How many records, and what one is: a row, or a value of a column with all its rows. */
export const rowsInWords = (count, unit, kind = "") =>
  unit ? `${count} different values of “${unit}” (each with all its rows)` : `${count} ${kind}rows`;
export const many = (unit) => (unit ? `values of “${unit}”` : "rows");
const one = (unit) => (unit ? `value of “${unit}”` : "row");

/** The first line of `memberbound certify`. */
export function ofCertify(answer) {
  const sure = answer.confidence === 1 ? "" : ` (confidence ${percent(answer.confidence)})`;
  if (answer.delta_upper >= 1) {
    return `Nothing can be certified${sure}: with ${rowsInWords(answer.n, answer.unit)} in ${answer.atoms} different cells some learner could give away the average ${one(answer.unit)} completely; coarser or fewer columns would help.`;
  }
  const right = percentUp(answer.accuracy_upper);
  if (answer.unit) {
    return `Whatever is trained on ${rowsInWords(answer.n, answer.unit)}, nobody is right about the membership of the average ${one(answer.unit)} more than ${right} of the time${sure}.`;
  }
  return `Whatever is trained on ${answer.n} such rows, nobody is right about the average row's membership more than ${right} of the time${sure}.`;
}

/** The first line of `memberbound population`. */
export function ofPopulation(answer) {
  const sure = answer.confidence === 1 ? "" : ` (confidence ${percent(answer.confidence)})`;
  // An ε that was looked for is the largest that may be used.
  const lookedFor = answer.target_pmp !== undefined || answer.target_success !== undefined;
  const said = () => (lookedFor ? significant(answer.epsilon, 4, false) : String(Number(answer.epsilon.toPrecision(10))));
  const name = answer.epsilon === null ? "this σ" : `ε = ${said()}`;
  return `For these ${answer.records} records ${name} means: an attacker who knows all of them and sees the release, but not who was drawn, is right about any record's membership at most ${percentUp(answer.success_upper)} of the time${sure}; guessing blindly is right ${percent(answer.success_blind)}.`;
}

/** The line of `memberbound plan`. */
export function ofPlan(answer) {
  const wishes = [];
  if (answer.security !== null) wishes.push(`MIS ≥ ${g(answer.security)} for every learner (average ${one(answer.unit)})`);
  if (answer.record_leak !== null) {
    const seen = answer.unit ? `${one(answer.unit)} whose rows occur alike in the table` : "record whose value occurs in the table";
    const whom = answer.rows === null ? "record" : seen;
    wishes.push(`a leak of at most ${g(answer.record_leak)} for every ${whom}`);
  }
  const sure = answer.confidence === 1 ? "" : `, with confidence ${percent(answer.confidence)}`;
  const wish = wishes.join(" and ");
  if (answer.n_required === null) return `No number of ${many(answer.unit)} is certified to give ${wish}${sure}. ${answer.reason}`;
  return `${rowsInWords(answer.n_required, answer.unit, "training ")} give ${wish}${sure} (${answer.source}).`;
}

/** What `memberbound harden` reached, and what it was before. */
export function ofHarden(answer) {
  const { before, after } = answer;
  const unless = { split: " who was not told which rows were picked for release", union: " who learns nothing from the choice of this recipe" }[answer.validity] ?? "";
  return `Whatever is trained on the ${answer.rows_released} released rows, nobody${unless} is right about the membership of the average row more than ${percentUp(after.accuracy_upper)} of the time (before: ${percentUp(before.accuracy_upper)}); the worst row leaks at most ${sixUp(after.record_leak.max)} (before: ${sixUp(before.record_leak.max)}), with confidence ${percent(after.confidence)} each.`;
}
