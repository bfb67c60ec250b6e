// The sentence that opens each answer, for verbs whose dictionary has none: the words and the
// rounding are those of the command line (a test compares them).
import { percent, percentUp, significant, sixUp } from "./numbers.js";

const g = (value) => String(Number(value.toPrecision(6)));

/** The first line of `memberbound certify`. */
export function ofCertify(answer) {
  const sure = answer.confidence === 1 ? "" : ` (confidence ${percent(answer.confidence)})`;
  if (answer.delta_upper >= 1) {
    return `Nothing can be certified${sure}: with ${answer.n} rows in ${answer.atoms} different cells some learner could give away the average row completely; coarser or fewer columns would help.`;
  }
  return `Whatever is trained on ${answer.n} such rows, nobody is right about the average row's membership more than ${percentUp(answer.accuracy_upper)} of the time${sure}.`;
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
  if (answer.security !== null) wishes.push(`MIS ≥ ${g(answer.security)} for every learner (average row)`);
  if (answer.record_leak !== null) {
    const whom = answer.rows === null ? "record" : "record whose value occurs in the table";
    wishes.push(`a leak of at most ${g(answer.record_leak)} for every ${whom}`);
  }
  const sure = answer.confidence === 1 ? "" : `, with confidence ${percent(answer.confidence)}`;
  const wish = wishes.join(" and ");
  if (answer.n_required === null) return `No number of rows is certified to give ${wish}${sure}. ${answer.reason}`;
  return `${answer.n_required} training rows give ${wish}${sure} (${answer.source}).`;
}

/** What `memberbound harden` reached, and what it was before. */
export function ofHarden(answer) {
  const { before, after } = answer;
  return `Whatever is trained on the ${answer.rows_released} released rows, nobody is right about the membership of the average row more than ${percentUp(after.accuracy_upper)} of the time (before: ${percentUp(before.accuracy_upper)}); the worst row leaks at most ${sixUp(after.record_leak.max)} (before: ${sixUp(before.record_leak.max)}), with confidence ${percent(after.confidence)} each.`;
}
