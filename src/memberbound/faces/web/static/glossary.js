// What each number means, in plain words, with the results of the ledger it rests on.
export const GLOSSARY = {
  // explain
  accuracy_upper: {
    label: "Right at most",
    text: "Somebody is told to say “in” or “out” about one record. Whatever they do, they are right at most this often. Blind guessing is right as often as the likelier answer.",
    theorems: ["I24-P2", "X2"],
  },
  advantage_upper: {
    label: "Advantage (TPR − FPR)",
    text: "Share of members found minus share of non-members wrongly accused, for the best attack. 0 is blind guessing, 1 is certainty.",
    theorems: ["I24-P2", "X2"],
  },
  tpr_upper: {
    label: "Members found",
    text: "An attacker who wrongly accuses no more than the stated share of non-members (FPR) finds at most this share of the members (TPR).",
    theorems: ["I24-T4"],
  },
  guess_upper: {
    label: "Another guess about a record",
    text: "Whatever is guessed about a record (an attribute, the record itself, which of many people it is): a guess that is right this often without the release is right at most this often with it. It holds against somebody who knows all other records, where the record does not depend on them.",
    theorems: ["X23"],
  },
  precision_upper: {
    label: "Accusations that are right",
    text: "An attacker may accuse as few people as they like, only the surest. At most this share of the accusations is right. With δ > 0 it is always 100 %.",
    theorems: ["I24-T4"],
  },
  eta_upper: {
    label: "η (membership inference privacy)",
    text: "When a random half of a known population was used, nobody is right more than ½ + η of the time about any record. Read for a record replaced by another one.",
    theorems: ["I24-P2", "I24-T4"],
  },
  security_lower: {
    label: "Security MIS",
    text: "1 means that membership cannot be guessed better than blindly, 0 that it can be read off. About the average record.",
    theorems: ["A25-P5", "A25-T6"],
  },
  security_lower_iid: {
    label: "MIS, sharper",
    text: "The same security by a sharper result that holds when δ = 0 and the records are independent draws.",
    theorems: ["X11"],
  },
  epsilon: {
    label: "ε at δ",
    text: "The differential-privacy parameter: how much one record can change the probability of any outcome, as a factor of e^ε. Smaller is safer.",
    theorems: ["I24-T4"],
  },
  noise_multiplier: {
    label: "Noise multiplier σ",
    text: "DP-SGD: standard deviation of the noise divided by the clipping norm. Larger is safer.",
    theorems: ["L24-L10", "X12"],
  },
  // certify and harden
  table_accuracy_upper: {
    label: "Right at most",
    text: "Whatever is trained on this table, nobody is right about the membership of the average row more often than this.",
    theorems: ["A25-T6", "A25-T14"],
  },
  delta_upper: {
    label: "Leak Δ, any learner",
    text: "How much better than blindly anybody can do about the average row, for the worst learner there is. 0 is nothing, 1 is everything.",
    theorems: ["A25-T14", "X5"],
  },
  table_security_lower: {
    label: "Security MIS",
    text: "1 − Δ: 1 means that no learner can leak who is in the table, 0 that nothing can be promised. About the average row.",
    theorems: ["A25-T6", "X5"],
  },
  delta_plug_in_estimate: {
    label: "Plug-in Δ",
    text: "The leak if the table's frequencies were the true ones. It is usually too low; only the certified number is a promise.",
    theorems: ["A25-T14"],
  },
  record_leak_median: {
    label: "Row leak, half of the rows",
    text: "Half of the rows leak at most this much, whatever is trained on the table.",
    theorems: ["X7", "X15"],
  },
  record_leak_p99: {
    label: "Row leak, 99 % of the rows",
    text: "99 of 100 rows leak at most this much, whatever is trained on the table.",
    theorems: ["X7", "X15"],
  },
  record_leak_max: {
    label: "Row leak, worst row",
    text: "No row leaks more than this. A row that nobody shares may leak completely: 1.",
    theorems: ["X7", "X15"],
  },
  exposed_rows: {
    label: "Exposed rows",
    text: "Rows whose certified leak is above the stated limit. They are rare combinations of values: coarser or fewer columns hide them.",
    theorems: ["X7", "X15"],
  },
  information_kept_estimate: {
    label: "Information kept",
    text: "How much of what the columns say (about the target column, if one is named) survives the coarsening. An estimate from the rows that served to find the recipe.",
    theorems: [],
  },
  // population
  success_worst_case_upper: {
    label: "Worst case: any data set",
    text: "What ε promises by itself: an attacker who knows all records but one, and the worst data set there could be.",
    theorems: ["L24-L10", "I24-P2"],
  },
  success_population_upper: {
    label: "These records, all but one known",
    text: "The same attacker, but the records are yours and not the worst there could be.",
    theorems: ["L24-L10", "X1"],
  },
  success_upper: {
    label: "Practical attacker",
    text: "Knows all of your records and sees the release, but not who was drawn. Right about any record at most this often.",
    theorems: ["X1", "L24-P12", "L24-P9"],
  },
  epsilon_population: {
    label: "ε of these records",
    text: "The ε that holds when only your records can occur, instead of every imaginable one.",
    theorems: ["L24-L10"],
  },
  pmp_epsilon_upper: {
    label: "ε̃, practical",
    text: "Practical membership privacy: the ε that counts for an attacker who does not know who was drawn.",
    theorems: ["X1", "L24-P12"],
  },
  sigma: {
    label: "Noise σ",
    text: "Standard deviation of the noise on every released number.",
    theorems: ["L24-L10"],
  },
  // protect
  score: {
    label: "Score",
    text: "How well a trial model does on rows it was not trained on. For the owner of the table only: the certificate does not cover it.",
    theorems: [],
  },
  // audit
  attack_advantage: {
    label: "Best attack, advantage",
    text: "Share of members found minus share of non-members wrongly accused, by the best attack tried. 0 is blind guessing, 1 is certainty. Other attacks may reach more.",
    theorems: [],
  },
  attack_floor: {
    label: "At least",
    text: "The advantage that was shown, with the stated confidence; it pays for the choice of the best attack.",
    theorems: [],
  },
  recognised: {
    label: "Members named",
    text: "Records that the attack names as members by a rule that is rarely wrong about a name.",
    theorems: [],
  },
  // plan
  n_required: {
    label: "Training rows needed",
    text: "With at least this many independent rows, the target holds whatever is trained on them.",
    theorems: ["A25-T14", "X7", "X16"],
  },
};
